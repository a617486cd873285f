//! A process that is all of a cluster: the product's driver, and what its shell does for it.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_driver::admission::LogCondition;
use styx_driver::client::{Answer, ClientMessage, Failure};
use styx_driver::fullness::Full;
use styx_driver::single::{SingleConfig, SingleDriver, SingleEffect, SingleEvent, SnapshotStart};
use styx_driver::snapshots::SnapshotConfig;
use styx_driver::time::Instant;
use styx_durability::log::LogReport;
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::machine::Config;
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::record::EpochRecord;
use styx_protocol::transaction::{Request, Transaction};

use super::Input;
use super::around::Around;
use super::booting::Booted;
use super::front::{Front, FrontInput};
use super::log::LogThread;
use super::long;
use super::pool::{ExecutionPool, Finished};
use super::storing::StoreThread;
use super::writing::PartThread;
use crate::check::state::WorkerState;
use crate::check::{Checked, ensure};
use crate::event::{Message, Waiter, Work};

type Driver = SingleDriver<Waiter, usize, usize>;
type DriverEvent = SingleEvent<Waiter, usize, usize>;
type DriverEffect = SingleEffect<Waiter, usize, usize>;

/// Batches up to this size may run on the driver's own thread: nobody waits for its heartbeats.
const INLINE_MAX: usize = 3;

#[derive(Debug)]
pub struct Single {
    driver: Driver,
    pool: ExecutionPool,
    log: LogThread,
    parts: Option<PartThread>,
    store: Option<StoreThread>,
    /// What follows when the log is replayed; nothing, if it is.
    recovering: Option<Recovering>,
    /// The epoch under way, if the round is one.
    round: Option<Epoch>,
    /// Queries that begin to run beside the epochs, until it is known which epoch begins with them.
    begun: Vec<Transaction>,
    /// The record that was cut last.
    cut: Option<Arc<EpochRecord>>,
    has_ended: bool,
    /// What is deployed.
    catalog: Arc<Catalog>,
    /// Who gets no more state.
    full: Full,
    /// Its front for records.
    front: Option<Front>,
    /// When that was woken last.
    ticked: Instant,
}

#[derive(Debug)]
struct Recovering {
    snapshots: Option<SnapshotStart>,
    end: LogPosition,
}

impl Single {
    /// A process that has opened its log and its store.
    ///
    /// # Errors
    /// What was restored is not what was there.
    pub fn new(booted: Booted, around: &mut Around<'_>) -> Checked<Self> {
        let Booted { log, genesis, layout, store, found, restored, end, generation, .. } = booted;
        let plan = around.environment.plan.clone();
        let machine = Config { layout, record_bytes_max: log.record_bytes_max(), ..plan.config };
        let config = SingleConfig {
            machine,
            epoch_max_wait: plan.epoch_max_wait,
            state_max: plan.cluster.state_max,
            app_state_max: Some(plan.cluster.app_state_max),
            suspects: around.own.directory.suspects(),
            quarantine_after: plan.poison.map_or(0, |plan| plan.after),
        };
        let builds_on = found.as_ref().is_some_and(|found| found.metadata.layout() == layout);
        let snapshots = store.as_ref().map(|_| SnapshotStart {
            schedule: SnapshotConfig { interval: plan.snapshotting.interval, ..SnapshotConfig::default() },
            generation,
            newest: found.as_ref().map(|found| (found.metadata.header.epoch, LogPosition(found.manifest.log_position))),
            builds_on,
        });
        let pool = ExecutionPool::new(false, INLINE_MAX, around.environment);
        let mut log = LogThread::start(log, around);
        let (from, after) = found.as_ref().map_or((LogPosition(1), Epoch(0)), |found| {
            (LogPosition(found.manifest.log_position), found.metadata.header.epoch)
        });
        log.read(from, after, around);
        let (parts, stores) = match &store {
            Some(store) => (
                Some(PartThread::of_single(store.clone(), generation, layout, builds_on, around)),
                Some(StoreThread::of_single(store.clone(), genesis, generation, found.as_deref(), around)),
            ),
            None => (None, None),
        };
        let front = around.environment.plan.records.map(|_| Front::new(false, around));
        let mut single = Single {
            catalog: Arc::default(),
            full: Full::default(),
            front,
            ticked: around.instant(),
            driver: SingleDriver::new(config),
            pool,
            log,
            parts,
            store: stores,
            recovering: Some(Recovering { snapshots, end }),
            round: None,
            begun: Vec::new(),
            cut: None,
            has_ended: false,
        };
        around.environment.begins_alone(around.own.life, after)?;
        if let Some(restored) = restored {
            around.environment.restored_alone(&restored, layout.partitions)?;
            single.apply(around, |driver, around, effects| driver.restore(around.now(), *restored, effects))?;
        }
        Ok(single)
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Its execution threads.
    pub fn pool(&mut self) -> &mut ExecutionPool {
        &mut self.pool
    }

    /// What somebody waits for in it.
    pub fn under_way(&self) -> usize {
        self.driver.under_way() + self.front.as_ref().map_or(0, Front::under_way)
    }

    /// Takes something for its front.
    pub fn front(&mut self, input: FrontInput, around: &mut Around<'_>) -> Checked {
        let Some(front) = &mut self.front else { return Ok(()) };
        let asked = front.take(input, &self.catalog, around)?;
        asked.into_iter().try_for_each(|(waiter, message)| self.hear(waiter, message, around))
    }

    fn tick_front(&mut self, around: &mut Around<'_>) -> Checked {
        self.ticked = around.instant();
        let Some(front) = &mut self.front else { return Ok(()) };
        let asked = front.tick(&self.catalog, around)?;
        asked.into_iter().try_for_each(|(waiter, message)| self.hear(waiter, message, around))
    }

    pub fn worker_state(&self) -> WorkerState<'_> {
        WorkerState { state: self.driver.state(), remembered: self.driver.remembered() }
    }

    /// Why a request that may write is refused, if so.
    fn refuses(&self, condition: LogCondition, request: &Request, around: &mut Around<'_>) -> Option<Failure> {
        let state = || around.environment.refuses_state(&self.full, &self.catalog, request);
        condition.refuses_writes().or_else(state)
    }

    /// Takes a client's message, or its front's.
    pub fn hear(&mut self, waiter: Waiter, message: Message, around: &mut Around<'_>) -> Checked {
        let condition = LogCondition { full: around.own.directory.is_full(), stalled: false };
        let request = match message {
            Message::Submit(request, receipt) => match self.refuses(condition, &request, around) {
                Some(failure) => return around.answer_to(waiter, Answer::Failed(failure)),
                None => ClientRequest::Submit { request, waiter, receipt },
            },
            Message::Query(request) => ClientRequest::Query { request, waiter },
            Message::Await(id) => ClientRequest::Await { id, waiter },
            Message::Control(control) => {
                around.own.directory.keep_components(&control);
                return self.step(SingleEvent::Deploy { control, waiter }, around);
            }
            Message::Look(query) => {
                let Waiter::Client(attempt) = waiter else { panic!("a front does not look") };
                return self.step(SingleEvent::Client(ClientMessage::Read(query, attempt)), around);
            }
        };
        self.step(SingleEvent::Client(ClientMessage::Request(request)), around)
    }

    /// An administrator wants a snapshot.
    pub fn take_snapshot(&self, around: &mut Around<'_>) {
        let wish = around.environment.wishes.ask(around.own.life, self.driver.position().0);
        let event = SingleEvent::TakeSnapshot(wish);
        around.own.inbox.borrow_mut().push_back(Input::Single(Box::new(event)));
    }

    /// Whether clients are served.
    pub fn serves(&self) -> bool {
        self.recovering.is_none()
    }

    /// What its threads have said since they were looked at last.
    pub fn listen(&mut self, around: &mut Around<'_>) -> Checked {
        while let Some(report) = self.log.report() {
            let LogReport::Synced { epoch, position, .. } = report else { continue };
            around.environment.durable(around.own.life, epoch);
            let event = SingleEvent::Synced { epoch, position };
            around.own.inbox.borrow_mut().push_back(Input::Single(Box::new(event)));
        }
        Ok(())
    }

    /// Why its log has ended, if it has.
    pub fn failure(&self) -> Option<String> {
        self.log.failure()
    }

    /// An execution thread is done with something.
    pub fn done(&mut self, work: Work, around: &mut Around<'_>) -> Checked {
        self.pool.done(work, around).map(event_of).map_or(Ok(()), |event| self.step(event, around))
    }

    /// Everything that has come was taken.
    pub fn settle(&mut self, around: &mut Around<'_>) -> Checked {
        if self.recovering.is_some() {
            self.recover(around)?;
        }
        if self.recovering.is_some() {
            return Ok(());
        }
        self.step(SingleEvent::Settled, around)?;
        self.tick_front(around)
    }

    /// Replays the next records of the log; at its end clients may come.
    fn recover(&mut self, around: &mut Around<'_>) -> Checked {
        while self.driver.is_idle() {
            match self.log.next_record(around) {
                None => return Ok(()),
                Some(Some(record)) => {
                    around.environment.replayed(around.own.life, &record)?;
                    self.round = Some(record.epoch);
                    self.step(SingleEvent::Replay(record), around)?;
                }
                Some(None) => {
                    self.log.stop_reading(around);
                    let Recovering { snapshots, end } = self.recovering.take().expect("it recovers");
                    self.apply(around, |driver, around, effects| {
                        driver.recovered(around.now(), end, snapshots, effects);
                    })?;
                    around.environment.recovered_alone(self.driver.position(), &[self.worker_state()])?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// When it wants to be woken: at once, if it waits for a record that is there.
    pub fn wake(&self, around: &Around<'_>) -> Option<Instant> {
        if self.recovering.is_some() && self.driver.is_idle() && self.log.has_record() {
            return Some(around.instant());
        }
        let front = self.front.as_ref().filter(|_| self.recovering.is_none());
        let front = front.and_then(|front| front.wake(self.ticked));
        self.driver.wake().into_iter().chain(front).min()
    }

    fn apply(
        &mut self,
        around: &mut Around<'_>,
        run: impl FnOnce(&mut Driver, &Around<'_>, &mut Vec<DriverEffect>),
    ) -> Checked {
        let mut effects = Vec::new();
        run(&mut self.driver, around, &mut effects);
        let mut events = VecDeque::new();
        for effect in effects {
            events.extend(self.perform(effect, around)?);
        }
        self.step_all(events, around)
    }

    /// Steps the driver, and does what it says.
    pub fn step(&mut self, event: DriverEvent, around: &mut Around<'_>) -> Checked {
        self.step_all(VecDeque::from([event]), around)
    }

    fn step_all(&mut self, mut events: VecDeque<DriverEvent>, around: &mut Around<'_>) -> Checked {
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            self.driver.step(around.now(), event, &mut effects);
            for effect in effects {
                events.extend(self.perform(effect, around)?);
            }
        }
        Ok(())
    }

    /// Tells of a cut that is new.
    fn note_cut(&mut self, around: &mut Around<'_>) -> Checked {
        let Some(record) = self.driver.cut() else { return Ok(()) };
        if self.cut.as_ref().is_some_and(|known| Arc::ptr_eq(known, record)) {
            return Ok(());
        }
        around.environment.cut(around.own.life, record)?;
        self.round = Some(record.epoch);
        self.cut = Some(record.clone());
        Ok(())
    }

    fn perform(&mut self, effect: DriverEffect, around: &mut Around<'_>) -> Checked<Option<DriverEvent>> {
        let life = around.own.life;
        match effect {
            SingleEffect::Append(record) => {
                around.environment.appends(life, &record)?;
                around.environment.expect_queries(self.begun.drain(..));
                self.round = Some(record.epoch);
                self.log.append(record, around);
            }
            SingleEffect::TrimLog(until) => {
                around.environment.trims(until)?;
                self.log.trim(until, around);
            }
            SingleEffect::Execute(batch) => {
                ensure(self.recovering.is_none(), "recovery", || format!("{life} runs a function to recover"))?;
                self.note_cut(around)?;
                around.environment.expect_queries(batch.queries.iter().cloned());
                return Ok(self.pool.execute(batch, around).map(event_of));
            }
            SingleEffect::RunTasks(tasks) => self.pool.advance(tasks, around),
            SingleEffect::FallBack(batch) => return Ok(self.pool.fall_back(batch, around).map(event_of)),
            SingleEffect::StartLong(task) => {
                ensure(self.recovering.is_none(), "recovery", || format!("{life} runs a function to recover"))?;
                if task.transaction.query {
                    self.begun.push(task.transaction.clone());
                } else {
                    around.environment.checker.long_begins(task.transaction.tid)?;
                }
                around.environment.figures.long += 1;
                long::start(None, task, around);
            }
            SingleEffect::AnswerLong(run, answer) => around.has_read((None, run), answer),
            SingleEffect::PrepareCatalog(catalog) => {
                around.environment.learn(&catalog);
                self.catalog = catalog;
            }
            SingleEffect::KeepSuspects(left) => around.environment.keep_suspects(&around.own.directory, left)?,
            SingleEffect::WritePart(part) => {
                around.environment.part_begun_alone(part.epoch)?;
                self.parts().part(part, around);
            }
            SingleEffect::WriteChanges { changes, last } => self.parts().changes(changes, last, around),
            SingleEffect::PutManifest(draft) => self.store().put(draft, around),
            SingleEffect::MaintainSnapshots => self.store().maintain(around),
            SingleEffect::CutMaintenanceShort => self.store().cut_short(),
            SingleEffect::SnapshotAnswer { waiter, result } => {
                around.environment.wishes.answered(waiter, &result, self.store.is_some())?;
            }
            SingleEffect::SnapshotTaken(_) | SingleEffect::WaitedForLog(_) => {}
            SingleEffect::Answer(waiter, answer) => around.answer_to(waiter, answer)?,
            SingleEffect::AnswerAll(responses) => {
                // A query may have run beside a round that is not over.
                around.environment.expect_queries(self.begun.drain(..));
                around.environment.leaves_alone(&responses)?;
                for (waiter, answer) in responses.into_iter().map(Answer::of) {
                    around.answer_to(waiter, answer)?;
                }
            }
            SingleEffect::Respond(attempt, seen) => around.show(attempt, seen)?,
            SingleEffect::Logs { tid, lines, .. } => {
                // Each life of it shows them anew.
                around.environment.logged(Generation(life.number.into()), tid, &lines);
            }
            SingleEffect::EpochEnded { summary, .. } => {
                let waiting = self.pool.waiting();
                ensure(waiting == 0, "guests", || format!("{waiting} guests wait at {life} after the round"))?;
                around.environment.expect_queries(self.begun.drain(..));
                let (round, replays) = (self.round.take(), self.recovering.is_some());
                around.environment.ended_alone(life, round, summary, replays)?;
                around.environment.compare_alone(self.driver.position(), self.worker_state())?;
            }
            SingleEffect::Full(full) => self.full = full,
            SingleEffect::Diagnostic(diagnostic) => around.tell(&diagnostic),
            SingleEffect::End => self.has_ended = true,
            SingleEffect::Halt(why) => around.environment.halts(life, &why)?,
        }
        Ok(None)
    }

    fn parts(&self) -> &PartThread {
        self.parts.as_ref().expect("snapshots are taken only where there is a store")
    }

    fn store(&self) -> &StoreThread {
        self.store.as_ref().expect("snapshots are taken only where there is a store")
    }
}

fn event_of(finished: Finished) -> DriverEvent {
    match finished {
        Finished::Executed(executed) => SingleEvent::Executed(executed),
        Finished::TaskProgress(progress) => SingleEvent::TaskProgress(progress),
        Finished::FellBack(outcomes) => SingleEvent::FellBack(outcomes),
        Finished::Forgotten => unreachable!("a single process forgets nothing"),
    }
}
