//! Virtual time: what happens next. Things due at the same instant happen in any order.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::random::Random;

/// Events by time.
#[derive(Debug)]
pub struct Queue<E> {
    now: Rc<Cell<u64>>,
    /// When, in which order by chance and at last by age, and the event's place.
    heap: BinaryHeap<Reverse<(u64, u32, u64, u32)>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    next: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { now: Rc::default(), heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), next: 0 }
    }
}

impl<E> Queue<E> {
    /// The time in microseconds.
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// The same for who looks at it later.
    pub fn watch(&self) -> Rc<Cell<u64>> {
        self.now.clone()
    }

    /// Lets an event happen after a delay.
    pub fn after(&mut self, random: &mut Random, delay: u64, event: E) {
        self.next += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                self.events.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((self.now() + delay, random.number() as u32, self.next, place)));
    }

    /// The next event; time goes on to it.
    pub fn pop(&mut self) -> Option<E> {
        let Reverse((time, _, _, place)) = self.heap.pop()?;
        self.now.set(time);
        self.free.push(place);
        self.events[place as usize].take()
    }
}
