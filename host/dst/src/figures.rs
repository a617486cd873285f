//! Counters of what worlds did.

/// Counters, added up over worlds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// Transactions and queries that ended, replays not counted.
    pub transactions: u64,
    /// Of these, those in clusters of several workers.
    pub clustered: u64,
    pub queries: u64,
    /// Transactions and queries that needed other workers.
    pub shared: u64,
    pub epochs: u64,
    /// Transactions that ended in the fallback.
    pub fell_back: u64,
    /// Transactions that moved to the next epoch.
    pub rescheduled: u64,
    pub aborted: u64,
    /// Crashes and recoveries, failed fsyncs included.
    pub crashes: u64,
    /// Generations that began.
    pub generations: u64,
    /// Epochs replayed in recoveries.
    pub replayed: u64,
    /// Transactions run again at the end of worlds, on other placements.
    pub verified: u64,
    /// Snapshots written.
    pub snapshots: u64,
    /// Starts and generations that began with a snapshot.
    pub restores: u64,
    /// Snapshots that were damaged when they were wanted.
    pub damaged: u64,
    /// Logs that were damaged where they were not needed.
    #[serde(default)]
    pub damaged_logs: u64,
    /// Writes of snapshots that failed, or of which nobody knew.
    pub store_failures: u64,
    /// Deployments, activations and removals in the log.
    pub deployments: u64,
    /// Pauses, clock jumps, slow disks, partitions, changes of membership.
    pub disturbances: u64,
    /// Migrations in the log.
    pub migrations: u64,
    /// Messages lost.
    pub lost: u64,
    /// Processes that came to lead though they were not the first to.
    pub takeovers: u64,
    /// Messages to the log of processes that had been replaced.
    pub late: u64,
    /// Messages of a generation that could not be sent.
    pub unsent: u64,
    /// The most epochs that a transaction was moved.
    pub longest_wait: u64,
    /// The longest that nobody served after the last fault, µs.
    pub longest_outage_us: u64,
    /// Processes that ended because their log had no space left.
    pub full_disks: u64,
    /// Requests refused for want of room for more state.
    #[serde(default)]
    pub state_full: u64,
    /// Workers refused because they run something else.
    pub refused: u64,
    /// Runs of long transactions beside the epochs.
    #[serde(default)]
    pub long: u64,
    /// Processes that a request has ended.
    #[serde(default)]
    pub poisoned: u64,
    /// Records of topics that have their reply.
    #[serde(default)]
    pub records: u64,
}

impl Figures {
    /// Adds another world's.
    pub fn add(&mut self, other: &Figures) {
        let add = |own: &mut u64, other: u64| *own += other;
        add(&mut self.transactions, other.transactions);
        add(&mut self.clustered, other.clustered);
        add(&mut self.queries, other.queries);
        add(&mut self.shared, other.shared);
        add(&mut self.epochs, other.epochs);
        add(&mut self.fell_back, other.fell_back);
        add(&mut self.rescheduled, other.rescheduled);
        add(&mut self.aborted, other.aborted);
        add(&mut self.crashes, other.crashes);
        add(&mut self.generations, other.generations);
        add(&mut self.replayed, other.replayed);
        add(&mut self.verified, other.verified);
        add(&mut self.snapshots, other.snapshots);
        add(&mut self.restores, other.restores);
        add(&mut self.damaged, other.damaged);
        add(&mut self.damaged_logs, other.damaged_logs);
        add(&mut self.store_failures, other.store_failures);
        add(&mut self.deployments, other.deployments);
        add(&mut self.disturbances, other.disturbances);
        add(&mut self.migrations, other.migrations);
        add(&mut self.lost, other.lost);
        add(&mut self.takeovers, other.takeovers);
        add(&mut self.late, other.late);
        add(&mut self.unsent, other.unsent);
        add(&mut self.full_disks, other.full_disks);
        add(&mut self.state_full, other.state_full);
        add(&mut self.refused, other.refused);
        add(&mut self.long, other.long);
        add(&mut self.poisoned, other.poisoned);
        add(&mut self.records, other.records);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.longest_outage_us = self.longest_outage_us.max(other.longest_outage_us);
    }
}
