//! A gateway's process: takes calls and asks the workers. It keeps nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cluster_tls::network;
use super::parts::{Surface, failed, kafka_front, surface_url, traces};
use crate::admin::{self, Admin};
use crate::cluster::gateway::{GatewayNode, GatewayNodeOptions};
use crate::config::ServerConfig;
use crate::error::ServerError;
use crate::gateway::{self, Ingress};
use crate::handle::Failure;
use crate::http::{ApiError, Shutdown};
use crate::nodes::{NodeRole, Own, Reporter};
use crate::observe::Recorder;
use styx_driver::gateway::PATIENCE;
use styx_transport::NodeKind;

/// A running gateway.
pub struct GatewayServer {
    node: GatewayNode,
    ingress: SocketAddr,
    admin: SocketAddr,
    shutdown: Shutdown,
    serving: Vec<JoinHandle<()>>,
}

impl GatewayServer {
    /// Starts it; requests wait until the cluster serves.
    pub async fn start(config: &ServerConfig) -> Result<GatewayServer, ServerError> {
        let ingress = Surface::ingress(config).await?;
        // Before anything starts that would have to be stopped.
        let front = kafka_front(config, true).await?;
        let admin = Surface::admin(config).await?;
        let name = config.name.clone().unwrap_or_else(|| "gateway".into());
        let options = GatewayNodeOptions {
            name: name.clone(),
            network: network(config, NodeKind::Gateway)?,
            coordinators: config.coordinator.clone(),
            backlog_max: config.backlog_max,
            recorder: Arc::new(Recorder::sampling(config.trace_sample.one_in())),
        };
        let node = GatewayNode::start(options).await.map_err(failed)?;
        let shutdown = Shutdown::default();
        let options = Arc::new(config.http());
        let calls = Ingress::new(node.handle().clone(), options.clone(), shutdown.clone());
        let (ingress_addr, admin_addr) = (ingress.address, admin.address);
        let own = Own::new(NodeRole::Gateway, name)
            .with_admin(Some(admin_addr.to_string()))
            .with_ingress(surface_url(config, ingress_addr))
            .with_latencies(calls.latencies.clone());
        let api = Admin::new(node.handle().clone(), options, shutdown.clone(), own.clone())
            .with_latencies(calls.latencies.clone());
        let waiting = Waiting { informed: node.informed(), shutdown: shutdown.clone() };
        let traces = traces(config, "gateway", node.handle(), &shutdown)?;
        let front = front.map(|front| front.serve(calls.clone()));
        let reporter = Reporter { own, network: node.network().clone(), shutdown: shutdown.clone() };
        let mut serving = vec![
            tokio::spawn(reporter.run()),
            ingress.serve(gateway::router(calls).layer(from_fn_with_state(waiting, wait)), &shutdown),
            admin.serve(admin::gateway_router(api), &shutdown),
        ];
        serving.extend(front);
        serving.extend(traces);
        Ok(GatewayServer { node, ingress: ingress_addr, admin: admin_addr, shutdown, serving })
    }

    pub fn ingress_addr(&self) -> SocketAddr {
        self.ingress
    }

    /// Address of the admin port.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// Lets what is under way come to its end, then stops.
    pub async fn stop(self) {
        self.shutdown.begin();
        for serving in self.serving {
            let _ = serving.await; // It ends when told to; a panic in it was logged.
        }
        let node = self.node;
        let _ = tokio::task::spawn_blocking(move || node.stop()).await;
    }
}

/// State of requests that come before the gateway knows what is deployed, and wait.
#[derive(Clone)]
struct Waiting {
    informed: watch::Receiver<bool>,
    shutdown: Shutdown,
}

async fn wait(State(mut waiting): State<Waiting>, request: Request, next: Next) -> Response {
    if !*waiting.informed.borrow() {
        let informed = tokio::select! {
            informed = tokio::time::timeout(PATIENCE, waiting.informed.wait_for(|informed| *informed)) => informed.is_ok_and(|known| known.is_ok()),
            () = waiting.shutdown.wait() => return ApiError::shutting_down().into_response(),
        };
        if !informed {
            return ApiError::from(Failure::Unavailable).into_response();
        }
    }
    next.run(request).await
}
