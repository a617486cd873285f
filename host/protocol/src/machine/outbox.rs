//! Replies held until what they rest on is durable.

use std::collections::VecDeque;

use super::Action;
use crate::ids::Epoch;
use crate::mutants::{Bug, planted};

#[derive(Debug)]
pub(super) struct Outbox<W> {
    held: VecDeque<(Epoch, Action<W>)>,
    durable: Epoch,
}

impl<W> Default for Outbox<W> {
    fn default() -> Self {
        Outbox { held: VecDeque::new(), durable: Epoch(0) }
    }
}

impl<W> Outbox<W> {
    /// Lets an action go once `epoch` is durable.
    pub(super) fn hold(&mut self, epoch: Epoch, action: Action<W>, actions: &mut Vec<Action<W>>) {
        let durable = Epoch(self.durable.0 + u64::from(planted(Bug::ReplyEarly)));
        if epoch <= durable || planted(Bug::ReplyAtOnce) {
            actions.push(action);
        } else {
            // Epochs come in order, almost: what was remembered of an earlier one may be asked for.
            match self.held.back() {
                Some((last, _)) if *last > epoch => {
                    let at = self.held.partition_point(|(held, _)| *held <= epoch);
                    self.held.insert(at, (epoch, action));
                }
                _ => self.held.push_back((epoch, action)),
            }
        }
    }

    /// Everything up to `epoch` is durable.
    pub(super) fn durable(&mut self, epoch: Epoch, actions: &mut Vec<Action<W>>) {
        self.durable = self.durable.max(epoch);
        let free = self.held.partition_point(|(held, _)| *held <= self.durable);
        actions.extend(self.held.drain(..free).map(|(_, action)| action));
    }
}
