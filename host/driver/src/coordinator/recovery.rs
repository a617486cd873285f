//! Recovery: what the next generation begins with.

use std::sync::Arc;
use std::time::Duration;

use styx_protocol::ids::{Epoch, Generation, LogPosition};

use super::io::SnapshotFound;
use crate::snapshots::StoreFailure;
use crate::time::Instant;

/// The end of the log when the last generation was raised, and the snapshot that it begins with.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    position: LogPosition,
    found: Option<Arc<SnapshotFound>>,
    /// Snapshots of this epoch and later ones are of no use.
    unusable: Option<Epoch>,
    /// A generation for which the store is asked again.
    again: Option<(Instant, Generation)>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The store is asked again.
    Later(String),
    /// All snapshots are damaged.
    Never(String),
}

impl Recovery {
    /// Lower generations append nothing more: all of theirs stands before this position.
    pub(super) fn raised(&mut self, position: LogPosition) {
        assert!(position >= self.position, "the log does not grow backwards");
        self.position = position;
    }

    /// A worker cannot read the snapshot of this epoch.
    pub(super) fn unusable(&mut self, epoch: Epoch) {
        self.unusable = Some(self.unusable.map_or(epoch, |before| before.min(epoch)));
    }

    /// Only snapshots of earlier epochs may be begun with.
    pub(super) fn usable_before(&self) -> Option<Epoch> {
        self.unusable
    }

    /// The store has said what a generation may begin with. Whether it goes on in this log.
    pub(super) fn found(
        &mut self,
        generation: Generation,
        found: Result<Option<SnapshotFound>, StoreFailure>,
        pause: Duration,
        now: Instant,
    ) -> Result<bool, NotFound> {
        match found {
            Ok(found) => {
                self.found = found.map(Arc::new);
                Ok(self.found.as_ref().is_none_or(|found| found.log_position <= self.position))
            }
            Err(StoreFailure::Damaged(why)) => Err(NotFound::Never(why)),
            // Without the store nobody can begin.
            Err(StoreFailure::Unavailable(why) | StoreFailure::Fatal(why)) => {
                self.again = Some((now.after(pause), generation));
                Err(NotFound::Later(why))
            }
            Err(StoreFailure::Unreadable(..) | StoreFailure::Stopped) => panic!("nothing of that was asked"),
        }
    }

    /// The generation for which the store is to be asked again now.
    pub(super) fn find_again(&mut self, now: Instant) -> Option<Generation> {
        self.again.take_if(|(at, _)| *at <= now).map(|(_, generation)| generation)
    }

    /// When [`Self::find_again`] has something to say.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again.map(|(at, _)| at)
    }

    /// A generation begins.
    pub(super) fn begin(&mut self) -> (Option<Arc<SnapshotFound>>, LogPosition) {
        assert!(self.again.is_none(), "what a generation begins with is known before");
        (self.found.clone(), self.position)
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::catalog::Catalog;
    use styx_protocol::ids::Timestamp;
    use styx_protocol::snapshot::SnapshotHeader;

    use super::*;

    fn found(position: u64) -> SnapshotFound {
        let header = SnapshotHeader {
            generation: Generation(1),
            epoch: Epoch(5),
            chain: Default::default(),
            time: Timestamp(1),
            highest: Default::default(),
            catalog: Catalog::default().image(),
            seating: None,
        };
        SnapshotFound { sequence: 1, log_position: LogPosition(position), header, partitions: 1, carried: vec![] }
    }

    #[test]
    fn a_snapshot_goes_on_in_the_log_up_to_its_end() {
        let mut recovery = Recovery::default();
        recovery.raised(LogPosition(9));
        let mut goes_on = |position: Option<u64>| {
            let result = Ok(position.map(found));
            recovery.found(Generation(2), result, Duration::ZERO, Instant(0))
        };
        assert_eq!(goes_on(Some(10)), Ok(false));
        assert_eq!(goes_on(None), Ok(true));
        assert_eq!(goes_on(Some(9)), Ok(true));
        assert_eq!(recovery.begin(), (Some(Arc::new(found(9))), LogPosition(9)));
    }

    #[test]
    fn a_store_that_is_away_is_asked_again_once_after_a_pause() {
        let mut recovery = Recovery::default();
        let pause = Duration::from_micros(10);
        for failure in [StoreFailure::Unavailable("no".into()), StoreFailure::Fatal("no".into())] {
            let result = recovery.found(Generation(2), Err(failure), pause, Instant(5));
            assert_eq!((result, recovery.due()), (Err(NotFound::Later("no".into())), Some(Instant(15))));
            assert_eq!(recovery.find_again(Instant(14)), None);
            assert_eq!(recovery.find_again(Instant(15)), Some(Generation(2)));
            assert_eq!((recovery.find_again(Instant(99)), recovery.due()), (None, None));
        }
        let damaged = recovery.found(Generation(2), Err(StoreFailure::Damaged("bad".into())), pause, Instant(5));
        assert_eq!((damaged, recovery.due()), (Err(NotFound::Never("bad".into())), None));
    }

    #[test]
    fn of_snapshots_that_are_of_no_use_the_earliest_counts() {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.usable_before(), None);
        for (epoch, before) in [(7, 7), (5, 5), (6, 5)] {
            recovery.unusable(Epoch(epoch));
            assert_eq!(recovery.usable_before(), Some(Epoch(before)));
        }
    }
}
