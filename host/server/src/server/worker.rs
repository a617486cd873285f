//! A worker's process. It is not called by clients, only by other processes of the cluster; people
//! may watch it.

use std::net::SocketAddr;
use std::sync::Arc;

use styx_engine::Cluster;
use tokio::task::JoinHandle;

use super::cluster_tls::network;
use super::node::Identity;
use super::parts::{Surface, components, engine, executing, not_started};
use crate::admin::{self, Admin};
use crate::cluster::worker::{WorkerNode, WorkerNodeOptions};
use crate::config::ServerConfig;
use crate::error::ServerError;
use crate::executing::Executing;
use crate::http::Shutdown;
use crate::nodes::{NodeRole, Own, Reporter};
use crate::observe::Recorder;
use styx_transport::NodeKind;

/// A running worker.
pub struct WorkerServer {
    worker: WorkerNode,
    executing: Arc<Executing>,
    identity: Identity,
    cluster: SocketAddr,
    coordinator: String,
    admin: Option<SocketAddr>,
    shutdown: Shutdown,
    serving: Vec<JoinHandle<()>>,
}

impl WorkerServer {
    /// Starts it; it becomes a member when the coordinator invites it.
    ///
    /// # Errors
    /// The address is taken, or the data directory cannot be used.
    pub async fn start(config: &ServerConfig) -> Result<WorkerServer, ServerError> {
        let network = network(config, NodeKind::Worker)?;
        let identity = Identity::open(&config.data_dir, network.certificates.as_ref().map(|own| own.node))?;
        let admin = match config.admin_addr {
            Some(_) => Some(Surface::admin(config).await?),
            None => None,
        };
        let room = Cluster::default();
        let engine = engine(config, config.threads, Some(room))?;
        let components = components(config)?.compiled_by(engine.clone());
        let executing = executing(config)?;
        let name = config.name.clone().unwrap_or_else(|| format!("worker-{}", identity.name()));
        let options = WorkerNodeOptions {
            node: identity.node,
            name: name.clone(),
            network,
            coordinators: config.coordinator.clone(),
            threads: config.threads,
            modes: config.modes,
            epoch_size_max: config.epoch_max_size,
            epoch_fuel_max: config.epoch_max_fuel,
            backlog_max: config.backlog_max,
            suspended_max: room.suspended,
            long_max: config.long_max,
            guest_log_rate: config.app_log_rate,
            state_max: config.state_max(),
            executing: executing.clone(),
            recorder: Arc::new(Recorder::sampling(config.trace_sample.one_in())),
        };
        let tallies = engine.tallies().clone();
        let worker = WorkerNode::start(options, engine, components).await;
        let worker = worker.map_err(|error| not_started(&error, config.cluster_addr))?;
        let cluster = worker.address().expect("it listens");
        let shutdown = Shutdown::default();
        let admin_addr = admin.as_ref().map(|admin| admin.address);
        let own = Own::new(NodeRole::Worker, name)
            .with_data(config.data_dir.clone())
            .with_tallies(tallies)
            .with_admin(admin_addr.map(|address| address.to_string()));
        let api = Admin::new(worker.handle().clone(), Arc::new(config.http()), shutdown.clone(), own.clone());
        let reporter = Reporter { own, network: worker.network().clone(), shutdown: shutdown.clone() };
        let mut serving = vec![tokio::spawn(reporter.run())];
        serving.extend(admin.map(|admin| admin.serve(admin::worker_router(api), &shutdown)));
        let coordinator = config.coordinator.join(" or ");
        Ok(WorkerServer { worker, executing, identity, cluster, coordinator, admin: admin_addr, shutdown, serving })
    }

    /// Address for the cluster's other processes.
    pub fn cluster_addr(&self) -> SocketAddr {
        self.cluster
    }

    /// Address of the admin port, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Waits until the cluster refuses it for good, and says why.
    pub async fn ended(&self) -> ServerError {
        ServerError::refused(&format!("the coordinator at {}", self.coordinator), &self.worker.refused().await)
    }

    /// Its node id.
    pub fn node(&self) -> String {
        self.identity.name()
    }

    /// Hands over to the other workers, then stops.
    pub async fn stop(self) {
        self.shutdown.begin();
        for serving in self.serving {
            let _ = serving.await; // It ends when told to; a panic in it was logged.
        }
        let worker = self.worker;
        let _ = tokio::task::spawn_blocking(move || worker.leave()).await;
        self.executing.end();
    }
}
