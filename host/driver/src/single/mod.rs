//! Single driver: coordinator and worker of a process that is all of the system, with a log.
//!
//! Decides when an epoch is cut, when a read may be told, when a snapshot is taken and when the process may
//! end. The protocol's machine, which is both roles, lies inside.

mod io;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::control::Control;
use styx_protocol::ids::{EngineHash, Epoch, Generation, LogPosition, PlacementVersion, WorkerId};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::machine::{Action, Config, Input, Machine, coordinator, worker};
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::snapshot::RestoredState;
use styx_protocol::state::State;

pub use io::{SingleEffect, SingleEvent};

use self::pace::Pace;
use crate::COORDINATOR;
use crate::admin_query::QueryView;
use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::fullness::{Fullness, Holdings, Looks};
use crate::log_time::LogTime;
use crate::snapshots::{NoSnapshot, SnapshotConfig, SnapshotEffect, SnapshotScheduler};
use crate::suspicion::{Suspect, Suspects, judge};
use crate::time::{Instant, Now, earliest};
use crate::wire::{AdminQuery, Overview, Response};

const ONLY: WorkerId = WorkerId(0);

/// Settings of a single process.
#[derive(Clone, Debug)]
pub struct SingleConfig {
    /// Settings of the machine.
    pub machine: Config,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// Most bytes of state, in memory.
    pub state_max: u64,
    /// The same of an app: otherwise half of it.
    pub app_state_max: Option<u64>,
    /// What was under way when earlier lives of this process ended, as it has kept it.
    pub suspects: Vec<Suspect>,
    /// Lives that a request may end before it is set aside; 0: any number.
    pub quarantine_after: u32,
}

/// Snapshots of a single process.
#[derive(Clone, Debug)]
pub struct SnapshotStart {
    /// When they are taken.
    pub schedule: SnapshotConfig,
    /// The generation that writes them.
    pub generation: Generation,
    /// The snapshot that the process began with: its epoch, and where replay began.
    pub newest: Option<(Epoch, LogPosition)>,
    /// The next one builds on it.
    pub builds_on: bool,
}

#[derive(Debug)]
pub struct SingleDriver<W, R, S> {
    machine: Machine<W>,
    engine: EngineHash,
    pace: Pace,
    log_time: LogTime,
    snapshots: Option<SnapshotScheduler<S>>,
    /// Reads of entities that wait for the end of the round, in order.
    reads: VecDeque<(R, AdminQuery)>,
    /// Answers to admin queries, until all that they tell is durable.
    undurable_reads: VecDeque<(Epoch, R, Response)>,
    /// Epochs that have ended and are not durable, and since when.
    undurable_epochs: VecDeque<(Epoch, Instant)>,
    durable: Epoch,
    /// What of the log is durable: no later epoch stands before it.
    position: LogPosition,
    state_max: u64,
    app_state_max: Option<u64>,
    looks: Looks,
    fullness: Fullness,
    /// The version of the catalog that was prepared last.
    prepared: u64,
    /// The last epoch was cut then.
    cut_at: Instant,
    /// When an epoch that may be cut is to be cut.
    cut_due: Option<Instant>,
    replaying: bool,
    stopping: bool,
    suspects: Suspects,
    quarantine_after: u32,
    /// Empty between steps; its memory is used again.
    actions: Vec<Action<W>>,
}

type Effects<W, R, S> = Vec<SingleEffect<W, R, S>>;

impl<W, R, S> SingleDriver<W, R, S> {
    /// A process with an empty state, which recovers until [`Self::recovered`].
    pub fn new(config: SingleConfig) -> Self {
        let SingleConfig { machine, epoch_max_wait, state_max, app_state_max, suspects, quarantine_after } = config;
        SingleDriver {
            suspects: Suspects::new(suspects),
            quarantine_after,
            engine: machine.engine,
            pace: Pace::new(machine.epoch_size_max, epoch_max_wait),
            machine: Machine::new(machine),
            log_time: LogTime::default(),
            snapshots: None,
            reads: VecDeque::new(),
            undurable_reads: VecDeque::new(),
            undurable_epochs: VecDeque::new(),
            durable: Epoch(0),
            position: LogPosition(0),
            state_max,
            app_state_max,
            looks: Looks::default(),
            fullness: Fullness::default(),
            prepared: 0,
            cut_at: Instant(0),
            cut_due: None,
            replaying: true,
            stopping: false,
            actions: Vec::new(),
        }
    }

    /// Begins with a snapshot, before the log is replayed.
    pub fn restore(&mut self, now: Now, restored: RestoredState, effects: &mut Effects<W, R, S>) {
        let epoch = restored.frame.epoch;
        self.machine.restore(restored);
        self.durable = epoch;
        self.machine_step(now, coordinator::Input::Durable(epoch), effects);
        self.prepare_catalog(effects);
    }

    /// The log has been replayed up to its end: from now on clients are served, and snapshots taken. What earlier lives
    /// have ended of is set aside before anything is executed.
    pub fn recovered(
        &mut self,
        now: Now,
        position: LogPosition,
        snapshots: Option<SnapshotStart>,
        effects: &mut Effects<W, R, S>,
    ) {
        assert!(self.is_idle(), "a record is replayed to its end");
        (self.replaying, self.position) = (false, position);
        self.prepare_catalog(effects);
        effects.extend(Diagnostic::carried(self.machine.carried()).map(SingleEffect::Diagnostic));
        let reached = self.machine.position().0;
        self.snapshots = snapshots.map(|SnapshotStart { schedule, generation, newest, builds_on }| {
            let mut scheduler = SnapshotScheduler::new(schedule, generation, 1, newest, reached, None, now.monotonic);
            if let Some((newest, _)) = newest.filter(|_| !builds_on) {
                scheduler.begin_anew(newest.next());
            }
            scheduler
        });
        let (suspects, catalog) = (self.suspects.all().iter(), self.machine.catalog());
        for quarantined in judge(suspects, catalog, self.quarantine_after, now.wall) {
            let control = Control::Quarantine(quarantined);
            self.machine_step(now, coordinator::Input::Control { control, waiter: None }, effects);
        }
    }

    /// The last epoch that ended, and the state hash chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        self.machine.position()
    }

    /// The committed state.
    pub fn state(&self) -> &State {
        self.machine.state()
    }

    /// The record of the round under way without what it comes to, once it is known that it will have one.
    pub fn cut(&self) -> Option<&Arc<EpochRecord>> {
        self.machine.cut()
    }

    /// Tells whether no epoch is under way.
    pub fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    /// Requests that wait for an epoch.
    pub fn backlog(&self) -> usize {
        self.machine.backlog()
    }

    /// Replies remembered.
    pub fn remembered(&self) -> usize {
        self.machine.remembered()
    }

    /// What waits to be sequenced or told: nothing when all is quiet.
    pub fn under_way(&self) -> usize {
        self.machine.backlog() + self.reads.len() + self.undurable_reads.len() + self.undurable_epochs.len()
    }

    /// When it wants to be stepped with [`SingleEvent::Settled`] at the latest; none if only events bring work.
    pub fn wake(&self) -> Option<Instant> {
        let look = self.looks.due(self.machine.state().changes());
        earliest(earliest(self.cut_due, look), self.snapshots.as_ref().and_then(SnapshotScheduler::due))
    }

    /// Takes one event; pushes what is to be done.
    ///
    /// # Panics
    /// When an invariant is broken, or replay meets another state than the log was written on.
    pub fn step(&mut self, now: Now, event: SingleEvent<W, R, S>, effects: &mut Effects<W, R, S>) {
        match event {
            SingleEvent::Client(ClientMessage::Request(request)) => {
                // One that stops takes nothing new; whoever asks for an earlier request is told.
                if !self.stopping || matches!(request, ClientRequest::Await { .. }) {
                    self.machine_step(now, request, effects);
                }
            }
            SingleEvent::Client(ClientMessage::Read(query, to)) => self.read(query, to, effects),
            SingleEvent::Deploy { control, waiter } => {
                self.machine_step(now, coordinator::Input::Control { control, waiter: Some(waiter) }, effects);
            }
            SingleEvent::TakeSnapshot(waiter) => {
                if self.snapshots.is_some() {
                    self.schedule(now, effects, |scheduler, now, wanted| scheduler.want(waiter, now, wanted));
                } else {
                    let result = Err(NoSnapshot::Off);
                    effects.push(SingleEffect::SnapshotAnswer { waiter, result });
                }
            }
            SingleEvent::Replay(record) => self.replay(now, record, effects),
            SingleEvent::Executed(executed) => self.machine_step(now, worker::Input::Executed(executed), effects),
            SingleEvent::TaskProgress(progress) => {
                self.machine_step(now, worker::Input::TaskProgress(progress), effects);
            }
            SingleEvent::FellBack(outcomes) => self.machine_step(now, worker::Input::FellBack(outcomes), effects),
            SingleEvent::LongRead(run, operation) => {
                self.machine_step(now, worker::Input::LongRead { run, operation }, effects);
            }
            SingleEvent::LongEnded(run, execution) => {
                self.machine_step(now, worker::Input::LongEnded { run, execution }, effects);
            }
            SingleEvent::Withdraw => self.machine_step(now, worker::Input::Withdraw, effects),
            SingleEvent::Synced { epoch, position } => self.synced(now, epoch, position, effects),
            SingleEvent::HandOver => self.machine_step(now, worker::Input::HandOver, effects),
            SingleEvent::PartWritten(part) => {
                self.schedule(now, effects, |scheduler, now, wanted| scheduler.part(ONLY, part, now, wanted));
            }
            SingleEvent::ManifestPut(result) => {
                self.schedule(now, effects, |scheduler, now, wanted| scheduler.manifest_put(result, now, wanted));
            }
            SingleEvent::Maintained(result) => {
                self.schedule(now, effects, |scheduler, now, wanted| scheduler.maintained(result, now, wanted));
            }
            SingleEvent::Stop => {
                self.stopping = true;
                self.machine_step(now, worker::Input::Withdraw, effects);
            }
            SingleEvent::Settled => self.settle(now, effects),
        }
    }

    /// Forgets suspects that are in quarantine by now.
    fn review_suspects(&mut self, effects: &mut Effects<W, R, S>) {
        if self.suspects.all().is_empty() {
            return;
        }
        let ended = self.machine.position().0;
        let epoch = if self.machine.is_idle() { ended } else { ended.next() };
        let left = self.suspects.review(self.machine.catalog(), epoch, self.durable);
        effects.extend(left.map(SingleEffect::KeepSuspects));
    }

    fn replay(&mut self, now: Now, record: Arc<EpochRecord>, effects: &mut Effects<W, R, S>) {
        assert!(self.replaying && self.is_idle(), "records are replayed one after the other, before clients come");
        self.durable = record.epoch;
        self.machine_step(now, coordinator::Input::Durable(record.epoch), effects);
        self.machine_step(now, coordinator::Input::Replay(record), effects);
    }

    fn synced(&mut self, now: Now, epoch: Epoch, position: LogPosition, effects: &mut Effects<W, R, S>) {
        assert!(epoch >= self.durable && position >= self.position, "what is durable stays so");
        (self.durable, self.position) = (epoch, position);
        self.machine_step(now, coordinator::Input::Durable(epoch), effects);
        self.schedule(now, effects, |scheduler, _, wanted| scheduler.durable(epoch, wanted));
        self.review_suspects(effects);
        while let Some((_, since)) = self.undurable_epochs.pop_front_if(|(ended, _)| *ended <= epoch) {
            effects.push(SingleEffect::WaitedForLog(now.monotonic.since(since)));
        }
        while let Some((_, to, response)) = self.undurable_reads.pop_front_if(|(read, ..)| *read <= epoch) {
            effects.push(SingleEffect::Respond(to, response));
        }
    }

    /// Cuts an epoch if it is time to, and ends if nothing is left.
    fn settle(&mut self, now: Now, effects: &mut Effects<W, R, S>) {
        self.schedule(now, effects, |scheduler, now, wanted| scheduler.tick(now, wanted));
        self.look(now.monotonic, effects);
        self.review_suspects(effects);
        self.cut_due = None;
        if self.machine.is_idle() && self.machine.has_work() {
            let unsynced = self.machine.position().0.0 - self.durable.0;
            let hold = self.pace.hold(now.monotonic, self.machine.backlog(), unsynced);
            self.cut_due = hold.filter(|_| !self.stopping);
            if self.cut_due.is_none() {
                self.pace.cut();
                self.cut_at = now.monotonic;
                let time = self.log_time.at(now, self.machine.time());
                self.machine_step(now, coordinator::Input::Tick { now: time }, effects);
                // What was executed at once may leave the next one to be cut.
                self.cut_due = Some(now.monotonic);
            }
        }
        if self.stopping
            && self.machine.is_idle()
            && !self.machine.has_work()
            && self.durable >= self.machine.position().0
        {
            effects.push(SingleEffect::End);
        }
    }

    /// Looks whether somebody is to get no more state.
    fn look(&mut self, now: Instant, effects: &mut Effects<W, R, S>) {
        let state = self.machine.state();
        if self.replaying || !self.looks.take(now, state.changes()) {
            return;
        }
        let holdings = Holdings::of(state, self.machine.catalog(), self.state_max);
        self.fullness.told(COORDINATOR, holdings, |_| true);
        if let Some(full) = self.fullness.review(self.app_state_max) {
            effects.push(SingleEffect::Full(full.clone()));
        }
    }

    /// Reads the machine, entities between two rounds only: a round under way has applied some of its writes. The
    /// answer is given once all that it tells is durable.
    fn read(&mut self, query: AdminQuery, to: R, effects: &mut Effects<W, R, S>) {
        if query.shows_entities() && !self.machine.is_idle() {
            return self.reads.push_back((to, query));
        }
        let (epoch, response) = self.view(&query);
        if epoch <= self.durable || planted(Bug::ReadAtOnce) {
            effects.push(SingleEffect::Respond(to, response));
        } else {
            self.undurable_reads.push_back((epoch, to, response));
        }
    }

    /// Answers an admin query; gives the epoch that the answer tells of.
    fn view(&self, query: &AdminQuery) -> (Epoch, Response) {
        let (epoch, chain) = self.machine.position();
        let state = self.machine.state();
        if let AdminQuery::Cluster = query {
            let overview = Overview {
                single: true,
                generation: Generation(1),
                live: true,
                epoch,
                chain,
                members: Vec::new(),
                placement: PlacementVersion::FIRST,
                partitions: state.layout().partitions,
                created: state.layout().created,
                engine: self.engine,
                admin: None,
            };
            return (epoch, Response::Cluster(overview));
        }
        let view = QueryView {
            work: &|partition| self.machine.work(partition),
            leaves_to: &|_| None,
            worker: ONLY,
            owns: &|_| true,
            state,
            catalog: self.machine.catalog(),
            epoch,
            waiting: self.machine.backlog(),
            remembered: self.machine.remembered(),
            busy_us: 0,
        };
        (epoch, view.answer(query))
    }

    /// Steps the scheduler of snapshots, if any are taken, and does what it says.
    fn schedule(
        &mut self,
        now: Now,
        effects: &mut Effects<W, R, S>,
        run: impl FnOnce(&mut SnapshotScheduler<S>, Instant, &mut Vec<SnapshotEffect<S>>),
    ) {
        let Some(scheduler) = &mut self.snapshots else { return };
        let mut wanted = Vec::new();
        run(scheduler, now.monotonic, &mut wanted);
        for effect in wanted {
            effects.push(match effect {
                SnapshotEffect::Begin => {
                    self.machine_step(now, coordinator::Input::Snapshot, effects);
                    continue;
                }
                // What is said inside of a process arrives.
                SnapshotEffect::ResendParts => continue,
                SnapshotEffect::Put(draft) => SingleEffect::PutManifest(draft),
                SnapshotEffect::Maintain => SingleEffect::MaintainSnapshots,
                SnapshotEffect::CutMaintenanceShort => SingleEffect::CutMaintenanceShort,
                SnapshotEffect::TrimLog(until) => SingleEffect::TrimLog(until),
                SnapshotEffect::Taken(summary) => SingleEffect::SnapshotTaken(summary),
                SnapshotEffect::Answer(waiter, result) => SingleEffect::SnapshotAnswer { waiter, result },
                SnapshotEffect::IsNewest(waiter, newest) => {
                    SingleEffect::SnapshotAnswer { waiter, result: newest.ok_or(NoSnapshot::NothingHappened) }
                }
                SnapshotEffect::Expel(worker, why) => panic!("worker {worker} is this process: {why}"),
                SnapshotEffect::Diagnostic(diagnostic) => SingleEffect::Diagnostic(diagnostic),
                SnapshotEffect::Halt(why) => SingleEffect::Halt(why),
            });
        }
    }

    fn machine_step(&mut self, now: Now, input: impl Into<Input<W>>, effects: &mut Effects<W, R, S>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step(input.into(), &mut actions);
        for action in actions.drain(..) {
            self.perform(now, action, effects);
        }
        self.actions = actions;
        if self.machine.is_idle() {
            for (to, query) in std::mem::take(&mut self.reads) {
                self.read(query, to, effects);
            }
        }
    }

    fn perform(&mut self, now: Now, action: Action<W>, effects: &mut Effects<W, R, S>) {
        match action {
            Action::Worker(action) => self.perform_for_worker(action, effects),
            Action::Coordinator(coordinator::Action::Append(record)) => {
                effects.push(SingleEffect::Append(record));
            }
            Action::Coordinator(coordinator::Action::Controlled { waiter, result }) => {
                effects.push(SingleEffect::Answer(waiter, Answer::Controlled(result)));
            }
            Action::Coordinator(coordinator::Action::Snapshot(header)) => {
                let position = self.position;
                self.schedule(now, effects, |scheduler, now, wanted| scheduler.header(header, position, now, wanted));
            }
            Action::Coordinator(coordinator::Action::Expel { expected, found, .. }) => {
                panic!("one process has deployed {found:016x} and {expected:016x}")
            }
            Action::Coordinator(coordinator::Action::Fault(fault)) => panic!("{fault}"),
            Action::Coordinator(coordinator::Action::Placed(_)) => {
                unreachable!("one worker has all partitions")
            }
            Action::Coordinator(coordinator::Action::Send { .. } | coordinator::Action::Finished(_)) => {
                unreachable!("the machine keeps these to itself")
            }
            Action::Finished(summary) => {
                // An epoch of deployments alone executes nothing.
                self.prepare_catalog(effects);
                if !self.replaying {
                    if summary.epoch > self.durable {
                        self.undurable_epochs.push_back((summary.epoch, now.monotonic));
                    }
                    let ended = self.machine.position().0;
                    self.schedule(now, effects, |scheduler, _, _| scheduler.ended(ended));
                }
                effects.push(SingleEffect::EpochEnded {
                    summary,
                    duration: now.monotonic.since(self.cut_at),
                    entities: self.machine.state().len(),
                    state_bytes: self.machine.state().bytes(),
                    forgotten_early: self.machine.forgotten_early(),
                    waiting_apps: self.machine.waiting_apps(),
                });
            }
        }
    }

    fn perform_for_worker(&mut self, action: worker::Action<W>, effects: &mut Effects<W, R, S>) {
        let effect = match action {
            worker::Action::Execute(batch) => {
                self.prepare_catalog(effects);
                SingleEffect::Execute(batch)
            }
            worker::Action::FallBack(batch) => SingleEffect::FallBack(batch),
            worker::Action::RunTasks(tasks) => SingleEffect::RunTasks(tasks),
            worker::Action::StartLong(task) => SingleEffect::StartLong(task),
            worker::Action::LongRead { run, answer } => SingleEffect::AnswerLong(run, answer),
            worker::Action::Respond(responses) => SingleEffect::AnswerAll(responses),
            worker::Action::Logs { tid, lines } => {
                SingleEffect::Logs { catalog: self.machine.catalog().clone(), tid, lines }
            }
            worker::Action::WorkerSnapshot(part) => SingleEffect::WritePart(part),
            worker::Action::Changes { changes, last } => SingleEffect::WriteChanges { changes, last },
            worker::Action::Fault(fault) => panic!("{fault}"),
            worker::Action::Discard(_) => unreachable!("one worker has all partitions"),
            worker::Action::Send { .. } | worker::Action::Finished(_) => {
                unreachable!("the machine keeps these to itself")
            }
        };
        effects.push(effect);
    }

    /// Has new deployments compiled and shown to clients.
    fn prepare_catalog(&mut self, effects: &mut Effects<W, R, S>) {
        let catalog = self.machine.catalog();
        if catalog.version() != self.prepared {
            self.prepared = catalog.version();
            effects.push(SingleEffect::PrepareCatalog(catalog.clone()));
        }
    }
}
