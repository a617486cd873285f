//! A process that is everything at once: coordinator and only worker.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::ids::{Epoch, Timestamp, WorkerId};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::machine::{Action, Config, Input, Machine, coordinator, worker};
use styx_protocol::record::EpochRecord;

use super::appender::Appender;
use super::pool::{ExecutionPool, Inputs};
use super::records;
use super::snapshots::{DeltaWriter, SnapshotScheduler};
use crate::check::checker::Ended;
use crate::check::state::WorkerState;
use crate::check::{Checked, ensure};
use crate::environment::Environment;
use crate::event::{Life, Message, NodeEvent};
use crate::random::Random;
use crate::replay;
use crate::threads::Threads;

/// Driver of a single process.
#[derive(Debug)]
pub(super) struct Single {
    life: Life,
    machine: Machine<u64>,
    appender: Appender,
    pool: ExecutionPool,
    delta_writer: DeltaWriter,
    scheduler: Option<SnapshotScheduler>,
    ticking: bool,
    /// The epoch under way, if it is one.
    round: Option<Epoch>,
}

impl Single {
    /// A process that has read its log.
    ///
    /// # Errors
    /// The log does not give what it gave before.
    pub(super) fn start(life: Life, environment: &mut Environment) -> Checked<Self> {
        let before = environment.disk.durable();
        let log: Vec<Arc<EpochRecord>> = records(environment.disk.recover())?;
        let durable = environment.disk.durable();
        ensure(durable >= before, "log", || format!("epoch {before} was durable, {durable} is"))?;
        environment.checker.opened(&log, environment.disk.trimmed())?;
        let hand_over_max = environment.plan.snapshotting.chunk;
        let mut machine = Machine::new(Config { hand_over_max, ..environment.plan.config });
        let snapshot = environment.take_over(life, environment.plan.config.generation.0)?;
        if let Some(snapshot) = snapshot.as_ref().filter(|snapshot| snapshot.frame.epoch > Epoch(0)) {
            machine.restore(environment.store.load(snapshot, |_| true)?);
            environment.checker.restored(snapshot.number, machine.state())?;
            let alone = environment.checker.remembered.placement().clone();
            environment.checker.placed(alone, Some(snapshot.number));
        }
        let scheduler = snapshot
            .map(|snapshot| SnapshotScheduler::new(life, snapshot.generation, 1, snapshot, durable, environment));
        let pool = ExecutionPool::new(life, false, environment);
        let mut single = Single {
            life,
            machine,
            appender: Appender::new(),
            pool,
            delta_writer: DeltaWriter::default(),
            scheduler,
            ticking: false,
            round: None,
        };
        single.machine.step(coordinator::Input::Durable(durable), &mut Vec::new());
        let mut threads = Threads::new(environment.plan.threads(), false, Random::new(environment.random.number()));
        let from = single.machine.position().0;
        for record in log.iter().filter(|record| record.epoch > from) {
            environment.figures.replayed += 1;
            let ended = replay::one(&mut single.machine, record, &mut threads, &mut environment.random)?;
            environment.checker.finished(Some(record.epoch), ended)?;
        }
        environment.checker.compare(single.machine.position(), &[single.worker_state()], true)?;
        environment.learn(single.machine.catalog());
        // What was rescheduled in the last epoch of the log goes on without anybody asking.
        single.pace(environment);
        Ok(single)
    }

    pub(super) fn worker_state(&self) -> WorkerState<'_> {
        WorkerState { state: self.machine.state(), remembered: self.machine.remembered() }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let scheduler = self.scheduler.as_ref().is_none_or(SnapshotScheduler::is_quiet);
        scheduler && self.machine.is_idle() && !self.machine.has_work() && self.appender.is_quiet()
    }

    pub(super) fn slow_disk(&mut self, factor: u64) {
        self.appender.slow = factor;
    }

    /// A client's message.
    pub(super) fn hear(&mut self, attempt: usize, message: Message, environment: &mut Environment) -> Checked {
        let waiter = attempt as u64;
        let input: Input<u64> = match message {
            Message::Submit(request, receipt) => ClientRequest::Submit { request, waiter, receipt }.into(),
            Message::Query(request) => ClientRequest::Query { request: (*request).clone(), waiter }.into(),
            Message::Await(id) => ClientRequest::Await { id, waiter }.into(),
            Message::Control(control) => coordinator::Input::Control { control, waiter }.into(),
        };
        self.step([input].into(), environment)
    }

    /// Something happens to the process.
    pub(super) fn take(&mut self, event: NodeEvent, clock: i64, environment: &mut Environment) -> Checked {
        let mut inputs: VecDeque<Input<u64>> = VecDeque::new();
        let mut done = Inputs::new();
        match event {
            NodeEvent::Tick => {
                self.ticking = false;
                let now = environment.queue.now().saturating_add_signed(clock);
                inputs.push_back(coordinator::Input::Tick { now: Timestamp(now) }.into());
            }
            NodeEvent::BatchShare(job, thread) => self.pool.share_done(job, thread, &mut done, environment),
            NodeEvent::TaskDone(task) => self.pool.task_done(task, &mut done),
            NodeEvent::Synced(end, _) => {
                self.appender.synced(end, self.life, environment);
                if let Some(scheduler) = &mut self.scheduler {
                    scheduler.durable(end.epoch);
                }
                inputs.push_back(coordinator::Input::Durable(end.epoch).into());
            }
            NodeEvent::HandOver => inputs.push_back(worker::Input::HandOver.into()),
            NodeEvent::Uploaded => {
                let generation = environment.plan.config.generation;
                if let Some(written) = self.delta_writer.uploaded(generation.0, self.life, environment) {
                    self.scheduler().written(WorkerId(0), written);
                }
            }
            NodeEvent::SnapshotDue => {
                let reached = self.machine.position().0;
                if self.scheduler().due(Some(reached), environment) {
                    inputs.push_back(coordinator::Input::Snapshot.into());
                }
            }
            NodeEvent::Put(put) => {
                let deposed = self.scheduler().put(put, environment)?;
                ensure(!deposed, "snapshot", || "a single process is replaced".into())?;
            }
            NodeEvent::Heartbeat | NodeEvent::FenceRaised(..) | NodeEvent::Loaded => panic!("there is nobody else"),
        }
        inputs.extend(done.into_iter().map(Input::Worker));
        self.step(inputs, environment)?;
        self.scheduler.as_mut().map_or(Ok(()), |scheduler| scheduler.advance(environment))
    }

    fn scheduler(&mut self) -> &mut SnapshotScheduler {
        self.scheduler.as_mut().expect("this world has snapshots")
    }

    /// Has the next epoch cut some time, if there is anything to cut.
    fn pace(&mut self, environment: &mut Environment) {
        if !self.ticking && self.machine.is_idle() && self.machine.has_work() {
            self.ticking = true;
            let delay = environment.delay(environment.plan.pace);
            environment.later(self.life, delay, NodeEvent::Tick);
        }
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(&mut self, mut inputs: VecDeque<Input<u64>>, environment: &mut Environment) -> Checked {
        let mut actions = Vec::new();
        while let Some(input) = inputs.pop_front() {
            self.machine.step(input, &mut actions);
            for action in actions.drain(..) {
                let mut done = Inputs::new();
                self.perform(action, &mut done, environment)?;
                inputs.extend(done.into_iter().map(Input::Worker));
            }
        }
        self.pace(environment);
        Ok(())
    }

    fn perform(&mut self, action: Action<u64>, inputs: &mut Inputs, environment: &mut Environment) -> Checked {
        match action {
            Action::Coordinator(coordinator::Action::Append(record)) => {
                environment.cut(self.life, &record)?;
                self.round = Some(record.epoch);
                self.appender.append(record, self.life, environment);
            }
            Action::Worker(worker::Action::Execute(batch)) => {
                environment.learn(&batch.catalog);
                environment.expect_queries(batch.queries.iter().cloned());
                self.pool.execute(batch, inputs, environment);
            }
            Action::Worker(worker::Action::FallBack(batch)) => self.pool.fall_back(batch, inputs, environment),
            Action::Finished(summary) => {
                let epoch = self.round.take();
                let summaries = [summary];
                environment.count(&summaries, false);
                let [summary] = summaries;
                let ended = Ended::of([summary.clone()], summary.chain);
                environment.finished(self.life, epoch, ended)?;
                let thoroughly = environment.checker.epoch().0.is_multiple_of(8);
                environment.checker.compare(self.machine.position(), &[self.worker_state()], thoroughly)?;
            }
            Action::Coordinator(coordinator::Action::Snapshot(frame)) => {
                environment.checker.expectation(&frame)?;
                self.scheduler().frame(frame);
            }
            Action::Worker(worker::Action::WorkerSnapshot(part)) => {
                self.delta_writer.part(part, self.life, environment)
            }
            Action::Worker(worker::Action::Changes { changes, last }) => {
                self.delta_writer.changes(changes, last, self.life, environment)
            }
            Action::Worker(worker::Action::Respond(responses)) => {
                for response in responses {
                    environment.tell(self.life, response)?;
                }
            }
            Action::Coordinator(coordinator::Action::Controlled { waiter, result }) => {
                environment.respond_controlled(self.life, waiter, &result)?;
            }
            Action::Worker(worker::Action::Logs { .. }) => {}
            Action::Worker(_) | Action::Coordinator(_) => panic!("there is one worker: {action:?}"),
        }
        Ok(())
    }

    /// After all is over.
    pub(super) fn check(&self, environment: &Environment) -> Checked {
        let position = self.machine.position();
        environment.checker.compare(position, &[self.worker_state()], true)?;
        ensure(position.0 == environment.disk.durable(), "liveness", || {
            format!("epoch {} never becomes durable; {} is", position.0, environment.disk.durable())
        })
    }
}
