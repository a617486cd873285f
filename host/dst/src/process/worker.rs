//! A process that is a worker: the product's driver, and what its shell does for it.

use std::collections::{BTreeSet, VecDeque};

use styx_driver::COORDINATOR;
use styx_driver::network::NetworkEvent;
use styx_driver::time::Instant;
use styx_driver::wire::Envelope;
use styx_driver::worker::{WorkerConfig, WorkerDriver, WorkerEffect, WorkerEvent};
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::membership::{Build, Hello};

use super::around::{Around, address_of};
use super::long;
use super::pool::{ExecutionPool, Finished};
use super::restoring::{self, Restoring};
use super::writing::PartThread;
use crate::check::state::WorkerState;
use crate::check::{Checked, Failure, ensure};
use crate::event::{Event, Work};

type DriverEvent = WorkerEvent<usize, usize>;
type DriverEffect = WorkerEffect<usize, usize>;

/// See the module.
#[derive(Debug)]
pub struct Worker {
    driver: WorkerDriver<usize, usize>,
    pool: ExecutionPool,
    parts: Option<PartThread>,
    /// The store that was used last.
    store: restoring::KnownStore,
    /// Components that are compiled.
    compiled: BTreeSet<Digest>,
    /// Nodes to or from which messages of a generation are lost: each heartbeat in it says so.
    broken: BTreeSet<(Generation, NodeId)>,
    has_ended: bool,
    /// It has ended as it was asked to.
    has_left: bool,
}

impl Worker {
    /// A worker that nobody has invited.
    pub fn new(around: &mut Around<'_>) -> Self {
        let plan = &around.environment.plan;
        let (life, machine) = (around.own.life, &plan.config);
        let engine = plan.cluster.engine_of(life.node);
        let deviating = engine != machine.engine;
        let coordinators: Vec<String> = plan.coordinators().map(address_of).collect();
        let config = WorkerConfig {
            build: Build { version: "1".into(), engine },
            address: address_of(life.node),
            coordinators: coordinators.clone(),
            modes: machine.modes,
            epoch_size_max: machine.epoch_size_max,
            epoch_fuel_max: machine.epoch_fuel_max,
            backlog_max: machine.backlog_max,
            frame_bytes: plan.cluster.frame_bytes,
            suspended_max: machine.suspended_max,
            long_max: machine.long_max,
            step_max: machine.step_max,
            piece_bytes: machine.piece_bytes,
            state_max: plan.cluster.state_max,
            suspects: around.own.directory.suspects(),
            claim_order: true,
        };
        around.connect(COORDINATOR, &coordinators[0]);
        let pool = ExecutionPool::new(deviating, 0, around.environment);
        let driver = WorkerDriver::new(around.now(), config);
        let (store, compiled, broken) = (restoring::KnownStore::default(), BTreeSet::new(), BTreeSet::new());
        Worker { driver, pool, parts: None, store, compiled, broken, has_ended: false, has_left: false }
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether it has ended as it was asked to.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Its execution threads.
    pub fn pool(&mut self) -> &mut ExecutionPool {
        &mut self.pool
    }

    /// What somebody waits for in it.
    pub fn under_way(&self) -> usize {
        self.driver.under_way()
    }

    /// Its state, if it is a member of a generation.
    pub fn worker_state(&self, generation: Generation) -> Option<WorkerState<'_>> {
        if self.driver.generation() != Some(generation) {
            return None;
        }
        let machine = self.driver.machine()?;
        Some(WorkerState { state: machine.state(), remembered: machine.remembered() })
    }

    /// Everything that has come was taken; or nothing had come.
    pub fn settle(&mut self, idle: bool, around: &mut Around<'_>) -> Checked {
        self.step(if idle { WorkerEvent::Tick } else { WorkerEvent::Settled }, around)
    }

    /// When it wants to be woken.
    pub fn wake(&self) -> Instant {
        self.driver.wake()
    }

    /// An execution thread is done with something.
    pub fn done(&mut self, work: Work, around: &mut Around<'_>) -> Checked {
        self.pool.done(work, around).map(event_of).map_or(Ok(()), |event| self.step(event, around))
    }

    /// Steps the driver, and does what it says.
    pub fn step(&mut self, event: DriverEvent, around: &mut Around<'_>) -> Checked {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if let WorkerEvent::Restored { generation, result: Ok(Some(restored)) } = &event {
                around.environment.restored(around.own.life, *generation, restored)?;
            }
            if let WorkerEvent::ComponentPrepared(digest, Ok(())) = &event {
                self.compiled.insert(*digest);
            }
            let lost = match &event {
                WorkerEvent::Network(NetworkEvent::Broken { peer, generation, .. }) => Some((*generation, *peer)),
                WorkerEvent::Unsent { to, .. } => self.driver.generation().map(|generation| (generation, *to)),
                _ => None,
            };
            let mut effects = Vec::new();
            // Some of the effects are of the generation that a step has ended.
            let before = self.driver.generation();
            let changes = self.changes();
            self.driver.step(around.now(), event, &mut effects);
            // A machine that has come in the meantime has changed nothing yet.
            around.spend(self.changes().saturating_sub(changes) * around.environment.plan.change);
            for effect in effects {
                events.extend(self.perform(effect, before, around)?);
            }
            self.broken.extend(lost.filter(|(generation, _)| self.driver.generation() == Some(*generation)));
        }
        Ok(())
    }

    /// How much of the state was changed in the generation.
    fn changes(&self) -> u64 {
        self.driver.machine().map_or(0, |machine| machine.state().changes())
    }

    /// Checks that a heartbeat names every member to or from which messages are lost, as long as its generation is not over.
    fn reports(&self, hello: &Hello, around: &Around<'_>) -> Checked {
        if self.driver.generation() != Some(hello.generation) {
            return Ok(());
        }
        let Some(view) = around.environment.generations.get(&hello.generation) else { return Ok(()) };
        let lost = self.broken.iter().filter(|(generation, _)| *generation == hello.generation);
        let members = lost.filter_map(|(_, node)| view.worker_on((node.0 - 1) as usize));
        let unsaid = members.into_iter().find(|member| !hello.silent.contains(member));
        ensure(unsaid.is_none(), "loss reported", || {
            format!("{} has lost messages of {unsaid:?}, and does not say so", around.own.life)
        })
    }

    fn perform(
        &mut self,
        effect: DriverEffect,
        before: Option<Generation>,
        around: &mut Around<'_>,
    ) -> Checked<Option<DriverEvent>> {
        let life = around.own.life;
        match effect {
            WorkerEffect::Send { to, message } => {
                return Ok(around.send(to, &message).err().map(|why| {
                    around.environment.figures.unsent += 1;
                    WorkerEvent::Unsent { to, why: format!("{why:?}") }
                }));
            }
            WorkerEffect::SendControl { to, envelope } => {
                match &envelope {
                    Envelope::Responses(responses) => around.environment.leaves(life, responses)?,
                    Envelope::Hello { hello, .. } => self.reports(hello, around)?,
                    _ => {}
                }
                return Ok(around.send_control(to, &envelope).err().map(|why| {
                    around.environment.figures.unsent += 1;
                    WorkerEvent::ControlUnsent { to, why: format!("{why:?}") }
                }));
            }
            WorkerEffect::Disconnect(node) => around.forget(node),
            WorkerEffect::SetGeneration(generation) => {
                around.environment.joined(life, generation);
                around.set_generation(generation.0);
            }
            WorkerEffect::Connect { node, address } => around.connect(node, &address),
            WorkerEffect::Redirect(address) => around.redirect(COORDINATOR, &address),
            WorkerEffect::Execute(batch) => {
                if let Some(generation) = self.driver.generation() {
                    around.environment.executes(generation)?;
                    around.environment.queries(generation, &batch.queries);
                }
                let absent = batch.catalog.operators().find(|operator| !self.compiled.contains(&operator.component));
                ensure(absent.is_none(), "compiled before run", || format!("{life} runs what it has not compiled"))?;
                around.environment.learn(&batch.catalog);
                return Ok(self.pool.execute(batch, around).map(event_of));
            }
            WorkerEffect::RunTasks(tasks) => self.pool.advance(tasks, around),
            WorkerEffect::StartLong(generation, task) => {
                around.environment.executes(generation)?;
                if task.transaction.query {
                    around.environment.expect_long_query(generation, &task.transaction);
                } else {
                    around.environment.long_begins(generation, task.transaction.tid)?;
                }
                around.environment.figures.long += 1;
                long::start(Some(generation), task, around);
            }
            WorkerEffect::AnswerLong(generation, run, answer) => around.has_read((Some(generation), run), answer),
            WorkerEffect::FallBack(batch) => return Ok(self.pool.fall_back(batch, around).map(event_of)),
            WorkerEffect::ForgetExecution => return Ok(self.pool.forget().map(event_of)),
            WorkerEffect::PrepareComponent(digest) => return Ok(prepare(digest, around)),
            WorkerEffect::KeepComponent(digest, bytes) => {
                around.own.directory.keep(digest, &bytes);
                return Ok(prepare(digest, around));
            }
            WorkerEffect::Restore { generation, place, view, layout, former } => {
                let former = former.and_then(|former| former.into_retained().ok());
                let restoring = Restoring { generation, place, view, layout, former, known: self.store.clone() };
                restoring.start(around);
            }
            WorkerEffect::Discard(former) => drop(former),
            WorkerEffect::DiscardPartitions(discarded) => drop(discarded),
            WorkerEffect::BeginParts { generation, layout, builds_on } => {
                let store = self.store.borrow().clone().expect("parts are written where a beginning was read");
                self.parts = Some(PartThread::of_worker(store, generation, layout, builds_on, around));
            }
            WorkerEffect::WritePart(part) => {
                if let Some(generation) = before.or(self.driver.generation()) {
                    around.environment.part_begun(generation, part.epoch)?;
                }
                self.parts().part(part, around);
            }
            WorkerEffect::WriteChanges { changes, last } => self.parts().changes(changes, last, around),
            WorkerEffect::AbandonParts => {
                if let Some(parts) = self.parts.take() {
                    parts.abandon();
                }
            }
            WorkerEffect::Answer(attempt, answer) => around.answer(attempt, answer)?,
            WorkerEffect::Respond(attempt, seen) => around.show(attempt, seen)?,
            WorkerEffect::PublishCatalog(_) => {}
            WorkerEffect::KeepSuspects(left) => around.environment.keep_suspects(&around.own.directory, left)?,
            WorkerEffect::Logs { tid, lines, .. } => {
                let generation = before.or(self.driver.generation()).unwrap_or_default();
                around.environment.logged(generation, tid, &lines);
            }
            WorkerEffect::EpochEnded { summary, .. } => {
                let waiting = self.pool.waiting();
                ensure(waiting == 0, "guests", || format!("{waiting} guests wait at {life} after the round"))?;
                let generation = before.or(self.driver.generation());
                let generation = generation.ok_or_else(|| Failure::new("membership", "an epoch ends in none"))?;
                around.environment.worker_ended(life, generation, summary);
            }
            WorkerEffect::PeerError => around.environment.peer_error(life),
            WorkerEffect::Diagnostic(diagnostic) => around.tell(&diagnostic),
            WorkerEffect::Refused(_) => {
                around.environment.figures.refused += 1;
                self.has_ended = true;
            }
            WorkerEffect::End => (self.has_ended, self.has_left) = (true, true),
            WorkerEffect::Halt(why) => return Err(Failure::new("halt", why)),
        }
        Ok(None)
    }

    fn parts(&self) -> &PartThread {
        self.parts.as_ref().expect("parts are written between the beginning and the end of a generation")
    }
}

fn event_of(finished: Finished) -> DriverEvent {
    match finished {
        Finished::Executed(executed) => WorkerEvent::Executed(executed),
        Finished::TaskProgress(progress) => WorkerEvent::TaskProgress(progress),
        Finished::FellBack(outcomes) => WorkerEvent::FellBack(outcomes),
        Finished::Forgotten => WorkerEvent::ExecutionForgotten,
    }
}

/// Compiles a component that is on the disk, which takes a while.
fn prepare(digest: Digest, around: &mut Around<'_>) -> Option<DriverEvent> {
    if !around.own.directory.has(digest) {
        return Some(WorkerEvent::ComponentAbsent(digest));
    }
    let delay = around.environment.compile_time();
    let life = around.own.life;
    around.later(delay, Event::Compiled(life, digest));
    None
}
