//! Counters of snapshots, and the store, for those who list them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use styx_driver::snapshots::SnapshotSummary;
use styx_storage::snapshot::SnapshotStore;

/// Snapshots that this process has taken.
#[derive(Debug, Default)]
pub struct SnapshotStats {
    /// The store, where snapshots are taken.
    pub store: OnceLock<SnapshotStore>,
    last: Mutex<Option<SnapshotSummary>>,
    /// Snapshots taken.
    pub taken: AtomicU64,
    pub written_bytes: AtomicU64,
}

impl SnapshotStats {
    pub fn last(&self) -> Option<SnapshotSummary> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add(&self, summary: SnapshotSummary) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(summary.written_bytes, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
    }
}
