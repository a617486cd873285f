//! Snapshots of a running system: taken in the background, restored at the start.
//!
//! The machines say what a snapshot holds (`styx_protocol::snapshot`), the store keeps it
//! (`styx_storage::snapshot`), and a scheduler (`styx_driver::snapshots`) decides when one is taken and when it
//! exists. Here are the threads: a *delta writer* per worker process writes what has changed in its partitions; a
//! *store thread* beside the coordinator puts manifests, merges deltas and deletes old snapshots.

mod changes;
mod delta_writer;
mod failure;
mod listing;
mod metadata;
mod recovery_point;
mod restore;
mod stats;
mod store_thread;

pub(crate) use delta_writer::DeltaWriter;
pub(crate) use failure::is_damage;
pub use listing::SnapshotView;
pub use metadata::{SnapshotMetadata, identity};
pub(crate) use recovery_point::RecoveryPoint;
pub use recovery_point::SnapshotOptions;
pub use restore::Found;
pub(crate) use restore::take_over;
pub use stats::SnapshotStats;
pub(crate) use store_thread::{StoreReport, StoreThread};
pub use styx_driver::snapshots::SnapshotSummary;
