//! A worker process: the worker's driver with threads, a network and a disk around it.

mod restore;
mod shell;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};
use styx_engine::{EXECUTION_STACK_BYTES, Engine};
use styx_protocol::membership::Build;
use styx_protocol::modes::Modes;
use tokio::sync::watch;

use styx_driver::time::Now;
use styx_driver::worker::{FRAME_BYTES, WorkerConfig, WorkerDriver, WorkerEvent};
use styx_transport::{Hello, Network, NodeId, NodeKind, Options, same_build};

use self::shell::{Compiler, Event, Execution, Parts, Shell};
use super::{COORDINATOR, network_event};
use crate::clock::{MonotonicClock, now};
use crate::components::ComponentStore;
use crate::executing::{Executing, Noted};
use crate::execution::{Dispatcher, ExecutionPool, LongPool};
use crate::fatal::fatal_on_panic;
use crate::guest_logs::GuestLogs;
use crate::handle::Handle;
use crate::observe::{Recorder, Traced};
use crate::stats::Stats;

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
    /// Threads that execute transactions, besides the driver's.
    pub threads: usize,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Fuel that what an epoch takes is expected to use; one request is always taken.
    pub epoch_fuel_max: u64,
    /// Most requests that may wait for an epoch.
    pub backlog_max: usize,
    /// Functions that may wait for other workers at a time.
    pub suspended_max: usize,
    /// Most long transactions that run at a time.
    pub long_max: usize,
    /// Most bytes of log lines of each app in a second; 0: as many as there are.
    pub guest_log_rate: u64,
    /// Most bytes of state, in memory.
    pub state_max: u64,
    /// Where its threads note what they execute.
    pub executing: Arc<Executing>,
    /// What is kept of requests.
    pub recorder: Arc<Recorder>,
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
        let build = build(&engine, options.modes);
        let hello = Hello::new(NodeKind::Worker, options.node, options.name.clone(), build.engine.0);
        let network = Network::start(hello, options.network.clone(), same_build, move |message| {
            // The thread has ended only when the worker has.
            let _ = incoming.send(Event::Network(network_event::read(message)));
        });
        let network = Arc::new(network.await?);
        network.connect(COORDINATOR, options.coordinators.first().expect("there is a coordinator").clone());
        let stats = Arc::new(Stats::observed_by(options.recorder.clone()));
        let completions = events.clone();
        let threads = options.threads.max(1);
        let executing = options.executing;
        let recorder = options.recorder;
        let make = || Noted::new(Traced::new(engine.executor(), recorder.clone()), &executing);
        let pool = ExecutionPool::start(threads, EXECUTION_STACK_BYTES, &make, move |completion| {
            let _ = completions.send(Event::Completed(completion));
        })?;
        let address = network.address();
        let (messages, requests) = unbounded();
        let handle = Handle::new(messages, options.backlog_max, stats.clone());
        let (refuse, refused) = watch::channel(None);
        let clock = MonotonicClock::start();
        let config = WorkerConfig {
            build,
            address: address.map(|address| address.to_string()).unwrap_or_default(),
            coordinators: options.coordinators,
            modes: options.modes,
            epoch_size_max: options.epoch_size_max,
            epoch_fuel_max: options.epoch_fuel_max,
            backlog_max: options.backlog_max,
            frame_bytes: FRAME_BYTES,
            suspended_max: options.suspended_max,
            long_max: options.long_max,
            step_max: styx_protocol::machine::worker::STEP_MAX,
            piece_bytes: styx_protocol::machine::worker::PIECE_BYTES,
            state_max: options.state_max,
            suspects: executing.suspects(),
            claim_order: false,
        };
        let shell = Shell {
            driver: WorkerDriver::new(Now { monotonic: clock.now(), wall: now() }, config),
            clock,
            inbox,
            events: events.clone(),
            requests,
            handle: handle.clone(),
            stats: stats.clone(),
            network: network.clone(),
            // Nothing inline: heartbeats must go out while guests run.
            execution: Execution {
                dispatcher: Dispatcher::new(make(), 0, pool, recorder.clone()),
                forgetting: false,
                batch_out: Instant::now(),
                long: LongPool::new((0..options.long_max).map(|_| make()), EXECUTION_STACK_BYTES),
            },
            executing: executing.clone(),
            guest_logs: GuestLogs::new(options.guest_log_rate),
            compiler: Compiler { engine: engine.clone(), components },
            parts: Parts { store: None, writer: None, runtime: tokio::runtime::Handle::current(), threads },
            refused: refuse,
            has_ended: false,
        };
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .stack_size(EXECUTION_STACK_BYTES)
            .spawn(move || fatal_on_panic("driver", move || shell.serve()))?;
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
        // The thread may have ended already.
        let _ = self.events.send(Event::Driver(WorkerEvent::Leave));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Ends the driver and the connections. What was under way is somebody else's from now on.
    pub fn stop(mut self) {
        let _ = self.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What this program runs, as the membership compares it.
pub(super) fn build(engine: &Engine, modes: Modes) -> Build {
    Build { version: env!("CARGO_PKG_VERSION").into(), engine: modes.hash(engine.engine_hash()) }
}
