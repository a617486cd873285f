//! Counters of the worker, written by it alone and read by anybody.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use styx_driver::coordinator::Migrations;
use styx_protocol::machine::{EpochSummary, Stage};

use crate::autoscale_stats::Autoscaling;
use crate::nodes::Nodes;
use crate::observe::Recorder;
use crate::snapshots::SnapshotStats;

/// What one epoch did and how long its phases took.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct EpochReport {
    /// The epoch.
    pub epoch: u64,
    /// Its logged time, µs since 1970.
    pub time: u64,
    /// Committed in the lock-free phase.
    pub committed: u64,
    /// Committed in the fallback.
    pub fell_back: u64,
    /// Ended without effect, by their own doing.
    pub aborted: u64,
    /// Moved to the next epoch.
    pub rescheduled: u64,
    /// Read-only requests answered.
    pub queries: u64,
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
    /// The first record that the log still has, and the next one that is appended: each trim moves the first.
    pub log_first: AtomicU64,
    pub log_next: AtomicU64,
    /// Bytes appended to the log.
    pub log_bytes: AtomicU64,
    /// Times that the log was made durable.
    pub log_syncs: AtomicU64,
    /// Microseconds spent making it durable.
    pub log_sync_us: AtomicU64,
    /// Time spent in each phase of epochs, as the one worker of this process sees it.
    pub phases: Phases,
    /// Time that the coordinator of this process waited for workers.
    pub rounds: Rounds,
    /// Nanoseconds that requests have waited for their epoch, of all together, where one process is all of
    /// the system.
    pub queue: AtomicU64,
    /// The last epoch that ended.
    pub epoch: AtomicU64,
    /// The last epoch whose record is durable.
    pub durable: AtomicU64,
    /// Entities in the committed state.
    pub entities: AtomicU64,
    /// Bytes of keys and values in the committed state.
    pub state_bytes: AtomicU64,
    /// Replies forgotten before their age was reached, since the worker's machine began.
    pub replies_forgotten_early: AtomicU64,
    /// Apps of which requests waited for an epoch when the last one ended.
    pub waiting_apps: AtomicU64,
    /// Log lines of guests that were not shown, because their apps wrote too many.
    pub guest_lines_left_out: AtomicU64,
    /// Messages of peers that could not be read or were for somebody else.
    pub peer_errors: AtomicU64,
    /// Snapshots taken.
    pub snapshots: Arc<SnapshotStats>,
    /// What is kept of requests and of guests' lines.
    pub observed: Arc<Recorder>,
    recent: Mutex<VecDeque<EpochReport>>,
    /// The longest epoch since somebody asked for it, µs.
    longest: AtomicU64,
    /// What is known of the autoscaler.
    pub autoscaling: Arc<Autoscaling>,
    /// What other processes of the cluster report.
    pub nodes: Nodes,
    migrations: Mutex<Arc<Migrations>>,
    tickets: AtomicU64,
}

/// Nanoseconds spent in the phases of all epochs so far. They come one after the other; making the
/// record durable goes on beside them, and only what is left of that when all is done is counted here.
#[derive(Debug, Default)]
pub struct Phases {
    /// Cutting: TIDs, the record, the batch.
    pub cut: AtomicU64,
    /// The first execution of all transactions, on all threads.
    pub execute: AtomicU64,
    /// Finding conflicts; in a cluster only, otherwise a part of `commit`.
    pub validate: AtomicU64,
    /// Committing, after the execution and after the fallback.
    pub commit: AtomicU64,
    /// Running those again that conflicted, on all threads.
    pub fallback: AtomicU64,
    /// Waiting for the record to be durable; where one process is all of the system.
    pub log: AtomicU64,
}

impl Phases {
    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, Duration); 6] {
        named([
            ("cut", &self.cut),
            ("execute", &self.execute),
            ("validate", &self.validate),
            ("commit", &self.commit),
            ("fallback", &self.fallback),
            ("log", &self.log),
        ])
    }

    pub(crate) fn add(phase: &AtomicU64, since: Instant) {
        phase.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Nanoseconds that a coordinator has waited in the stages of all rounds so far ([`Stage`]).
#[derive(Debug, Default)]
pub struct Rounds {
    cut: AtomicU64,
    execute: AtomicU64,
    validate: AtomicU64,
    finish: AtomicU64,
}

impl Rounds {
    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, Duration); 4] {
        named([("cut", &self.cut), ("execute", &self.execute), ("validate", &self.validate), ("finish", &self.finish)])
    }

    pub(crate) fn add(&self, stage: Stage, spent: Duration) {
        let stage = match stage {
            Stage::Cut => &self.cut,
            Stage::Execute => &self.execute,
            Stage::Validate => &self.validate,
            Stage::Finish => &self.finish,
        };
        stage.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
    }
}

fn named<const N: usize>(counters: [(&'static str, &AtomicU64); N]) -> [(&'static str, Duration); N] {
    counters.map(|(name, spent)| (name, Duration::from_nanos(spent.load(Ordering::Relaxed))))
}

const RECENT_MAX: usize = 256;

impl Stats {
    /// Nothing counted yet; what is seen of requests is kept there.
    pub fn observed_by(observed: Arc<Recorder>) -> Self {
        Stats { observed, ..Stats::default() }
    }

    /// What the coordinator of this process knows of migrations.
    pub fn migrations(&self) -> Arc<Migrations> {
        self.migrations.lock().expect("nobody panics while it is held").clone()
    }

    pub(crate) fn show_migrations(&self, migrations: Arc<Migrations>) {
        *self.migrations.lock().expect("nobody panics while it is held") = migrations;
    }

    /// A name for a migration that is asked for, which no other one has here.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn finished(&self, summary: &EpochSummary, duration_us: u64) {
        let counts = summary.counts;
        let add = |counter: &AtomicU64, n: u64| counter.fetch_add(n, Ordering::Relaxed);
        add(&self.epochs, 1);
        self.longest.fetch_max(duration_us.max(1), Ordering::Relaxed);
        self.epoch.store(summary.epoch.0, Ordering::Relaxed);
        add(&self.committed, counts.committed);
        add(&self.fell_back, counts.fell_back);
        add(&self.aborted, counts.aborted);
        add(&self.rescheduled, counts.rescheduled);
        add(&self.queries, counts.queries);
        add(&self.fuel, counts.fuel);
        let mut recent = self.recent.lock().expect("nothing panics while holding this lock");
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(EpochReport {
            epoch: summary.epoch.0,
            time: summary.time.0,
            committed: counts.committed,
            fell_back: counts.fell_back,
            aborted: counts.aborted,
            rescheduled: counts.rescheduled,
            queries: counts.queries,
            duration_us,
            chain: summary.chain.to_string(),
        });
    }

    /// A record was appended to the log.
    pub(crate) fn appended(&self, bytes: usize) {
        self.log_records.fetch_add(1, Ordering::Relaxed);
        self.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The log was made durable.
    pub(crate) fn synced(&self, since: Instant) {
        self.log_syncs.fetch_add(1, Ordering::Relaxed);
        self.log_sync_us.fetch_add(since.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// How long the longest epoch took that has ended since this was asked, µs; none if none has. One asks.
    pub(crate) fn longest_epoch(&self) -> Option<u64> {
        Some(self.longest.swap(0, Ordering::Relaxed)).filter(|longest| *longest > 0)
    }

    /// The last epochs, oldest first.
    pub fn recent(&self) -> Vec<EpochReport> {
        self.recent.lock().expect("nothing panics while holding this lock").iter().cloned().collect()
    }
}
