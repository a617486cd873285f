//! Responses held until what they rest on is durable.

use std::collections::VecDeque;

use crate::ids::Epoch;
use crate::mutants::{Bug, planted};

/// Queue of things that clients may be told once an epoch is durable, in the order of those epochs.
#[derive(Debug)]
pub(super) struct Outbox<T> {
    held: VecDeque<(Epoch, T)>,
    durable: Epoch,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Outbox { held: VecDeque::new(), durable: Epoch(0) }
    }
}

impl<T> Outbox<T> {
    /// Holds `item` until `epoch` is durable; gives it back if it is.
    #[must_use]
    pub(super) fn hold(&mut self, epoch: Epoch, item: T) -> Option<T> {
        let durable = Epoch(self.durable.0 + u64::from(planted(Bug::ReplyEarly)));
        if epoch <= durable {
            return Some(item);
        }
        // Epochs come in order, almost: what was remembered of an earlier one may be asked for.
        match self.held.back() {
            Some((last, _)) if *last > epoch => {
                let at = self.held.partition_point(|(held, _)| *held <= epoch);
                self.held.insert(at, (epoch, item));
            }
            _ => self.held.push_back((epoch, item)),
        }
        None
    }

    /// Lets go of everything up to `epoch`, which is durable.
    pub(super) fn release(&mut self, epoch: Epoch) -> impl Iterator<Item = T> + '_ {
        self.durable = self.durable.max(epoch);
        let free = self.held.partition_point(|(held, _)| *held <= self.durable);
        self.held.drain(..free).map(|(_, item)| item)
    }
}
