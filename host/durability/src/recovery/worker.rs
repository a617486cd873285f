//! What a worker's generation begins with: read from the store, and taken from what its machine of the generation before
//! can give.

use styx_driver::wire::SnapshotPlace;
use styx_driver::worker::RestoreFailure;
use styx_protocol::entity::Layout;
use styx_protocol::snapshot::{RestoredState, RetainedState};
use styx_protocol::task::LocalView;
use styx_storage::snapshot::{SnapshotError, SnapshotStore};

use super::found::Found;
use crate::failure::is_damage;

/// A store, and the state that a generation begins with.
#[derive(Debug)]
pub struct Opened {
    pub store: SnapshotStore,
    /// The state, if there is a snapshot.
    pub restored: Option<RestoredState>,
}

/// The way to what a generation begins with.
pub struct Restore<'a> {
    /// Where snapshots are, and which of them it is.
    pub place: &'a SnapshotPlace,
    /// The partitions that are this worker's.
    pub view: &'a LocalView,
    pub layout: Layout,
    /// What is left of the generation before, and need not be read.
    pub retained: Option<RetainedState>,
    /// The store that was used last.
    pub known: Option<SnapshotStore>,
    /// Threads that read.
    pub threads: usize,
}

impl Restore<'_> {
    /// Reads it, from the store that is known or else the one that is opened at the place.
    ///
    /// # Errors
    /// The store cannot be used, or the snapshot is damaged.
    pub fn run(self, open: impl FnOnce() -> Result<SnapshotStore, SnapshotError>) -> Result<Opened, RestoreFailure> {
        self.read(open).map_err(|error| RestoreFailure { why: format!("{error:#}"), damaged: is_damage(&error) })
    }

    fn read(self, open: impl FnOnce() -> Result<SnapshotStore, SnapshotError>) -> anyhow::Result<Opened> {
        let Restore { place, view, layout, retained, known, threads } = self;
        let same = |known: &SnapshotStore| known.identity() == place.identity && known.location().url() == place.place;
        let store = known.filter(same).map_or_else(open, Ok)?;
        let owns = |partition| view.placement.owner(partition) == view.me;
        let restored = match place.begin {
            Some(sequence) => Some(Found::read(&store, store.manifest(sequence)?)?.restore(
                &store,
                threads,
                (layout, &owns),
                retained,
            )?),
            None => None,
        };
        Ok(Opened { store, restored })
    }
}
