//! The coordinator's process: the log, the epochs, and the admin endpoints of the cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use styx_driver::autoscale::AutoscaleConfig;
use styx_engine::Engine;
use styx_storage::snapshot::{ClusterMetadata, Leases};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::candidate::{Candidacy, Candidate};
use super::cluster_tls::network;
use super::node::Identity;
use super::parts::{
    Surface, components, engine, failed, not_started, open_log, retention, snapshots, store_error, watch_disk,
};
use crate::admin::{self, Admin, Deploys, StandbyProxy};
use crate::admission::DiskWatch;
use crate::autoscaling::AutoscaleOptions;
use crate::clock::now;
use crate::cluster::coordinator::{CoordinatorNode, CoordinatorNodeOptions, Leadership, PATIENCE, Reception};
use crate::components::ComponentStore;
use crate::config::{ServerConfig, store_location};
use crate::error::ServerError;
use crate::gateway::Ingress;
use crate::http::Shutdown;
use crate::nodes::{Leads, NodeRole, Own};
use crate::quarantine;
use styx_transport::NodeKind;

/// A running coordinator.
pub struct CoordinatorServer {
    seat: Seat,
    cluster: SocketAddr,
    admin: SocketAddr,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
}

/// Whether there may be others.
enum Seat {
    Only(Box<CoordinatorNode>, Option<DiskWatch>),
    OneOfSeveral(Candidate),
}

impl CoordinatorServer {
    /// Starts it; the cluster serves once its workers are there. If another one may lead, it may stand by.
    ///
    /// # Errors
    /// An address is taken, or the log cannot be opened.
    pub async fn start(config: &ServerConfig) -> Result<CoordinatorServer, ServerError> {
        let surface = Surface::admin(config).await?;
        // It executes nothing, but it checks what is deployed.
        let engine = engine(config, 1, None)?;
        if config.may_stand_by() {
            CoordinatorServer::start_one_of_several(config, surface, engine).await
        } else {
            CoordinatorServer::start_only(config, surface, engine).await
        }
    }

    async fn start_only(config: &ServerConfig, surface: Surface, engine: Arc<Engine>) -> Result<Self, ServerError> {
        let (shutdown, admin) = (Shutdown::default(), surface.address);
        let log = open_log(config, None)?;
        let components = components(config)?.compiled_by(engine.clone());
        let options = options(config, &components, admin)?;
        let node = CoordinatorNode::start(options, log, engine.clone(), components.clone()).await;
        let node = node.map_err(|error| not_started(&error, config.cluster_addr))?;
        let disk = watch_disk(config, node.handle())?;
        let cluster = node.address().expect("it listens");
        let leads = Leads { since_us: now().0, only: true, from: None };
        let api = api(config, &node, Deploys { engine, components }, &shutdown, admin, leads);
        let serving = surface.serve(admin::router(api), &shutdown);
        Ok(CoordinatorServer { seat: Seat::Only(Box::new(node), disk), cluster, admin, shutdown, serving })
    }

    async fn start_one_of_several(
        config: &ServerConfig,
        surface: Surface,
        engine: Arc<Engine>,
    ) -> Result<Self, ServerError> {
        let (shutdown, admin) = (Shutdown::default(), surface.address);
        let identity = Identity::open(&config.data_dir, None)?;
        let leadership = Leadership::none();
        let place = store_location(config.store.clone().expect("it is shared"));
        let runtime = Handle::current();
        let open = move || Ok((Leases::open(&place, &runtime)?, ClusterMetadata::open(&place, &runtime)?));
        let opened = tokio::task::spawn_blocking(open).await.map_err(failed)?;
        let (leases, cluster_metadata) = opened.map_err(|error| store_error(&error))?;
        let components = components(config)?.shared(cluster_metadata.clone()).compiled_by(engine.clone());
        let options = options(config, &components, admin)?;
        let reception = Reception::start(&options, &engine, leadership.clone()).await;
        let reception = reception.map_err(|error| not_started(&error.into(), config.cluster_addr))?;
        let cluster = reception.address().expect("it listens");
        let proxy = StandbyProxy::new(leadership.clone());
        let serving = surface.serve(proxy.router(&config.http()), &shutdown);
        let candidate = Candidate::start(Candidacy {
            config: config.clone(),
            identity,
            leadership,
            leases,
            cluster_metadata,
            components,
            options,
            engine,
            reception,
            proxy,
            shutdown: shutdown.clone(),
            admin,
        });
        Ok(CoordinatorServer { seat: Seat::OneOfSeveral(candidate.await?), cluster, admin, shutdown, serving })
    }

    /// Where workers and gateways reach it.
    pub fn cluster_addr(&self) -> SocketAddr {
        self.cluster
    }

    /// Where apps are deployed and watched.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// Whether another one led when it started.
    pub fn standby(&self) -> bool {
        matches!(&self.seat, Seat::OneOfSeveral(candidate) if candidate.standby)
    }

    /// Waits until another one leads instead, or it cannot, and says why.
    pub async fn ended(&self) -> ServerError {
        match &self.seat {
            Seat::Only(..) => std::future::pending().await,
            Seat::OneOfSeveral(candidate) => candidate.ended().await,
        }
    }

    /// Brings what is under way to its end, then stops.
    pub async fn stop(self) {
        self.shutdown.begin();
        let _ = self.serving.await; // It ends when told to; a panic in it was logged.
        let seat = self.seat;
        let stop = move || match seat {
            Seat::Only(node, disk) => {
                node.stop();
                drop(disk);
            }
            Seat::OneOfSeveral(candidate) => candidate.stop(),
        };
        let _ = tokio::task::spawn_blocking(stop).await;
    }
}

/// The admin surface of a coordinator that leads. Calls are taken there as well, as a gateway takes them: a page may ask
/// only where it is from.
pub(super) fn api(
    config: &ServerConfig,
    node: &CoordinatorNode,
    deploys: Deploys,
    shutdown: &Shutdown,
    admin: SocketAddr,
    leads: Leads,
) -> Admin {
    let options = Arc::new(config.http());
    let calls = Ingress::new(node.handle().clone(), options.clone(), shutdown.clone());
    Admin::new(node.handle().clone(), options, shutdown.clone(), own(config, admin))
        .with_deploys(deploys)
        .with_calls(calls, None)
        .with_leads(leads)
}

/// A coordinator as it reports itself.
pub(super) fn own(config: &ServerConfig, admin: SocketAddr) -> Own {
    Own::new(NodeRole::Coordinator, config.name.clone().unwrap_or_else(|| "coordinator".into()))
        .with_data(config.data_dir.clone())
        .with_admin(Some(admin.to_string()))
}

fn options(
    config: &ServerConfig,
    components: &ComponentStore,
    admin: SocketAddr,
) -> Result<CoordinatorNodeOptions, ServerError> {
    Ok(CoordinatorNodeOptions {
        name: config.name.clone().unwrap_or_else(|| "coordinator".into()),
        network: network(config, NodeKind::Coordinator)?,
        workers: config.workers,
        modes: config.modes,
        partitions: config.partitions,
        epoch_max_wait: config.epoch_max_wait,
        backlog_max: config.backlog_max,
        patience: PATIENCE,
        retention: retention(config),
        snapshots: snapshots(config, components),
        admin: Some(admin.to_string()),
        quarantine_after: config.quarantine_after,
        migration_rate: (config.migration_rate > 0).then_some(config.migration_rate),
        app_state_max: config.app_state,
        shares: config.join_shares,
        autoscale: config.autoscale.map(|(min, max)| autoscale(config, min, max)),
        controls: quarantine::skipped(&config.skip_tid),
    })
}

/// Nobody waits longer for a command that starts or stops workers.
const AUTOSCALE_COMMAND_MAX: Duration = Duration::from_secs(60);

fn autoscale(config: &ServerConfig, min: u32, max: u32) -> AutoscaleOptions {
    let standard = AutoscaleConfig::default();
    let (target, interval) = (config.autoscale_target, config.autoscale_interval);
    // A quarter above what is aimed at; fewer must not come near that.
    let (high, low) = ((target + target / 4).min(95), target - target / 6);
    AutoscaleOptions {
        policy: AutoscaleConfig {
            min,
            max,
            target,
            high,
            low,
            pause: 6 * interval.max(Duration::from_secs(1)),
            ..standard
        },
        interval,
        command: config.autoscale_command.clone(),
        command_max: AUTOSCALE_COMMAND_MAX,
        balances: config.join_shares,
    }
}
