//! Configuration of the server: flags over environment over `styx.toml` over defaults.
//!
//! The only module that reads the environment. What a role has no use for is refused when it is
//! given as a flag; the file may be shared by all roles.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use config::{Config, Environment, File, FileFormat};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use styx_protocol::worker_set::WORKERS_MAX;
use styx_storage::log::kafka::Settings;
use styx_storage::snapshot::StoreLocation;

use crate::error::CliError;
use styx_transport::Compress;

/// Location of the store at `url`, with the key, region and endpoint in the process's `AWS_*` variables.
pub fn store_location(url: impl Into<String>) -> StoreLocation {
    StoreLocation::with_settings(url, std::env::vars())
}

/// Everything that can be set, section `[server]`. Every field is optional in each layer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ServerFlags {
    /// What this process does: everything, or one part of a cluster [default: single]
    #[arg(long, value_enum)]
    pub role: Option<Role>,
    /// Where other processes of the cluster reach this one [default: 127.0.0.1:7000 for a coordinator, a free port for a worker]
    #[arg(long, value_name = "ADDR")]
    pub cluster_addr: Option<SocketAddr>,
    /// Where a worker or a gateway finds the coordinator, as host:port; several, with commas, if some stand by
    #[arg(long, value_name = "HOST:PORT,…")]
    pub coordinator: Option<String>,
    /// Of coordinators that share a log on Kafka and a store: for how long one that is silent still leads [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde")]
    #[serde(default)]
    pub lease_term: Option<Duration>,
    /// Workers that a coordinator waits for before the cluster first serves [default: 1]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// A name of this process, for people [default: its role and node id]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Directory of the log, the components and the compiled code [default: ./.styx; for a worker ./.styx/worker]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory of the compiled code; processes on one machine may share it [default: cache, in the data directory]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Where clients call functions [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub ingress_addr: Option<SocketAddr>,
    /// Where apps are deployed and watched; of a worker, its metrics and health, if it is given this flag
    /// [default: 127.0.0.1:9070; none for a worker]
    #[arg(long, value_name = "ADDR")]
    pub admin_addr: Option<SocketAddr>,
    /// Where requests are made durable: `embedded`, `kafka://HOST:PORT,…` with a topic of one partition
    /// after a slash, or `memory` to lose everything at exit [default: embedded]
    #[arg(long, value_name = "KIND")]
    pub log: Option<LogKind>,
    /// Free space on the disk of the embedded log below which nothing that may write is taken, such as
    /// 1GiB; what is under way must fit into it [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    #[serde(default, deserialize_with = "size")]
    pub disk_reserve: Option<u64>,
    /// Brokers of Kafka clients: requests from topic styx-ingress, replies to styx-egress [default: those of --log, if it is Kafka]
    #[arg(long, value_name = "HOST:PORT,…")]
    pub kafka: Option<String>,
    /// Partitions of the topics of Kafka clients, where they are created [default: 4]
    #[arg(long, value_name = "N")]
    pub kafka_partitions: Option<usize>,
    /// Brokers that keep each topic, where it is created [default: 1]
    #[arg(long, value_name = "N")]
    pub kafka_replication: Option<usize>,
    /// A setting of librdkafka for all connections to brokers, such as `security.protocol=ssl`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    #[serde(default, deserialize_with = "one_or_several")]
    pub kafka_option: Option<Vec<String>>,
    /// Where snapshots go: a directory, `s3://bucket/prefix` (key, region and endpoint by the usual
    /// AWS_ variables), or `none` [default: snapshots, in the data directory; none with --log memory]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Time between snapshots [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde")]
    #[serde(default)]
    pub snapshot_interval: Option<Duration>,
    /// How many snapshots are kept, and the log behind them [default: 3]
    #[arg(long, value_name = "N")]
    pub snapshot_keep: Option<usize>,
    /// Snapshots younger than this are kept, however many they are [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde")]
    #[serde(default)]
    pub snapshot_keep_for: Option<Duration>,
    /// Threads that execute transactions [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Most transactions of an epoch [default: 1000]
    #[arg(long, value_name = "N")]
    pub epoch_max_size: Option<usize>,
    /// How long an epoch may fill while earlier ones are not yet durable [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde")]
    #[serde(default)]
    pub epoch_max_wait: Option<Duration>,
    /// When messages between processes of a cluster are compressed [default: auto]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub compress: Option<Compress>,
    /// Requests that may wait before new ones are refused [default: 100000]
    #[arg(long, value_name = "N")]
    pub backlog_max: Option<usize>,
    /// How long replies to requests with an idempotency key are remembered [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde")]
    #[serde(default)]
    pub reply_retention: Option<Duration>,
    /// How many replies are remembered at most [default: 1000000]
    #[arg(long, value_name = "N")]
    pub reply_max: Option<usize>,
    /// How often a transaction is run again in fresh instances, to find functions that are not
    /// deterministic: `off`, `all`, or one in so many [default: 1000]
    #[arg(long, value_name = "off|all|N")]
    pub determinism_check: Option<String>,
}

/// Reads a size as people write it.
fn bytes(text: &str) -> Result<u64, String> {
    let size: Result<ByteSize, _> = text.parse();
    size.map(|size| size.as_u64()).map_err(|_| format!("\"{text}\" is no size; it can be 256MiB, or a number of bytes"))
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| bytes(&text)).transpose().map_err(de::Error::custom)
}

/// A list, or what would be its only item.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrSeveral {
        One(String),
        Several(Vec<String>),
    }
    let found = Option::<OneOrSeveral>::deserialize(deserializer)?;
    Ok(found.map(|found| match found {
        OneOrSeveral::One(one) => vec![one],
        OneOrSeveral::Several(several) => several,
    }))
}

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, in one process.
    #[default]
    Single,
    /// Owns the log, runs the epochs, takes deployments.
    Coordinator,
    /// Owns partitions and executes.
    Worker,
    /// Takes calls.
    Gateway,
}

impl Role {
    /// Its name, as the flag has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Single => "single",
            Role::Coordinator => "coordinator",
            Role::Worker => "worker",
            Role::Gateway => "gateway",
        }
    }
}

/// Implementations of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LogKind {
    /// Files in the data directory.
    Embedded,
    /// A topic of a Kafka cluster.
    Kafka {
        /// Brokers to ask first, as `host:port,host:port`.
        brokers: String,
        /// The topic, with one partition.
        topic: String,
    },
    /// None.
    Memory,
}

/// Several of the log's segments, and more than a log takes between two looks at its disk.
const DISK_RESERVE: u64 = 256 << 20;

/// For how long a coordinator leads that is silent. Longer than workers wait for it, who then say nothing more to it.
const LEASE_TERM: Duration = Duration::from_secs(2);
const LEASE_TERM_MIN: Duration = Duration::from_secs(1);
const LEASE_TERM_MAX: Duration = Duration::from_secs(60);

/// The log's topic, where none is named.
const LOG_TOPIC: &str = "styx-log";

impl std::str::FromStr for LogKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = match text {
            "embedded" => return Ok(LogKind::Embedded),
            "memory" => return Ok(LogKind::Memory),
            _ => text.strip_prefix("kafka://"),
        };
        let (brokers, topic) =
            place.map(|place| place.split_once('/').unwrap_or((place, LOG_TOPIC))).unwrap_or_default();
        if brokers.is_empty() || topic.is_empty() {
            return Err(format!("\"{text}\" is no log; it can be embedded, memory or kafka://HOST:PORT,HOST:PORT"));
        }
        Ok(LogKind::Kafka { brokers: brokers.into(), topic: topic.into() })
    }
}

impl TryFrom<String> for LogKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LogKind> for String {
    fn from(kind: LogKind) -> Self {
        match kind {
            LogKind::Embedded => "embedded".into(),
            LogKind::Kafka { brokers, topic } => format!("kafka://{brokers}/{topic}"),
            LogKind::Memory => "memory".into(),
        }
    }
}

/// The configuration in force.
#[derive(Clone, Debug, Serialize)]
pub struct ServerConfig {
    /// What this process does.
    pub role: Role,
    /// Where other processes of the cluster reach it.
    pub cluster_addr: SocketAddr,
    /// Where the coordinators are, for whoever needs one.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "list")]
    pub coordinator: Vec<String>,
    /// For how long a coordinator leads that is silent, where another may stand by.
    #[serde(with = "humantime_serde")]
    pub lease_term: Duration,
    /// Workers that a coordinator waits for before the cluster first serves.
    pub workers: usize,
    /// A name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Directory of the log, the components and the compiled code.
    pub data_dir: PathBuf,
    /// Directory of the compiled code.
    pub cache_dir: PathBuf,
    /// Where clients call functions.
    pub ingress_addr: SocketAddr,
    /// Where apps are deployed and watched; a worker may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_addr: Option<SocketAddr>,
    /// Where requests are made durable.
    pub log: LogKind,
    /// Bytes that the disk of the log must have left for anything to be taken that may write.
    pub disk_reserve: u64,
    /// Brokers of Kafka clients, if there is a front for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<String>,
    /// Partitions of their topics, where they are created.
    pub kafka_partitions: usize,
    /// Brokers that keep each topic, where it is created.
    pub kafka_replication: usize,
    /// How connections to brokers are made; secrets are not shown.
    #[serde(skip_serializing_if = "Settings::is_empty", serialize_with = "shown")]
    pub kafka_option: Settings,
    /// Where snapshots go: a directory or a URL; `None` if none are taken.
    pub store: Option<String>,
    /// Time between snapshots.
    #[serde(with = "humantime_serde")]
    pub snapshot_interval: Duration,
    /// How many snapshots are kept.
    pub snapshot_keep: usize,
    /// Younger ones are kept, however many they are.
    #[serde(with = "humantime_serde")]
    pub snapshot_keep_for: Duration,
    /// Threads that execute transactions.
    pub threads: usize,
    /// Most transactions of an epoch.
    pub epoch_max_size: usize,
    /// How long an epoch may fill while earlier ones are not yet durable.
    #[serde(with = "humantime_serde")]
    pub epoch_max_wait: Duration,
    /// When messages between processes of a cluster are compressed.
    pub compress: Compress,
    /// Requests that may wait before new ones are refused.
    pub backlog_max: usize,
    /// How long replies to requests with an idempotency key are remembered.
    #[serde(with = "humantime_serde")]
    pub reply_retention: Duration,
    /// How many replies are remembered at most.
    pub reply_max: usize,
    /// How often transactions are run again in fresh instances.
    pub determinism_check: String,
}

/// As it is written in the file.
fn list<S: Serializer>(list: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&list.join(","))
}

/// As it is written, without secrets.
fn shown<S: Serializer>(settings: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
    settings.shown().serialize(serializer)
}

/// All keys, and the roles that have a use for them.
const KEYS: [(&str, &[Role]); 28] = {
    use Role::{Coordinator, Gateway, Single, Worker};
    [
        ("role", &[Single, Coordinator, Worker, Gateway]),
        ("cluster_addr", &[Coordinator, Worker]),
        ("coordinator", &[Worker, Gateway]),
        ("lease_term", &[Coordinator]),
        ("workers", &[Coordinator]),
        ("name", &[Coordinator, Worker, Gateway]),
        ("data_dir", &[Single, Coordinator, Worker]),
        ("cache_dir", &[Single, Coordinator, Worker]),
        ("ingress_addr", &[Single, Gateway]),
        ("admin_addr", &[Single, Coordinator, Worker, Gateway]),
        ("log", &[Single, Coordinator]),
        ("disk_reserve", &[Single, Coordinator]),
        ("kafka", &[Single, Gateway]),
        ("kafka_partitions", &[Single, Gateway]),
        ("kafka_replication", &[Single, Coordinator, Gateway]),
        ("kafka_option", &[Single, Coordinator, Gateway]),
        ("store", &[Single, Coordinator]),
        ("snapshot_interval", &[Single, Coordinator]),
        ("snapshot_keep", &[Single, Coordinator]),
        ("snapshot_keep_for", &[Single, Coordinator]),
        ("threads", &[Single, Worker]),
        ("epoch_max_size", &[Single, Worker]),
        ("epoch_max_wait", &[Single, Coordinator]),
        ("compress", &[Coordinator, Worker, Gateway]),
        ("backlog_max", &[Single, Coordinator, Worker, Gateway]),
        ("reply_retention", &[Single, Coordinator]),
        ("reply_max", &[Single, Coordinator]),
        ("determinism_check", &[Single, Coordinator, Worker]),
    ]
};

impl ServerConfig {
    /// Resolves the layers: `flags`, then `STYX__SERVER__KEY`, then `[server]` of `styx.toml` in `directory`.
    ///
    /// # Errors
    /// A key that is unknown, or a value that does not fit; the message names it.
    pub fn resolve(flags: ServerFlags, directory: &Path) -> Result<ServerConfig, CliError> {
        let mut layers = Config::builder();
        let file = directory.join("styx.toml");
        if file.exists() {
            layers = layers.add_source(File::from(file).format(FileFormat::Toml));
        }
        let layers = layers
            .add_source(Environment::with_prefix("STYX").prefix_separator("__").separator("__").try_parsing(true));
        let layers = layers.build().map_err(|error| invalid(&error.to_string()))?;
        if let Ok(section) = layers.get_table("server")
            && let Some(unknown) = section.keys().find(|key| !KEYS.iter().any(|(known, _)| known == key))
        {
            let nearest = KEYS
                .iter()
                .map(|(key, _)| key)
                .max_by(|a, b| strsim::jaro_winkler(a, unknown).total_cmp(&strsim::jaro_winkler(b, unknown)));
            return Err(CliError::usage(
                "CONFIG_UNKNOWN_KEY",
                format!("[server] has no key \"{unknown}\""),
                format!("did you mean \"{}\"?", nearest.expect("there are keys")),
            ));
        }
        let below: ServerFlags = match layers.get_table("server") {
            Ok(_) => layers.get("server").map_err(|error| invalid(&error.to_string()))?,
            Err(_) => ServerFlags::default(),
        };
        let role = flags.role.or(below.role).unwrap_or_default();
        fits_role(&flags, role)?;
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let cluster_port = if role == Role::Coordinator { 7000 } else { 0 };
        let data_dir = if role == Role::Worker { ".styx/worker" } else { ".styx" };
        let data_dir = flags.data_dir.or(below.data_dir).unwrap_or_else(|| data_dir.into());
        let log = flags.log.or(below.log).unwrap_or(LogKind::Embedded);
        let kafka = flags.kafka.or(below.kafka).or_else(|| match &log {
            LogKind::Kafka { brokers, .. } if role == Role::Single => Some(brokers.clone()),
            _ => None,
        });
        // What is given here adds to what the file says.
        let settings = below.kafka_option.into_iter().chain(flags.kafka_option).flatten();
        let kafka_option = Settings::read(settings).map_err(|problem| invalid(&problem.to_string()))?;
        let store = match flags.store.or(below.store) {
            Some(none) if none == "none" => None,
            Some(place) => Some(place),
            None if log == LogKind::Memory => None,
            None => Some(data_dir.join("snapshots").to_string_lossy().into_owned()),
        };
        let config = ServerConfig {
            role,
            cluster_addr: flags
                .cluster_addr
                .or(below.cluster_addr)
                .unwrap_or_else(|| ([127, 0, 0, 1], cluster_port).into()),
            coordinator: flags
                .coordinator
                .or(below.coordinator)
                .map_or_else(Vec::new, |list| list.split(',').map(|address| address.trim().to_owned()).collect()),
            lease_term: flags.lease_term.or(below.lease_term).unwrap_or(LEASE_TERM),
            workers: flags.workers.or(below.workers).unwrap_or(1),
            name: flags.name.or(below.name),
            cache_dir: flags.cache_dir.or(below.cache_dir).unwrap_or_else(|| data_dir.join("cache")),
            data_dir,
            ingress_addr: flags.ingress_addr.or(below.ingress_addr).unwrap_or_else(|| ([127, 0, 0, 1], 8080).into()),
            admin_addr: match role {
                // A file that all roles share names the coordinator's.
                Role::Worker => flags.admin_addr,
                _ => Some(flags.admin_addr.or(below.admin_addr).unwrap_or_else(|| ([127, 0, 0, 1], 9070).into())),
            },
            log,
            disk_reserve: flags.disk_reserve.or(below.disk_reserve).unwrap_or(DISK_RESERVE),
            kafka,
            kafka_partitions: flags.kafka_partitions.or(below.kafka_partitions).unwrap_or(4),
            kafka_replication: flags.kafka_replication.or(below.kafka_replication).unwrap_or(1),
            kafka_option,
            store,
            snapshot_interval: flags.snapshot_interval.or(below.snapshot_interval).unwrap_or(Duration::from_secs(10)),
            snapshot_keep: flags.snapshot_keep.or(below.snapshot_keep).unwrap_or(3),
            snapshot_keep_for: flags.snapshot_keep_for.or(below.snapshot_keep_for).unwrap_or_default(),
            threads: flags.threads.or(below.threads).unwrap_or(cores),
            epoch_max_size: flags.epoch_max_size.or(below.epoch_max_size).unwrap_or(1000),
            compress: flags.compress.or(below.compress).unwrap_or_default(),
            epoch_max_wait: flags.epoch_max_wait.or(below.epoch_max_wait).unwrap_or(Duration::from_millis(1)),
            backlog_max: flags.backlog_max.or(below.backlog_max).unwrap_or(100_000),
            reply_retention: flags.reply_retention.or(below.reply_retention).unwrap_or(Duration::from_secs(24 * 3600)),
            reply_max: flags.reply_max.or(below.reply_max).unwrap_or(1_000_000),
            determinism_check: flags.determinism_check.or(below.determinism_check).unwrap_or_else(|| "1000".into()),
        };
        for (key, value) in [
            ("threads", config.threads),
            ("epoch_max_size", config.epoch_max_size),
            ("backlog_max", config.backlog_max),
            ("workers", config.workers),
            ("kafka_partitions", config.kafka_partitions),
            ("kafka_replication", config.kafka_replication),
            ("snapshot_keep", config.snapshot_keep),
        ] {
            if value == 0 {
                return Err(invalid(&format!("{key} must be at least 1")));
            }
        }
        if config.kafka_partitions > 10_000 || config.kafka_replication > 100 {
            return Err(invalid("kafka_partitions must be at most 10000, and kafka_replication at most 100"));
        }
        if config.threads > 64 {
            return Err(invalid("threads must be at most 64"));
        }
        if config.workers > usize::from(WORKERS_MAX) {
            return Err(invalid(&format!("a cluster has at most {WORKERS_MAX} workers")));
        }
        if config.lease_term < LEASE_TERM_MIN || config.lease_term > LEASE_TERM_MAX {
            return Err(invalid("lease_term must be at least 1s and at most 1m"));
        }
        if config.snapshot_interval.is_zero() {
            return Err(invalid("snapshot_interval must be more than nothing; --store none takes no snapshots"));
        }
        config.fits()?;
        Ok(config)
    }
}

impl ServerConfig {
    /// Whether this is a coordinator beside which another one may stand by: nothing that is acknowledged is in its
    /// data directory alone.
    pub fn may_stand_by(&self) -> bool {
        let elsewhere = self.store.as_ref().is_some_and(|store| !Path::new(store).starts_with(&self.data_dir));
        self.role == Role::Coordinator && matches!(self.log, LogKind::Kafka { .. }) && elsewhere
    }

    /// Whether the parts of a cluster can find each other.
    fn fits(&self) -> Result<(), CliError> {
        let role = self.role.name();
        let needs = matches!(self.role, Role::Worker | Role::Gateway);
        match &self.coordinator[..] {
            [] if needs => {
                return Err(CliError::usage(
                    "CONFIG_INVALID",
                    format!("a {role} must know where the coordinator is"),
                    "give --coordinator HOST:PORT, the coordinator's --cluster-addr",
                ));
            }
            addresses if needs => {
                let is_address = |address: &&String| {
                    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                    matches!(port.map(|(_, port)| port.parse()), Some(Ok(1u16..)))
                };
                if let Some(address) = addresses.iter().find(|address| !is_address(address)) {
                    return Err(CliError::usage(
                        "CONFIG_INVALID",
                        format!("\"{address}\" is no address of a coordinator"),
                        "it is HOST:PORT, such as 127.0.0.1:7000; several have commas between them",
                    ));
                }
            }
            _ => {}
        }
        if self.role == Role::Worker && self.cluster_addr.ip().is_unspecified() {
            return Err(CliError::usage(
                "CONFIG_INVALID",
                format!("other processes cannot reach a worker at {}", self.cluster_addr),
                "give --cluster-addr the address of this machine in the cluster's network",
            ));
        }
        Ok(())
    }
}

/// Whether a role has a use for all flags that were given.
fn fits_role(flags: &ServerFlags, role: Role) -> Result<(), CliError> {
    let given = serde_json::to_value(flags).expect("flags are plain data");
    for (key, roles) in KEYS {
        if given[key].is_null() || roles.contains(&role) {
            continue;
        }
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        return Err(CliError::usage(
            "CONFIG_INVALID",
            format!("role {} has no use for --{}", role.name(), key.replace('_', "-")),
            format!("drop it, or choose --role {}", names.join(" or ")),
        ));
    }
    Ok(())
}

fn invalid(message: &str) -> CliError {
    CliError::usage("CONFIG_INVALID", message, "see styx server --help for the keys and their values")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(toml: &str, flags: ServerFlags) -> Result<ServerConfig, CliError> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("styx.toml"), toml).unwrap();
        ServerConfig::resolve(flags, directory.path())
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let config = resolve(
            "[server]\nthreads = 3\nepoch_max_wait = \"5ms\"\n",
            ServerFlags { threads: Some(4), ..Default::default() },
        )
        .unwrap();
        assert_eq!((config.threads, config.epoch_max_wait, config.epoch_max_size), (4, Duration::from_millis(5), 1000));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one() {
        let error = resolve("[server]\ntreads = 3\n", ServerFlags::default()).unwrap_err();
        assert_eq!((error.code, error.hint.as_str()), ("CONFIG_UNKNOWN_KEY", "did you mean \"threads\"?"));
    }

    #[test]
    fn settings_of_kafka_are_passed_on_and_secrets_kept() {
        let toml = "[server]\nkafka_option = [\"security.protocol=sasl_plaintext\", \"sasl.mechanism=PLAIN\"]\n";
        let flags = |settings: &[&str]| ServerFlags {
            kafka_option: Some(settings.iter().map(|text| text.to_string()).collect()),
            ..Default::default()
        };
        let config = resolve(toml, flags(&["sasl.password=hush", "security.protocol=plaintext"])).unwrap();
        let shown = toml::to_string(&config).unwrap();
        for line in ["sasl.mechanism=PLAIN", "sasl.password=…", "security.protocol=plaintext"] {
            assert!(shown.contains(line), "{shown}");
        }
        assert!(!shown.contains("hush") && !format!("{config:?}").contains("hush"));
        let one = resolve("[server]\nkafka_option = \"client.rack=r1\"\n", ServerFlags::default()).unwrap();
        assert_eq!(one.kafka_option.shown(), ["client.rack=r1"]);
        for (setting, says) in [("acks=0", "Styx sets acks itself"), ("sasl.pasword=x", "sasl.pasword")] {
            let error = resolve("", flags(&[setting])).unwrap_err();
            assert!(error.code == "CONFIG_INVALID" && error.message.contains(says), "{}", error.message);
        }
        assert!(resolve("", ServerFlags { role: Some(Role::Worker), ..flags(&["client.rack=r"]) }).is_err());
    }

    #[test]
    fn a_log_on_kafka_brings_the_front_for_kafka_clients() {
        let kafka = |topic: &str| LogKind::Kafka { brokers: "a:1,b:2".into(), topic: topic.into() };
        for (text, expect) in [
            ("embedded", Ok(LogKind::Embedded)),
            ("memory", Ok(LogKind::Memory)),
            ("kafka://a:1,b:2", Ok(kafka("styx-log"))),
            ("kafka://a:1,b:2/mine", Ok(kafka("mine"))),
            ("kafka://", Err("is no log")),
            ("kafka://a:1/", Err("is no log")),
            ("embeded", Err("is no log")),
        ] {
            match (text.parse::<LogKind>(), expect) {
                (Ok(parsed), Ok(kind)) => assert_eq!(parsed, kind),
                (Err(said), Err(says)) => assert!(said.contains(says), "{said}"),
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        }
        let config = resolve("[server]\nlog = \"kafka://a:1,b:2\"\n", ServerFlags::default()).unwrap();
        assert_eq!((config.kafka.as_deref(), config.kafka_partitions), (Some("a:1,b:2"), 4));
        let other = ServerFlags { kafka: Some("c:3".into()), ..Default::default() };
        assert_eq!(resolve("[server]\nlog = \"kafka://a:1,b:2\"\n", other).unwrap().kafka.as_deref(), Some("c:3"));
        assert_eq!(resolve("", ServerFlags::default()).unwrap().kafka, None);
    }

    #[test]
    fn a_role_takes_what_it_has_a_use_for() {
        let of = |role| ServerFlags { role: Some(role), ..Default::default() };
        let at = |port: u16| Some(([127, 0, 0, 1], port).into());
        let coordinator = || Some("127.0.0.1:7000".to_owned());
        for (flags, expect) in [
            (ServerFlags { workers: Some(2), cluster_addr: at(1), ..of(Role::Coordinator) }, Ok("127.0.0.1:1")),
            (of(Role::Coordinator), Ok("127.0.0.1:7000")),
            (ServerFlags { coordinator: coordinator(), threads: Some(1), ..of(Role::Worker) }, Ok("127.0.0.1:0")),
            (ServerFlags { coordinator: coordinator(), ..of(Role::Gateway) }, Ok("127.0.0.1:0")),
            (of(Role::Worker), Err("must know where the coordinator is")),
            (of(Role::Gateway), Err("must know where the coordinator is")),
            (ServerFlags { coordinator: Some("7000".into()), ..of(Role::Worker) }, Err("no address")),
            (ServerFlags { coordinator: Some("a:1, b:2".into()), ..of(Role::Worker) }, Ok("127.0.0.1:0")),
            (ServerFlags { coordinator: Some("a:1,b".into()), ..of(Role::Worker) }, Err("\"b\" is no address")),
            (
                ServerFlags { lease_term: Some(Duration::from_millis(999)), ..of(Role::Coordinator) },
                Err("lease_term must be"),
            ),
            (ServerFlags { lease_term: Some(LEASE_TERM), ..Default::default() }, Err("no use for --lease-term")),
            (ServerFlags { coordinator: Some("host:0".into()), ..of(Role::Worker) }, Err("no address")),
            (ServerFlags { workers: Some(2), ..Default::default() }, Err("single has no use for --workers")),
            (ServerFlags { coordinator: coordinator(), ..Default::default() }, Err("no use for --coordinator")),
            (
                ServerFlags { ingress_addr: at(1), ..of(Role::Coordinator) },
                Err("coordinator has no use for --ingress-addr"),
            ),
            (
                ServerFlags { threads: Some(1), coordinator: coordinator(), ..of(Role::Gateway) },
                Err("no use for --threads"),
            ),
            (ServerFlags { coordinator: coordinator(), admin_addr: at(2), ..of(Role::Worker) }, Ok("127.0.0.1:0")),
            (
                ServerFlags { coordinator: coordinator(), disk_reserve: Some(0), ..of(Role::Worker) },
                Err("no use for --disk-reserve"),
            ),
            (ServerFlags { workers: Some(0), ..of(Role::Coordinator) }, Err("workers must be at least 1")),
            (
                ServerFlags {
                    coordinator: coordinator(),
                    cluster_addr: Some(([0, 0, 0, 0], 0).into()),
                    ..of(Role::Worker)
                },
                Err("cannot reach a worker at 0.0.0.0:0"),
            ),
        ] {
            let told = format!("{flags:?}");
            match (resolve("", flags), expect) {
                (Ok(config), Ok(address)) => assert_eq!(config.cluster_addr.to_string(), address, "{told}"),
                (Err(error), Err(says)) => {
                    assert!(error.message.contains(says) && !error.hint.is_empty(), "{told}: {error}");
                }
                (Ok(_), Err(says)) => panic!("{told} is not refused with {says:?}"),
                (Err(error), Ok(_)) => panic!("{told}: {error}"),
            }
        }
    }

    #[test]
    fn another_coordinator_stands_by_only_where_it_finds_everything() {
        let kafka = || "kafka://a:1".parse::<LogKind>().ok();
        let of = |role, log: Option<LogKind>, store: Option<&str>| {
            let flags = ServerFlags { role: Some(role), log, store: store.map(Into::into), ..Default::default() };
            resolve("[server]\ndata_dir = \"d\"\n", flags).unwrap().may_stand_by()
        };
        for (role, log, store, expect) in [
            (Role::Coordinator, kafka(), Some("s3://bucket/styx"), true),
            (Role::Coordinator, kafka(), Some("/mnt/shared"), true),
            (Role::Coordinator, kafka(), Some("d/snapshots"), false),
            (Role::Coordinator, kafka(), None, false),
            (Role::Coordinator, kafka(), Some("none"), false),
            (Role::Coordinator, None, Some("s3://bucket/styx"), false),
            (Role::Single, kafka(), Some("s3://bucket/styx"), false),
        ] {
            assert_eq!(of(role, log.clone(), store), expect, "{role:?} {log:?} {store:?}");
        }
    }

    #[test]
    fn a_worker_listens_for_people_only_if_it_is_told_to() {
        let of = |role, flag| {
            let coordinator = (role == Role::Worker).then(|| "127.0.0.1:7000".to_owned());
            let flags = ServerFlags { role: Some(role), coordinator, admin_addr: flag, ..Default::default() };
            resolve("[server]\nadmin_addr = \"127.0.0.1:1\"\n", flags).unwrap().admin_addr.map(|address| address.port())
        };
        let flag = Some(([127, 0, 0, 1], 2).into());
        assert_eq!((of(Role::Coordinator, None), of(Role::Coordinator, flag)), (Some(1), Some(2)));
        assert_eq!((of(Role::Worker, None), of(Role::Worker, flag)), (None, Some(2)));
    }

    #[test]
    fn sizes_are_written_as_people_do() {
        for (text, expect) in [
            ("disk_reserve = \"1GiB\"", Ok(1 << 30)),
            ("disk_reserve = \"64 MB\"", Ok(64_000_000)),
            ("disk_reserve = 4096", Ok(4096)),
            ("", Ok(256 << 20)),
            ("disk_reserve = \"much\"", Err("\"much\" is no size")),
        ] {
            match (resolve(&format!("[server]\n{text}\n"), ServerFlags::default()), expect) {
                (Ok(config), Ok(bytes)) => assert_eq!(config.disk_reserve, bytes, "{text}"),
                (Err(error), Err(says)) => assert!(error.message.contains(says), "{text}: {error}"),
                (config, _) => panic!("{text}: {config:?}"),
            }
        }
    }

    #[test]
    fn all_keys_are_known() {
        let flags = serde_json::to_value(ServerFlags::default()).unwrap();
        let mut fields: Vec<&str> = flags.as_object().unwrap().keys().map(String::as_str).collect();
        let mut keys: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
        fields.sort_unstable();
        keys.sort_unstable();
        assert_eq!(fields, keys);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        for toml in [
            "[server]\nthreads = 0",
            "[server]\nthreads = \"many\"",
            "[server]\nepoch_max_wait = \"5 parsecs\"",
            "[server]\nlog = \"paper\"",
            "[server",
        ] {
            assert_eq!(resolve(toml, ServerFlags::default()).unwrap_err().code, "CONFIG_INVALID", "{toml}");
        }
    }
}
