//! The coordinator process: a [driver](styx_driver::coordinator) with a log, a store of snapshots, a network and
//! endpoints around it.
//!
//! One thread owns the driver; see [`shell`]. The log has a thread of its own, and each generation one for the store.

mod leadership;
pub(crate) mod shares;
mod shell;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use styx_driver::coordinator::{CoordinatorConfig, CoordinatorDriver, SnapshotSettings, Timing};
use styx_durability::log::survey;
use styx_engine::Engine;
use styx_protocol::control::Control;
use styx_protocol::membership::Patience;
use styx_protocol::modes::Modes;
use styx_protocol::replies::Retention;
use styx_storage::log::Log;

pub use self::leadership::{Leadership, LeaseRenewal};

use self::shell::{Input, Shell, Surroundings};
use super::worker::build;
use super::{COORDINATOR, network_event};
use crate::autoscaling::{self, AutoscaleOptions};
use crate::components::ComponentStore;
use crate::fatal::fatal_on_panic;
use crate::handle::{ClientMessage, Handle, OperatorMessage};
use crate::log::LogThread;
use crate::quarantine::sequence;
use crate::snapshots::{SnapshotOptions, recovery_point};
use crate::stats::Stats;
use styx_transport::{Hello, Network, NodeKind, Options, Reason, Refusal, same_build};

/// How a coordinator process runs.
#[derive(Clone, Debug)]
pub struct CoordinatorNodeOptions {
    /// Its name, for people.
    pub name: String,
    /// The connections; where others reach it.
    pub network: Options,
    /// Workers to wait for at the first start.
    pub workers: usize,
    /// Which parts of the protocol its workers have on.
    pub modes: Modes,
    /// Partitions, if the log is new.
    pub partitions: Option<u32>,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// Most requests that may wait.
    pub backlog_max: usize,
    /// When a worker is taken for lost, and how long newcomers are looked at.
    pub patience: Patience,
    /// How long workers remember replies.
    pub retention: Retention,
    /// Where snapshots go and when they are taken; never, if there is no such place.
    pub snapshots: Option<SnapshotOptions>,
    /// Where its admin endpoints are, for gateways to tell.
    pub admin: Option<String>,
    /// Lives of processes that a request may end before it is executed no more; 0: it always is.
    pub quarantine_after: u32,
    /// Most bytes a second that a worker copies of partitions that leave it, unless a migration says otherwise.
    pub migration_rate: Option<u64>,
    /// Most bytes of state of an app, in memory of all workers: otherwise half of what these may hold.
    pub app_state_max: Option<u64>,
    /// Workers that join get their share of the partitions without being asked for it.
    pub shares: bool,
    /// How workers are looked at, to say how many there should be.
    pub autoscale: Option<AutoscaleOptions>,
    /// Sequenced before anything is executed.
    pub controls: Vec<Control>,
}

/// The patience that suits a local network.
pub const PATIENCE: Patience = Patience { silent_us: 1_000_000, settle_us: 500_000, drain_us: 5_000_000 };

/// A coordinator's place in the network, where nobody is received before it leads.
pub struct Reception {
    network: Arc<Network>,
    events: Sender<Input>,
    incoming: Receiver<Input>,
    open: Arc<AtomicBool>,
    leadership: Leadership,
    runtime: tokio::runtime::Handle,
}

impl Reception {
    /// Listens on the current runtime, for a coordinator that may act for as long as `leadership` says.
    pub async fn start(
        options: &CoordinatorNodeOptions,
        engine: &Engine,
        leadership: Leadership,
    ) -> std::io::Result<Reception> {
        let (events, incoming) = unbounded();
        let build = build(engine, options.modes);
        let hello = Hello::new(NodeKind::Coordinator, COORDINATOR, options.name.clone(), build.engine.0);
        let open = Arc::<AtomicBool>::default();
        let (opened, held) = (open.clone(), leadership.clone());
        let admit = move |mine: &Hello, yours: &Hello| match yours.kind {
            _ if !opened.load(Ordering::Acquire) || !held.holds() => {
                Err(Refusal::new(Reason::Standby, "this coordinator does not lead; ask another one"))
            }
            // A gateway executes nothing.
            NodeKind::Gateway => Ok(()),
            _ => same_build(mine, yours),
        };
        let heard = events.clone();
        let network = Network::start(hello, options.network.clone(), admit, move |message| {
            // The shell that nobody listens at has ended.
            let _ = heard.send(Input::Network(network_event::read(message)));
        });
        let runtime = tokio::runtime::Handle::current();
        Ok(Reception { network: Arc::new(network.await?), events, incoming, open, leadership, runtime })
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.network.address()
    }
}

/// A request of this very process.
pub(crate) enum Request {
    /// A client asks for something.
    Client(ClientMessage),
    /// An operator asks for something.
    Operator(OperatorMessage),
    /// Bring what is under way to its end, and end.
    Stop,
}

impl From<ClientMessage> for Request {
    fn from(message: ClientMessage) -> Self {
        Request::Client(message)
    }
}

impl From<OperatorMessage> for Request {
    fn from(message: OperatorMessage) -> Self {
        Request::Operator(message)
    }
}

/// A running coordinator process.
pub struct CoordinatorNode {
    handle: Handle,
    inbox: Sender<Request>,
    thread: Option<JoinHandle<()>>,
    address: Option<SocketAddr>,
    network: Arc<Network>,
    leadership: Leadership,
}

impl CoordinatorNode {
    /// Starts a coordinator that is the only one on the current runtime, from what its log says.
    ///
    /// # Errors
    /// The log cannot be read, or the address cannot be listened on.
    pub async fn start(
        options: CoordinatorNodeOptions,
        log: Box<dyn Log>,
        engine: Arc<Engine>,
        components: ComponentStore,
    ) -> anyhow::Result<CoordinatorNode> {
        let reception = Reception::start(&options, &engine, Leadership::forever()).await?;
        CoordinatorNode::lead(reception, options, log, engine, components)
    }

    /// Starts the coordinator, from what its log says, and receives the others.
    ///
    /// # Errors
    /// The log cannot be read, or lacks what goes with it.
    pub fn lead(
        reception: Reception,
        options: CoordinatorNodeOptions,
        mut log: Box<dyn Log>,
        engine: Arc<Engine>,
        components: ComponentStore,
    ) -> anyhow::Result<CoordinatorNode> {
        // Who restores a snapshot are the workers of the first generation.
        let beginning =
            recovery_point(log.as_mut(), options.partitions, options.snapshots.as_ref(), &mut |_, _, _| Ok(()))?;
        // What stands before a snapshot's position is of its generation at most.
        let survey = survey(log.as_mut(), beginning.position())?;
        let generation = survey.generation.max(beginning.generation());
        let seating = survey.seating.clone().or_else(|| beginning.seating().cloned());
        components.fetch(&survey.components)?;
        let Reception { network, events, incoming, open, leadership, runtime } = reception;
        let (inbox, messages) = unbounded();
        let stats = Arc::new(Stats::default());
        let (reports, stall, record_bytes_max) = (events.clone(), log.stall(), log.record_bytes_max());
        let log = LogThread::start(log, stats.clone(), move |report| {
            // The shell that nobody listens at has ended.
            let _ = reports.send(Input::Log(report));
        })?;
        let handle = Handle::with_operators(inbox.clone(), options.backlog_max, stats);
        handle.admission().subscribe(stall);
        let config = CoordinatorConfig {
            layout: beginning.layout_after(options.partitions, survey.partitions)?,
            build: build(&engine, options.modes),
            workers: options.workers,
            retention: options.retention,
            record_bytes_max,
            admin: options.admin.clone(),
            snapshots: options.snapshots.as_ref().zip(beginning.store.as_ref()).map(|(options, store)| {
                SnapshotSettings {
                    schedule: options.schedule(),
                    place: store.location().url().to_owned(),
                    identity: store.identity(),
                }
            }),
            patience: options.patience,
            backlog_max: options.backlog_max,
            epoch_max_wait: options.epoch_max_wait,
            quarantine_after: options.quarantine_after,
            migration_rate: options.migration_rate,
            app_state_max: options.app_state_max,
            seating,
            shares: options.shares,
            timing: Timing::default(),
        };
        if let Some(autoscale) = options.autoscale {
            drop(runtime.spawn(autoscaling::run(handle.clone(), autoscale)));
        }
        for control in options.controls {
            sequence(&handle, control);
        }
        let shell = Shell::new(
            CoordinatorDriver::new(config, leadership.view(), generation, leadership.now()),
            Surroundings {
                leadership: leadership.clone(),
                network: network.clone(),
                handle: handle.clone(),
                log,
                components,
                snapshots: beginning.store.zip(options.snapshots),
                genesis: beginning.genesis,
                events,
                runtime,
            },
        );
        let address = network.address();
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .spawn(move || fatal_on_panic("driver", move || shell.serve(&incoming, &messages)))?;
        open.store(true, Ordering::Release);
        Ok(CoordinatorNode { handle, inbox, thread: Some(thread), address, network, leadership })
    }

    /// A handle for the admin endpoints: deployments, and looks at the cluster.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Brings what is under way to its end, and ends. What it may no longer do is left to whoever may.
    pub fn stop(mut self) {
        self.leadership.end();
        // A shell that has ended needs no telling.
        let _ = self.inbox.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
