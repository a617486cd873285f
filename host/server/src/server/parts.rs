//! What several roles are made of: addresses, log, engine.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use styx_durability::failure::is_damage;
use styx_durability::recovery::open_embedded;
use styx_engine::{Cluster, Compiler, Engine, EngineOptions};
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Digest;
use styx_protocol::replies::Retention;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::admin::Queries;
use crate::admission::DiskWatch;
use crate::components::ComponentStore;
use crate::config::{LogKind, ServerConfig, store_location};
use crate::error::ServerError;
use crate::executing::Executing;
use crate::handle::Handle;
use crate::http::{Addresses, ConnectionLimits, Shutdown, Tls, serve};
use crate::kafka::Front;
use crate::single::{Prepare, RecoveryPanic};
use crate::snapshots::SnapshotOptions;
use crate::traces::Exporter;
#[cfg(not(feature = "kafka"))]
use styx_storage::log::kafka::KafkaProblem;
#[cfg(feature = "kafka")]
use styx_storage::log::kafka::{KafkaLog, KafkaOptions};
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, LogError, MemoryDisk};
use styx_storage::snapshot::{ClusterMetadata, Retention as KeepSnapshots, SnapshotError};
use styx_transport::listen::listen;

/// The server cannot start.
pub(super) fn failed(error: impl std::fmt::Display) -> ServerError {
    ServerError::new("START", format!("{error:#}"), "")
}

/// A node of a cluster cannot start.
pub(super) fn not_started(error: &anyhow::Error, address: SocketAddr) -> ServerError {
    match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied) => {
            cannot_listen(address, error, "--cluster-addr")
        }
        _ => not_recovered(error),
    }
}

/// What is there cannot be begun with.
pub(super) fn not_recovered(error: &anyhow::Error) -> ServerError {
    let (code, hint) = if is_damage(error) {
        let hint = "no snapshot that is kept is whole, and nothing was changed: `styx snapshots verify` names what is damaged, to \
                    be put back from a copy; with an export, `styx snapshots import` begins anew";
        ("SNAPSHOT_DAMAGED", hint)
    } else if error.is::<RecoveryPanic>() {
        let hint = "nothing was changed: start the release that wrote the log; or begin again with a snapshot by `styx snapshots \
                    restore`, which sets aside what came after it; and report this line";
        ("RECOVERY", hint)
    } else {
        ("RECOVERY", "nothing was changed")
    };
    ServerError::new(code, format!("{error:#}"), hint)
}

fn cannot_listen(address: SocketAddr, error: &dyn std::fmt::Display, flag: &str) -> ServerError {
    ServerError::new(
        "ADDRESS",
        format!("cannot listen on {address}: {error}"),
        format!("choose another address with {flag}, or stop what listens there"),
    )
}

/// An HTTP surface on a listener of its own.
pub(super) struct Surface {
    pub(super) address: SocketAddr,
    listener: TcpListener,
    /// Of each address.
    connections_max: usize,
    tls: Option<Tls>,
}

impl Surface {
    /// Listens for people.
    pub(super) async fn admin(config: &ServerConfig) -> Result<Self, ServerError> {
        let address = config.admin_addr.expect("only a worker may have none");
        Surface::bind(config, address, "--admin-addr").await
    }

    /// Listens for clients.
    pub(super) async fn ingress(config: &ServerConfig) -> Result<Self, ServerError> {
        Surface::bind(config, config.ingress_addr, "--ingress-addr").await
    }

    /// Listens; nothing is answered yet.
    async fn bind(config: &ServerConfig, address: SocketAddr, flag: &str) -> Result<Self, ServerError> {
        config.access.check(address, flag)?;
        if config.tls_cert.is_none() && !address.ip().is_loopback() {
            tracing::warn!("tokens and calls travel unencrypted to {flag} {address}: give --tls-cert and --tls-key");
        }
        let listener = listen(address).await.map_err(|error| cannot_listen(address, &error, flag))?;
        let tls = config.tls().map(Tls::open).transpose()?;
        let connections_max = config.connections_per_address;
        Ok(Surface { address: listener.local_addr().map_err(failed)?, listener, connections_max, tls })
    }

    /// Answers from now on.
    pub(super) fn serve(self, router: axum::Router, shutdown: &Shutdown) -> JoinHandle<()> {
        let limits = ConnectionLimits { addresses: Addresses::new(self.connections_max), ..Default::default() };
        tokio::spawn(serve(self.listener, router, shutdown.clone(), limits, self.tls))
    }
}

/// Where a surface is, as it was bound.
pub(super) fn surface_url(config: &ServerConfig, address: SocketAddr) -> String {
    let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// How long replies are remembered.
pub(super) fn retention(config: &ServerConfig) -> Retention {
    Retention {
        age_us: config.reply_retention.as_micros() as u64,
        count: config.reply_max,
        bytes: config.reply_bytes_max,
    }
}

pub(super) fn snapshots(config: &ServerConfig, components: &ComponentStore) -> Option<SnapshotOptions> {
    let place = config.store.as_ref()?;
    Some(SnapshotOptions {
        place: store_location(place),
        interval: config.snapshot_interval,
        retention: KeepSnapshots {
            epochs_min: config.snapshot_keep,
            age_us: config.snapshot_keep_for.as_micros() as u64,
            grace_us: config.snapshot_grace.as_micros() as u64,
        },
        runtime: tokio::runtime::Handle::current().into(),
        components: components.clone(),
    })
}

/// Where threads note what they execute, and what earlier lives left there. The directory is this process's alone by now.
pub(super) fn executing(config: &ServerConfig) -> Result<Arc<Executing>, ServerError> {
    Executing::begin(&config.data_dir).map_err(|error| failed(format!("{}: {error}", config.data_dir.display())))
}

/// The components' directory.
pub(super) fn components(config: &ServerConfig) -> Result<ComponentStore, ServerError> {
    ComponentStore::open(config.data_dir.join("components")).map_err(failed)
}

/// The log that the configuration names; `cluster_metadata` if other coordinators may have it after this one.
pub(super) fn open_log(
    config: &ServerConfig,
    cluster_metadata: Option<&ClusterMetadata>,
) -> Result<Box<dyn Log>, ServerError> {
    let opened: Result<Box<dyn Log>, LogError> = match &config.log {
        LogKind::Memory => Ok(Box::new(MemoryDisk::default().open().expect("a new disk is not open elsewhere"))),
        LogKind::Embedded => embedded_log(config).map(|log| Box::new(log) as Box<dyn Log>),
        #[cfg(not(feature = "kafka"))]
        LogKind::Kafka { .. } => {
            let _ = cluster_metadata; // which only this log asks for
            Err(LogError::Kafka(KafkaProblem::Absent))
        }
        #[cfg(feature = "kafka")]
        LogKind::Kafka { brokers, topic } => {
            let replication = config.kafka_replication as i32;
            let identity = identity(&config.data_dir, cluster_metadata)?;
            let options = KafkaOptions {
                replication,
                settings: config.kafka_settings(),
                ..KafkaOptions::new(brokers, topic, identity)
            };
            KafkaLog::open(options).map(|log| Box::new(log) as Box<dyn Log>)
        }
    };
    opened.map_err(|error| log_error(&error))
}

/// How long a log is waited for that another process has open: one that was killed, and is still being taken apart.
const LOCKED_MAX: Duration = Duration::from_secs(2);

/// The log on local files. Damage in it is passed over if the newest snapshot goes on behind it.
fn embedded_log(config: &ServerConfig) -> Result<EmbeddedLog, LogError> {
    let (directory, options) = (log_directory(config), EmbeddedOptions::default());
    let until = Instant::now() + LOCKED_MAX;
    let mut open = |needed| {
        let mut opened = EmbeddedLog::open_from(&directory, options, needed);
        while matches!(opened, Err(LogError::Locked(_))) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            opened = EmbeddedLog::open_from(&directory, options, needed);
        }
        opened
    };
    let place = config.store.as_ref().map(store_location);
    let runtime = tokio::runtime::Handle::current().into();
    open_embedded(&mut open, place.as_ref().map(|place| (place, &runtime)))
}

/// Has requests refused while the disk of the log is nearly full, if this process has a log on a disk.
pub(super) fn watch_disk(config: &ServerConfig, handle: &Handle) -> Result<Option<DiskWatch>, ServerError> {
    if config.log != LogKind::Embedded {
        return Ok(None);
    }
    let directory = log_directory(config);
    let watch = DiskWatch::start(&directory, config.disk_reserve, handle.admission().clone());
    watch.map(Some).map_err(|error| failed(format!("{}: {error}", directory.display())))
}

fn log_directory(config: &ServerConfig) -> PathBuf {
    config.data_dir.join("log")
}

/// Why a log cannot be used.
pub fn log_error(error: &LogError) -> ServerError {
    let code = match error {
        LogError::Locked(_) => "LOG_LOCKED",
        LogError::Corrupt { .. } => "LOG_CORRUPT",
        LogError::OlderFormat { .. } => "LOG_OLDER_FORMAT",
        LogError::NewerFormat { .. } => "LOG_NEWER_FORMAT",
        LogError::FullDisk(_) => "DISK_FULL",
        LogError::Removed(_) => "LOG_REMOVED",
        LogError::Fenced { .. } => "LOG_FENCED",
        LogError::Kafka(_) => "KAFKA",
        _ => "LOG",
    };
    let hint = match error {
        LogError::Corrupt { .. } => {
            "or `styx snapshots restore`: it begins again with the newest snapshot, and what came after that is set aside"
        }
        _ => "",
    };
    ServerError::new(code, error.to_string(), hint)
}

/// Identity of the cluster to a log that servers keep: a number in the data directory, chosen at the first start; by
/// all that may coordinate together, if there are several.
#[cfg_attr(not(feature = "kafka"), allow(dead_code))]
fn identity(data_dir: &Path, cluster_metadata: Option<&ClusterMetadata>) -> Result<u128, ServerError> {
    let file = data_dir.join("cluster-id");
    let damaged =
        || ServerError::new("START", format!("{}: this is no cluster id", file.display()), "restore it from a copy");
    let own = match std::fs::read_to_string(&file) {
        Ok(text) => Some(u128::from_str_radix(text.trim(), 16).map_err(|_| damaged())?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(format!("{}: {error}", file.display()))),
    };
    let proposal = own.unwrap_or_else(rand::random);
    let agreed = cluster_metadata.map_or(Ok(proposal), |cluster_metadata| {
        cluster_metadata.cluster(proposal).map_err(|error| store_error(&error))
    })?;
    match own {
        Some(own) if own != agreed => {
            let (file, store) = (file.display(), cluster_metadata.map_or("", ClusterMetadata::url));
            return Err(ServerError::new(
                "OTHER_CLUSTER",
                format!(
                    "{file} is of cluster {own:032x}, and the coordinators at {store} are of cluster {agreed:032x}"
                ),
                "give each cluster a store and data directories of its own",
            ));
        }
        Some(_) => {}
        None => {
            std::fs::create_dir_all(data_dir).map_err(failed)?;
            // Whole or not at all: a start that is interrupted must not leave half an identity.
            let written = tempfile::NamedTempFile::new_in(data_dir).map_err(failed)?;
            std::fs::write(written.path(), format!("{agreed:032x}\n")).map_err(failed)?;
            written.as_file().sync_all().map_err(failed)?;
            written.persist(&file).map_err(failed)?;
        }
    }
    Ok(agreed)
}

/// Why the store of snapshots cannot be used.
pub(super) fn store_error(error: &SnapshotError) -> ServerError {
    ServerError::new("SNAPSHOT_STORE", error.to_string(), "")
}

/// Connects the front for Kafka clients, if there is to be one; others may be beside it if `shared`.
pub(super) async fn kafka_front(config: &ServerConfig, shared: bool) -> Result<Option<Front>, ServerError> {
    let Some(brokers) = config.kafka.clone() else { return Ok(None) };
    let (partitions, replication) = (config.kafka_partitions as i32, config.kafka_replication as i32);
    let settings = config.kafka_settings();
    let options = crate::kafka::KafkaOptions { brokers, settings, partitions, replication, shared };
    let front = Front::connect(options).await;
    front.map(Some).map_err(|error| ServerError::new("KAFKA", error.to_string(), ""))
}

/// Sends traces of the requests that this process takes, if there is somebody to send them to.
pub(super) fn traces(
    config: &ServerConfig,
    role: &str,
    handle: &Handle,
    shutdown: &Shutdown,
) -> Result<Option<JoinHandle<()>>, ServerError> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(None) };
    let queries = Queries { handle: handle.clone(), shutdown: shutdown.clone() };
    let headers = config.otlp_headers.as_deref().map(crate::traces::headers).transpose()?.unwrap_or_default();
    let exporter = Exporter::new(endpoint, headers, config.name.as_deref().unwrap_or(role), queries)?;
    Ok(Some(tokio::spawn(exporter.run())))
}

/// The engine of this process; `cluster` if its guests may have to wait for other workers.
pub(super) fn engine(
    config: &ServerConfig,
    threads: usize,
    cluster: Option<Cluster>,
) -> Result<Arc<Engine>, ServerError> {
    // Untrusted code is compiled in a child, where its appetite for time and memory is bounded.
    let compiler = Compiler::Child(compiler_binary().map_err(failed)?);
    Engine::new(EngineOptions {
        cache_dir: config.cache_dir.clone(),
        determinism: config.determinism_check,
        executors: threads + 1,
        compiler,
        cluster,
        long: Some(config.long()),
        guest_memory: usize::try_from(config.guest_memory).unwrap_or(usize::MAX),
    })
    .map_err(|error| ServerError {
        hint: if space_is_limited() { "lift the limit on address space (`ulimit -v unlimited`): guests get terabytes of it, hardly any of it memory".into() } else { String::new() },
        ..failed(format!("{error:#}"))
    })
}

/// Whether this process may have only so much address space.
fn space_is_limited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to a value of its own.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY }
}

/// This binary, or, in a test, the one beside it.
fn compiler_binary() -> anyhow::Result<std::path::PathBuf> {
    let current = std::env::current_exe()?;
    if current.file_stem().is_some_and(|name| name == "styx") {
        return Ok(current);
    }
    let beside = current.ancestors().skip(1).map(|directory| directory.join("styx")).find(|path| path.is_file());
    beside.ok_or_else(|| anyhow::anyhow!("there is no program `styx` near {}", current.display()))
}

/// Loads the components of a catalog before the first transaction that may call them, and drops those that only
/// catalogs have named which no transaction runs under any more.
pub(super) fn prepare(engine: Arc<Engine>, components: ComponentStore) -> Prepare {
    let mut in_use: Vec<(Weak<Catalog>, BTreeSet<Digest>)> = Vec::new();
    Box::new(move |catalog: &Arc<Catalog>| {
        let named: BTreeSet<Digest> = catalog.operators().map(|operator| operator.component).collect();
        for digest in &named {
            engine.load(*digest, &components.path(*digest))?;
        }
        in_use.retain(|(catalog, _)| catalog.strong_count() > 0);
        in_use.push((Arc::downgrade(catalog), named));
        engine.retain(|digest| in_use.iter().any(|(_, named)| named.contains(&digest)));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use styx_storage::snapshot::Memory;

    use super::*;

    #[test]
    fn coordinators_that_share_a_store_are_one_cluster_and_no_other() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let memory = Memory::default();
        let cluster_metadata =
            ClusterMetadata::open(&styx_storage::snapshot::StoreLocation::in_memory(&memory), runtime.handle())
                .unwrap();
        let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let of =
            |at: usize, cluster_metadata: Option<&ClusterMetadata>| identity(directories[at].path(), cluster_metadata);
        // One that was there before the store was shared brings its own.
        let first = of(0, None).unwrap();
        assert_eq!(of(0, Some(&cluster_metadata)).unwrap(), first);
        assert_eq!(of(1, Some(&cluster_metadata)).unwrap(), first);
        assert_eq!((of(1, None).unwrap(), of(1, Some(&cluster_metadata)).unwrap()), (first, first));
        let other = of(2, None).unwrap();
        assert_ne!(other, first);
        let refused = of(2, Some(&cluster_metadata)).unwrap_err();
        assert_eq!(refused.code, "OTHER_CLUSTER");
        for number in [first, other] {
            assert!(refused.message.contains(&format!("{number:032x}")), "{refused}");
        }
        std::fs::write(directories[1].path().join("cluster-id"), "nonsense").unwrap();
        assert_eq!(of(1, Some(&cluster_metadata)).unwrap_err().code, "START");
    }
}
