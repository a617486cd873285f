//! Roots: transactions or queries of a round that are rooted at this worker, in the order in which they
//! are handed out to be executed, and what each did here on the state of the epoch's start.

use std::ops::Range;
use std::sync::Arc;

use super::super::ingress::Slot;
use crate::execute::attempt::{Attempt, Execution};
use crate::execute::task::{Progress, Started};
use crate::ids::Tid;
use crate::sequence::transaction::Transaction;

/// See the module.
#[derive(Debug)]
pub(super) struct Roots<W> {
    slots: Vec<Slot<W>>,
    /// Of those that have come back; they are large, and stay where they were put first. One that needs
    /// other workers leaves an empty one behind until it is complete.
    started: Vec<Started>,
}

/// A root that needs other workers, where it stands, and how far it has come.
pub(super) struct Opened {
    pub at: usize,
    pub attempt: Box<Attempt>,
    pub progress: Progress,
}

impl<W> Default for Roots<W> {
    fn default() -> Self {
        Roots::new(Vec::new())
    }
}

impl<W> Roots<W> {
    pub fn new(slots: Vec<Slot<W>>) -> Self {
        Roots { slots, started: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Those that have come back.
    pub fn started(&self) -> usize {
        self.started.len()
    }

    pub fn is_sorted(&self) -> bool {
        self.slots.is_sorted_by_key(|slot| slot.transaction.tid)
    }

    pub fn transaction(&self, at: usize) -> &Transaction {
        &self.slots[at].transaction
    }

    pub fn transactions(&self, range: Range<usize>) -> Arc<[Transaction]> {
        self.slots[range].iter().map(|slot| slot.transaction.clone()).collect()
    }

    pub fn contains(&self, tid: Tid) -> bool {
        self.slots.binary_search_by_key(&tid, |slot| slot.transaction.tid).is_ok()
    }

    /// Where a transaction stands.
    pub fn find(&self, tid: Tid) -> usize {
        self.slots.binary_search_by_key(&tid, |slot| slot.transaction.tid).expect("it is rooted here")
    }

    /// The next ones have come back; gives those that need other workers.
    pub fn add(&mut self, mut started: Vec<Started>) -> Vec<Opened> {
        let first = self.started.len();
        assert!(first + started.len() <= self.slots.len(), "what was handed out comes back once");
        if first == 0 {
            self.started = started;
        } else {
            self.started.append(&mut started);
        }
        let mut opened = Vec::new();
        for (at, started) in self.started.iter_mut().enumerate().skip(first) {
            if matches!(started, Started::Local(_)) {
                continue;
            }
            let empty = Started::Local(Execution::default());
            if let Started::Distributed(attempt, progress) = std::mem::replace(started, empty) {
                opened.push(Opened { at, attempt, progress });
            }
        }
        opened
    }

    /// All have come back; others stand among them that were executed before.
    pub fn join(&mut self, executed: Vec<(Slot<W>, Execution)>) {
        assert_eq!(self.started.len(), self.slots.len(), "what was handed out has come back");
        let own = self.slots.drain(..).zip(self.started.drain(..));
        let others = executed.into_iter().map(|(slot, execution)| (slot, Started::Local(execution)));
        let mut all: Vec<_> = own.chain(others).collect();
        all.sort_unstable_by_key(|(slot, _)| slot.transaction.tid);
        (self.slots, self.started) = all.into_iter().unzip();
    }

    /// Something counts instead of what was known before.
    pub fn set(&mut self, at: usize, execution: Execution) {
        self.started[at] = Started::Local(execution);
    }

    pub fn execution(&self, at: usize) -> &Execution {
        match &self.started[at] {
            Started::Local(execution) => execution,
            Started::Distributed(..) => unreachable!("what needs other workers was taken out"),
        }
    }

    /// A root's place with what it did.
    pub fn get_mut(&mut self, at: usize) -> (&mut Slot<W>, &mut Execution) {
        match &mut self.started[at] {
            Started::Local(execution) => (&mut self.slots[at], execution),
            Started::Distributed(..) => unreachable!("what needs other workers was taken out"),
        }
    }

    /// All of them with what they did.
    pub fn iter(&self) -> impl Iterator<Item = (&Transaction, &Execution)> {
        (0..self.started.len()).map(|at| (self.transaction(at), self.execution(at)))
    }
}
