use clap::{Args, Command};

use super::*;

/// Resolves a file and a command line, with blanks between the arguments.
fn resolve(toml: &str, line: &str) -> Result<ServerConfig, ServerError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("styx.toml"), toml).unwrap();
    let command = Flags::augment_args(Command::new("styx server").no_binary_name(true));
    let flags = command
        .try_get_matches_from(line.split_whitespace())
        .and_then(|matches| Flags::from_arg_matches(&matches))
        .map_err(|error| refused_value(&error).unwrap_or_else(|| panic!("{error}")).1)?;
    ServerConfig::resolve(flags, directory.path())
}

/// Checks that what is refused says why, and what else to do.
#[track_caller]
fn refused(toml: &str, line: &str, says: &str) {
    let error = resolve(toml, line).expect_err(says);
    assert!(error.message.contains(says) && !error.hint.is_empty(), "{toml} {line}: {error}");
    assert!(error.code == "CONFIG_INVALID" && !error.message.contains('\n'), "{error}");
}

#[test]
fn a_flag_beats_the_file_and_the_file_beats_the_default() {
    let config = resolve("[server]\nthreads = 3\nepoch_max_wait = \"5ms\"\n", "--threads 4").unwrap();
    assert_eq!((config.threads, config.epoch_max_wait, config.epoch_max_size), (4, Duration::from_millis(5), 1000));
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    let error = resolve("[server]\ntreads = 3\n", "").unwrap_err();
    assert_eq!((error.code, error.hint.as_str()), ("CONFIG_UNKNOWN_KEY", "did you mean \"threads\"?"));
}

#[test]
fn settings_of_kafka_are_passed_on_and_secrets_kept() {
    let toml = "[server]\nkafka_option = [\"security.protocol=sasl_plaintext\", \"sasl.mechanism=PLAIN\"]\n";
    let line = "--kafka-option sasl.password=hush --kafka-option security.protocol=plaintext";
    let config = resolve(toml, line).unwrap();
    let shown = toml::to_string(&config).unwrap();
    for line in ["sasl.mechanism=PLAIN", "sasl.password=…", "security.protocol=plaintext"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("hush") && !format!("{config:?}").contains("hush"));
    let one = resolve("[server]\nkafka_option = \"client.rack=r1\"\n", "").unwrap();
    assert_eq!(one.kafka_settings().shown(), ["client.rack=r1"]);
    refused("", "--kafka-option acks=0", "Styx sets acks itself");
    refused("", "--kafka-option sasl.pasword=x", "sasl.pasword");
    refused("", "--role worker --kafka-option client.rack=r", "no use for --kafka-option");
}

#[test]
fn a_log_on_kafka_brings_the_front_for_kafka_clients() {
    let kafka = |topic: &str| LogKind::Kafka { brokers: "a:1,b:2".into(), topic: topic.into() };
    for (text, expect) in [
        ("embedded", Some(LogKind::Embedded)),
        ("memory", Some(LogKind::Memory)),
        ("kafka://a:1,b:2", Some(kafka("styx-log"))),
        ("kafka://a:1,b:2/mine", Some(kafka("mine"))),
        ("kafka://", None),
        ("kafka://a:1/", None),
        ("embeded", None),
    ] {
        assert_eq!(text.parse().ok(), expect, "{text}");
    }
    refused("", "--log embeded", "log cannot be \"embeded\": it can be embedded, memory or kafka://");
    let config = resolve("[server]\nlog = \"kafka://a:1,b:2\"\n", "").unwrap();
    assert_eq!((config.kafka.as_deref(), config.kafka_partitions), (Some("a:1,b:2"), 4));
    let other = resolve("[server]\nlog = \"kafka://a:1,b:2\"\n", "--kafka c:3").unwrap();
    assert_eq!(other.kafka.as_deref(), Some("c:3"));
    assert_eq!(resolve("", "").unwrap().kafka, None);
}

#[test]
fn a_role_takes_what_it_has_a_use_for() {
    const WORKER: &str = "--role worker --coordinator 127.0.0.1:7000";
    const GATEWAY: &str = "--role gateway --coordinator 127.0.0.1:7000";
    for (line, address) in [
        ("--role coordinator --workers 2 --cluster-addr 127.0.0.1:1", "127.0.0.1:1"),
        ("--role coordinator", "127.0.0.1:7000"),
        (&format!("{WORKER} --threads 1"), "127.0.0.1:0"),
        (GATEWAY, "127.0.0.1:0"),
        ("--role worker --coordinator a:1,b:2", "127.0.0.1:0"),
        (&format!("{WORKER} --admin-addr 127.0.0.1:2"), "127.0.0.1:0"),
    ] {
        assert_eq!(resolve("", line).unwrap().cluster_addr.to_string(), address, "{line}");
    }
    assert_eq!(resolve("[server]\ncoordinator = \"a:1, b:2\"", "--role worker").unwrap().coordinator, ["a:1", "b:2"]);
    for (line, says) in [
        ("--role worker", "must know where the coordinator is"),
        ("--role gateway", "must know where the coordinator is"),
        ("--role worker --coordinator 7000", "no address"),
        ("--role worker --coordinator a:1,b", "\"b\" is no address"),
        ("--role worker --coordinator host:0", "no address"),
        ("--role coordinator --lease-term 999ms", "lease_term must be at least 1s"),
        ("--lease-term 2s", "no use for --lease-term"),
        ("--workers 2", "single has no use for --workers"),
        ("--coordinator 127.0.0.1:7000", "no use for --coordinator"),
        ("--role coordinator --ingress-addr 127.0.0.1:1", "coordinator has no use for --ingress-addr"),
        (&format!("{GATEWAY} --threads 1"), "no use for --threads"),
        (&format!("{WORKER} --disk-reserve 0"), "no use for --disk-reserve"),
        ("--role coordinator --workers 0", "workers must be at least 1"),
        (&format!("{WORKER} --cluster-addr 0.0.0.0:0"), "cannot reach a worker at 0.0.0.0:0"),
    ] {
        refused("", line, says);
    }
}

#[test]
fn another_coordinator_stands_by_only_where_it_finds_everything() {
    for (line, expect) in [
        ("--role coordinator --log kafka://a:1 --store s3://bucket/styx", true),
        ("--role coordinator --log kafka://a:1 --store /mnt/shared", true),
        ("--role coordinator --log kafka://a:1 --store d/snapshots", false),
        ("--role coordinator --log kafka://a:1", false),
        ("--role coordinator --log kafka://a:1 --store none", false),
        ("--role coordinator --store s3://bucket/styx", false),
        ("--log kafka://a:1 --store s3://bucket/styx", false),
    ] {
        assert_eq!(resolve("[server]\ndata_dir = \"d\"\n", line).unwrap().may_stand_by(), expect, "{line}");
    }
}

#[test]
fn a_worker_listens_for_people_only_if_it_is_told_to() {
    let of = |line: &str| {
        let config = resolve("[server]\nadmin_addr = \"127.0.0.1:1\"\n", line).unwrap();
        config.admin_addr.map(|address| address.port())
    };
    assert_eq!((of("--role coordinator"), of("--role coordinator --admin-addr 127.0.0.1:2")), (Some(1), Some(2)));
    let worker = "--role worker --coordinator 127.0.0.1:7000";
    assert_eq!((of(worker), of(&format!("{worker} --admin-addr 127.0.0.1:2"))), (None, Some(2)));
}

#[test]
fn sizes_are_written_as_people_do() {
    for (text, bytes) in [
        ("disk_reserve = \"1GiB\"", 1 << 30),
        ("disk_reserve = \"64 MB\"", 64_000_000),
        ("disk_reserve = 4096", 4096),
        ("", 256 << 20),
    ] {
        assert_eq!(resolve(&format!("[server]\n{text}\n"), "").unwrap().disk_reserve, bytes, "{text}");
    }
    refused("[server]\ndisk_reserve = \"much\"\n", "", "styx.toml: disk_reserve cannot be \"much\": it is a size");
}

#[test]
fn every_setting_says_what_it_is_for_and_which_roles_take_it() {
    let mut command = ServerConfig::command();
    command.build();
    for argument in command.get_arguments().filter(|argument| argument.get_id() != "help") {
        let key = argument.get_id().as_str();
        assert!(argument.get_help().is_some(), "{key}");
        assert_eq!(argument.get_long().map(|long| long.replace('-', "_")).as_deref(), Some(key));
        let heading = argument.get_help_heading().unwrap_or_default().to_lowercase();
        for role in heading.split(", ") {
            assert!(<Role as clap::ValueEnum>::from_str(role, false).is_ok(), "{key}: {heading}");
        }
    }
    assert_eq!(ServerConfig::keys().len(), 73);
}

#[test]
fn every_setting_is_read_as_it_is_written() {
    let mut command = ServerConfig::command();
    command.build();
    for argument in command.get_arguments().filter(|argument| argument.get_id() != "help") {
        let long = argument.get_long().unwrap();
        let names = argument.get_value_names().unwrap_or_default();
        let value = match (argument.get_possible_values().first(), names.first().map_or("", |name| name.as_str())) {
            (Some(possible), _) => possible.get_name().to_owned(),
            (None, "N" | "N,…" | "off|all|N") => "3".into(),
            (None, "TIME") => "2s".into(),
            (None, "SIZE") => "1MiB".into(),
            (None, "ADDR" | "HOST:PORT,…") => "127.0.0.1:80".into(),
            (None, "URL") => "http://collector:4318".into(),
            (None, "KIND") => "memory".into(),
            (None, "MIN..MAX") => "1..4".into(),
            (None, "PERCENT") => "50".into(),
            (None, "PART") => "fallback".into(),
            (None, "KEY=VALUE") => "client.rack=r".into(),
            (None, _) => "x".into(),
        };
        let parsed = ServerConfig::try_parse_from(["styx", &format!("--{long}={value}")]);
        assert!(parsed.is_ok(), "--{long}={value}: {}", parsed.unwrap_err());
    }
    assert_eq!(resolve("[server]\npartitions = 16\n", "").unwrap().partitions, Some(16));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    for (toml, says) in [
        ("[server]\nthreads = 0", "styx.toml: threads must be at least 1"),
        (
            "[server]\notlp_endpoint = \"collector:4318\"",
            "otlp_endpoint cannot be \"collector:4318\": expected http://host:port",
        ),
        ("[server]\npartitions = 0", "partitions cannot be \"0\""),
        ("[server]\nautoscale = \"4..1\"", "autoscale cannot be \"4..1\": write the fewest and the most workers"),
        ("[server]\nautoscale = \"0..2\"", "autoscale cannot be \"0..2\""),
        ("[server]\nthreads = 65", "styx.toml: threads must be at most 64"),
        ("[server]\nthreads = \"many\"", "styx.toml: threads cannot be \"many\": invalid digit"),
        ("[server]\nthreads = { many = 1 }", "styx.toml: threads is no value"),
        ("[server]\nepoch_max_wait = \"5 parsecs\"", "styx.toml: epoch_max_wait cannot be \"5 parsecs\""),
        ("[server]\nsnapshot_interval = \"0s\"", "snapshot_interval must be more than nothing"),
        ("[server]\ndeterminism_check = 0", "determinism_check cannot be \"0\": it can be off, all"),
        ("[server]\nlog = \"paper\"", "log cannot be \"paper\": it can be embedded"),
        ("[server]\nmax_memory = \"2GiB\"", "max_memory must be at least 1 and at most 1.0 GiB"),
        ("[server]\nrole = \"boss\"", "role cannot be \"boss\": it can be single, coordinator, worker, gateway"),
        ("server = 3", "server is no section"),
        ("# a comment\n[server", "styx.toml, line 2"),
    ] {
        refused(toml, "", says);
    }
}
