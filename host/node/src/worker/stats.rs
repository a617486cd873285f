//! Counters of the worker, written by it alone and read by anybody.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use styx_protocol::machine::EpochSummary;

use crate::snapshots::KeeperStats;

/// What one epoch did and how long its phases took.
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport {
    /// The epoch.
    pub epoch: u64,
    /// Its logged time, µs since 1970.
    pub time: u64,
    /// Committed in the lock-free phase.
    pub committed: usize,
    /// Committed in the fallback.
    pub fell_back: usize,
    /// Ended without effect, by their own doing.
    pub aborted: usize,
    /// Moved to the next epoch.
    pub rescheduled: usize,
    /// Read-only requests answered.
    pub queries: usize,
    /// From cut to end, µs.
    pub duration_us: u64,
    /// State hash chain after it.
    pub chain: String,
}

/// Counters since the process began.
#[derive(Debug, Default)]
pub struct Stats {
    /// Epochs ended.
    pub epochs: AtomicU64,
    /// Transactions committed in the lock-free phase.
    pub committed: AtomicU64,
    /// Transactions committed in the fallback.
    pub fell_back: AtomicU64,
    /// Transactions that ended without effect.
    pub aborted: AtomicU64,
    /// Times that a transaction was moved to the next epoch.
    pub rescheduled: AtomicU64,
    /// Read-only requests answered.
    pub queries: AtomicU64,
    /// Fuel used.
    pub fuel: AtomicU64,
    /// Log records made durable.
    pub log_records: AtomicU64,
    /// Bytes appended to the log.
    pub log_bytes: AtomicU64,
    /// Times that the log was made durable.
    pub log_syncs: AtomicU64,
    /// Microseconds spent making it durable.
    pub log_sync_us: AtomicU64,
    /// The last epoch that ended.
    pub epoch: AtomicU64,
    /// The last epoch whose record is durable.
    pub durable: AtomicU64,
    /// Entities in the committed state.
    pub entities: AtomicU64,
    /// Bytes of keys and values in the committed state.
    pub state_bytes: AtomicU64,
    /// Snapshots taken.
    pub snapshots: Arc<KeeperStats>,
    recent: Mutex<VecDeque<EpochReport>>,
}

const RECENT_MAX: usize = 256;

impl Stats {
    pub(crate) fn finished(&self, summary: &EpochSummary, duration_us: u64) {
        let add = |counter: &AtomicU64, n: usize| counter.fetch_add(n as u64, Ordering::Relaxed);
        add(&self.epochs, 1);
        self.epoch.store(summary.epoch.0, Ordering::Relaxed);
        add(&self.committed, summary.committed);
        add(&self.fell_back, summary.fell_back);
        add(&self.aborted, summary.aborted);
        add(&self.rescheduled, summary.rescheduled);
        add(&self.queries, summary.queries);
        self.fuel.fetch_add(summary.fuel, Ordering::Relaxed);
        let mut recent = self.recent.lock().expect("nothing panics while holding this lock");
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(EpochReport {
            epoch: summary.epoch.0,
            time: summary.time.0,
            committed: summary.committed,
            fell_back: summary.fell_back,
            aborted: summary.aborted,
            rescheduled: summary.rescheduled,
            queries: summary.queries,
            duration_us,
            chain: summary.chain.to_string(),
        });
    }

    /// The last epochs, oldest first.
    pub fn recent(&self) -> Vec<EpochReport> {
        self.recent.lock().expect("nothing panics while holding this lock").iter().cloned().collect()
    }
}
