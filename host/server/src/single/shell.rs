//! The driver's thread of a single process: takes events of clients, of the threads that execute and write,
//! and carries out what the driver wants done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use styx_driver::client::Answer;
use styx_driver::single::{SingleDriver, SingleEffect, SingleEvent, SnapshotStart};
use styx_driver::snapshots::{NoSnapshot, SnapshotSummary};
use styx_driver::time::Now;
use styx_driver::wire::{AdminQuery, Response};
use styx_durability::log::{LogReport, replay};
use styx_durability::recovery::RecoveryPoint;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::executor::Executor;
use styx_protocol::ids::LogPosition;
use styx_protocol::snapshot::RestoredState;
use styx_protocol::task::{RunId, TaskExecutor};
use styx_storage::log::Log;
use tokio::sync::oneshot;

use super::snapshots::Snapshots;
use super::{Event, Prepare, Recovered};
use crate::clock::{MonotonicClock, now};
use crate::diagnostics;
use crate::executing::Executing;
use crate::execution::{Dispatcher, Finished, LongEvent, LongPool};
use crate::fatal::fatal;
use crate::guest_logs::GuestLogs;
use crate::handle::{ClientMessage, Handle, OperatorMessage, Waiter};
use crate::log::LogThread;
use crate::quarantine;
use crate::snapshots::StoreReport;
use crate::stats::Phases;

/// Messages taken before an epoch may be cut.
const BATCH_MAX: usize = 4096;

type SnapshotWaiter = oneshot::Sender<Result<SnapshotSummary, NoSnapshot>>;

/// The driver of this process, its events and its effects.
type Driver = SingleDriver<Waiter, oneshot::Sender<Response>, SnapshotWaiter>;
type DriverEvent = SingleEvent<Waiter, oneshot::Sender<Response>, SnapshotWaiter>;
type DriverEffect = SingleEffect<Waiter, oneshot::Sender<Response>, SnapshotWaiter>;

/// Threads that execute.
pub(super) struct Threads<E> {
    pub(super) dispatcher: Dispatcher<E>,
    pub(super) long: LongPool<E, RunId>,
    /// Where runs of long transactions say what they have to say.
    pub(super) events: Sender<Event>,
}

pub(super) struct Shell<E> {
    driver: Driver,
    clock: MonotonicClock,
    /// When the clocks were read last.
    now: Now,
    threads: Threads<E>,
    inbox: Receiver<Event>,
    handle: Handle,
    prepare: Prepare,
    executing: Option<Arc<Executing>>,
    guest_logs: GuestLogs,
    snapshots: Option<Snapshots>,
    log: Option<LogThread>,
    /// When the pool was given the batch that it has.
    batch_out: Instant,
    /// When the requests that wait were counted last, and how many those were.
    waiting: (Instant, usize),
    has_ended: bool,
    /// Empty between steps; its memory is used again.
    effects: Vec<DriverEffect>,
}

impl<E: Executor + TaskExecutor + Send + 'static> Shell<E> {
    pub(super) fn new(
        driver: Driver,
        threads: Threads<E>,
        inbox: Receiver<Event>,
        handle: Handle,
        prepare: Prepare,
        executing: Option<Arc<Executing>>,
        guest_logs: GuestLogs,
    ) -> Self {
        let clock = MonotonicClock::start();
        Shell {
            driver,
            clock,
            now: Now { monotonic: clock.now(), wall: now() },
            threads,
            inbox,
            handle,
            prepare,
            executing,
            guest_logs,
            snapshots: None,
            log: None,
            batch_out: Instant::now(),
            waiting: (Instant::now(), 0),
            has_ended: false,
            effects: Vec::new(),
        }
    }

    /// Restores the snapshot that the process begins with, and replays the log's epochs after it.
    pub(super) fn recover(
        &mut self,
        log: &mut dyn Log,
        begin: &RecoveryPoint,
        restored: Option<RestoredState>,
        snapshots: Option<SnapshotStart>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> anyhow::Result<Recovered> {
        let snapshot = begin.epoch();
        if let Some(restored) = restored {
            self.apply(|driver, now, effects| driver.restore(now, restored, effects));
        }
        let mut epochs = 0;
        let first = begin.position();
        let total = log.next() - first.0;
        replay(log, first, snapshot, &mut |position, record| {
            self.handle.stats().epoch.store(record.epoch.0, Ordering::Relaxed);
            self.step(SingleEvent::Replay(record));
            while !self.driver.is_idle() {
                let event = self.inbox.recv()?;
                self.take(event);
            }
            epochs += 1;
            progress(position.0 - first.0 + 1, total);
            Ok(true)
        })?;
        let end = LogPosition(log.next());
        self.apply(|driver, now, effects| driver.recovered(now, end, snapshots, effects));
        let (epoch, chain) = self.driver.position();
        let stats = self.handle.stats();
        stats.epoch.store(epoch.0, Ordering::Relaxed);
        stats.durable.store(epoch.0, Ordering::Relaxed);
        Ok(Recovered { snapshot, epochs, epoch, chain })
    }

    /// Takes snapshots from now on.
    pub(super) fn take_snapshots(&mut self, snapshots: Snapshots) {
        self.snapshots = Some(snapshots);
    }

    /// Serves until told to stop.
    pub(super) fn serve(mut self, log: LogThread) {
        self.log = Some(log);
        loop {
            for _ in 0..BATCH_MAX {
                match self.inbox.try_recv() {
                    Ok(event) => self.take(event),
                    Err(_) => break,
                }
            }
            self.count_waiting();
            self.step(SingleEvent::Settled);
            if self.has_ended {
                return;
            }
            let event = match self.driver.wake() {
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => self.inbox.recv_timeout(due.since(self.clock.now())),
            };
            match event {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Counts how long requests wait for their epoch, all together: so many, for so long.
    fn count_waiting(&mut self) {
        let (now, waiting) = (Instant::now(), self.handle.queued() + self.driver.backlog());
        let (since, before) = std::mem::replace(&mut self.waiting, (now, waiting));
        let spent = now.duration_since(since).as_nanos() as u64 * (before + waiting) as u64 / 2;
        self.handle.stats().queue.fetch_add(spent, Ordering::Relaxed);
    }

    fn take(&mut self, event: Event) {
        let event = match event {
            Event::Client(message) => {
                self.handle.taken(&message);
                if let ClientMessage::Read(AdminQuery::Observed(question), to) = message {
                    // No driver knows of it. Whoever asked may be gone.
                    let _ = to.send(Response::Observed(vec![self.handle.stats().observed.answer(&question)]));
                    return;
                }
                SingleEvent::Client(message)
            }
            Event::Operator(OperatorMessage::Deploy(control, waiter)) => {
                SingleEvent::Deploy { control: *control, waiter }
            }
            Event::Operator(OperatorMessage::Snapshot(waiter)) => SingleEvent::TakeSnapshot(waiter),
            Event::Operator(
                OperatorMessage::Migrate(.., waiter)
                | OperatorMessage::CancelMigration(waiter)
                | OperatorMessage::PaceMigration(_, waiter),
            ) => {
                let why = "this process has all partitions: there is nobody to migrate to";
                return waiter.answer(Answer::Controlled(Err(Abort::new(Code::BadArguments, why))));
            }
            Event::Completed(completion) => match self.threads.dispatcher.take(completion) {
                Some(finished) => event_of(finished),
                None => return,
            },
            Event::Log(LogReport::Synced { epoch, position, .. }) => {
                self.handle.stats().durable.store(epoch.0, Ordering::Relaxed);
                self.handle.stats().observed.durable(epoch);
                SingleEvent::Synced { epoch, position }
            }
            Event::Log(LogReport::Raised { .. }) => unreachable!("a single process has one generation"),
            Event::HandOver => SingleEvent::HandOver,
            Event::PartWritten(part) => SingleEvent::PartWritten(part),
            Event::Store(StoreReport::Put(result)) => SingleEvent::ManifestPut(result),
            Event::Store(StoreReport::Maintained(result)) => SingleEvent::Maintained(result),
            Event::Long(LongEvent::Read(run, operation)) => SingleEvent::LongRead(run, operation),
            Event::Long(LongEvent::Ended(run, execution)) => {
                self.threads.long.ended(run);
                SingleEvent::LongEnded(run, execution)
            }
            Event::Withdraw => SingleEvent::Withdraw,
            Event::Stop => SingleEvent::Stop,
        };
        self.step(event);
    }

    fn step(&mut self, event: DriverEvent) {
        let mut events = VecDeque::new();
        let mut next = Some(event);
        while let Some(event) = next {
            // Requests come many at a time; nothing that is measured begins with one.
            if !matches!(event, SingleEvent::Client(_)) {
                self.now = Now { monotonic: self.clock.now(), wall: now() };
            }
            let phases = &self.handle.stats().phases;
            let (phase, settles) = match &event {
                SingleEvent::Executed(_) => {
                    Phases::add(&phases.execute, self.batch_out);
                    (Some(&phases.commit), false)
                }
                SingleEvent::FellBack(_) => {
                    Phases::add(&phases.fallback, self.batch_out);
                    (Some(&phases.commit), false)
                }
                SingleEvent::Settled => (Some(&phases.cut), true),
                _ => (None, false),
            };
            let begun = phase.map(|_| Instant::now());
            let mut effects = std::mem::take(&mut self.effects);
            self.driver.step(self.now, event, &mut effects);
            if let (Some(phase), Some(begun)) = (phase, begun)
                && (!settles || !effects.is_empty())
            {
                Phases::add(phase, begun);
            }
            events.extend(effects.drain(..).filter_map(|effect| self.perform(effect)));
            self.effects = effects;
            next = events.pop_front();
        }
    }

    /// Has the driver do something that is no event, and carries out what it wants done.
    fn apply(&mut self, run: impl FnOnce(&mut Driver, Now, &mut Vec<DriverEffect>)) {
        self.now = Now { monotonic: self.clock.now(), wall: now() };
        let mut effects = Vec::new();
        run(&mut self.driver, self.now, &mut effects);
        let events: Vec<DriverEvent> = effects.into_iter().filter_map(|effect| self.perform(effect)).collect();
        events.into_iter().for_each(|event| self.step(event));
    }

    fn snapshots(&self) -> &Snapshots {
        self.snapshots.as_ref().expect("snapshots are taken only where there is a store")
    }

    /// Carries out an effect; gives what came of it at once.
    fn perform(&mut self, effect: DriverEffect) -> Option<DriverEvent> {
        match effect {
            SingleEffect::Append(record) => self.log().append(record),
            SingleEffect::TrimLog(until) => self.log().trim(until),
            SingleEffect::Execute(batch) => {
                self.batch_out = Instant::now();
                return self.threads.dispatcher.execute(batch).map(event_of);
            }
            SingleEffect::RunTasks(tasks) => return self.threads.dispatcher.advance(tasks).map(event_of),
            SingleEffect::FallBack(batch) => {
                self.batch_out = Instant::now();
                return self.threads.dispatcher.fall_back(batch).map(event_of);
            }
            SingleEffect::StartLong(task) => {
                let events = self.threads.events.clone();
                self.threads.long.start(task.run, task, move |event| events.send(Event::Long(event)).is_ok());
            }
            SingleEffect::AnswerLong(run, answer) => self.threads.long.answer(run, answer),
            SingleEffect::PrepareCatalog(catalog) => {
                if let Err(error) = (self.prepare)(&catalog) {
                    fatal(&format!("a deployed component cannot be loaded: {error:#}"));
                }
                // What a replay meets on its way may be over by now.
                if self.log.is_some() {
                    quarantine::tell(&self.handle.catalog(), &catalog);
                }
                self.handle.show_catalog(catalog);
            }
            SingleEffect::KeepSuspects(suspects) => {
                let executing = self.executing.as_ref().expect("only what was noted is suspected");
                executing.keep(suspects);
            }
            SingleEffect::WritePart(part) => self.snapshots().delta_writer.part(part),
            SingleEffect::WriteChanges { changes, last } => self.snapshots().delta_writer.changes(changes, last),
            SingleEffect::PutManifest(draft) => self.snapshots().store.put(draft),
            SingleEffect::MaintainSnapshots => self.snapshots().store.maintain(),
            SingleEffect::CutMaintenanceShort => self.snapshots().store.cut_short(),
            SingleEffect::SnapshotTaken(summary) => self.handle.stats().snapshots.add(summary),
            SingleEffect::SnapshotAnswer { waiter, result } => {
                // Whoever asked may be gone.
                let _ = waiter.send(result);
            }
            SingleEffect::Full(full) => self.handle.admission().show_state(full),
            SingleEffect::Answer(waiter, answer) => {
                self.note_end(&answer);
                waiter.answer(answer);
            }
            SingleEffect::AnswerAll(responses) => {
                for (waiter, answer) in responses.into_iter().map(Answer::of) {
                    self.note_end(&answer);
                    waiter.answer(answer);
                }
            }
            SingleEffect::Respond(to, response) => {
                let _ = to.send(response);
            }
            SingleEffect::Logs { catalog, tid, lines } => {
                let stats = self.handle.stats();
                self.guest_logs.show(&stats.observed, &catalog, tid, &lines, &stats.guest_lines_left_out);
            }
            SingleEffect::EpochEnded { summary, duration, entities, state_bytes, forgotten_early, waiting_apps } => {
                let stats = self.handle.stats();
                stats.finished(&summary, duration.as_micros() as u64);
                stats.entities.store(entities as u64, Ordering::Relaxed);
                stats.state_bytes.store(state_bytes, Ordering::Relaxed);
                stats.replies_forgotten_early.store(forgotten_early, Ordering::Relaxed);
                stats.waiting_apps.store(waiting_apps as u64, Ordering::Relaxed);
            }
            SingleEffect::WaitedForLog(duration) => {
                self.handle.stats().phases.log.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
            }
            SingleEffect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
            SingleEffect::End => self.has_ended = true,
            SingleEffect::Halt(why) => fatal(&why),
        }
        None
    }

    fn note_end(&self, answer: &Answer) {
        if let Answer::Reply(reply) | Answer::Replayed(reply) = answer {
            self.handle.stats().observed.ended(reply);
        }
    }

    fn log(&self) -> &LogThread {
        self.log.as_ref().expect("nothing is cut before the log is open")
    }
}

fn event_of(finished: Finished) -> DriverEvent {
    match finished {
        Finished::Executed(executed) => SingleEvent::Executed(executed),
        Finished::TaskProgress(progress) => SingleEvent::TaskProgress(progress),
        Finished::FellBack(outcomes) => SingleEvent::FellBack(outcomes),
    }
}
