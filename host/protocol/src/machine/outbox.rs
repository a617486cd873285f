//! Outbox: what is held until the epoch that it rests on is durable.

use std::collections::VecDeque;

use styx_planted::{Bug, planted};

use crate::ids::Epoch;

/// What clients may be told once epochs are durable, in the order of those epochs; what one epoch
/// frees leaves as one list.
#[derive(Debug)]
pub(super) struct Outbox<T> {
    held: VecDeque<(Epoch, Vec<T>)>,
    durable: Epoch,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Outbox { held: VecDeque::new(), durable: Epoch(0) }
    }
}

impl<T> Outbox<T> {
    /// Holds `item` until `epoch` is durable; [`Outbox::take`] gives it at once if it is.
    #[inline]
    pub(super) fn hold(&mut self, epoch: Epoch, item: T) {
        self.of(epoch).push(item);
    }

    /// Makes room for what an epoch of so many transactions brings.
    pub(super) fn reserve(&mut self, epoch: Epoch, items: usize) {
        self.of(epoch).reserve(items);
    }

    #[inline]
    fn of(&mut self, epoch: Epoch) -> &mut Vec<T> {
        // Epochs come in order, almost: what was remembered of an earlier one may be asked for.
        let at = match self.held.back() {
            Some((last, _)) if *last == epoch => self.held.len() - 1,
            _ => self.place(epoch),
        };
        &mut self.held[at].1
    }

    fn place(&mut self, epoch: Epoch) -> usize {
        self.held.binary_search_by_key(&epoch, |(held, _)| *held).unwrap_or_else(|at| {
            self.held.insert(at, (epoch, Vec::new()));
            at
        })
    }

    /// `epoch`, which is later than all that anything rests on, has not been: what is held for it rests on the one before.
    pub(super) fn has_not_been(&mut self, epoch: Epoch) {
        if let Some((_, mut items)) = self.held.pop_back_if(|(held, _)| *held == epoch) {
            self.of(Epoch(epoch.0 - 1)).append(&mut items);
        }
    }

    /// The log is durable up to `epoch`.
    pub(super) fn release(&mut self, epoch: Epoch) {
        self.durable = self.durable.max(epoch);
    }

    /// Takes everything that rests on what is durable.
    pub(super) fn take(&mut self) -> Vec<T> {
        let durable = Epoch(self.durable.0 + u64::from(planted(Bug::ReplyEarly)));
        let mut free = Vec::new();
        while let Some((_, mut items)) = self.held.pop_front_if(|(held, _)| *held <= durable) {
            if free.is_empty() {
                free = items;
            } else {
                free.append(&mut items);
            }
        }
        free
    }

    /// Everything that is held, in the order of its epochs.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.held.drain(..).flat_map(|(_, items)| items)
    }

    /// What holds between steps.
    pub(super) fn invariants(&self) -> Result<(), &'static str> {
        if !self.held.iter().is_sorted_by(|(before, _), (after, _)| before < after) {
            return Err("what is held stands in the order of its epochs, once each");
        }
        if self.held.front().is_some_and(|(epoch, _)| *epoch <= self.durable) {
            return Err("nothing is held that rests on what is durable");
        }
        Ok(())
    }
}
