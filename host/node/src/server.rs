//! Everything in one process: log, worker, engine and both HTTP surfaces.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use styx_engine::{Compiler, Determinism, EXECUTION_STACK_BYTES, Engine, EngineOptions};
use styx_protocol::catalog::Catalog;
use styx_protocol::replies::Retention;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::components::ComponentStore;
use crate::config::{LogKind, ServerConfig};
use crate::error::CliError;
use crate::http::{ConnectionLimits, Shutdown, serve};
use crate::log::{EmbeddedLog, EmbeddedOptions, Log, LogError, MemoryDisk};
use crate::services::{Deploys, HttpOptions, Services};
use crate::worker::{Handle, Prepare, Recovered, Worker, WorkerOptions};
use crate::{admin, gateway};

/// A running server.
pub struct Server {
    worker: Worker,
    ingress: SocketAddr,
    admin: SocketAddr,
    shutdown: Shutdown,
    serving: Vec<JoinHandle<()>>,
}

impl Server {
    /// Recovers and serves. `progress` hears of recovery: epochs replayed, and epochs in all.
    ///
    /// # Errors
    /// What is wrong, before anything is touched, where that can be known.
    pub async fn start(config: &ServerConfig, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Server, CliError> {
        let ingress = bind(config.ingress_addr, "--ingress-addr").await?;
        let admin_listener = bind(config.admin_addr, "--admin-addr").await?;
        let failed = |error: &dyn std::fmt::Display| CliError::new("START", error.to_string(), "");
        let log = open_log(config)?;
        let components = ComponentStore::open(config.data_dir.join("components")).map_err(|error| failed(&error))?;
        let engine = engine(config).map_err(|error| failed(&error))?;
        let options = WorkerOptions {
            threads: config.threads,
            stack_bytes: EXECUTION_STACK_BYTES,
            epoch_size_max: config.epoch_max_size,
            epoch_max_wait: config.epoch_max_wait,
            backlog_max: config.backlog_max,
            retention: Retention {
                age_us: config.reply_retention.as_micros() as u64,
                count: config.reply_max,
                ..Retention::default()
            },
            engine: engine.engine_hash(),
            ..WorkerOptions::default()
        };
        let worker =
            Worker::start(options, log, || engine.executor(), prepare(engine.clone(), components.clone()), progress);
        let worker = worker.map_err(|error| CliError::new("RECOVERY", format!("{error:#}"), "nothing was changed"))?;

        let shutdown = Shutdown::default();
        let services =
            Services::new(worker.handle().clone(), Some(Deploys { engine, components }), HttpOptions::default(), shutdown.clone());
        let address = |listener: &TcpListener| listener.local_addr().map_err(|error| failed(&error));
        let (ingress_addr, admin_addr) = (address(&ingress)?, address(&admin_listener)?);
        let serving = vec![
            tokio::spawn(serve(
                ingress,
                gateway::router(services.clone()),
                shutdown.clone(),
                ConnectionLimits::default(),
            )),
            tokio::spawn(serve(admin_listener, admin::router(services), shutdown.clone(), ConnectionLimits::default())),
        ];
        Ok(Server { worker, ingress: ingress_addr, admin: admin_addr, shutdown, serving })
    }

    /// Where clients call functions.
    pub fn ingress_addr(&self) -> SocketAddr {
        self.ingress
    }

    /// Where apps are deployed and watched.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// What recovery found.
    pub fn recovered(&self) -> Recovered {
        self.worker.recovered()
    }

    /// The worker.
    pub fn handle(&self) -> &Handle {
        self.worker.handle()
    }

    /// Lets what is under way come to its end, then stops.
    pub async fn stop(self) {
        self.shutdown.begin();
        for serving in self.serving {
            drop(serving.await);
        }
        let worker = self.worker;
        drop(tokio::task::spawn_blocking(move || worker.stop()).await);
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| {
        CliError::new(
            "ADDRESS",
            format!("cannot listen on {address}: {error}"),
            format!("choose another address with {flag}, or stop what listens there"),
        )
    })
}

fn open_log(config: &ServerConfig) -> Result<Box<dyn Log>, CliError> {
    if config.log == LogKind::Memory {
        return Ok(Box::new(MemoryDisk::default().open().expect("a new disk is not open elsewhere")));
    }
    let log = EmbeddedLog::open(&config.data_dir.join("log"), EmbeddedOptions::default()).map_err(|error| {
        let code = match &error {
            LogError::Locked(_) => "LOG_LOCKED",
            LogError::Corrupt { .. } => "LOG_CORRUPT",
            LogError::NewerFormat { .. } => "LOG_NEWER_FORMAT",
            LogError::FullDisk(_) => "DISK_FULL",
            _ => "LOG",
        };
        CliError::new(code, error.to_string(), "")
    })?;
    Ok(Box::new(log))
}

fn engine(config: &ServerConfig) -> anyhow::Result<Arc<Engine>> {
    let determinism = match config.determinism_check.as_str() {
        "off" => Determinism::Off,
        "all" => Determinism::All,
        every => match every.parse() {
            Ok(every) if every > 0 => Determinism::Sample(every),
            _ => anyhow::bail!("determinism_check is \"{every}\"; it can be off, all, or a number such as 1000"),
        },
    };
    // Untrusted code is compiled in a child, where its appetite for time and memory is bounded.
    let compiler = Compiler::Child(compiler_binary()?);
    Engine::new(EngineOptions {
        cache_dir: config.data_dir.join("cache"),
        determinism,
        executors: config.threads + 1,
        compiler,
        cluster: None,
    })
}

/// This binary, or, in a test, the one beside it.
fn compiler_binary() -> anyhow::Result<std::path::PathBuf> {
    let current = std::env::current_exe()?;
    if current.file_stem().is_some_and(|name| name == "styx") {
        return Ok(current);
    }
    let beside = current.ancestors().skip(1).map(|directory| directory.join("styx")).find(|path| path.is_file());
    beside.ok_or_else(|| anyhow::anyhow!("there is no styx binary near {}", current.display()))
}

/// Loads the components of a catalog before the first transaction that may call them.
fn prepare(engine: Arc<Engine>, components: ComponentStore) -> Prepare {
    Box::new(move |catalog: &Catalog| {
        for operator in catalog.operators() {
            let path = components.path(operator.component);
            engine.load(operator.component, Path::new(&path))?;
        }
        Ok(())
    })
}
