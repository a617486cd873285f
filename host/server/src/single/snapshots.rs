//! Snapshots of a process that is all of a cluster: the scheduler, and the threads that write and put.

use std::sync::Arc;

use crossbeam_channel::Sender;
use styx_driver::snapshots::{SnapshotConfig, SnapshotEffect, SnapshotScheduler, SnapshotSummary};
use styx_driver::time;
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::machine::worker;
use styx_storage::snapshot::SnapshotStore;
use tokio::sync::oneshot;

use super::Event;
use super::appender::ToLog;
use crate::clock::MonotonicClock;
use crate::diagnostics::show;
use crate::fatal::fatal;
use crate::snapshots::{DeltaWriter, RecoveryPoint, SnapshotOptions, StoreThread};
use crate::stats::Stats;

/// The generation of a process that is alone, unless the snapshot that it begins with is of a later one: a
/// cluster's, or one that was restored.
const GENERATION: Generation = Generation(1);

/// Somebody who waits for a snapshot.
type Waiter = oneshot::Sender<Result<SnapshotSummary, String>>;

/// The scheduler of this process.
pub(super) type Scheduler = SnapshotScheduler<Waiter>;

/// Its effects.
pub(super) type Scheduled = SnapshotEffect<Waiter>;

/// The scheduler, and what its effects are done with.
pub(super) struct Snapshots {
    scheduler: Scheduler,
    pub(super) delta_writer: DeltaWriter,
    store: StoreThread,
    log: Sender<ToLog>,
    stats: Arc<Stats>,
    clock: MonotonicClock,
}

impl Snapshots {
    /// Starts the threads, for a process that has recovered up to an epoch.
    pub(super) fn start(
        options: SnapshotOptions,
        store: SnapshotStore,
        begin: &RecoveryPoint,
        reached: Epoch,
        inbox: &Sender<Event>,
        log: Sender<ToLog>,
        stats: Arc<Stats>,
    ) -> std::io::Result<Self> {
        // Only one store is ever used.
        let _ = stats.snapshots.store.set(store.clone());
        let found = begin.found.as_ref();
        let generation = Generation(begin.generation()).max(GENERATION);
        let (to_hand_over, to_schedule, to_report) = (inbox.clone(), inbox.clone(), inbox.clone());
        // The driver that takes these is gone only when the process is about to end.
        let delta_writer = DeltaWriter::start(
            store.clone(),
            begin.genesis.layout.partitions,
            generation.0,
            found.is_some(),
            move || drop(to_hand_over.send(Event::Machine(worker::Input::HandOver.into()))),
            move |part| drop(to_schedule.send(Event::PartWritten(part))),
        )?;
        let schedule = SnapshotConfig { interval: options.interval, ..SnapshotConfig::default() };
        let store = StoreThread::start(store, options, begin.genesis, generation, found, move |report| {
            drop(to_report.send(Event::Store(report)));
        })?;
        let newest = found.map(|found| (found.metadata.header.epoch, LogPosition(found.manifest.log_position)));
        let clock = MonotonicClock::start();
        let scheduler = SnapshotScheduler::new(schedule, generation, 1, newest, reached, None, clock.now());
        Ok(Snapshots { scheduler, delta_writer, store, log, stats, clock })
    }

    /// How long the scheduler may wait for its next step.
    pub(super) fn patience(&self) -> Option<std::time::Duration> {
        self.scheduler.due().map(|due| due.since(self.now()))
    }

    /// Steps the scheduler and does what it says. Gives whether the machine is to begin a snapshot.
    #[must_use]
    pub(super) fn step(&mut self, run: impl FnOnce(&mut Scheduler, time::Instant, &mut Vec<Scheduled>)) -> bool {
        let (mut effects, mut begin) = (Vec::new(), false);
        let now = self.now();
        run(&mut self.scheduler, now, &mut effects);
        for effect in effects {
            match effect {
                SnapshotEffect::Begin => begin = true,
                // What is said inside a process arrives.
                SnapshotEffect::ResendParts => {}
                SnapshotEffect::Put(draft) => self.store.put(draft),
                SnapshotEffect::Maintain => self.store.maintain(),
                SnapshotEffect::CutMaintenanceShort => self.store.cut_short(),
                // The log's thread ends after this one.
                SnapshotEffect::TrimLog(until) => drop(self.log.send(ToLog::Trim(until.0))),
                SnapshotEffect::Taken(summary) => self.stats.snapshots.add(summary),
                // Whoever asked may be gone.
                SnapshotEffect::Answer(waiter, result) => drop(waiter.send(result)),
                SnapshotEffect::Expel(worker, why) => panic!("worker {worker} is this process: {why}"),
                SnapshotEffect::Diagnostic(diagnostic) => show(&diagnostic),
                SnapshotEffect::Halt(why) => fatal(&why),
            }
        }
        begin
    }

    fn now(&self) -> time::Instant {
        self.clock.now()
    }
}
