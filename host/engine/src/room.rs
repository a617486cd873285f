//! Room for guests that wait for other workers: so many, and so many bytes of linear memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Guests on one piece's stack: how many, and the bytes that they had when they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guests {
    number: usize,
    bytes: usize,
}

impl Guests {
    /// One begins.
    pub fn enter(&mut self, bytes: usize) {
        self.number += 1;
        self.bytes += bytes;
    }

    /// The innermost has ended.
    pub fn leave(&mut self, bytes: usize) {
        self.number -= 1;
        self.bytes -= bytes;
    }
}

/// What all executors of an engine share.
#[derive(Debug)]
pub(crate) struct Room {
    number_max: usize,
    bytes_max: usize,
    number: AtomicUsize,
    bytes: AtomicUsize,
}

impl Room {
    pub fn new(number_max: usize, bytes_max: usize) -> Self {
        Room { number_max, bytes_max, number: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Guests that wait.
    pub fn taken(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// Room for guests that are to wait, if there is some; always `beyond` the budget.
    pub fn take(self: &Arc<Self>, guests: Guests, beyond: bool) -> Option<Suspended> {
        let free = beyond || guests.number == 0;
        let take = |of: &AtomicUsize, more: usize, most: usize| {
            let admit = |now: usize| (free || now + more <= most).then_some(now + more);
            of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit).is_ok()
        };
        if !take(&self.number, guests.number, self.number_max) {
            return None;
        }
        if !take(&self.bytes, guests.bytes, self.bytes_max) {
            self.number.fetch_sub(guests.number, Ordering::Relaxed);
            return None;
        }
        Some(Suspended { room: self.clone(), guests })
    }
}

/// Room that guests take while they wait.
pub(crate) struct Suspended {
    room: Arc<Room>,
    pub guests: Guests,
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.room.number.fetch_sub(self.guests.number, Ordering::Relaxed);
        self.room.bytes.fetch_sub(self.guests.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guests(number: usize, bytes: usize) -> Guests {
        Guests { number, bytes }
    }

    #[test]
    fn both_bounds_hold_and_what_is_refused_takes_nothing() {
        let room = Arc::new(Room::new(3, 100));
        let first = room.take(guests(1, 60), false).expect("there is room");
        assert!(room.take(guests(3, 1), false).is_none(), "too many");
        assert!(room.take(guests(1, 41), false).is_none(), "too large");
        assert_eq!(room.taken(), 1);
        let second = room.take(guests(2, 40), false).expect("just enough room");
        assert!(room.take(guests(1, 0), false).is_none());
        let beyond = room.take(guests(5, 500), true).expect("beyond the budget");
        assert_eq!(room.taken(), 8);
        drop((first, second, beyond));
        assert_eq!((room.taken(), room.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn who_holds_no_instance_needs_no_room() {
        let room = Arc::new(Room::new(0, 0));
        assert!(room.take(guests(0, 0), false).is_some());
    }
}
