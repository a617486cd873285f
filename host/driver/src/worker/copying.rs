//! Copying: how much of what leaves this worker may be copied, as time goes on.

use std::time::Duration;

use styx_protocol::machine::worker::CopyAllowance;

use crate::time::Instant;
use crate::wire::CopyPace;

/// What was not copied for longer than this is not made up for.
const MADE_UP_MAX: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Copying {
    pace: CopyPace,
    /// What may be copied was said up to then.
    allowed: Instant,
}

impl Copying {
    pub(super) fn new(now: Instant) -> Self {
        Copying { pace: CopyPace::default(), allowed: now }
    }

    /// The coordinator says how fast; gives what may be copied, if that is news.
    pub(super) fn pace(&mut self, now: Instant, pace: CopyPace) -> Option<CopyAllowance> {
        if self.pace == pace {
            return None;
        }
        (self.pace, self.allowed) = (pace, now);
        let is_unlimited = pace.rate.is_none() && !pace.paused;
        Some(if is_unlimited { CopyAllowance::Unlimited } else { CopyAllowance::Bytes(0) })
    }

    /// Time has gone on; gives what more may be copied, if that is limited.
    pub(super) fn tick(&mut self, now: Instant) -> Option<CopyAllowance> {
        let spent = now.since(self.allowed).min(MADE_UP_MAX);
        self.allowed = now;
        let rate = self.pace.rate.filter(|_| !self.pace.paused)?;
        let bytes = u128::from(rate) * spent.as_micros() / 1_000_000;
        Some(CopyAllowance::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_allowed_as_time_has_passed_and_nothing_while_it_is_paused() {
        let mut copying = Copying::new(Instant(0));
        assert_eq!(copying.tick(Instant(50_000)), None, "nothing is limited");
        let slow = CopyPace { rate: Some(1_000_000), paused: false };
        assert_eq!(copying.pace(Instant(60_000), slow), Some(CopyAllowance::Bytes(0)));
        assert_eq!(copying.pace(Instant(70_000), slow), None, "it is said again");
        assert_eq!(copying.tick(Instant(110_000)), Some(CopyAllowance::Bytes(50_000)));
        assert_eq!(copying.tick(Instant(9_000_000)), Some(CopyAllowance::Bytes(250_000)));
        let paused = CopyPace { paused: true, ..slow };
        assert_eq!(copying.pace(Instant(9_000_000), paused), Some(CopyAllowance::Bytes(0)));
        assert_eq!(copying.tick(Instant(9_500_000)), None);
        assert_eq!(copying.pace(Instant(9_600_000), slow), Some(CopyAllowance::Bytes(0)));
        assert_eq!(copying.tick(Instant(9_700_000)), Some(CopyAllowance::Bytes(100_000)));
        assert_eq!(copying.pace(Instant(9_800_000), CopyPace::default()), Some(CopyAllowance::Unlimited));
    }
}
