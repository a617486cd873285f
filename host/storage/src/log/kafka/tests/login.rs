//! Brokers that want to know who connects, and that encrypt.

use super::*;

/// Lines for a broker that lets in only who has a name and a password, over connections of this kind.
fn guarded(protocol: &str, port: u16) -> String {
    let name = protocol.to_ascii_lowercase();
    let login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"broker\" \
                 password=\"of brokers\" user_broker=\"of brokers\" user_styx=\"of styx\";";
    [
        format!("listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{}", port + 100),
        format!("advertised.listeners={protocol}://127.0.0.1:{port}"),
        format!("listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}"),
        format!("inter.broker.listener.name={protocol}"),
        "sasl.mechanism.inter.broker.protocol=PLAIN".into(),
        "sasl.enabled.mechanisms=PLAIN".into(),
        format!("listener.name.{name}.plain.sasl.jaas.config={login}"),
    ]
    .join("\n")
}

/// The log is opened, written and read with these settings and this password, and not with another one.
fn lets_in_who_knows(broker: &Broker, settings: &[&str]) {
    let with = |password: &str| {
        let all = settings.iter().map(|text| text.to_string()).chain([
            "sasl.mechanism=PLAIN".into(),
            "sasl.username=styx".into(),
            format!("sasl.password={password}"),
        ]);
        KafkaOptions { settings: Settings::read(all).unwrap(), ..options(broker) }
    };
    let right = with("of styx");
    let mut log = KafkaLog::open(right.clone()).unwrap();
    log.append(b"first").unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(reopened(&right), [b"first"]);
    log_in_vain(with("guessed"));
    log_in_vain(options(broker));
}

fn log_in_vain(options: KafkaOptions) {
    let options = KafkaOptions { open_wait: Duration::from_secs(3), ..options };
    match KafkaLog::open(options).map(drop) {
        Err(LogError::Kafka(KafkaProblem::Unreachable { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_broker_that_asks_for_a_password_gets_one() {
    if !broker::available() {
        return;
    }
    let broker = Broker::start_with(|port| guarded("SASL_PLAINTEXT", port));
    lets_in_who_knows(&broker, &["security.protocol=sasl_plaintext"]);
}

/// Makes an authority and a broker's certificate that it has signed, as PEM.
#[cfg(feature = "kafka-tls")]
fn certificates(directory: &std::path::Path) {
    let openssl = |arguments: &str| {
        let done = std::process::Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output();
        let done = done.expect("openssl is installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority");
    openssl("req -newkey rsa:2048 -nodes -keyout broker.key -out broker.csr -subj /CN=127.0.0.1");
    std::fs::write(directory.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl("x509 -req -in broker.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out broker.crt");
    let [key, certificate] = ["broker.key", "broker.crt"].map(|file| std::fs::read(directory.join(file)).unwrap());
    std::fs::write(directory.join("broker.pem"), [key, certificate].concat()).unwrap();
}

#[cfg(feature = "kafka-tls")]
#[test]
fn a_broker_that_encrypts_is_believed_if_its_authority_is_known() {
    if !broker::available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let at = |file: &str| directory.path().join(file).display().to_string();
    let broker = Broker::start_with(|port| {
        let stores = [
            "ssl.keystore.type=PEM".into(),
            format!("ssl.keystore.location={}", at("broker.pem")),
            "ssl.truststore.type=PEM".into(),
            format!("ssl.truststore.location={}", at("ca.pem")),
        ];
        [guarded("SASL_SSL", port), stores.join("\n")].join("\n")
    });
    let authority = format!("ssl.ca.location={}", at("ca.pem"));
    lets_in_who_knows(&broker, &["security.protocol=sasl_ssl", &authority]);
    // Somebody else's certificate will not do.
    certificates(directory.path());
    let settings = [
        "security.protocol=sasl_ssl",
        &authority,
        "sasl.mechanism=PLAIN",
        "sasl.username=styx",
        "sasl.password=of styx",
    ];
    log_in_vain(KafkaOptions { settings: Settings::read(settings).unwrap(), ..options(&broker) });
}
