//! Configuration of the server: flags over environment over `styx.toml` over defaults.
//!
//! [`ServerConfig`] is the only list of settings: flag, key of the file, name in the environment, default,
//! unit, help and the roles that take a setting are all read off its fields. Nothing else in the server reads
//! a setting from the environment.

mod environment;
mod layers;
mod values;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, value_parser};
use serde::Serialize;
use styx_engine::{CALL_DEPTH_MAX, Determinism, Long, MEMORY_BYTES_MAX};
use styx_protocol::deployment::Limits;
use styx_protocol::modes::Modes;
use styx_storage::log::kafka::Settings;
use styx_storage::snapshot::StoreLocation;
use styx_transport::Compress;

use crate::auth::{ADMIN_TOKEN, Access, Provider};
use crate::error::ServerError;
use crate::http::{Hosts, HttpOptions, Memory, Origins, TlsFiles};
use environment::variable;
use layers::Layers;
use values::{
    address, at_most, bounds, bytes, comma_separated, count, determinism, determinism_text, http_url, kafka_options,
    lease_term, modes_text, shown_bounds, some_time,
};

pub use layers::{Flags, refused_value};
pub use values::{KafkaOption, LogFormat, LogKind, Sample, bytes as size};

/// Headings of the help, which name the roles that take the settings below them.
mod roles {
    pub(super) const ALL: &str = "Single, coordinator, worker, gateway";
    pub(super) const CLUSTER: &str = "Coordinator, worker, gateway";
    pub(super) const COORDINATOR: &str = "Coordinator";
    pub(super) const LOG: &str = "Single, coordinator";
    pub(super) const KAFKA: &str = "Single, coordinator, gateway";
    pub(super) const INGRESS: &str = "Single, gateway";
    pub(super) const WATCHED: &str = "Single, worker, gateway";
    pub(super) const DATA: &str = "Single, coordinator, worker";
    pub(super) const EXECUTION: &str = "Single, worker";
    pub(super) const MEMBERS: &str = "Worker, gateway";
    pub(super) const NODES: &str = "Coordinator, worker";
}

/// The configuration in force, section `[server]` of `styx.toml`.
#[derive(Clone, Debug, Serialize, Parser)]
pub struct ServerConfig {
    /// Role of this process: everything, or one part of a cluster
    #[arg(help_heading = roles::ALL, long, value_enum, default_value_t)]
    pub role: Role,
    /// Where apps are deployed and watched; of a worker, its metrics and health, if it is given this flag
    /// [default: 127.0.0.1:9070; none for a worker]
    #[arg(help_heading = roles::ALL, long, value_name = "ADDR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_addr: Option<SocketAddr>,
    /// How the lines are written that the server has to say, on standard error: for people, or one JSON object each
    #[arg(help_heading = roles::ALL, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
    /// Requests that may wait before new ones are refused
    #[arg(help_heading = roles::ALL, long, value_name = "N", value_parser = count::<{ usize::MAX }>, default_value = "100000")]
    pub backlog_max: usize,

    /// Most memory for what clients send and do not read, all together; one alone gets half of it
    #[arg(help_heading = roles::ALL, long, value_name = "SIZE", value_parser = bytes, default_value = "320MiB")]
    pub client_memory: u64,
    /// Most connections of one address to each HTTP port
    #[arg(help_heading = roles::ALL, long, value_name = "N", value_parser = count::<{ usize::MAX }>, default_value = "1000")]
    pub connections_per_address: usize,
    /// Most requests of one token in a second, or of one address where nobody shows one, to each process; those of
    /// a WebSocket or a batch count one by one [default: no bound]
    #[arg(help_heading = roles::ALL, long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<NonZeroU32>,

    /// Names under which the HTTP ports may be asked for, besides IP addresses and localhost; `*` for all
    #[arg(help_heading = roles::ALL, long, value_name = "NAME,…", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "comma_separated")]
    pub allow_host: Vec<String>,
    /// Web pages from elsewhere that may call, by their origin, such as `https://console.example`
    #[arg(help_heading = roles::ALL, long, value_name = "URL,…", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "comma_separated")]
    pub allow_origin: Vec<String>,

    /// File with the operator's token, which may do everything and issue others; or STYX_ADMIN_TOKEN holds it
    #[arg(help_heading = roles::ALL, long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_token_file: Option<PathBuf>,
    /// Let nobody in without a token; implied by a token of the operator's
    #[arg(help_heading = roles::ALL, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t, action = ArgAction::Set)]
    pub require_token: bool,
    /// Identity provider whose tokens (JSON Web Tokens) let in, as their claim `iss` names it; with --jwt-audience and --jwt-keys
    #[arg(help_heading = roles::ALL, long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_issuer: Option<String>,
    /// For whom its tokens are to be issued, as their claim `aud` says
    #[arg(help_heading = roles::ALL, long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_audience: Option<String>,
    /// Its public keys, a JSON Web Key Set; read again when a token names another, and every ten minutes
    #[arg(help_heading = roles::ALL, long, value_name = "FILE|URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_keys: Option<String>,
    /// Ask nobody for a token, wherever the HTTP ports can be reached from
    #[arg(help_heading = roles::ALL, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t, action = ArgAction::Set)]
    pub insecure_no_auth: bool,
    /// Certificate chain of the HTTP ports, as PEM: they speak TLS then. Read again when it changes
    #[arg(help_heading = roles::ALL, long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate, as PEM
    #[arg(help_heading = roles::ALL, long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Who is let in, as these settings say
    #[arg(skip)]
    #[serde(skip)]
    pub access: Access,

    /// Most that an app may set `limits.fuel` to
    #[arg(help_heading = roles::LOG, long, value_name = "N", default_value = "10000000000")]
    pub max_fuel: u64,
    /// Most that an app may set `limits.transaction_fuel` to
    #[arg(help_heading = roles::LOG, long, value_name = "N", default_value = "20000000000")]
    pub max_transaction_fuel: u64,
    /// Most that an app may set `limits.memory` to
    #[arg(help_heading = roles::LOG, long, value_name = "SIZE", value_parser = at_most::<MEMORY_BYTES_MAX>, default_value = "1GiB")]
    pub max_memory: u64,
    /// Most that an app may set `limits.call_depth` to
    #[arg(help_heading = roles::LOG, long, value_name = "N", value_parser = value_parser!(u32).range(1..=CALL_DEPTH_MAX as i64), default_value = "64")]
    pub max_call_depth: u32,
    /// Most that an app may set `limits.calls` to
    #[arg(help_heading = roles::LOG, long, value_name = "N", default_value = "1000000")]
    pub max_calls: u32,
    /// Most that an app may set `limits.rw_set` to
    #[arg(help_heading = roles::LOG, long, value_name = "N", default_value = "1000000")]
    pub max_rw_set: u32,
    /// Most that an app may set `limits.payload` to
    #[arg(help_heading = roles::LOG, long, value_name = "SIZE", value_parser = at_most::<{ Limits::PAYLOAD_MAX as u64 }>, default_value = "8MiB")]
    pub max_payload: u64,

    /// Directory of the log, the components and the compiled code [default: .styx; for a worker .styx/worker]
    #[arg(help_heading = roles::DATA, long, value_name = "DIR", default_value = ".styx", hide_default_value = true)]
    pub data_dir: PathBuf,
    /// Directory of the compiled code; processes on one machine may share it [default: cache, in the data directory]
    #[arg(help_heading = roles::DATA, long, value_name = "DIR", default_value = ".styx/cache", hide_default_value = true)]
    pub cache_dir: PathBuf,
    /// How often a transaction is run again in fresh instances, to find functions that are not
    /// deterministic: `off`, `all`, or one in so many
    #[arg(help_heading = roles::DATA, long, value_name = "off|all|N", value_parser = determinism, default_value = "1000")]
    #[serde(serialize_with = "determinism_text")]
    pub determinism_check: Determinism,
    /// Which parts of the protocol are on, to measure what the others are worth: `aria`, `reordering`, `fallback`, or
    /// `caching` for all; the same in all processes, for as long as there is the data
    #[arg(help_heading = roles::DATA, long, value_name = "PART", default_value_t)]
    #[serde(serialize_with = "modes_text")]
    pub modes: Modes,

    /// Where clients call functions
    #[arg(help_heading = roles::INGRESS, long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub ingress_addr: SocketAddr,
    /// Brokers of Kafka clients: requests from topic styx-ingress, replies to styx-egress [default: those of --log, if it is Kafka]
    #[arg(help_heading = roles::INGRESS, long, value_name = "HOST:PORT,…")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<String>,
    /// Partitions of the topics of Kafka clients, where they are created
    #[arg(help_heading = roles::INGRESS, long, value_name = "N", value_parser = count::<10_000>, default_value = "4")]
    pub kafka_partitions: usize,

    /// Brokers that keep each topic, where it is created
    #[arg(help_heading = roles::KAFKA, long, value_name = "N", value_parser = count::<100>, default_value = "1")]
    pub kafka_replication: usize,
    /// A setting of librdkafka for all connections to brokers, such as `security.protocol=ssl`; may be repeated
    #[arg(help_heading = roles::KAFKA, long, value_name = "KEY=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "kafka_options")]
    pub kafka_option: Vec<KafkaOption>,

    /// Where requests are made durable: `embedded`, `kafka://HOST:PORT,…` with a topic of one partition
    /// after a slash, or `memory` to lose everything at exit
    #[arg(help_heading = roles::LOG, long, value_name = "KIND", default_value = "embedded")]
    pub log: LogKind,
    /// Partitions that keys are spread over, for new data; for data that is there another multiple of its first number
    /// [default: as the data has it; 1024 for new data]
    #[arg(help_heading = roles::LOG, long, value_name = "N", value_parser = value_parser!(u32).range(1..=65_536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// Free space on the disk of the embedded log below which nothing that may write is taken, such as
    /// 1GiB; what is under way must fit into it
    // Several of the log's segments, and more than a log takes between two reads of its disk's free space.
    #[arg(help_heading = roles::LOG, long, value_name = "SIZE", value_parser = bytes, default_value = "256MiB")]
    pub disk_reserve: u64,
    /// Where snapshots go: a directory, `s3://bucket/prefix` (key, region and endpoint by the usual
    /// AWS_ variables), or `none` [default: snapshots, in the data directory; none with --log memory]
    #[arg(help_heading = roles::LOG, long, value_name = "URL")]
    pub store: Option<String>,
    /// Time between snapshots
    #[arg(help_heading = roles::LOG, long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub snapshot_interval: Duration,
    /// How many snapshots are kept, and the log behind them
    #[arg(help_heading = roles::LOG, long, value_name = "N", value_parser = count::<{ usize::MAX }>, default_value = "3")]
    pub snapshot_keep: usize,
    /// Snapshots younger than this are kept, however many they are
    #[arg(help_heading = roles::LOG, long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "0s")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub snapshot_keep_for: Duration,
    /// How long files of a snapshot are left alone that no snapshot mentions: longer than any worker takes to write one
    #[arg(help_heading = roles::LOG, long, value_name = "TIME", value_parser = some_time, default_value = "1h")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub snapshot_grace: Duration,
    /// How long an epoch may fill while earlier ones are not yet durable
    #[arg(help_heading = roles::LOG, long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1ms")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub epoch_max_wait: Duration,
    /// How long replies to requests with an idempotency key are remembered
    #[arg(help_heading = roles::LOG, long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "24h")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub reply_retention: Duration,
    /// How many replies are remembered at most by each worker
    #[arg(help_heading = roles::LOG, long, value_name = "N", default_value = "1000000")]
    pub reply_max: usize,
    /// Most bytes of replies that are remembered
    #[arg(help_heading = roles::LOG, long, value_name = "SIZE", value_parser = bytes, default_value = "256MiB")]
    pub reply_bytes_max: u64,

    /// Lives of processes, one after the other, that a request may end before it is executed no more, but set aside
    /// (`styx requests quarantine`); 0: never
    #[arg(help_heading = roles::LOG, long, value_name = "N", default_value = "3")]
    pub quarantine_after: u32,
    /// A transaction that the log carries, and that is not to be executed but set aside, by its TID; several with commas
    #[arg(help_heading = roles::LOG, long, value_name = "N,…", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip_tid: Vec<u64>,

    /// Most state of an app, on all workers together, counted likewise: an app that has more is not let write until it has
    /// less [default: half of what all workers may have]
    #[arg(help_heading = roles::LOG, long, value_name = "SIZE", value_parser = bytes)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_state: Option<u64>,

    /// Most bytes a second that each worker copies of partitions that go to other workers, unless a migration says
    /// otherwise; 0: as fast as it can
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "SIZE", value_parser = bytes, default_value = "16MiB")]
    pub migration_rate: u64,

    /// Whether a worker that joins gets its share of the partitions by itself; otherwise it has none until a migration
    /// gives it some
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub join_shares: bool,

    /// Propose how many workers there should be, within these bounds: look at how busy they are, at intervals
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "MIN..MAX", value_parser = bounds)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown_bounds")]
    pub autoscale: Option<(u32, u32)>,
    /// A program that starts or stops workers, as it is told: out|in, the number there are, the number there should be,
    /// addresses of those to be stopped
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "PROGRAM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscale_command: Option<PathBuf>,
    /// Time between two looks at the workers
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "TIME", value_parser = some_time, default_value = "5s")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub autoscale_interval: Duration,
    /// How busy workers are to be, of a hundred
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "PERCENT", value_parser = value_parser!(u32).range(10..=90), default_value = "60")]
    pub autoscale_target: u32,

    /// Threads that execute transactions [default: all cores]
    #[arg(help_heading = roles::EXECUTION, long, value_name = "N", value_parser = count::<64>, default_value_t = cores(), hide_default_value = true)]
    pub threads: usize,
    /// Requests that are watched, to be looked at later (`styx requests`), besides those that ask for it: `off`, `all`,
    /// or one in so many
    #[arg(help_heading = roles::WATCHED, long, value_name = "off|all|N", default_value = "1000")]
    pub trace_sample: Sample,
    /// Where traces of requests that are watched are sent, as OTLP over HTTP: a collector's `http://host:4318` [default: nowhere]
    #[arg(help_heading = roles::INGRESS, long, value_name = "URL", value_parser = http_url)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// A file with what that collector asks for, such as `authorization: Bearer …`: a header on each line [default: none]
    #[arg(help_heading = roles::INGRESS, long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_headers: Option<PathBuf>,
    /// Most transactions of an epoch
    #[arg(help_heading = roles::EXECUTION, long, value_name = "N", value_parser = count::<{ usize::MAX }>, default_value = "1000")]
    pub epoch_max_size: usize,
    /// Fuel that a transaction may use inside an epoch; who needs more runs beside the epochs, in a single process
    #[arg(help_heading = roles::EXECUTION, long, value_name = "N", value_parser = value_parser!(u64).range(1..), default_value_t = Long::default().slice)]
    pub slice_fuel: u64,
    /// Most transactions that run beside the epochs at a time
    #[arg(help_heading = roles::EXECUTION, long, value_name = "N", value_parser = count::<16>, default_value_t = Long::default().running_max)]
    pub long_max: usize,
    /// Most memory that functions may get while they run, all together, beyond what their instances begin with; an app alone
    /// gets half of it, and whoever needs more waits
    #[arg(help_heading = roles::EXECUTION, long, value_name = "SIZE", value_parser = bytes, default_value = "384MiB")]
    pub guest_memory: u64,
    /// Most state in memory, on each worker: keys, values, and 200 bytes for each entity. Beyond it nothing that may write
    /// is taken [default: 60 % of the machine's memory, or of the control group's]
    #[arg(help_heading = roles::EXECUTION, long, value_name = "SIZE", value_parser = bytes)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_memory: Option<u64>,
    /// Most bytes of log lines of each app in a second, on each worker; some seconds' worth may come at once, others are
    /// left out; 0: no bound
    #[arg(help_heading = roles::EXECUTION, long, value_name = "SIZE", value_parser = bytes, default_value = "64KiB")]
    pub app_log_rate: u64,
    /// Most fuel that the transactions of an epoch, or the queries of a round, are expected to use on each worker; one is always taken
    #[arg(help_heading = roles::EXECUTION, long, value_name = "N", value_parser = value_parser!(u64).range(1..), default_value = "1000000000")]
    pub epoch_max_fuel: u64,

    /// Name of this process, for people [default: its role and node id]
    #[arg(help_heading = roles::CLUSTER, long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When messages between processes of a cluster are compressed
    #[arg(help_heading = roles::CLUSTER, long, value_enum, value_name = "WHEN", default_value_t)]
    pub compress: Compress,
    /// Directory with this process's certificate in the cluster, as `styx cluster certificate` makes it
    #[arg(help_heading = roles::CLUSTER, long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_tls: Option<PathBuf>,
    /// Speak with other machines of the cluster without encryption, and believe what they say they are
    #[arg(help_heading = roles::CLUSTER, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t, action = ArgAction::Set)]
    pub insecure_cluster: bool,
    /// Where other processes of the cluster reach this one [default: 127.0.0.1:7000 for a coordinator, a free port for a worker]
    #[arg(help_heading = roles::NODES, long, value_name = "ADDR", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub cluster_addr: SocketAddr,
    /// Where a worker or a gateway finds the coordinator, as host:port; several, with commas, if some stand by
    #[arg(help_heading = roles::MEMBERS, long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = address)]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "comma_separated")]
    pub coordinator: Vec<String>,
    /// Workers that a coordinator waits for before the cluster first serves
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "N", value_parser = count::<{ u16::MAX as usize }>, default_value = "1")]
    pub workers: usize,
    /// Of coordinators that share a log on Kafka and a store: for how long one that is silent still leads
    // Longer than workers wait for it, who then say nothing more to it.
    #[arg(help_heading = roles::COORDINATOR, long, value_name = "TIME", value_parser = lease_term, default_value = "2s")]
    #[serde(serialize_with = "humantime_serde::serialize")]
    pub lease_term: Duration,
}

/// Role of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, in one process
    #[default]
    Single,
    /// Owns the log, runs the epochs, takes deployments
    Coordinator,
    /// Owns partitions and executes
    Worker,
    /// Takes calls
    Gateway,
}

impl Role {
    /// Name of the role, as the flag has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Single => "single",
            Role::Coordinator => "coordinator",
            Role::Worker => "worker",
            Role::Gateway => "gateway",
        }
    }
}

/// Location of the store at `url`, with the key, region and endpoint in the process's `AWS_*` variables.
pub fn store_location(url: impl Into<String>) -> StoreLocation {
    StoreLocation::with_settings(url, environment::variables())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl ServerConfig {
    /// Names of all settings, as the file has them.
    pub fn keys() -> Vec<String> {
        let command = ServerConfig::command();
        command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
    }

    /// Resolves the layers: `flags`, then `STYX__SERVER__KEY`, then `[server]` of `styx.toml` in `directory`.
    ///
    /// # Errors
    /// A key that is unknown, or a value that does not fit; the message names it.
    pub fn resolve(flags: Flags, directory: &Path) -> Result<ServerConfig, ServerError> {
        // Attributes of the command would become those of the verb that these flags belong to.
        let settings = ServerConfig::command().no_binary_name(true).disable_help_flag(true);
        let layers = Layers::read(&settings, directory)?;
        let arguments = layers.under(&flags);
        let matches = settings.try_get_matches_from(arguments).map_err(|error| layers.refused(&flags, &error))?;
        let mut config = ServerConfig::from_arg_matches(&matches).map_err(|error| layers.refused(&flags, &error))?;
        let is_set = |key: &str| matches.value_source(key) == Some(ValueSource::CommandLine);
        fits_role(&flags, config.role)?;

        // Defaults that follow from other settings.
        if config.role == Role::Coordinator && !is_set("cluster_addr") {
            config.cluster_addr = ([127, 0, 0, 1], 7000).into();
        }
        if config.role == Role::Worker && !is_set("data_dir") {
            config.data_dir = ".styx/worker".into();
        }
        if !is_set("cache_dir") {
            config.cache_dir = config.data_dir.join("cache");
        }
        config.admin_addr = match config.role {
            // A file that all roles share names the coordinator's.
            Role::Worker => config.admin_addr.filter(|_| flags.has("admin_addr")),
            _ => Some(config.admin_addr.unwrap_or_else(|| ([127, 0, 0, 1], 9070).into())),
        };
        if let (Role::Single, LogKind::Kafka { brokers, .. }) = (config.role, &config.log) {
            config.kafka.get_or_insert_with(|| brokers.clone());
        }
        config.store = match config.store {
            Some(none) if none == "none" => None,
            None if config.log != LogKind::Memory => {
                Some(config.data_dir.join("snapshots").to_string_lossy().into_owned())
            }
            given => given,
        };
        Settings::read(&config.kafka_option).map_err(|problem| invalid(problem.to_string()))?;
        config.can_be_joined()?;
        if config.autoscale_command.is_some() && config.autoscale.is_none() {
            return Err(ServerError::usage(
                "CONFIG_INVALID",
                "a command that starts and stops workers is never called without bounds of their number",
                "give --autoscale MIN..MAX too",
            ));
        }
        if config.tls_cert.is_some() != config.tls_key.is_some() {
            return Err(ServerError::usage(
                "CONFIG_INVALID",
                "a certificate is of no use without its key, nor a key without its certificate",
                "give both --tls-cert FILE and --tls-key FILE",
            ));
        }
        let provider = match (&config.jwt_issuer, &config.jwt_audience, &config.jwt_keys) {
            (Some(issuer), Some(audience), Some(keys)) => Some(Arc::new(Provider::new(issuer, audience, keys)?)),
            (None, None, None) => None,
            _ => {
                let message = "an identity provider is believed by its name, whom it signs for, and its keys";
                let hint = "give all of --jwt-issuer NAME, --jwt-audience NAME and --jwt-keys FILE|URL";
                return Err(ServerError::usage("CONFIG_INVALID", message, hint));
            }
        };
        let (required, off) = (config.require_token || provider.is_some(), config.insecure_no_auth);
        config.access = Access::configured(config.admin_token_file.as_deref(), variable(ADMIN_TOKEN), required, off)?;
        if let Some(provider) = provider {
            config.access = config.access.believing(provider);
        }
        if let Some(most) = config.requests_per_second {
            config.access = config.access.limited(most);
        }
        Ok(config)
    }

    /// Most bytes of state in memory, on a worker.
    pub fn state_max(&self) -> u64 {
        self.state_memory.unwrap_or_else(|| memory() / 100 * STATE_SHARE)
    }

    /// When transactions are run beside the epochs.
    pub fn long(&self) -> Long {
        Long { slice: self.slice_fuel, running_max: self.long_max }
    }

    /// Bounds of the HTTP ports.
    pub fn http(&self) -> HttpOptions {
        HttpOptions {
            memory: Memory::new(usize::try_from(self.client_memory).unwrap_or(usize::MAX)),
            access: self.access.clone(),
            origins: Origins(self.allow_origin.clone().into()),
            hosts: Hosts(self.allow_host.clone().into()),
            limits_max: Limits {
                fuel: self.max_fuel,
                transaction_fuel: self.max_transaction_fuel,
                memory: self.max_memory,
                call_depth: self.max_call_depth,
                calls: self.max_calls,
                rw_set: self.max_rw_set,
                payload: self.max_payload as u32,
            },
            ..HttpOptions::default()
        }
    }

    /// Certificate and key of the HTTP ports, if they speak TLS.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { certificate, key })
    }

    /// How addresses of the HTTP ports begin.
    pub fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// Settings of librdkafka.
    pub fn kafka_settings(&self) -> Settings {
        Settings::read(&self.kafka_option).expect("they were read when the configuration was resolved")
    }

    /// Returns true if this is a coordinator beside which another one may stand by: nothing that is acknowledged is in its
    /// data directory alone.
    pub fn may_stand_by(&self) -> bool {
        let elsewhere = self.store.as_ref().is_some_and(|store| !Path::new(store).starts_with(&self.data_dir));
        self.role == Role::Coordinator && matches!(self.log, LogKind::Kafka { .. }) && elsewhere
    }

    /// Checks that the parts of a cluster can find each other.
    fn can_be_joined(&self) -> Result<(), ServerError> {
        let role = self.role.name();
        if matches!(self.role, Role::Worker | Role::Gateway) {
            if self.coordinator.is_empty() {
                return Err(ServerError::usage(
                    "CONFIG_INVALID",
                    format!("a {role} must know where the coordinator is"),
                    "give --coordinator HOST:PORT, the coordinator's --cluster-addr",
                ));
            }
            let is_address = |address: &&String| {
                let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                matches!(port.map(|(_, port)| port.parse()), Some(Ok(1u16..)))
            };
            if let Some(address) = self.coordinator.iter().find(|address| !is_address(address)) {
                return Err(ServerError::usage(
                    "CONFIG_INVALID",
                    format!("\"{address}\" is no address of a coordinator"),
                    "it is HOST:PORT, such as 127.0.0.1:7000; several have commas between them",
                ));
            }
        }
        if self.role == Role::Worker && self.cluster_addr.ip().is_unspecified() {
            return Err(ServerError::usage(
                "CONFIG_INVALID",
                format!("other processes cannot reach a worker at {}", self.cluster_addr),
                "give --cluster-addr the address of this machine in the cluster's network",
            ));
        }
        Ok(())
    }
}

/// Checks that a role takes all flags that were given.
fn fits_role(flags: &Flags, role: Role) -> Result<(), ServerError> {
    for argument in ServerConfig::command().get_arguments().filter(|argument| flags.has(argument.get_id().as_str())) {
        let heading = argument.get_help_heading().unwrap_or_default().to_lowercase();
        let roles: Vec<&str> = heading.split(", ").collect();
        if !roles.contains(&role.name()) {
            let flag = argument.get_long().unwrap_or_default();
            return Err(ServerError::usage(
                "CONFIG_INVALID",
                format!("role {} has no use for --{flag}", role.name()),
                format!("drop it, or choose --role {}", roles.join(" or ")),
            ));
        }
    }
    Ok(())
}

/// Of a hundred parts of the memory, those that the state may take: guests, clients, snapshots and what is copied take some, too.
const STATE_SHARE: u64 = 60;

/// Bytes of memory that this process may use at the very most, as far as the machine says so.
fn memory() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory();
    system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory).min(system.total_memory())
}

fn invalid(message: impl Into<String>) -> ServerError {
    ServerError::usage("CONFIG_INVALID", message, "see styx server --help for the keys and their values")
}
