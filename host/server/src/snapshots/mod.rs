//! Snapshots of a running system: taken in the background, restored at the start.
//!
//! The machines say what a snapshot holds (`styx_protocol::snapshot`), the store keeps it
//! (`styx_storage::snapshot`), a scheduler (`styx_driver::snapshots`) decides when one is taken and when it
//! exists, and the steps in between are those of `styx_durability`. Here are the threads: a *delta writer* per worker
//! process writes what has changed in its partitions; a *store thread* beside the coordinator puts manifests, merges
//! deltas and deletes old snapshots.

mod delta_writer;
mod listing;
mod options;
mod stats;
mod store_thread;

pub(crate) use delta_writer::DeltaWriter;
pub use listing::SnapshotView;
pub use options::SnapshotOptions;
pub(crate) use options::recovery_point;
pub use stats::SnapshotStats;
pub(crate) use store_thread::{StoreReport, StoreThread};
pub use styx_driver::snapshots::SnapshotSummary;

/// Of threads that write snapshots, and of those that free what is elsewhere now: who executes goes first where processors
/// are few, and what is written still gets a quarter of one.
const NICENESS: i32 = 5;

/// Has this thread take what others leave of the processors.
pub(crate) fn go_behind() {
    // Should that not be granted, no harm is done.
    let _ = rustix::process::nice(NICENESS);
}
