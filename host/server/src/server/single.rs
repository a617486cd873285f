//! Everything in one process: log, worker, engine and both HTTP surfaces.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use styx_engine::EXECUTION_STACK_BYTES;
use tokio::task::JoinHandle;

use super::parts::{
    Surface, components, engine, executing, kafka_front, not_recovered, open_log, prepare, retention, snapshots,
    surface_url, traces, watch_disk,
};
use crate::admin::{self, Admin, Deploys};
use crate::admission::DiskWatch;
use crate::config::ServerConfig;
use crate::error::ServerError;
use crate::executing::{Executing, Noted};
use crate::gateway::{self, Ingress};
use crate::handle::Handle;
use crate::http::Shutdown;
use crate::nodes::{NodeRole, Own};
use crate::observe::{Recorder, Traced};
use crate::quarantine;
use crate::single::{Recovered, SingleNode, SingleOptions};

/// How long the last snapshot may take.
const LAST_SNAPSHOT: Duration = Duration::from_secs(30);

/// A running server.
pub struct Server {
    node: SingleNode,
    executing: Arc<Executing>,
    disk: Option<DiskWatch>,
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
    pub async fn start(config: &ServerConfig, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Server, ServerError> {
        let ingress = Surface::ingress(config).await?;
        // Before anything starts that would have to be stopped.
        let front = kafka_front(config, false).await?;
        let admin = Surface::admin(config).await?;
        let log = open_log(config, None)?;
        let engine = engine(config, config.threads, None)?;
        let components = components(config)?.compiled_by(engine.clone());
        let executing = executing(config)?;
        let recorder = Arc::new(Recorder::sampling(config.trace_sample.one_in()));
        let options = SingleOptions {
            threads: config.threads,
            stack_bytes: EXECUTION_STACK_BYTES,
            epoch_size_max: config.epoch_max_size,
            epoch_fuel_max: config.epoch_max_fuel,
            epoch_max_wait: config.epoch_max_wait,
            backlog_max: config.backlog_max,
            long_max: config.long_max,
            guest_log_rate: config.app_log_rate,
            state_max: config.state_max(),
            app_state_max: config.app_state,
            partitions: config.partitions,
            retention: retention(config),
            engine: config.modes.hash(engine.engine_hash()).0,
            modes: config.modes,
            snapshots: snapshots(config, &components),
            executing: Some(executing.clone()),
            quarantine_after: config.quarantine_after,
            controls: quarantine::skipped(&config.skip_tid),
            recorder: recorder.clone(),
        };
        let node = SingleNode::start(
            options,
            log,
            || Noted::new(Traced::new(engine.executor(), recorder.clone()), &executing),
            prepare(engine.clone(), components.clone()),
            progress,
        );
        let node = node.map_err(|error| not_recovered(&error))?;

        let disk = watch_disk(config, node.handle())?;
        let shutdown = Shutdown::default();
        let options = Arc::new(config.http());
        let (ingress_addr, admin_addr) = (ingress.address, admin.address);
        let beside = Some(surface_url(config, admin_addr));
        let calls = Ingress::beside(beside, node.handle().clone(), options.clone(), shutdown.clone());
        let own = Own::new(NodeRole::Single, config.name.clone().unwrap_or_else(|| "styx".into()))
            .with_data(config.data_dir.clone())
            .with_admin(Some(admin_addr.to_string()))
            .with_tallies(engine.tallies().clone())
            .with_ingress(surface_url(config, ingress_addr));
        let api = Admin::new(node.handle().clone(), options, shutdown.clone(), own)
            .with_deploys(Deploys { engine, components })
            .with_calls(calls.clone(), Some(ingress_addr));
        let traces = traces(config, "single", node.handle(), &shutdown)?;
        let front = front.map(|front| front.serve(calls.clone()));
        let mut serving =
            vec![ingress.serve(gateway::router(calls), &shutdown), admin.serve(admin::router(api), &shutdown)];
        serving.extend(front);
        serving.extend(traces);
        Ok(Server { node, executing, disk, ingress: ingress_addr, admin: admin_addr, shutdown, serving })
    }

    pub fn ingress_addr(&self) -> SocketAddr {
        self.ingress
    }

    /// Address of the admin port.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// Report of the recovery.
    pub fn recovered(&self) -> Recovered {
        self.node.recovered()
    }

    /// A handle for clients of this very process.
    pub fn handle(&self) -> &Handle {
        self.node.handle()
    }

    /// Lets what is under way come to its end, then stops.
    pub async fn stop(self) {
        self.shutdown.begin();
        self.node.withdraw();
        for serving in self.serving {
            let _ = serving.await; // It ends when told to; a panic in it was logged.
        }
        let node = self.node;
        // So that the next start need not replay the log. Whoever cannot wait kills, and loses nothing.
        if let Ok(Ok(taken)) = tokio::time::timeout(LAST_SNAPSHOT, node.handle().snapshot()).await {
            tracing::info!(epoch = taken.epoch, "a last snapshot was taken");
        }
        let disk = self.disk;
        let stop = move || {
            node.stop();
            drop(disk);
        };
        let _ = tokio::task::spawn_blocking(stop).await;
        self.executing.end();
    }
}
