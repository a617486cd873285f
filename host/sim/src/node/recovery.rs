//! Crash, restart, and replay of the log.

use styx_protocol::ids::Epoch;
use styx_protocol::machine::{Action, Input, Machine};
use styx_protocol::record::Record;

use super::{Node, Outside};
use crate::check::judge::Judge;
use crate::check::{Checked, Failure, ensure};
use crate::node::crew::Job;

impl Node {
    /// The process dies; of what was not synced, something may survive.
    pub fn crash(&mut self, outside: &mut Outside) {
        outside.figures.crashes += 1;
        let now = outside.queue.now();
        outside.trace.event(now, [7, self.durable.0], || format!("crash; epoch {} was durable", self.durable));
        self.life.number += 1;
        self.machine = None;
        self.job = None;
        self.unwritten.clear();
        self.syncing = false;
        self.ticking = false;
        self.paused_until = 0;
        self.disk.crash(&mut outside.random);
    }

    /// The process starts again and reads its log.
    ///
    /// # Errors
    /// The log does not give what it gave before.
    pub fn restart(&mut self, outside: &mut Outside) -> Checked {
        let (machine, durable) = self.replay(outside)?;
        ensure(durable >= self.durable, "log", || format!("epoch {} was durable, {durable} is", self.durable))?;
        let now = outside.queue.now();
        outside.trace.event(now, [8, durable.0], || format!("restart at epoch {durable}"));
        outside.figures.replayed += durable.0;
        self.durable = durable;
        self.machine = Some(machine);
        self.learn_operators();
        // What was rescheduled in the last epoch of the log goes on without anybody asking.
        self.pace(outside);
        Ok(())
    }

    /// A machine and a judge that read the log on the disk, as if nothing were known.
    pub(super) fn replay(&mut self, outside: &mut Outside) -> Checked<(Machine<u64>, Epoch)> {
        let mut machine = Machine::new(outside.plan.config.clone());
        let fresh = Judge::new(&outside.plan.config, outside.trace.lines.is_some());
        let known = std::mem::replace(&mut outside.judge, fresh);
        let mut durable = Epoch(0);
        for record in self.disk.recover() {
            let Record::Epoch(record) = record else {
                return Err(Failure::new("log", "the simulated log holds epochs only"));
            };
            durable = record.epoch;
            machine.step(Input::Durable(durable), &mut Vec::new());
            outside.judge.cut(&record)?;
            let mut inputs = vec![Input::Replay(record)];
            while let Some(input) = inputs.pop() {
                let mut actions = Vec::new();
                machine.step(input, &mut actions);
                for action in actions {
                    inputs.extend(again(&machine, action, outside)?);
                }
            }
        }
        let common = outside.judge.ended.len().min(known.ended.len());
        for at in 0..common {
            let (first, again) = (&known.ended[at], &outside.judge.ended[at]);
            ensure(first == again, "replay", || {
                format!("epoch {} came to {first:?}, and in a replay to {again:?}", at + 1)
            })?;
        }
        Ok((machine, durable))
    }
}

/// Does what a replaying machine says.
fn again(machine: &Machine<u64>, action: Action<u64>, outside: &mut Outside) -> Checked<Option<Input<u64>>> {
    match action {
        Action::Execute(batch) => Ok(Some(Job::execute(batch).at_once(outside))),
        Action::FallBack(batch) => Ok(Some(Job::fall_back(batch).at_once(outside))),
        Action::Finished(summary) => {
            outside.judge.finished(&summary)?;
            let thoroughly = outside.judge.epoch().0.is_multiple_of(16);
            outside.judge.compare(machine, thoroughly)?;
            Ok(None)
        }
        Action::Logs { .. } => Ok(None),
        other => Err(Failure::new("replay", format!("a replay speaks to the world: {other:?}"))),
    }
}
