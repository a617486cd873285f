//! A worker's process. It is not called by clients, only by other processes of the cluster.

use std::net::SocketAddr;

use styx_engine::Cluster;
use styx_protocol::modes::Modes;

use super::node::Identity;
use super::parts::{components, engine, failed, not_started};
use crate::cluster::worker::{WorkerNode, WorkerNodeOptions};
use crate::config::ServerConfig;
use crate::error::CliError;
use crate::transport::Options;

/// A running worker.
pub struct WorkerServer {
    worker: WorkerNode,
    identity: Identity,
    cluster: SocketAddr,
}

impl WorkerServer {
    /// Starts it; it becomes a member when the coordinator invites it.
    ///
    /// # Errors
    /// The address is taken, or the data directory cannot be used.
    pub async fn start(config: &ServerConfig) -> Result<WorkerServer, CliError> {
        let identity = Identity::open(&config.data_dir)?;
        let components = components(config)?;
        let room = Cluster::default();
        let engine = engine(config, config.threads, Some(room)).map_err(failed)?;
        let options = WorkerNodeOptions {
            node: identity.node,
            name: config.name.clone().unwrap_or_else(|| format!("worker-{}", identity.name())),
            network: Options { listen: Some(config.cluster_addr), ..Options::default() },
            coordinator: config.coordinator.clone().expect("checked with the configuration"),
            threads: config.threads,
            modes: Modes::default(),
            epoch_size_max: config.epoch_max_size,
            backlog_max: config.backlog_max,
            suspended_max: room.suspended,
        };
        let worker = WorkerNode::start(options, engine, components).await;
        let worker = worker.map_err(|error| not_started(&error, config.cluster_addr))?;
        let cluster = worker.address().expect("it listens");
        Ok(WorkerServer { worker, identity, cluster })
    }

    /// Where other processes reach it.
    pub fn cluster_addr(&self) -> SocketAddr {
        self.cluster
    }

    /// Its node id.
    pub fn node(&self) -> String {
        self.identity.name()
    }

    /// Stops. What was under way is the others' from now on.
    pub async fn stop(self) {
        let worker = self.worker;
        drop(tokio::task::spawn_blocking(move || worker.stop()).await);
    }
}
