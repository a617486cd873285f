//! Virtual time: what happens next. Things due at the same instant happen in any order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::random::Random;

/// Events by time.
#[derive(Debug)]
pub struct Queue<E> {
    now: u64,
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    events: BTreeMap<u64, E>,
    next: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { now: 0, heap: BinaryHeap::new(), events: BTreeMap::new(), next: 0 }
    }
}

impl<E> Queue<E> {
    /// The time in microseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets an event happen after a delay.
    pub fn after(&mut self, random: &mut Random, delay: u64, event: E) {
        self.next += 1;
        self.heap.push(Reverse((self.now + delay, random.number(), self.next)));
        self.events.insert(self.next, event);
    }

    /// The next event; time goes on to it.
    pub fn pop(&mut self) -> Option<E> {
        let Reverse((time, _, id)) = self.heap.pop()?;
        self.now = time;
        self.events.remove(&id)
    }
}
