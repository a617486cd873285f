//! Admission control: refuses new work while the log could not take what it appends.
//!
//! A disk must still have the reserve that lets what is under way come to its end. Below it new work is
//! refused while there is still something to refuse it with. A log on Kafka must not wait for its brokers: what was
//! cut last is not durable then and no reply may be given, not even to who reads it.

use crate::client::Failure;
use crate::wire::View;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCondition {
    /// Its disk has less left than the reserve.
    pub full: bool,
    /// It waits for its brokers.
    pub stalled: bool,
}

impl LogCondition {
    /// The condition of a log whose disk has so many bytes left, if it is on a disk of this machine.
    pub fn measured(free: Option<u64>, reserve: u64, stalled: bool) -> Self {
        LogCondition { full: free.is_some_and(|free| free < reserve), stalled }
    }

    /// Why nothing is taken that only reads, if so.
    pub fn refuses_reads(self) -> Option<Failure> {
        self.stalled.then_some(Failure::LogStalled)
    }

    /// Why nothing is taken that may write, if so.
    pub fn refuses_writes(self) -> Option<Failure> {
        self.refuses_reads().or_else(|| self.full.then_some(Failure::DiskFull))
    }
}

impl From<&View> for LogCondition {
    fn from(view: &View) -> Self {
        LogCondition { full: view.full, stalled: view.stalled }
    }
}

/// How many requests may be under way before one is refused, where new ones may be `backlog_max`. What may be known
/// under its key goes on to whoever knows, who refuses it if it is new.
pub fn backlog_for(retained: bool, backlog_max: usize) -> usize {
    if retained { backlog_max.saturating_mul(2) } else { backlog_max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_work_is_refused_below_the_reserve_and_taken_again_above_it() {
        for (free, full) in
            [(Some(1000), false), (Some(999), true), (Some(0), true), (Some(5000), false), (None, false)]
        {
            assert_eq!(LogCondition::measured(free, 1000, false), LogCondition { full, stalled: false }, "{free:?}");
        }
        assert!(!LogCondition::measured(Some(0), 0, false).full, "without a reserve the disk may be used up");
    }

    #[test]
    fn a_log_that_waits_refuses_all_and_a_full_disk_what_may_write() {
        for (full, stalled, reads, writes) in [
            (false, false, None, None),
            (true, false, None, Some(Failure::DiskFull)),
            (false, true, Some(Failure::LogStalled), Some(Failure::LogStalled)),
            (true, true, Some(Failure::LogStalled), Some(Failure::LogStalled)),
        ] {
            let condition = LogCondition { full, stalled };
            assert_eq!((condition.refuses_reads(), condition.refuses_writes()), (reads, writes), "{condition:?}");
        }
    }
}
