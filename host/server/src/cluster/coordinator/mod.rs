//! The coordinator process: the protocol's [`Coordinator`](styx_protocol::machine::Coordinator)
//! machine with the log, the membership and a network around it.
//!
//! One driver thread owns both machines. A generation begins when the membership says so: its number
//! becomes durable, its members are invited, the log is replayed through them, and then it is live.

mod driver;
mod tenure;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use styx_engine::Engine;
use styx_protocol::ids::{Epoch, Generation};
use styx_protocol::membership::{Membership, Patience};
use styx_protocol::replies::Retention;
use styx_storage::log::Log;
use styx_storage::snapshot::{Manifest, SnapshotStore};

pub use self::tenure::{Holding, Tenure};

use self::driver::{Driver, Event};
use super::COORDINATOR;
use super::archive::{self, Archive, Look};
use super::relay::Relay;
use super::worker::build;
use crate::clock::now;
use crate::components::ComponentStore;
use crate::fatal::{fatal, fatal_on_panic};
use crate::handle::{ClientMessage, Handle, OperatorMessage};
use crate::snapshots::{Beginning, Found, SnapshotOptions, is_damage, newest};
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
    /// Partitions, if the log is new.
    pub partitions: u16,
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
}

/// The patience that suits a local network.
pub const PATIENCE: Patience = Patience { silent_us: 1_000_000, settle_us: 500_000, drain_us: 5_000_000 };

/// A coordinator's place in the network, where nobody is received before it leads.
pub struct Reception {
    network: Arc<Network>,
    events: Sender<Event>,
    incoming: Receiver<Event>,
    open: Arc<AtomicBool>,
    tenure: Tenure,
}

impl Reception {
    /// Listens on the current runtime, for a coordinator that may act for as long as `tenure` says.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        options: &CoordinatorNodeOptions,
        engine: &Engine,
        tenure: Tenure,
    ) -> std::io::Result<Reception> {
        let (events, incoming) = unbounded();
        let hello = Hello::new(NodeKind::Coordinator, COORDINATOR, options.name.clone(), engine.engine_hash());
        let open = Arc::<AtomicBool>::default();
        let (opened, held) = (open.clone(), tenure.clone());
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
            drop(heard.send(Event::Incoming(message)));
        });
        Ok(Reception { network: Arc::new(network.await?), events, incoming, open, tenure })
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
    tenure: Tenure,
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
        let reception = Reception::start(&options, &engine, Tenure::forever()).await?;
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
            Beginning::find(log.as_mut(), options.partitions, options.snapshots.as_ref(), &mut |_, _| Ok(()))?;
        // What stands before a snapshot's position is of its generation at most.
        let survey = archive::survey(log.as_mut(), beginning.position())?;
        let generation = survey.generation.max(beginning.generation());
        components.fetch(&survey.components)?;
        let (genesis, store) = (beginning.genesis, beginning.store);
        let Reception { network, events, incoming, open, tenure } = reception;
        let (inbox, messages) = unbounded();
        let unusable = Arc::new(AtomicU64::new(u64::MAX));
        let look = look(store.clone(), unusable.clone());
        let (archived, stats) = (events.clone(), Arc::new(Stats::default()));
        let stall = log.stall();
        let archive = Archive::start(log, look, stats.clone(), move |done| drop(archived.send(Event::Archived(done))))?;
        let handle = Handle::with_operators(inbox.clone(), options.backlog_max, stats);
        handle.admission().subscribe(stall);
        let started = Instant::now();
        let driver = Driver {
            membership: Membership::new(build(&engine), options.patience, Generation(generation), options.workers, 1),
            started,
            cut_off: BTreeMap::new(),
            addresses: BTreeMap::new(),
            relay: Relay::new(network.clone(), handle.clone(), options.backlog_max),
            archive,
            genesis,
            store,
            unusable,
            found: None,
            position: 0,
            events,
            engine,
            components,
            network: network.clone(),
            handle: handle.clone(),
            messages,
            incoming,
            office: None,
            gateways: BTreeMap::new(),
            deploying: VecDeque::new(),
            announcing: VecDeque::new(),
            ticked: Instant::now(),
            shown: (false, false),
            stopping: None,
            tenure: tenure.clone(),
            options,
        };
        let address = network.address();
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .spawn(move || fatal_on_panic("driver", move || driver.serve()))?;
        open.store(true, Ordering::Release);
        Ok(CoordinatorNode { handle, inbox, thread: Some(thread), address, network, tenure })
    }

    /// A handle for the admin endpoints: deployments, and looks at the cluster.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The connections.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Brings what is under way to its end, and ends. What it may no longer do is left to whoever may.
    pub fn stop(mut self) {
        self.tenure.end();
        drop(self.inbox.send(Request::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Finds the snapshot that a generation may begin with: the newest that is there and was not found
/// to be unusable. From then on no earlier generation writes any, or deletes one that workers read.
/// A store that does not answer is asked again: without it nobody can begin.
fn look(store: Option<SnapshotStore>, unusable: Arc<AtomicU64>) -> Look {
    Box::new(move |generation| {
        let store = store.as_ref()?;
        loop {
            let before = Epoch(unusable.load(Ordering::Relaxed));
            match take_over(store, before, generation) {
                Ok(found) => return found.map(Box::new),
                Err(error) if is_damage(&error) => fatal(&format!("no snapshot can be read: {error:#}")),
                Err(error) => tracing::error!(code = "SNAPSHOT_STORE", "the store of snapshots is awaited: {error:#}"),
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    })
}

fn take_over(store: &SnapshotStore, before: Epoch, generation: u64) -> anyhow::Result<Option<Found>> {
    let Some(found) = newest(store, Some(before), &mut |_, _| Ok(()))? else { return Ok(None) };
    let Manifest { sequence, log_position, .. } = found.manifest;
    let manifest = store.reinstate(sequence, generation, log_position, now().0)?;
    Ok(Some(Found { manifest, ..found }))
}
