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
