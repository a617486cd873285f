//! Processes: one that is everything, or one part of a cluster each.

mod candidate;
mod cluster_tls;
mod coordinator;
mod gateway;
mod node;
mod parts;
mod single;
mod worker;

pub use coordinator::CoordinatorServer;
pub use gateway::GatewayServer;
pub use single::Server;
pub use worker::WorkerServer;

pub use parts::log_error;

use std::pin::Pin;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::clock;
use crate::config::{Role, ServerConfig};
use crate::error::ServerError;

/// A future of this crate. An `async fn` is compiled where it is awaited: all of the server once more in each program.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A running process of any role.
pub enum Process {
    /// Everything.
    Single(Server),
    Coordinator(CoordinatorServer),
    Worker(WorkerServer),
    Gateway(GatewayServer),
}

impl Process {
    /// Starts what the configuration says. `progress` hears of recovery, where there is one before
    /// the process serves: epochs replayed, and epochs in all.
    ///
    /// # Errors
    /// What is wrong, before anything is touched, where that can be known.
    pub fn start<'a>(
        config: &'a ServerConfig,
        progress: &'a (dyn Fn(u64, u64) + Sync),
    ) -> Boxed<'a, Result<Process, ServerError>> {
        Box::pin(Process::start_here(config, progress))
    }

    async fn start_here(config: &ServerConfig, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Process, ServerError> {
        clock::check(SystemTime::now())?;
        config.access.open().await?;
        let process = match config.role {
            Role::Single => Process::Single(Server::start(config, progress).await?),
            Role::Coordinator => Process::Coordinator(CoordinatorServer::start(config).await?),
            Role::Worker => Process::Worker(WorkerServer::start(config).await?),
            Role::Gateway => Process::Gateway(GatewayServer::start(config).await?),
        };
        if config.access.is_open() && config.admin_addr.is_some() {
            tracing::warn!(
                "whoever reaches the HTTP ports may do everything until there are tokens: --admin-token-file lets in who has one"
            );
        }
        Ok(process)
    }

    /// Addresses of the process, for programs.
    pub fn ready(&self) -> Value {
        let mut ready = match self {
            Process::Single(server) => json!({
                "role": "single",
                "ingress": server.ingress_addr(),
                "admin": server.admin_addr(),
                "snapshot_epoch": server.recovered().snapshot,
                "epochs_replayed": server.recovered().epochs,
            }),
            Process::Coordinator(server) => json!({
                "role": "coordinator",
                "standby": server.standby(),
                "cluster": server.cluster_addr(),
                "admin": server.admin_addr(),
            }),
            Process::Worker(server) => json!({
                "role": "worker",
                "cluster": server.cluster_addr(),
                "node": server.node().to_string(),
                "admin": server.admin_addr(),
            }),
            Process::Gateway(server) => json!({
                "role": "gateway",
                "ingress": server.ingress_addr(),
                "admin": server.admin_addr(),
            }),
        };
        ready["ready"] = true.into();
        ready
    }

    /// Addresses of the process, for people, and what to do next.
    pub fn summary(&self, config: &ServerConfig) -> (String, String) {
        let data = config.data_dir.display();
        let (coordinator, scheme) = (config.coordinator.join(" or "), config.scheme());
        match self {
            Process::Single(server) => (
                format!(
                    "calls at {scheme}://{}, apps at {scheme}://{}, data in {data}",
                    server.ingress_addr(),
                    server.admin_addr()
                ),
                "deploy an app with `styx deploy DIR`; stop with Ctrl-C".into(),
            ),
            Process::Coordinator(server) => (
                format!(
                    "coordinator at {}, {}, data in {data}",
                    server.cluster_addr(),
                    if server.standby() {
                        "stands by".to_owned()
                    } else {
                        format!("apps at {scheme}://{}", server.admin_addr())
                    }
                ),
                format!(
                    "add workers and gateways with `styx server --role worker|gateway --coordinator {}`",
                    server.cluster_addr()
                ),
            ),
            Process::Worker(server) => (
                format!("worker {} at {}, data in {data}", server.node(), server.cluster_addr()),
                format!("joins the cluster at {coordinator}; stop with Ctrl-C"),
            ),
            Process::Gateway(server) => (
                format!("calls at {scheme}://{}, health at {scheme}://{}", server.ingress_addr(), server.admin_addr()),
                format!("for the cluster at {coordinator}; stop with Ctrl-C"),
            ),
        }
    }

    /// Waits until it can do nothing more by itself, and says why; most never can.
    pub fn ended(&self) -> Boxed<'_, ServerError> {
        Box::pin(self.ended_here())
    }

    async fn ended_here(&self) -> ServerError {
        match self {
            Process::Worker(server) => server.ended().await,
            Process::Coordinator(server) => server.ended().await,
            Process::Single(_) | Process::Gateway(_) => std::future::pending().await,
        }
    }

    /// Lets what is under way come to its end, then stops.
    pub fn stop(self) -> Boxed<'static, ()> {
        Box::pin(self.stop_here())
    }

    async fn stop_here(self) {
        match self {
            Process::Single(server) => server.stop().await,
            Process::Coordinator(server) => server.stop().await,
            Process::Worker(server) => server.stop().await,
            Process::Gateway(server) => server.stop().await,
        }
    }
}
