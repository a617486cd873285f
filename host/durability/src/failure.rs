//! Failures of the store in the words of those who decide what follows.

use styx_driver::snapshots::StoreFailure;
use styx_storage::snapshot::SnapshotError;

/// A failure of the store as drivers know it.
pub fn failure(error: &SnapshotError) -> StoreFailure {
    match error {
        SnapshotError::Store { .. } => StoreFailure::Unavailable(error.to_string()),
        error if error.is_damage() => StoreFailure::Damaged(error.to_string()),
        error => StoreFailure::Fatal(error.to_string()),
    }
}

/// Whether an older snapshot may help.
pub fn is_damage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<SnapshotError>().is_some_and(SnapshotError::is_damage)
}
