//! The coordinator's process: the log, the epochs, and the admin endpoints of the cluster.

use std::net::SocketAddr;

use tokio::task::JoinHandle;

use super::parts::{Surface, components, engine, failed, open_log, retention, snapshots, watch_disk};
use crate::admin;
use crate::cluster::coordinator::{CoordinatorNode, CoordinatorNodeOptions, PATIENCE};
use crate::config::ServerConfig;
use crate::error::CliError;
use crate::http::Shutdown;
use crate::services::{Deploys, HttpOptions, Services};
use crate::transport::Options;
use crate::worker::{DiskWatch, WorkerOptions};

/// A running coordinator.
pub struct CoordinatorServer {
    node: CoordinatorNode,
    disk: Option<DiskWatch>,
    cluster: SocketAddr,
    admin: SocketAddr,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
}

impl CoordinatorServer {
    /// Starts it; the cluster serves once its workers are there.
    ///
    /// # Errors
    /// An address is taken, or the log cannot be opened.
    pub async fn start(config: &ServerConfig) -> Result<CoordinatorServer, CliError> {
        let admin = Surface::admin(config).await?;
        let log = open_log(config)?;
        let components = components(config)?;
        // It executes nothing, but it checks what is deployed.
        let engine = engine(config, 1, None).map_err(failed)?;
        let options = CoordinatorNodeOptions {
            name: config.name.clone().unwrap_or_else(|| "coordinator".into()),
            network: Options { listen: Some(config.cluster_addr), ..Options::default() },
            workers: config.workers,
            partitions: WorkerOptions::default().partitions,
            epoch_max_wait: config.epoch_max_wait,
            backlog_max: config.backlog_max,
            patience: PATIENCE,
            retention: retention(config),
            snapshots: snapshots(config, &components),
            admin: Some(admin.address.to_string()),
        };
        let node = CoordinatorNode::start(options, log, engine.clone(), components.clone()).await;
        let node = node.map_err(|error| super::parts::not_started(&error, config.cluster_addr))?;
        let disk = watch_disk(config, node.handle())?;
        let cluster = node.address().expect("it listens");
        let shutdown = Shutdown::default();
        let deploys = Deploys { engine, components };
        let services = Services::new(node.handle().clone(), Some(deploys), HttpOptions::default(), shutdown.clone());
        let admin_addr = admin.address;
        let serving = admin.serve(admin::router(services), &shutdown);
        Ok(CoordinatorServer { node, disk, cluster, admin: admin_addr, shutdown, serving })
    }

    /// Where workers and gateways reach it.
    pub fn cluster_addr(&self) -> SocketAddr {
        self.cluster
    }

    /// Where apps are deployed and watched.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// Makes durable what was cut, then stops.
    pub async fn stop(self) {
        self.shutdown.begin();
        drop(self.serving.await);
        let node = self.node;
        let disk = self.disk;
        let stop = move || {
            node.stop();
            drop(disk);
        };
        drop(tokio::task::spawn_blocking(stop).await);
    }
}
