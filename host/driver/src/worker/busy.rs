//! How busy a worker is: the time in which it executes something, wherever that runs.

use std::time::Duration;

use crate::time::Instant;

/// What is under way, and what there was.
#[derive(Debug)]
pub(super) struct Busy {
    /// Most long transactions that may run at a time.
    long_max: u32,
    /// A batch, or a fallback.
    batch: bool,
    /// Calls of graphs that others take part in.
    tasks: usize,
    /// Long transactions.
    longs: u32,
    so_far: Duration,
    /// What is under way has been since then.
    since: Instant,
}

impl Busy {
    pub(super) fn new(now: Instant, long_max: usize) -> Self {
        let long_max = u32::try_from(long_max).unwrap_or(u32::MAX).max(1);
        Busy { long_max, batch: false, tasks: 0, longs: 0, so_far: Duration::ZERO, since: now }
    }

    pub(super) fn batch(&mut self, now: Instant, is_out: bool) {
        self.note(now);
        self.batch = is_out;
    }

    pub(super) fn tasks_begin(&mut self, now: Instant, tasks: usize) {
        self.note(now);
        self.tasks += tasks;
    }

    pub(super) fn tasks_end(&mut self, now: Instant, tasks: usize) {
        self.note(now);
        self.tasks = self.tasks.saturating_sub(tasks);
    }

    pub(super) fn long_begins(&mut self, now: Instant) {
        self.note(now);
        self.longs += 1;
    }

    pub(super) fn long_ends(&mut self, now: Instant) {
        self.note(now);
        self.longs = self.longs.saturating_sub(1);
    }

    /// How long it has executed something. Long transactions count as what they are of those that may run: who runs no
    /// more of them is as busy as it can be.
    pub(super) fn total(&self, now: Instant) -> Duration {
        let elapsed = now.since(self.since);
        let part = if self.batch || self.tasks > 0 {
            elapsed
        } else {
            elapsed * self.longs.min(self.long_max) / self.long_max
        };
        self.so_far + part
    }

    fn note(&mut self, now: Instant) {
        (self.so_far, self.since) = (self.total(now), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Instant {
        Instant(milliseconds * 1000)
    }

    fn total(busy: &Busy, milliseconds: u64) -> u128 {
        busy.total(at(milliseconds)).as_millis()
    }

    #[test]
    fn whatever_executes_counts_once_and_what_has_not_ended_counts_as_well() {
        let mut busy = Busy::new(at(0), 2);
        assert_eq!(total(&busy, 100), 0, "nothing is under way");
        busy.batch(at(100), true);
        assert_eq!(total(&busy, 150), 50);
        busy.tasks_begin(at(150), 2);
        busy.batch(at(160), false);
        busy.tasks_end(at(170), 1);
        assert_eq!(total(&busy, 180), 80, "calls of others' graphs are work");
        busy.tasks_end(at(200), 1);
        assert_eq!(total(&busy, 900), 100);
    }

    #[test]
    fn long_transactions_count_as_what_they_are_of_those_that_may_run() {
        let mut busy = Busy::new(at(0), 2);
        busy.long_begins(at(0));
        assert_eq!(total(&busy, 100), 50);
        busy.long_begins(at(100));
        busy.batch(at(150), true);
        busy.batch(at(160), false);
        assert_eq!(total(&busy, 200), 150, "all that may run do");
        busy.long_begins(at(200));
        busy.long_ends(at(300));
        assert_eq!(total(&busy, 300), 250, "one that is given up and has not ended makes it no busier than busy");
        busy.long_ends(at(300));
        busy.long_ends(at(400));
        assert_eq!(total(&busy, 900), 300);
    }
}
