//! Settings of librdkafka that the operator of the brokers asks for: security protocol, credentials.
//!
//! They are passed through as they are, except those on which the log's correctness rests: these are
//! the log's own.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// Settings by name. Shown without what is secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// Why a setting is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingProblem {
    #[error("\"{0}\" is no Kafka setting; write KEY=VALUE, such as security.protocol=ssl")]
    NoSetting(String),
    /// Styx sets it itself.
    #[error("Styx sets {0} itself, since what it promises depends on that; leave it out")]
    Reserved(String),
    /// This build has no TLS.
    #[error("{0} needs TLS, which this build of Styx has not; build it with --features kafka-tls")]
    NoTls(String),
    /// Kerberos is in no build.
    #[error("{0}=GSSAPI needs Kerberos, which Styx is not built with; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")]
    NoKerberos(String),
    /// librdkafka does not know it, or not this value.
    #[error("{key}: {detail}; see librdkafka's CONFIGURATION.md")]
    Unfit {
        key: String,
        /// librdkafka's message.
        detail: String,
    },
}

/// True if connections can be encrypted.
const TLS: bool = cfg!(feature = "kafka-tls");

/// Settings that only Styx sets, for the clients of the log and of the front.
const RESERVED: [&str; 37] = [
    "acks",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "isolation.level",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "message.max.bytes",
    "message.timeout.ms",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "session.timeout.ms",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "transaction.timeout.ms",
    "transactional.id",
];

/// Other names of some of those.
const ALIASES: [&str; 7] = [
    "metadata.broker.list",
    "request.required.acks",
    "delivery.timeout.ms",
    "queue.buffering.max.ms",
    "max.in.flight",
    "auto.commit.enable",
    "max.partition.fetch.bytes",
];

impl Settings {
    /// Reads settings, each as `KEY=VALUE`; of two with one key the later counts.
    ///
    /// # Errors
    /// One is unknown, does not fit, or is not to be set.
    pub fn read<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Settings, SettingProblem> {
        let mut settings = Settings::default();
        for text in texts {
            let text = text.as_ref();
            let Some((key, value)) = text.split_once('=') else { return Err(SettingProblem::NoSetting(text.into())) };
            let (key, value) = (key.trim(), value.trim());
            check(key, value)?;
            settings.0.insert(key.to_owned(), value.to_owned());
        }
        Ok(settings)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A client's configuration that begins with these.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (key, value) in &self.0 {
            config.set(key, value);
        }
        config
    }

    /// As they were written, without what is secret.
    pub fn shown(&self) -> Vec<String> {
        let shown = |(key, value): (&String, &String)| format!("{key}={}", if secret(key) { "…" } else { value });
        self.0.iter().map(shown).collect()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.shown()).finish()
    }
}

fn secret(key: &str) -> bool {
    ["password", "secret", ".key.pem", "oauthbearer.config"].iter().any(|part| key.contains(part))
}

fn check(key: &str, value: &str) -> Result<(), SettingProblem> {
    let named = || key.to_owned();
    if key.is_empty() {
        return Err(SettingProblem::NoSetting(format!("{key}={value}")));
    }
    if RESERVED.contains(&key) || ALIASES.contains(&key) {
        return Err(SettingProblem::Reserved(named()));
    }
    let mechanism = matches!(key, "sasl.mechanism" | "sasl.mechanisms");
    if mechanism && value.eq_ignore_ascii_case("gssapi") {
        return Err(SettingProblem::NoKerberos(named()));
    }
    let encrypts = key == "security.protocol" && value.to_ascii_lowercase().ends_with("ssl");
    if !TLS && (encrypts || key.starts_with("ssl.") || mechanism && !value.eq_ignore_ascii_case("plain")) {
        return Err(SettingProblem::NoTls(format!("{key}={value}")));
    }
    match ClientConfig::new().set(key, value).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(_, detail, ..)) => Err(SettingProblem::Unfit { key: named(), detail }),
        Err(error) => Err(SettingProblem::Unfit { key: named(), detail: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::KafkaOptions;
    use super::*;

    #[test]
    fn what_librdkafka_knows_is_passed_on_and_nothing_else() {
        let settings =
            Settings::read(["sasl.mechanism=PLAIN", "sasl.password = a=b ", "client.rack=1", "client.rack=2"]);
        let settings = settings.unwrap();
        assert_eq!(settings.shown(), ["client.rack=2", "sasl.mechanism=PLAIN", "sasl.password=…"]);
        assert!(!format!("{settings:?}").contains("a=b"), "{settings:?}");
        let config = KafkaOptions { settings, ..KafkaOptions::new("a:1", "t", 1) }.producer();
        assert_eq!((config.get("sasl.password"), config.get("acks")), (Some("a=b"), Some("all")));
        for (text, says) in [
            ("security.protocol", "write KEY=VALUE"),
            ("=ssl", "write KEY=VALUE"),
            ("acks=1", "Styx sets acks itself"),
            ("metadata.broker.list=a:1", "Styx sets metadata.broker.list itself"),
            ("nonsense.key=1", "nonsense.key"),
            ("socket.timeout.ms=soon", "socket.timeout.ms"),
            ("security.protocol=carrier", "security.protocol"),
            ("sasl.mechanism=GSSAPI", "Kerberos"),
        ] {
            let said = Settings::read([text]).unwrap_err().to_string();
            assert!(said.contains(says) && !said.contains('\n'), "{text}: {said}");
        }
        for text in ["security.protocol=ssl", "security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512"] {
            let said = Settings::read([text]).map_or_else(|problem| problem.to_string(), |_| "taken".into());
            let expect = if TLS { "taken" } else { "--features kafka-tls" };
            assert!(said.contains(expect), "{text}: {said}");
        }
    }

    #[test]
    fn nobody_can_set_what_the_log_sets() {
        let options = KafkaOptions::new("a:1", "t", 1);
        for config in [options.producer(), options.consumer()] {
            for key in config.config_map().keys() {
                let read = Settings::read([format!("{key}=1")]);
                let own = key.starts_with("socket.");
                assert!(own || matches!(read, Err(SettingProblem::Reserved(_))), "{key}: {read:?}");
            }
        }
    }
}
