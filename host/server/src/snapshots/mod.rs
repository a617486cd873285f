//! Snapshots of a running system: taken in the background, restored at the start.
//!
//! The machines say what a snapshot holds (`styx_protocol::snapshot`), the store keeps it
//! (`styx_storage::snapshot`). Between them: a *collector* per worker process writes what has changed
//! in its partitions; the *keeper*, beside the coordinator, decides when, puts the manifest once the
//! log is durable up to the snapshot's epoch, has the log trimmed, and looks after old snapshots.

mod beginning;
mod changes;
mod collector;
mod head;
mod keeper;
mod listing;
mod restore;

pub(crate) use beginning::Beginning;
pub use beginning::SnapshotOptions;
pub(crate) use collector::Collector;
pub use collector::Written;
pub use head::Head;
pub use head::identity;
pub(crate) use keeper::{Hands, Keeper, Noted, Term};
pub use keeper::{KeeperStats, Taken};
pub use listing::describe;
pub use restore::Found;
pub(crate) use restore::{is_damage, newest};
