//! Instance budget: how many guests may be suspended at once, and how many bytes of linear memory they may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Guests that one task has called into: their number, and the bytes of linear memory that they had when they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuestUsage {
    number: usize,
    bytes: usize,
}

impl GuestUsage {
    /// A guest begins.
    pub fn enter(&mut self, bytes: usize) {
        self.number += 1;
        self.bytes += bytes;
    }

    /// The innermost guest has ended.
    pub fn leave(&mut self, bytes: usize) {
        self.number -= 1;
        self.bytes -= bytes;
    }
}

/// The budget, which all executors of an engine share.
#[derive(Debug)]
pub(crate) struct InstanceBudget {
    number_max: usize,
    /// How many more there may be for graphs that run in a reserve.
    reserve: usize,
    bytes_max: usize,
    number: AtomicUsize,
    bytes: AtomicUsize,
}

impl InstanceBudget {
    pub fn new(number_max: usize, reserve: usize, bytes_max: usize) -> Self {
        InstanceBudget { number_max, reserve, bytes_max, number: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Number of guests that are suspended.
    pub fn taken(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// Reserves budget for guests that are to be suspended, if enough is left; `beyond` the budget out of the reserve, which
    /// is there for as many graphs as the engine has instances for.
    pub fn take(self: &Arc<Self>, guests: GuestUsage, beyond: bool) -> Option<Reservation> {
        let take = |of: &AtomicUsize, more: usize, most: usize| {
            let admit = |now: usize| (guests.number == 0 || now + more <= most).then_some(now + more);
            of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit).is_ok()
        };
        let number_max = self.number_max + if beyond { self.reserve } else { 0 };
        if !take(&self.number, guests.number, number_max) {
            return None;
        }
        let bytes_max = if beyond { usize::MAX } else { self.bytes_max };
        if !take(&self.bytes, guests.bytes, bytes_max) {
            self.number.fetch_sub(guests.number, Ordering::Relaxed);
            return None;
        }
        Some(Reservation { budget: self.clone(), guests })
    }
}

/// Budget that guests hold while they are suspended.
pub(crate) struct Reservation {
    budget: Arc<InstanceBudget>,
    pub guests: GuestUsage,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.number.fetch_sub(self.guests.number, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(self.guests.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guests(number: usize, bytes: usize) -> GuestUsage {
        GuestUsage { number, bytes }
    }

    #[test]
    fn both_bounds_hold_and_what_is_refused_takes_nothing() {
        let budget = Arc::new(InstanceBudget::new(3, 6, 100));
        let first = budget.take(guests(1, 60), false).expect("there is enough");
        assert!(budget.take(guests(3, 1), false).is_none(), "too many");
        assert!(budget.take(guests(1, 41), false).is_none(), "too large");
        assert_eq!(budget.taken(), 1);
        let second = budget.take(guests(2, 40), false).expect("just enough");
        assert!(budget.take(guests(1, 0), false).is_none());
        let beyond = budget.take(guests(5, 500), true).expect("beyond the budget");
        assert_eq!(budget.taken(), 8);
        assert!(budget.take(guests(2, 0), true).is_none(), "there are no instances for so many");
        assert_eq!(budget.taken(), 8);
        drop((first, second, beyond));
        assert_eq!((budget.taken(), budget.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_task_without_instances_needs_no_budget() {
        let budget = Arc::new(InstanceBudget::new(0, 0, 0));
        assert!(budget.take(guests(0, 0), false).is_some());
    }
}
