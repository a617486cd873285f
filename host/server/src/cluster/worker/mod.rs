//! A worker process: the protocol's [`Worker`](styx_protocol::machine::Worker) machine with threads
//! and a network around it.
//!
//! One driver thread owns the machine and does what it says. A generation begins with an invitation
//! of the coordinator: whatever the machine knew is dropped, and the log is replayed into a new one.

mod driver;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};
use styx_engine::{EXECUTION_STACK_BYTES, Engine};
use styx_protocol::ids::EngineHash;
use styx_protocol::membership::{Build, Member};
use styx_protocol::modes::Modes;
use tokio::sync::watch;

use self::driver::{Driver, Event, HEARTBEAT};
use super::coordinators::Coordinators;
use crate::clock::now;
use crate::components::ComponentStore;
use crate::execution::{Dispatcher, ExecutionPool};
use crate::fatal::fatal_on_panic;
use crate::handle::Handle;
use crate::stats::Stats;
use styx_transport::{Hello, Network, NodeId, NodeKind, Options, same_build};

/// How a worker process runs.
#[derive(Clone, Debug)]
pub struct WorkerNodeOptions {
    /// Its id; kept for all lives of the process.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// The connections; where others reach it.
    pub network: Options,
    /// Where the coordinator is, or those are of which one leads; at least one.
    pub coordinators: Vec<String>,
    /// Threads that execute transactions, besides the driver, which runs what is too small to hand over.
    pub threads: usize,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Most requests that may wait for an epoch.
    pub backlog_max: usize,
    /// Functions that may wait for other workers at a time.
    pub suspended_max: usize,
}

/// A running worker process.
pub struct WorkerNode {
    handle: Handle,
    events: Sender<Event>,
    thread: Option<JoinHandle<()>>,
    address: Option<SocketAddr>,
    stats: Arc<Stats>,
    network: Arc<Network>,
    refused: watch::Receiver<Option<String>>,
}

impl WorkerNode {
    /// Starts the process's worker on the current runtime; it becomes a member when the
    /// coordinator invites it.
    ///
    /// # Errors
    /// The address cannot be listened on, or threads cannot be started.
    pub async fn start(
        options: WorkerNodeOptions,
        engine: Arc<Engine>,
        components: ComponentStore,
    ) -> anyhow::Result<WorkerNode> {
        let (events, inbox) = unbounded();
        let incoming = events.clone();
        let hello = Hello::new(NodeKind::Worker, options.node, options.name.clone(), engine.engine_hash());
        let network = Network::start(hello, options.network.clone(), same_build, move |message| {
            drop(incoming.send(Event::Incoming(message)));
        });
        let network = Arc::new(network.await?);
        let coordinators = Coordinators::dial(network.clone(), options.coordinators.clone());
        let stats = Arc::new(Stats::default());
        let completions = events.clone();
        // Never on the driver's thread alone: it must say hello while a batch runs.
        let threads = options.threads.max(1);
        let pool = ExecutionPool::start(threads, EXECUTION_STACK_BYTES, &|| engine.executor(), move |completion| {
            drop(completions.send(Event::Completed(completion)));
        })?;
        let address = network.address();
        let (messages, requests) = unbounded();
        let handle = Handle::new(messages, options.backlog_max, stats.clone());
        let (refuse, refused) = watch::channel(None);
        let driver = Driver {
            handle: handle.clone(),
            requests,
            member: Member::new(now().0, build(&engine)),
            dispatcher: Dispatcher::new(engine.executor(), pool),
            address: address.map(|address| address.to_string()).unwrap_or_default(),
            options,
            engine,
            components,
            network: network.clone(),
            coordinators,
            inbox,
            events: events.clone(),
            stats: stats.clone(),
            batch_out: Instant::now(),
            serving: None,
            postponed: VecDeque::new(),
            loading: BTreeSet::new(),
            left: None,
            store: None,
            runtime: tokio::runtime::Handle::current(),
            said_hello: Instant::now() - HEARTBEAT,
            lost: BTreeMap::new(),
            attended: false,
            leaving: None,
            refused: refuse,
            actions: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .stack_size(EXECUTION_STACK_BYTES)
            .spawn(move || fatal_on_panic("driver", move || driver.serve()))?;
        Ok(WorkerNode { handle, events, thread: Some(thread), address, stats, network, refused })
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// A handle for clients in this very process. Their requests are sequenced here; one with a key
    /// must be this worker's to remember.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Counters of the worker.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// The connections.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Waits until the coordinator says that it will not have this worker as it is, and why: another
    /// release or engine, or other apps. It tries no more.
    pub async fn refused(&self) -> String {
        let mut refused = self.refused.clone();
        let told = refused.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match told {
            Some(why) => why,
            // It was stopped, and nobody refuses it any more.
            None => std::future::pending().await,
        }
    }

    /// Asks the coordinator to be let go, and waits for it; then ends. Clients notice nothing, if there
    /// are other workers. Who is nobody's worker ends at once.
    pub fn leave(mut self) {
        drop(self.events.send(Event::Leave));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }

    /// Ends the driver and the connections. What was under way is somebody else's from now on.
    pub fn stop(mut self) {
        drop(self.events.send(Event::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// What this program runs, as the membership compares it.
pub(super) fn build(engine: &Engine) -> Build {
    Build { version: env!("CARGO_PKG_VERSION").into(), engine: EngineHash(engine.engine_hash()) }
}
