//! Pace: when an epoch is cut. At once while the log keeps up; while it does not, when the epoch is full or
//! has waited long enough. An fsync takes as long for one transaction as for many.

use std::time::Duration;

use crate::time::Instant;

/// Epochs that may wait for one fsync before further ones are held back to fill.
const UNSYNCED_MAX: u64 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    size: usize,
    wait: Duration,
    /// When the next epoch began to fill.
    since: Option<Instant>,
}

impl Pace {
    /// A pace at which an epoch is cut that has so many transactions, or has waited so long.
    pub(super) fn new(size: usize, wait: Duration) -> Self {
        Pace { size, wait, since: None }
    }

    /// When an epoch of so many transactions is to be cut, after so many that are not durable; `None` if now.
    pub(super) fn hold(&mut self, now: Instant, waiting: usize, unsynced: u64) -> Option<Instant> {
        if unsynced < UNSYNCED_MAX || waiting >= self.size {
            return None;
        }
        let until = self.since.get_or_insert(now).after(self.wait);
        (until > now).then_some(until)
    }

    /// An epoch was cut.
    pub(super) fn cut(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_fill_only_while_the_log_does_not_keep_up() {
        let mut pace = Pace::new(10, Duration::from_micros(100));
        assert_eq!(pace.hold(Instant(1), 1, 1), None, "the log keeps up");
        assert_eq!(pace.hold(Instant(1), 1, 2), Some(Instant(101)));
        assert_eq!(pace.hold(Instant(60), 9, 5), Some(Instant(101)), "since it began to fill");
        assert_eq!(pace.hold(Instant(60), 10, 5), None, "it is full");
        assert_eq!(pace.hold(Instant(101), 1, 5), None, "it has waited");
        pace.cut();
        assert_eq!(pace.hold(Instant(101), 1, 5), Some(Instant(201)));
    }
}
