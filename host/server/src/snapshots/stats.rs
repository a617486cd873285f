//! Counters of snapshots, and the store, for those who list them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use styx_driver::snapshots::SnapshotSummary;
use styx_storage::snapshot::SnapshotStore;

use crate::clock::now;

/// Snapshots that this process has taken.
#[derive(Debug, Default)]
pub struct SnapshotStats {
    /// The store, where snapshots are taken.
    pub store: OnceLock<SnapshotStore>,
    /// Time between two of them; 0: they are only taken when somebody asks.
    pub interval: OnceLock<Duration>,
    last: Mutex<Option<SnapshotSummary>>,
    /// When it was, µs since 1970; 0: not yet.
    last_us: AtomicU64,
    /// Epochs up to this one are in a snapshot that this process has taken.
    covered: AtomicU64,
    /// Snapshots taken.
    pub taken: AtomicU64,
    pub written_bytes: AtomicU64,
}

impl SnapshotStats {
    pub fn last(&self) -> Option<SnapshotSummary> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When the last one was taken, µs since 1970.
    pub fn last_us(&self) -> Option<u64> {
        Some(self.last_us.load(Ordering::Relaxed)).filter(|us| *us > 0)
    }

    /// The epoch up to which there is a snapshot.
    pub fn covered(&self) -> u64 {
        self.covered.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, summary: SnapshotSummary) {
        self.last_us.store(now().0, Ordering::Relaxed);
        self.covered.fetch_max(summary.epoch, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(summary.written_bytes, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
    }
}
