//! Copying: how much of what leaves this worker may be copied, as time goes on.

use std::time::Duration;

use styx_protocol::ids::PlacementVersion;
use styx_protocol::machine::worker::CopyAllowance;

use crate::time::Instant;
use crate::wire::CopyPace;

/// What was not copied for longer than this is not made up for.
const MADE_UP_MAX: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Copying {
    /// What was said last, and of which placement.
    told: Option<(PlacementVersion, CopyPace)>,
    /// What may be copied was said up to then.
    allowed: Instant,
}

impl Copying {
    pub(super) fn new(now: Instant) -> Self {
        Copying { told: None, allowed: now }
    }

    /// The coordinator says how fast it is to be copied what leaves with a placement.
    pub(super) fn pace(&mut self, version: PlacementVersion, pace: CopyPace) {
        self.told = Some((version, pace));
    }

    /// Time has gone on; gives what may be copied of what leaves with a placement, if anything does. Before it is said how
    /// fast, nothing may.
    pub(super) fn tick(&mut self, now: Instant, leaves: Option<PlacementVersion>) -> Option<CopyAllowance> {
        let spent = now.since(std::mem::replace(&mut self.allowed, now)).min(MADE_UP_MAX);
        let (_, pace) = self.told.filter(|(version, _)| leaves == Some(*version))?;
        Some(match pace {
            CopyPace { paused: true, .. } => CopyAllowance::Bytes(0),
            CopyPace { rate: None, .. } => CopyAllowance::Unlimited,
            CopyPace { rate: Some(rate), .. } => {
                let bytes = u128::from(rate) * spent.as_micros() / 1_000_000;
                CopyAllowance::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: PlacementVersion = PlacementVersion(2);

    #[test]
    fn so_much_is_allowed_as_time_has_passed_and_nothing_while_it_is_paused() {
        let mut copying = Copying::new(Instant(0));
        assert_eq!(copying.tick(Instant(50_000), Some(VERSION)), None, "nobody has said how fast");
        let slow = CopyPace { rate: Some(1_000_000), paused: false };
        copying.pace(VERSION, slow);
        assert_eq!(copying.tick(Instant(100_000), None), None, "nothing leaves");
        assert_eq!(copying.tick(Instant(150_000), Some(PlacementVersion(3))), None, "it was said of another one");
        assert_eq!(copying.tick(Instant(200_000), Some(VERSION)), Some(CopyAllowance::Bytes(50_000)));
        assert_eq!(copying.tick(Instant(9_000_000), Some(VERSION)), Some(CopyAllowance::Bytes(250_000)));
        copying.pace(VERSION, CopyPace { paused: true, ..slow });
        assert_eq!(copying.tick(Instant(9_500_000), Some(VERSION)), Some(CopyAllowance::Bytes(0)));
        copying.pace(VERSION, CopyPace::default());
        assert_eq!(copying.tick(Instant(9_800_000), Some(VERSION)), Some(CopyAllowance::Unlimited));
    }
}
