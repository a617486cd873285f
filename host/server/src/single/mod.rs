//! A single process that is all of the system: its driver with threads, a log and clients around it.
//!
//! One thread steps the driver and does what it says; a pool of threads executes batches; the log
//! has a thread of its own. Nothing here decides anything.

mod shell;
mod snapshots;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use styx_driver::single::{SingleConfig, SingleDriver};
use styx_driver::wire::WrittenPart;
use styx_durability::log::LogReport;
use styx_engine::Long;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::executor::Executor;
use styx_protocol::ids::{EngineHash, Epoch, Generation};
use styx_protocol::machine::{Config, worker};
use styx_protocol::modes::Modes;
use styx_protocol::record::Chain;
use styx_protocol::replies::Retention;
use styx_protocol::task::{RunId, TaskExecutor};
use styx_storage::log::Log;

use self::shell::{Shell, Threads};
use self::snapshots::Snapshots;
use crate::executing::Executing;
use crate::execution::{Completion, Dispatcher, ExecutionPool, INLINE_MAX, LongEvent, LongPool};
use crate::fatal::fatal_on_panic;
use crate::guest_logs::GuestLogs;
use crate::handle::{ClientMessage, Handle, OperatorMessage};
use crate::log::LogThread;
use crate::observe::Recorder;
use crate::quarantine::sequence;
use crate::snapshots::{SnapshotOptions, StoreReport, recovery_point};
use crate::stats::Stats;

/// An event for the driver's thread.
pub(crate) enum Event {
    /// A client of this process asks for something.
    Client(ClientMessage),
    /// An operator of this process asks for something.
    Operator(OperatorMessage),
    /// The delta writer takes more of a snapshot.
    HandOver,
    /// The delta writer has written what has changed up to a snapshot.
    PartWritten(WrittenPart),
    /// The store has answered.
    Store(StoreReport),
    /// A thread of the pool has done its share.
    Completed(Completion),
    /// A run of a long transaction has something to say.
    Long(LongEvent<RunId>),
    Log(LogReport),
    /// Give up long transactions whose end nobody could ask for.
    Withdraw,
    /// Finish what is under way, then end.
    Stop,
}

impl From<ClientMessage> for Event {
    fn from(message: ClientMessage) -> Self {
        Event::Client(message)
    }
}

impl From<OperatorMessage> for Event {
    fn from(message: OperatorMessage) -> Self {
        Event::Operator(message)
    }
}

/// Makes what a catalog names ready to be executed, before the first transaction that may call it.
pub type Prepare = Box<dyn FnMut(&Arc<Catalog>) -> anyhow::Result<()> + Send>;

/// Settings of a single process.
#[derive(Clone, Debug)]
pub struct SingleOptions {
    /// Threads that execute transactions.
    pub threads: usize,
    /// Native stack of each, in bytes.
    pub stack_bytes: usize,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Fuel that what an epoch takes is expected to use; one request is always taken.
    pub epoch_fuel_max: u64,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// Most requests that may wait for an epoch.
    pub backlog_max: usize,
    /// Partitions, if the log is new.
    pub partitions: Option<u32>,
    /// Most long transactions that may run at a time.
    pub long_max: usize,
    /// Most bytes of log lines of each app in a second; 0: as many as there are.
    pub guest_log_rate: u64,
    /// Most bytes of state, in memory.
    pub state_max: u64,
    /// The same of an app: otherwise half of it.
    pub app_state_max: Option<u64>,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// Hash of the engine's configuration.
    pub engine: u64,
    /// Where snapshots go and when they are taken; never, if there is no such place.
    pub snapshots: Option<SnapshotOptions>,
    /// What earlier lives of this process are said to have ended of, if that is noted.
    pub executing: Option<Arc<Executing>>,
    /// Lives that a request may end before it is set aside; 0: any number.
    pub quarantine_after: u32,
    /// Sequenced before anything is executed.
    pub controls: Vec<Control>,
    /// What is kept of requests.
    pub recorder: Arc<Recorder>,
}

impl Default for SingleOptions {
    fn default() -> Self {
        SingleOptions {
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            stack_bytes: 8 << 20,
            epoch_size_max: 1000,
            epoch_fuel_max: 1_000_000_000,
            epoch_max_wait: Duration::from_millis(1),
            backlog_max: 100_000,
            long_max: Long::default().running_max,
            guest_log_rate: 64 << 10,
            state_max: u64::MAX,
            app_state_max: None,
            partitions: None,
            retention: Retention::default(),
            modes: Modes::default(),
            engine: 0,
            snapshots: None,
            executing: None,
            quarantine_after: 3,
            controls: Vec::new(),
            recorder: Arc::default(),
        }
    }
}

/// What recovery found.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// The epoch of the snapshot that it began with; 0 if there was none.
    pub snapshot: Epoch,
    /// Epochs replayed.
    pub epochs: u64,
    /// The last of them.
    pub epoch: Epoch,
    /// The state hash chain after it.
    pub chain: Chain,
}

/// A running single process.
pub struct SingleNode {
    handle: Handle,
    inbox: Sender<Event>,
    thread: Option<JoinHandle<()>>,
    recovered: Recovered,
}

impl SingleNode {
    /// Recovers from `log`, then serves. `make` gives each execution thread its executor;
    /// `progress` hears of recovery: epochs replayed and epochs in all.
    ///
    /// # Errors
    /// The log cannot be read, or a deployed component cannot be made ready.
    pub fn start<E: Executor + TaskExecutor + Send + 'static>(
        options: SingleOptions,
        mut log: Box<dyn Log>,
        make: impl Fn() -> E,
        prepare: Prepare,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> anyhow::Result<SingleNode> {
        let mut restored = None;
        let begin = recovery_point(
            log.as_mut(),
            options.partitions,
            options.snapshots.as_ref(),
            &mut |store, found, layout| {
                restored = Some(found.restore(store, options.threads, (layout, &|_| true), None)?);
                Ok(())
            },
        )?;
        let machine = Config {
            layout: begin.layout,
            modes: options.modes,
            epoch_size_max: options.epoch_size_max,
            epoch_fuel_max: options.epoch_fuel_max,
            record_bytes_max: log.record_bytes_max(),
            backlog_max: options.backlog_max,
            suspended_max: SUSPENDED_MAX,
            long_max: options.long_max,
            retention: options.retention,
            engine: EngineHash(options.engine),
            generation: Generation(1),
            snapshots: options.snapshots.is_some(),
            step_max: worker::STEP_MAX,
            piece_bytes: worker::PIECE_BYTES,
            claim_order: false,
        };
        let (inbox, messages) = unbounded();
        let stats = Arc::new(Stats::observed_by(options.recorder.clone()));
        let handle = Handle::with_operators(inbox.clone(), options.backlog_max, stats.clone());
        handle.admission().subscribe(log.stall());
        let completions = inbox.clone();
        // The driver is gone only when the process is about to end.
        let done = move |completion| {
            let _ = completions.send(Event::Completed(completion));
        };
        let pool = ExecutionPool::start(options.threads, options.stack_bytes, &make, done)?;
        let driver = SingleDriver::new(SingleConfig {
            machine,
            epoch_max_wait: options.epoch_max_wait,
            state_max: options.state_max,
            app_state_max: options.app_state_max,
            suspects: options.executing.as_ref().map(|executing| executing.suspects()).unwrap_or_default(),
            quarantine_after: options.quarantine_after,
        });
        // Small batches run on the driver's own thread: nobody waits for its heartbeats.
        let dispatcher = Dispatcher::new(make(), INLINE_MAX, pool, options.recorder.clone());
        let long = LongPool::new((0..options.long_max).map(|_| make()), options.stack_bytes);
        let threads = Threads { dispatcher, long, events: inbox.clone() };
        let (executing, guest_logs) = (options.executing.clone(), GuestLogs::new(options.guest_log_rate));
        let mut shell = Shell::new(driver, threads, messages, handle.clone(), prepare, executing, guest_logs);
        let snapshots = options.snapshots.as_ref().map(|options| begin.snapshot_start(options.schedule()));
        // Where the driver will run: a replay needs as much stack as the first execution, and guests
        // must not meet the runtime of whoever starts the server.
        let recovered = std::thread::scope(|scope| {
            let recovery = std::thread::Builder::new().name(RECOVERY.into()).stack_size(options.stack_bytes);
            let recovery =
                recovery.spawn_scoped(scope, || shell.recover(log.as_mut(), &begin, restored, snapshots, progress))?;
            recovery.join().unwrap_or_else(|panic| {
                Err(RecoveryPanic::of(&*panic, handle.stats().epoch.load(Ordering::Relaxed)).into())
            })
        })?;
        for control in options.controls {
            sequence(&handle, control);
        }
        let reports = inbox.clone();
        let log = LogThread::start(log, stats.clone(), move |report| {
            let _ = reports.send(Event::Log(report));
        })?;
        if let (Some(options), Some(store)) = (options.snapshots, begin.store.clone()) {
            shell.take_snapshots(Snapshots::start(options, store, &begin, &inbox, &stats)?);
        }
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .stack_size(options.stack_bytes)
            .spawn(move || fatal_on_panic("driver", move || shell.serve(log)))?;
        Ok(SingleNode { handle, inbox, thread: Some(thread), recovered })
    }

    /// A handle for clients.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What recovery found.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Ends long transactions without effect whose end nobody could ask for later, so that those who wait for them are
    /// told.
    pub fn withdraw(&self) {
        // The thread may have ended already.
        let _ = self.inbox.send(Event::Withdraw);
    }

    /// Finishes the epoch under way, makes it durable, and ends all threads.
    pub fn stop(mut self) {
        // The thread may have ended already.
        let _ = self.inbox.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Name of the thread that recovers: what it panics of is told as an error.
pub(crate) const RECOVERY: &str = "styx-recovery";

/// Functions that may wait for other workers at a time.
const SUSPENDED_MAX: usize = 1024;

/// The end of a recovery that met what cannot be: this program is wrong, or what is stored.
#[derive(Debug)]
pub struct RecoveryPanic {
    /// The epoch that was being applied.
    epoch: u64,
    said: String,
}

impl RecoveryPanic {
    fn of(panic: &(dyn Any + Send), epoch: u64) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        RecoveryPanic { epoch, said: said.unwrap_or("no message").replace(char::is_control, " ") }
    }
}

impl fmt::Display for RecoveryPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} of the log cannot be applied: {}", self.epoch, self.said)
    }
}

impl std::error::Error for RecoveryPanic {}
