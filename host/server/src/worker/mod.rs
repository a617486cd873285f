//! The worker of this process: the protocol's machine with threads, a log and clients around it.
//!
//! One *driver* thread owns the machine and does what it says; a *crew* of threads executes
//! batches; an *appender* thread makes records durable. Nothing here decides an outcome.

pub(crate) mod appender;
#[cfg(test)]
pub(crate) mod broken_log;
pub(crate) mod crew;
mod driver;
pub(crate) mod gathering;
mod handle;
mod room;
mod snapshots;
mod stats;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use styx_protocol::attempt::{LogLevel, LogLine};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Layout;
use styx_protocol::fallback::Executor;
use styx_protocol::ids::{Epoch, Tid, Timestamp};
use styx_protocol::machine::{Config, Input, Machine};
use styx_protocol::modes::Modes;
use styx_protocol::record::{Chain, Genesis, Record};
use styx_protocol::replies::Retention;
use styx_protocol::task::TaskExecutor;
use tokio::sync::oneshot;

pub use handle::{Answer, Failure, Handle, Waiter};
pub use room::{DiskWatch, Room};
pub use stats::{EpochReport, Phases, Stats};

use crate::snapshots::{Beginning, SnapshotOptions, Taken};
use driver::{Driver, Pace};
use snapshots::Snapshots;
use styx_driver::wire::{AdminQuery, Response};
use styx_storage::log::Log;

/// What the driver is told.
pub(crate) enum Message {
    /// A client's request, counted in [`Handle`]'s queue.
    Request(Input<Waiter>),
    /// Anything else for the machine.
    Input(Input<Waiter>),
    /// Somebody asks how things are; the answer is given once all that it tells is durable.
    Inquire(AdminQuery, oneshot::Sender<Response>),
    /// A thread of the crew has done its part.
    Part(crew::Part),
    /// Records are durable up to this epoch's, before this position of the log.
    Synced(Epoch, u64),
    /// Somebody wants a snapshot.
    Snapshot(oneshot::Sender<Result<Taken, String>>),
    /// Finish what is under way, then end.
    Stop,
}

/// Makes what a catalog names ready to be executed, before the first transaction that may call it.
pub type Prepare = Box<dyn FnMut(&Catalog) -> anyhow::Result<()> + Send>;

/// How a worker runs.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Threads that execute transactions.
    pub threads: usize,
    /// Native stack of each, in bytes.
    pub stack_bytes: usize,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// Most requests that may wait for an epoch.
    pub backlog_max: usize,
    /// Partitions, if the log is new.
    pub partitions: u16,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// Hash of the engine's configuration.
    pub engine: u64,
    /// Where snapshots go and when they are taken; never, if there is no such place.
    pub snapshots: Option<SnapshotOptions>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            stack_bytes: 8 << 20,
            epoch_size_max: 1000,
            epoch_max_wait: Duration::from_millis(1),
            backlog_max: 100_000,
            partitions: 64,
            retention: Retention::default(),
            modes: Modes::default(),
            engine: 0,
            snapshots: None,
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

/// A running worker.
pub struct Worker {
    handle: Handle,
    inbox: Sender<Message>,
    threads: Vec<JoinHandle<()>>,
    recovered: Recovered,
}

impl Worker {
    /// Recovers from `log`, then serves. `make` gives each execution thread its executor;
    /// `progress` hears of recovery: epochs replayed and epochs in all.
    ///
    /// # Errors
    /// The log cannot be read, or a deployed component cannot be made ready.
    pub fn start<E: Executor + TaskExecutor + Send + 'static>(
        options: WorkerOptions,
        mut log: Box<dyn Log>,
        make: impl Fn() -> E,
        prepare: Prepare,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> anyhow::Result<Worker> {
        let mut restored = None;
        let beginning =
            Beginning::find(log.as_mut(), options.partitions, options.snapshots.as_ref(), &mut |store, found| {
                restored = Some(found.restore(store, options.threads, |_| true, None)?);
                Ok(())
            })?;
        let config = Config {
            layout: beginning.genesis.layout,
            modes: options.modes,
            epoch_size_max: options.epoch_size_max,
            epoch_bytes_max: EPOCH_BYTES_MAX,
            backlog_max: options.backlog_max,
            suspended_max: SUSPENDED_MAX,
            retention: options.retention,
            engine: options.engine,
            generation: 1,
            snapshots: options.snapshots.is_some(),
            claim_order: false,
        };
        let (inbox, messages) = unbounded();
        let stats = Arc::new(Stats::default());
        let handle = Handle::new(inbox.clone(), options.backlog_max, stats.clone());
        handle.room().heed(log.stall());
        let parts = inbox.clone();
        let done = move |part| drop(parts.send(Message::Part(part)));
        let crew = crew::Crew::start(options.threads, options.stack_bytes, &make, done)?;
        let mut driver = Driver::new(
            Machine::new(config),
            make(),
            crew,
            messages,
            handle.clone(),
            prepare,
            Pace { size: options.epoch_size_max, wait: options.epoch_max_wait },
        );
        // Where the driver will run: a replay needs as much stack as the first execution, and guests
        // must not meet the runtime of whoever starts the server.
        let recovered = std::thread::scope(|scope| {
            let recovery = std::thread::Builder::new().name("styx-recovery".into()).stack_size(options.stack_bytes);
            let recovery = recovery
                .spawn_scoped(scope, || driver.recover(log.as_mut(), &beginning, restored, options.engine, progress))?;
            recovery.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let (records, appender) = appender::start(log, inbox.clone(), stats.clone())?;
        if let (Some(options), Some(store)) = (options.snapshots, beginning.store.clone()) {
            driver.keep(Snapshots::start(options, store, &beginning, &inbox, records.clone(), stats)?);
        }
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .stack_size(options.stack_bytes)
            .spawn(move || fatal_on_panic("driver", move || driver.serve(records)))?;
        Ok(Worker { handle, inbox, threads: vec![thread, appender], recovered })
    }

    /// A handle for clients.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What recovery found.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Finishes the epoch under way, makes it durable, and ends all threads.
    pub fn stop(mut self) {
        drop(self.inbox.send(Message::Stop));
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Functions that may wait for other workers at a time.
const SUSPENDED_MAX: usize = 1024;

/// Bytes of arguments in one record of the log.
const EPOCH_BYTES_MAX: usize = 16 << 20;

/// Reads the log's first record, or writes it.
pub(crate) fn genesis(log: &mut dyn Log, partitions: u16) -> anyhow::Result<Genesis> {
    if log.next() == 0 {
        let seed = uuid::Uuid::now_v7().as_u64_pair().1;
        let genesis = Genesis { layout: Layout { seed, partitions }, created: now() };
        log.append(&Record::Genesis(genesis).encode())?;
        log.sync()?;
        return Ok(genesis);
    }
    let mut found = None;
    let first = log.first();
    anyhow::ensure!(
        first == 0,
        "the log starts at record {first}: its beginning is missing, and there is no snapshot to start from"
    );
    let read = log.replay(0, &mut |_, bytes| {
        found = Some(read_record(bytes)?);
        anyhow::bail!("the first record is enough")
    });
    match (found, read) {
        (Some(Record::Genesis(genesis)), _) => Ok(genesis),
        (None, Err(error)) => Err(error.into()),
        _ => anyhow::bail!(
            "the log does not start with the record that every log starts with; is this another program's directory?"
        ),
    }
}

/// Reads a record of the log.
///
/// # Errors
/// It is not one, or not one of this version.
pub(crate) fn read_record(bytes: &[u8]) -> anyhow::Result<Record> {
    Record::decode(bytes).map_err(|error| anyhow::anyhow!("not a record of this version: {error}"))
}

/// Shows a guest's log line.
pub(crate) fn show(catalog: &Catalog, tid: Tid, line: &LogLine) {
    let operator = catalog.operator(line.operator).map(|operator| operator.name.clone());
    let (tid, operator, key) = (tid.0, operator.as_deref().unwrap_or("?"), &*line.key);
    // Each line on its own: what a guest says must not look like what the server says.
    for message in line.message.lines() {
        match line.level {
            LogLevel::Debug => tracing::debug!(target: "guest", tid, operator, key, "{message}"),
            LogLevel::Info => tracing::info!(target: "guest", tid, operator, key, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "guest", tid, operator, key, "{message}"),
            LogLevel::Error => tracing::error!(target: "guest", tid, operator, key, "{message}"),
        }
    }
}

/// The wall clock, for the log.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| since.as_micros() as u64))
}

/// A broken invariant must not be survived: state that may be wrong is worse than none.
pub(crate) fn fatal_on_panic(thread: &str, run: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        fatal(&format!("the {thread} thread found a broken invariant: {}", said.unwrap_or("no message")));
    }
}

/// Ends the process: what is durable is safe, and recovery starts from it.
pub(crate) fn fatal(message: &str) -> ! {
    eprintln!("FATAL: {message}. The process ends; nothing acknowledged is lost. Restart it to recover from the log.");
    std::process::abort()
}
