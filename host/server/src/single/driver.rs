//! The thread that owns the machine: takes messages, steps, does what the actions say.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use styx_protocol::executor::Executor;
use styx_protocol::ids::{EngineHash, Epoch, Generation, LogPosition, WorkerId};
use styx_protocol::machine::worker::{ClientRequest, ClientResponse};
use styx_protocol::machine::{Action, Input, Machine, coordinator, worker};
use styx_protocol::record::Record;
use styx_protocol::snapshot::RestoredState;
use styx_protocol::task::TaskExecutor;
use tokio::sync::oneshot;

use super::appender::ToLog;
use super::snapshots::{Scheduled, Scheduler, Snapshots};
use super::{Event, Prepare, Recovered};
use crate::clock::now;
use crate::execution::{Dispatcher, ExecutionPool, INLINE_MAX};
use crate::fatal::fatal;
use crate::guest_logs::show;
use crate::handle::{Answer, ClientMessage, Failure, Handle, OperatorMessage, Waiter};
use crate::log::read_record;
use crate::snapshots::{RecoveryPoint, StoreReport};
use crate::stats::Phases;
use styx_driver::admin_query::QueryView;
use styx_driver::time;
use styx_driver::wire::{AdminQuery, Overview, Response};
use styx_storage::log::Log;

/// Messages taken before the machine is asked whether it can cut.
const BATCH_MAX: usize = 4096;

/// When an epoch is cut: at once while the log keeps up; while it does not, when the epoch is full
/// or has waited long enough. An fsync takes as long for one transaction as for many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) size: usize,
    pub(super) wait: Duration,
}

/// Epochs that may wait for one fsync before further ones are held back to fill.
const UNSYNCED_MAX: u64 = 2;

pub(super) struct Driver<E> {
    machine: Machine<Waiter>,
    dispatcher: Dispatcher<E>,
    messages: Receiver<Event>,
    handle: Handle,
    prepare: Prepare,
    pace: Pace,
    waiting_since: Option<Instant>,
    prepared: u64,
    /// Hash of the engine's configuration.
    engine: EngineHash,
    records: Option<Sender<ToLog>>,
    snapshots: Option<Snapshots>,
    /// Answers to admin queries and who asked, until what they tell is durable.
    undurable_reads: VecDeque<(Epoch, Response, oneshot::Sender<Response>)>,
    durable: Epoch,
    /// What of the log is durable: no later epoch stands before it.
    position: u64,
    started: Instant,
    /// When the pool was given the batch that it has.
    batch_out: Instant,
    /// When it was last looked how many requests wait, and how many that were.
    waiting: (Instant, usize),
    /// Epochs that have ended and are not durable, and since when.
    undurable: VecDeque<(Epoch, Instant)>,
    stopping: bool,
}

impl<E: Executor + TaskExecutor> Driver<E> {
    pub(super) fn new(
        machine: Machine<Waiter>,
        executor: E,
        pool: ExecutionPool,
        messages: Receiver<Event>,
        handle: Handle,
        prepare: Prepare,
        pace: Pace,
    ) -> Self {
        Driver {
            machine,
            dispatcher: Dispatcher::new(executor, INLINE_MAX, pool),
            messages,
            handle,
            prepare,
            pace,
            waiting_since: None,
            prepared: 0,
            engine: EngineHash(0),
            records: None,
            snapshots: None,
            undurable_reads: VecDeque::new(),
            durable: Epoch(0),
            position: 0,
            started: Instant::now(),
            batch_out: Instant::now(),
            waiting: (Instant::now(), 0),
            undurable: VecDeque::new(),
            stopping: false,
        }
    }

    /// Restores the snapshot that the process begins with, and replays the log's epochs after it.
    pub(super) fn recover(
        &mut self,
        log: &mut dyn Log,
        begin: &RecoveryPoint,
        restored: Option<RestoredState>,
        engine: EngineHash,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> anyhow::Result<Recovered> {
        self.engine = engine;
        let snapshot = begin.epoch();
        if let Some(restored) = restored {
            self.machine.restore(restored);
            self.durable = snapshot;
            self.step(coordinator::Input::Durable(snapshot));
            self.prepare_catalog();
        }
        let (mut epochs, mut warned) = (0, false);
        let (first, total) = (begin.position(), log.next() - begin.position());
        log.replay(first, &mut |sequence, bytes| {
            let record = match read_record(bytes)? {
                Record::Epoch(record) if record.epoch > snapshot => record,
                Record::Epoch(_) | Record::Generation(_) => return Ok(()),
                Record::Genesis(_) => anyhow::bail!("a second beginning"),
            };
            if record.engine != engine && !warned {
                warned = true;
                tracing::warn!(
                    epoch = record.epoch.0,
                    "the log was written under another engine configuration; the state is checked after every epoch"
                );
            }
            self.durable = record.epoch;
            self.step(coordinator::Input::Durable(record.epoch));
            self.step(coordinator::Input::Replay(record));
            while !self.machine.is_idle() {
                let message = self.messages.recv()?;
                self.take(message);
            }
            epochs += 1;
            progress(sequence - first + 1, total);
            Ok(())
        })?;
        self.position = log.next();
        self.prepare_catalog();
        let (epoch, chain) = self.machine.position();
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
    pub(super) fn serve(mut self, records: Sender<ToLog>) {
        self.records = Some(records);
        loop {
            for _ in 0..BATCH_MAX {
                match self.messages.try_recv() {
                    Ok(message) => self.take(message),
                    Err(_) => break,
                }
            }
            self.count_waiting();
            let mut patience = None;
            if self.machine.is_idle() && self.machine.has_work() {
                patience = self.patience();
                if patience.is_none() {
                    self.waiting_since = None;
                    self.step(coordinator::Input::Tick { now: now() });
                    continue;
                }
            }
            if self.stopping && self.machine.is_idle() && self.durable >= self.machine.position().0 {
                return;
            }
            self.schedule(|scheduler, now, effects| scheduler.tick(now, effects));
            let due = self.snapshots.as_ref().and_then(Snapshots::patience);
            let patience = patience.into_iter().chain(due).min();
            let message = match patience {
                None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => self.messages.recv_timeout(patience),
            };
            match message {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// How long requests wait for their epoch, all together: so many, for so long.
    fn count_waiting(&mut self) {
        let (now, waiting) = (Instant::now(), self.handle.queued() + self.machine.backlog());
        let (since, before) = std::mem::replace(&mut self.waiting, (now, waiting));
        let spent = now.duration_since(since).as_nanos() as u64 * (before + waiting) as u64 / 2;
        self.handle.stats().queue.fetch_add(spent, Ordering::Relaxed);
    }

    /// How much longer the next epoch may fill; `None` if it is to be cut now.
    fn patience(&mut self) -> Option<Duration> {
        let unsynced = self.machine.position().0.0 - self.durable.0;
        if unsynced < UNSYNCED_MAX || self.machine.backlog() >= self.pace.size || self.stopping {
            return None;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        self.pace.wait.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    fn take(&mut self, event: Event) {
        if let Event::Client(message) = &event {
            self.handle.taken(message);
        }
        match event {
            Event::Client(ClientMessage::Request(request)) => {
                if !self.stopping || matches!(request, ClientRequest::Await { .. }) {
                    self.step(request);
                }
            }
            Event::Machine(input) => self.step(input),
            Event::Client(ClientMessage::Read(query, to)) => {
                let (seen, answer) = self.read(&query);
                if seen <= self.durable {
                    // Whoever asked may be gone.
                    let _ = to.send(answer);
                } else {
                    self.undurable_reads.push_back((seen, answer, to));
                }
            }
            Event::Completed(completion) => {
                if let Some(finished) = self.dispatcher.take(completion) {
                    self.step(worker::Input::from(finished));
                }
            }
            Event::Operator(OperatorMessage::Deploy(control, waiter)) => {
                self.step(coordinator::Input::Control { control, waiter })
            }
            Event::Operator(OperatorMessage::Snapshot(to)) => match &self.snapshots {
                Some(_) => self.schedule(|scheduler, now, effects| scheduler.want(to, now, effects)),
                None => drop(to.send(Err("snapshots are off: start the server with --store".to_owned()))),
            },
            Event::PartWritten(part) => {
                self.schedule(|scheduler, now, effects| scheduler.part(WorkerId(0), part, now, effects));
            }
            Event::Store(StoreReport::Put(result)) => {
                self.schedule(|scheduler, now, effects| scheduler.manifest_put(result, now, effects));
            }
            Event::Store(StoreReport::Maintained(result)) => {
                self.schedule(|scheduler, now, effects| scheduler.maintained(result, now, effects));
            }
            Event::Synced(epoch, position) => {
                (self.durable, self.position) = (epoch, position);
                self.step(coordinator::Input::Durable(epoch));
                self.schedule(|scheduler, _, effects| scheduler.durable(epoch, effects));
                while let Some((_, since)) = self.undurable.pop_front_if(|(ended, _)| *ended <= epoch) {
                    Phases::add(&self.handle.stats().phases.log, since);
                }
                while self.undurable_reads.front().is_some_and(|(seen, ..)| *seen <= epoch) {
                    if let Some((_, answer, to)) = self.undurable_reads.pop_front() {
                        drop(to.send(answer));
                    }
                }
            }
            Event::Stop => self.stopping = true,
        }
    }

    /// Steps the scheduler of snapshots, if any are taken.
    fn schedule(&mut self, run: impl FnOnce(&mut Scheduler, time::Instant, &mut Vec<Scheduled>)) {
        if self.snapshots.as_mut().is_some_and(|snapshots| snapshots.step(run)) {
            self.step(coordinator::Input::Snapshot);
        }
    }

    /// Answers an admin query; gives the epoch that the answer tells of.
    fn read(&self, query: &AdminQuery) -> (Epoch, Response) {
        let (epoch, chain) = self.machine.position();
        let state = self.machine.state();
        if let AdminQuery::Cluster = query {
            let partitions = state.layout().partitions;
            let overview = Overview {
                single: true,
                generation: Generation(1).0,
                live: true,
                epoch,
                chain,
                members: Vec::new(),
                partitions,
                engine: self.engine.0,
                admin: None,
            };
            return (epoch, Response::Cluster(overview));
        }
        let view = QueryView {
            worker: WorkerId(0),
            owns: &|_| true,
            state,
            catalog: self.machine.catalog(),
            epoch,
            waiting: self.machine.backlog(),
            remembered: self.machine.remembered(),
        };
        (epoch, view.answer(query))
    }

    fn step(&mut self, input: impl Into<Input<Waiter>>) {
        let mut next = Some(input.into());
        while let Some(input) = next.take() {
            let mut actions = Vec::new();
            let phases = &self.handle.stats().phases;
            let phase = match &input {
                Input::Coordinator(coordinator::Input::Tick { .. }) => Some(&phases.cut),
                Input::Worker(worker::Input::Executed(_)) => {
                    Phases::add(&phases.execute, self.batch_out);
                    Some(&phases.commit)
                }
                Input::Worker(worker::Input::FellBack(_)) => {
                    Phases::add(&phases.fallback, self.batch_out);
                    Some(&phases.commit)
                }
                _ => None,
            };
            match phase {
                None => self.machine.step(input, &mut actions),
                Some(phase) => {
                    let begun = Instant::now();
                    self.machine.step(input, &mut actions);
                    Phases::add(phase, begun);
                }
            }
            for action in actions {
                if let Some(input) = self.perform(action) {
                    let input = Input::Worker(input);
                    debug_assert!(next.is_none(), "the machine asks for one execution at a time");
                    next = Some(input);
                }
            }
        }
    }

    fn snapshots(&self) -> &Snapshots {
        self.snapshots.as_ref().expect("nobody else asks for snapshots")
    }

    /// Does what the machine says; what was done at once is its next input.
    fn perform(&mut self, action: Action<Waiter>) -> Option<worker::Input<Waiter>> {
        match action {
            Action::Worker(action) => return self.perform_for_worker(action),
            Action::Coordinator(action) => self.perform_for_coordinator(action),
            Action::Finished(summary) => {
                // An epoch of deployments alone executes nothing.
                self.prepare_catalog();
                if summary.epoch > self.durable && self.records.is_some() {
                    self.undurable.push_back((summary.epoch, Instant::now()));
                }
                let ended = self.machine.position().0;
                self.schedule(|scheduler, _, _| scheduler.ended(ended));
                let stats = self.handle.stats();
                stats.finished(&summary, self.started.elapsed().as_micros() as u64);
                stats.entities.store(self.machine.state().len() as u64, Ordering::Relaxed);
                stats.state_bytes.store(self.machine.state().bytes(), Ordering::Relaxed);
            }
        }
        None
    }

    fn perform_for_coordinator(&mut self, action: coordinator::Action<Waiter>) {
        match action {
            coordinator::Action::Append(record) => {
                self.started = Instant::now();
                let records = self.records.as_ref().expect("nothing is cut before the log is open");
                drop(records.send(ToLog::Append(record)));
            }
            coordinator::Action::Controlled { waiter, result } => waiter.answer(Answer::Controlled(result)),
            coordinator::Action::Snapshot(header) => {
                let position = LogPosition(self.position);
                self.schedule(|scheduler, now, effects| scheduler.header(header, position, now, effects));
            }
            coordinator::Action::Expel { expected, found, .. } => {
                panic!("one process has deployed {found:016x} and {expected:016x}")
            }
            coordinator::Action::Send { .. } | coordinator::Action::Finished(_) => {
                debug_assert!(false, "the machine keeps these to itself");
            }
        }
    }

    fn perform_for_worker(&mut self, action: worker::Action<Waiter>) -> Option<worker::Input<Waiter>> {
        match action {
            worker::Action::Execute(batch) => {
                self.prepare_catalog();
                self.batch_out = Instant::now();
                return self.dispatcher.execute(batch).map(worker::Input::from);
            }
            worker::Action::FallBack(batch) => {
                self.batch_out = Instant::now();
                return self.dispatcher.fall_back(batch).map(worker::Input::from);
            }
            worker::Action::Respond(response) => match response {
                ClientResponse::Reply { waiter, reply } => waiter.answer(Answer::Reply(reply)),
                ClientResponse::Accepted { waiter, id } => waiter.answer(Answer::Accepted(id)),
                ClientResponse::Unknown { waiter } => waiter.answer(Answer::Unknown),
                ClientResponse::Returned { waiter } => waiter.answer(Answer::Failed(Failure::Unavailable)),
            },
            worker::Action::WorkerSnapshot(part) => self.snapshots().delta_writer.part(part),
            worker::Action::Changes { changes, last } => self.snapshots().delta_writer.changes(changes, last),
            worker::Action::RunTasks(tasks) => return self.dispatcher.advance(tasks).map(worker::Input::from),
            worker::Action::Send { .. } | worker::Action::Finished(_) => {
                debug_assert!(false, "the machine keeps these to itself");
            }
            worker::Action::Logs { tid, lines } => {
                let catalog = self.machine.catalog().clone();
                lines.iter().for_each(|line| show(&catalog, tid, line));
            }
        }
        None
    }

    /// Has new deployments loaded and shown to clients.
    fn prepare_catalog(&mut self) {
        let catalog = self.machine.catalog();
        if catalog.version() != self.prepared {
            self.prepared = catalog.version();
            if let Err(error) = (self.prepare)(catalog) {
                fatal(&format!("a deployed component cannot be loaded: {error:#}"));
            }
            self.handle.show_catalog(catalog.clone());
        }
    }
}
