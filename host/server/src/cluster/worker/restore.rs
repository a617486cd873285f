//! What a generation begins with: read beside everything else, from the store and from what the machine of
//! the generation before can give.

use styx_driver::wire::SnapshotPlace;
use styx_driver::worker::{FormerMachine, RestoreFailure};
use styx_protocol::snapshot::{RestoredState, RetainedState};
use styx_protocol::task::LocalView;
use styx_storage::snapshot::SnapshotStore;
use tokio::runtime::Handle;

use crate::config::store_location;
use crate::handle::Waiter;
use crate::snapshots::{Found, is_damage};

/// A store, and the state that a generation begins with.
pub(super) struct Opened {
    pub(super) store: SnapshotStore,
    pub(super) restored: Option<RestoredState>,
}

/// The way to what a generation begins with.
pub(super) struct Restore {
    pub(super) place: SnapshotPlace,
    pub(super) view: LocalView,
    pub(super) former: Option<FormerMachine<Waiter>>,
    /// The store that was used last.
    pub(super) known: Option<SnapshotStore>,
    pub(super) runtime: Handle,
    pub(super) threads: usize,
}

impl Restore {
    /// Reads it. Blocks.
    pub(super) fn run(self) -> Result<Opened, RestoreFailure> {
        let retained = self.former.and_then(retain);
        let owns = |partition| self.view.placement.owner(partition) == self.view.me;
        open(&self.place, self.known, &self.runtime, self.threads, owns, retained)
            .map_err(|error| RestoreFailure { why: format!("{error:#}"), damaged: is_damage(&error) })
    }
}

/// What can be used of the machine of the last generation. The rest is dropped, which may take as long as
/// reading a new one.
fn retain(former: FormerMachine<Waiter>) -> Option<RetainedState> {
    former.into_retained().map_err(discard).ok()
}

/// Drops a machine, beside everything else.
pub(super) fn discard(former: FormerMachine<Waiter>) {
    std::thread::spawn(move || drop(former));
}

fn open(
    place: &SnapshotPlace,
    known: Option<SnapshotStore>,
    runtime: &Handle,
    threads: usize,
    owns: impl Fn(styx_protocol::ids::PartitionId) -> bool,
    retained: Option<RetainedState>,
) -> anyhow::Result<Opened> {
    let same = |known: &SnapshotStore| known.identity() == place.identity && known.location().url() == place.place;
    let store = match known.filter(same) {
        Some(known) => known,
        None => SnapshotStore::open(&store_location(&place.place), place.identity, runtime)?,
    };
    let restored = match place.begin {
        Some(sequence) => {
            Some(Found::read(&store, store.manifest(sequence)?)?.restore(&store, threads, owns, retained)?)
        }
        None => None,
    };
    Ok(Opened { store, restored })
}
