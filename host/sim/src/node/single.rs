//! A process that is everything at once: coordinator and only worker.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::ids::{Epoch, Timestamp, WorkerId};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::machine::{Action, Input, Machine, coordinator, worker};
use styx_protocol::record::EpochRecord;

use super::appender::Appender;
use super::crew::{Crew, Inputs};
use super::snapshots::{Collector, Keeper};
use super::{Life, Message, NodeEvent, Outside, records};
use crate::check::judge::Ended;
use crate::check::state::Holdings;
use crate::check::{Checked, ensure};
use crate::random::Random;
use crate::replay;

/// See the module.
#[derive(Debug)]
pub(super) struct Single {
    life: Life,
    machine: Machine<u64>,
    appender: Appender,
    crew: Crew,
    collector: Collector,
    keeper: Option<Keeper>,
    ticking: bool,
    /// The epoch under way, if it is one.
    round: Option<Epoch>,
}

impl Single {
    /// A process that has read its log.
    ///
    /// # Errors
    /// The log does not give what it gave before.
    pub(super) fn start(life: Life, outside: &mut Outside) -> Checked<Self> {
        let before = outside.disk.durable();
        let log: Vec<Arc<EpochRecord>> = records(outside.disk.recover())?;
        let durable = outside.disk.durable();
        ensure(durable >= before, "log", || format!("epoch {before} was durable, {durable} is"))?;
        outside.judge.opened(&log, outside.disk.trimmed())?;
        let mut machine = Machine::new(outside.plan.config);
        machine.hand_over_most(outside.plan.snapshotting.chunk);
        let snapshot = outside.take_over(life, outside.plan.config.generation.0)?;
        if let Some(snapshot) = snapshot.as_ref().filter(|snapshot| snapshot.frame.epoch > Epoch(0)) {
            machine.restore(outside.store.load(snapshot, |_| true)?);
            outside.judge.restored(snapshot.number, machine.state())?;
            let alone = outside.judge.remembered.placement().clone();
            outside.judge.seated(alone, Some(snapshot.number));
        }
        let keeper = snapshot.map(|snapshot| Keeper::new(life, snapshot.generation, 1, snapshot, durable, outside));
        let crew = Crew::new(life, false, outside);
        let mut single = Single {
            life,
            machine,
            appender: Appender::new(),
            crew,
            collector: Collector::default(),
            keeper,
            ticking: false,
            round: None,
        };
        single.machine.step(coordinator::Input::Durable(durable), &mut Vec::new());
        let mut threads = super::Threads::new(&outside.plan, false, Random::new(outside.random.number()));
        let from = single.machine.position().0;
        for record in log.iter().filter(|record| record.epoch > from) {
            outside.figures.replayed += 1;
            let ended = replay::one(&mut single.machine, record, &mut threads, &mut outside.random)?;
            outside.judge.finished(Some(record.epoch), ended)?;
        }
        outside.judge.compare(single.machine.position(), &[single.holdings()], true)?;
        outside.learn(single.machine.catalog());
        // What was rescheduled in the last epoch of the log goes on without anybody asking.
        single.pace(outside);
        Ok(single)
    }

    pub(super) fn holdings(&self) -> Holdings<'_> {
        Holdings { state: self.machine.state(), remembered: self.machine.remembered() }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let keeper = self.keeper.as_ref().is_none_or(Keeper::is_quiet);
        keeper && self.machine.is_idle() && !self.machine.has_work() && self.appender.is_quiet()
    }

    pub(super) fn slow_disk(&mut self, factor: u64) {
        self.appender.slow = factor;
    }

    /// A client's message.
    pub(super) fn hear(&mut self, attempt: usize, message: Message, outside: &mut Outside) -> Checked {
        let waiter = attempt as u64;
        let input: Input<u64> = match message {
            Message::Submit(request, receipt) => ClientRequest::Submit { request, waiter, receipt }.into(),
            Message::Query(request) => ClientRequest::Query { request: (*request).clone(), waiter }.into(),
            Message::Await(id) => ClientRequest::Await { id, waiter }.into(),
            Message::Control(control) => coordinator::Input::Control { control, waiter }.into(),
        };
        self.step([input].into(), outside)
    }

    /// Something happens to the process.
    pub(super) fn take(&mut self, event: NodeEvent, clock: i64, outside: &mut Outside) -> Checked {
        let mut inputs: VecDeque<Input<u64>> = VecDeque::new();
        let mut done = Inputs::new();
        match event {
            NodeEvent::Tick => {
                self.ticking = false;
                let now = outside.queue.now().saturating_add_signed(clock);
                inputs.push_back(coordinator::Input::Tick { now: Timestamp(now) }.into());
            }
            NodeEvent::Share(job, thread) => self.crew.share_done(job, thread, &mut done, outside),
            NodeEvent::Piece(piece) => self.crew.piece_done(piece, &mut done),
            NodeEvent::Synced(end, _) => {
                self.appender.synced(end, self.life, outside);
                if let Some(keeper) = &mut self.keeper {
                    keeper.durable(end.epoch);
                }
                inputs.push_back(coordinator::Input::Durable(end.epoch).into());
            }
            NodeEvent::HandOver => inputs.push_back(worker::Input::HandOver.into()),
            NodeEvent::Uploaded => {
                let generation = outside.plan.config.generation;
                if let Some(written) = self.collector.uploaded(generation.0, self.life, outside) {
                    self.keeper().written(WorkerId(0), written);
                }
            }
            NodeEvent::Wish => {
                let reached = self.machine.position().0;
                if self.keeper().wish(Some(reached), outside) {
                    inputs.push_back(coordinator::Input::Snapshot.into());
                }
            }
            NodeEvent::Put(put) => {
                let deposed = self.keeper().put(put, outside)?;
                ensure(!deposed, "snapshot", || "a single process is replaced".into())?;
            }
            NodeEvent::Pulse | NodeEvent::Raised(..) | NodeEvent::Loaded => panic!("there is nobody else"),
        }
        inputs.extend(done.into_iter().map(Input::Worker));
        self.step(inputs, outside)?;
        self.keeper.as_mut().map_or(Ok(()), |keeper| keeper.go_on(outside))
    }

    fn keeper(&mut self) -> &mut Keeper {
        self.keeper.as_mut().expect("this world has snapshots")
    }

    /// Has the next epoch cut some time, if there is anything to cut.
    fn pace(&mut self, outside: &mut Outside) {
        if !self.ticking && self.machine.is_idle() && self.machine.has_work() {
            self.ticking = true;
            let delay = outside.delay(outside.plan.pace);
            outside.later(self.life, delay, NodeEvent::Tick);
        }
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(&mut self, mut inputs: VecDeque<Input<u64>>, outside: &mut Outside) -> Checked {
        let mut actions = Vec::new();
        while let Some(input) = inputs.pop_front() {
            self.machine.step(input, &mut actions);
            for action in actions.drain(..) {
                let mut done = Inputs::new();
                self.perform(action, &mut done, outside)?;
                inputs.extend(done.into_iter().map(Input::Worker));
            }
        }
        self.pace(outside);
        Ok(())
    }

    fn perform(&mut self, action: Action<u64>, inputs: &mut Inputs, outside: &mut Outside) -> Checked {
        match action {
            Action::Coordinator(coordinator::Action::Append(record)) => {
                outside.cut(self.life, &record)?;
                self.round = Some(record.epoch);
                self.appender.append(record, self.life, outside);
            }
            Action::Worker(worker::Action::Execute(batch)) => {
                outside.learn(&batch.catalog);
                outside.ask_oracle(batch.queries.iter().cloned());
                self.crew.execute(batch, inputs, outside);
            }
            Action::Worker(worker::Action::FallBack(batch)) => self.crew.fall_back(batch, inputs, outside),
            Action::Finished(summary) => {
                let epoch = self.round.take();
                let summaries = [summary];
                outside.count(&summaries, false);
                let [summary] = summaries;
                let ended = Ended::of([summary.clone()], summary.chain);
                outside.finished(self.life, epoch, ended)?;
                let thoroughly = outside.judge.epoch().0.is_multiple_of(8);
                outside.judge.compare(self.machine.position(), &[self.holdings()], thoroughly)?;
            }
            Action::Coordinator(coordinator::Action::Snapshot(frame)) => {
                outside.judge.noted(&frame)?;
                self.keeper().frame(frame);
            }
            Action::Worker(worker::Action::WorkerSnapshot(part)) => self.collector.part(part, self.life, outside),
            Action::Worker(worker::Action::Changes { changes, last }) => {
                self.collector.changes(changes, last, self.life, outside)
            }
            Action::Worker(worker::Action::Respond(response)) => outside.tell(self.life, response)?,
            Action::Coordinator(coordinator::Action::Controlled { waiter, result }) => {
                outside.tell_controlled(self.life, waiter, &result)?;
            }
            Action::Worker(worker::Action::Logs { .. }) => {}
            Action::Worker(_) | Action::Coordinator(_) => panic!("there is one worker: {action:?}"),
        }
        Ok(())
    }

    /// After all is over.
    pub(super) fn check(&self, outside: &Outside) -> Checked {
        let position = self.machine.position();
        outside.judge.compare(position, &[self.holdings()], true)?;
        ensure(position.0 == outside.disk.durable(), "liveness", || {
            format!("epoch {} never becomes durable; {} is", position.0, outside.disk.durable())
        })
    }
}
