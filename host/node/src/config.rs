//! Configuration of the server: flags over environment over `styx.toml` over defaults.
//!
//! The only module that reads the environment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Config, Environment, File, FileFormat};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// Everything that can be set, section `[server]`. Every field is optional in each layer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ServerFlags {
    /// Directory of the log, the components and the compiled code [default: ./.styx]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where clients call functions [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub ingress_addr: Option<SocketAddr>,
    /// Where apps are deployed and watched [default: 127.0.0.1:9070]
    #[arg(long, value_name = "ADDR")]
    pub admin_addr: Option<SocketAddr>,
    /// Where requests are made durable: `embedded`, or `memory` to lose everything at exit [default: embedded]
    #[arg(long, value_enum)]
    pub log: Option<LogKind>,
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

/// Implementations of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// Files in the data directory.
    Embedded,
    /// None.
    Memory,
}

/// The configuration in force.
#[derive(Clone, Debug, Serialize)]
pub struct ServerConfig {
    /// Directory of the log, the components and the compiled code.
    pub data_dir: PathBuf,
    /// Where clients call functions.
    pub ingress_addr: SocketAddr,
    /// Where apps are deployed and watched.
    pub admin_addr: SocketAddr,
    /// Where requests are made durable.
    pub log: LogKind,
    /// Threads that execute transactions.
    pub threads: usize,
    /// Most transactions of an epoch.
    pub epoch_max_size: usize,
    /// How long an epoch may fill while earlier ones are not yet durable.
    #[serde(with = "humantime_serde")]
    pub epoch_max_wait: Duration,
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

const KEYS: [&str; 11] = [
    "data_dir",
    "ingress_addr",
    "admin_addr",
    "log",
    "threads",
    "epoch_max_size",
    "epoch_max_wait",
    "backlog_max",
    "reply_retention",
    "reply_max",
    "determinism_check",
];

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
            && let Some(unknown) = section.keys().find(|key| !KEYS.contains(&key.as_str()))
        {
            let nearest = KEYS
                .iter()
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
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let config = ServerConfig {
            data_dir: flags.data_dir.or(below.data_dir).unwrap_or_else(|| ".styx".into()),
            ingress_addr: flags.ingress_addr.or(below.ingress_addr).unwrap_or_else(|| ([127, 0, 0, 1], 8080).into()),
            admin_addr: flags.admin_addr.or(below.admin_addr).unwrap_or_else(|| ([127, 0, 0, 1], 9070).into()),
            log: flags.log.or(below.log).unwrap_or(LogKind::Embedded),
            threads: flags.threads.or(below.threads).unwrap_or(cores),
            epoch_max_size: flags.epoch_max_size.or(below.epoch_max_size).unwrap_or(1000),
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
        ] {
            if value == 0 {
                return Err(invalid(&format!("{key} must be at least 1")));
            }
        }
        if config.threads > 64 {
            return Err(invalid("threads must be at most 64"));
        }
        Ok(config)
    }
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
