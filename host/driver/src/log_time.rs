//! Log time: what epochs take for the time, from the clock on the wall of whoever cuts them.
//!
//! Replies are forgotten by it and guests are told it, on every replay, so that a clock that jumps must not take it along.
//! The clock on the wall is believed when a process begins; from then on log time runs by the monotonic clock, a little
//! faster or much slower until both show the same. It never runs backwards.

use styx_protocol::ids::Timestamp;

use crate::time::{Now, micros};

/// Log time is ahead of the monotonic clock or behind it by no more than this part of the time that has passed, or of what
/// is left of it.
const SLEW: u64 = 8;

#[derive(Debug, Default)]
pub(crate) struct LogTime {
    before: Option<Now>,
}

impl LogTime {
    /// The log time that it is, where the log has come to `logged`.
    pub(crate) fn at(&mut self, now: Now, logged: Timestamp) -> Timestamp {
        let time = match self.before {
            None => now.wall.max(logged),
            Some(before) => {
                let (base, passed) = (before.wall.max(logged).0, micros(now.monotonic.since(before.monotonic)));
                let (least, most) = (base + passed / SLEW, base + passed + passed / SLEW);
                Timestamp(now.wall.0.clamp(least, most))
            }
        };
        self.before = Some(Now { monotonic: now.monotonic, wall: time });
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    #[test]
    fn a_clock_that_jumps_does_not_take_log_time_along() {
        let mut log_time = LogTime::default();
        let mut at = |monotonic, wall, logged| {
            log_time.at(Now { monotonic: Instant(monotonic), wall: Timestamp(wall) }, Timestamp(logged)).0
        };
        assert_eq!(at(80, 1_000_000, 500), 1_000_000, "the log may have been down for long");
        assert_eq!(at(160, 1_000_085, 1_000_000), 1_000_085);
        assert_eq!(at(960, 9_000_000, 1_000_085), 1_000_985, "a little faster");
        assert_eq!(at(1_760, 1_000_000, 1_000_985), 1_001_085, "much slower, until it is later");
        assert_eq!(at(2_560, 1_001_200, 1_001_085), 1_001_200);
    }

    #[test]
    fn where_the_log_is_ahead_of_the_clock_time_does_not_stand_still() {
        let mut log_time = LogTime::default();
        let now = |monotonic| Now { monotonic: Instant(monotonic), wall: Timestamp(1_000) };
        assert_eq!(log_time.at(now(0), Timestamp(5_000)), Timestamp(5_000));
        assert_eq!(log_time.at(now(800), Timestamp(5_000)), Timestamp(5_100));
    }
}
