//! The thread that reads what a generation begins with, beside everything else.

use std::time::Duration;

use styx_driver::wire::SnapshotPlace;
use styx_driver::worker::{FormerMachine, RestoreFailure};
use styx_durability::recovery::{Opened, Restore};
use styx_protocol::entity::Layout;
use styx_protocol::machine::worker::Discarded;
use styx_protocol::task::LocalView;
use styx_storage::snapshot::SnapshotStore;
use tokio::runtime::Handle;

use crate::config::store_location;
use crate::handle::Waiter;
use crate::snapshots::go_behind;

/// Reads what a generation begins with. Blocks.
pub(super) fn restore(
    place: &SnapshotPlace,
    (view, layout): (&LocalView, Layout),
    former: Option<FormerMachine<Waiter>>,
    known: Option<SnapshotStore>,
    runtime: &Handle,
    threads: usize,
) -> Result<Opened, RestoreFailure> {
    // What cannot be used of the last generation is dropped, which may take as long as reading a new one.
    let retained = former.and_then(|former| former.into_retained().map_err(discard).ok());
    let restore = Restore { place, view, layout, retained, known, threads };
    restore.run(|| SnapshotStore::open(&store_location(&place.place), place.identity, runtime))
}

/// Between two parts of what is freed: a quarter of a gigabyte a second of values of a kilobyte.
const PAUSE: Duration = Duration::from_millis(1);

/// Frees partitions that are elsewhere, slowly: all at once it takes who executes tens of milliseconds.
pub(super) fn free(discarded: Discarded) {
    std::thread::spawn(move || {
        go_behind();
        discarded.free(|| std::thread::sleep(PAUSE));
    });
}

/// Drops what takes a while, beside everything else.
pub(super) fn discard<T: Send + 'static>(former: T) {
    std::thread::spawn(move || {
        go_behind();
        drop(former);
    });
}
