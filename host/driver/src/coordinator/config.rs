//! Settings of a coordinator's driver.

use std::time::Duration;

use styx_protocol::entity::Layout;
use styx_protocol::membership::{Build, Patience};
use styx_protocol::placement::Seating;
use styx_protocol::replies::Retention;

use crate::snapshots::SnapshotConfig;

/// Everything that the driver must know before its first event.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// How keys are spread: as log and snapshot have it, or in another number of partitions.
    pub layout: Layout,
    /// What this process runs; workers must run the same.
    pub build: Build,
    /// Workers to wait for at the first start.
    pub workers: usize,
    /// How long workers remember replies.
    pub retention: Retention,
    /// The longest record that the log takes, in bytes.
    pub record_bytes_max: usize,
    /// Where the admin endpoints are, for gateways to tell.
    pub admin: Option<String>,
    /// When snapshots are taken, and where they go; none, if there is no such place.
    pub snapshots: Option<SnapshotSettings>,
    /// When a worker is taken for lost, and how long newcomers are looked at.
    pub patience: Patience,
    /// Most requests of this process that may wait.
    pub backlog_max: usize,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// Lives of processes that a request may end before it is executed no more; 0: it always is.
    pub quarantine_after: u32,
    /// Most bytes a second that a worker copies of partitions that leave it, unless a migration says otherwise.
    pub migration_rate: Option<u64>,
    /// Most bytes of state of an app, in memory of all workers: otherwise half of what these may hold.
    pub app_state_max: Option<u64>,
    /// Who had which partition last, as log and snapshot have it.
    pub seating: Option<Seating>,
    /// Workers that join get their share of the partitions without being asked for it.
    pub shares: bool,
    /// How long things take.
    pub timing: Timing,
}

/// Where snapshots go and when they are taken.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// When they are taken.
    pub schedule: SnapshotConfig,
    /// The URL of the store; how to get in, each worker knows from its own environment.
    pub place: String,
    /// The cluster that the store belongs to.
    pub identity: u128,
}

/// How long things take. The defaults suit a local network.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Time between two reviews of the membership.
    pub tick: Duration,
    /// A worker whose connection has ended connects again within this time, or never.
    pub cut_off_max: Duration,
    /// How long workers may take to compile a component.
    pub prepare_max: Duration,
    /// A gateway that was not heard of for so long is gone: they are new ones each time they start.
    pub gateway_gone: Duration,
    /// A gateway that was not heard of for so long is not waited for.
    pub gateway_slow: Duration,
    /// How long a deployment that is durable waits for gateways to know of it.
    pub announce_max: Duration,
    /// Pause before the store of snapshots is asked again for what a generation begins with.
    pub find_again: Duration,
    /// How long a worker that wants to go may take to give its partitions away.
    pub leave_max: Duration,
    /// Pause before a share that came to nothing is wanted again, the first time.
    pub share_again: Duration,
    /// Epochs that may wait for one fsync before further ones are held back to fill.
    pub unsynced_max: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            tick: Duration::from_millis(20),
            cut_off_max: Duration::from_millis(300),
            prepare_max: Duration::from_secs(300),
            gateway_gone: Duration::from_secs(30),
            gateway_slow: Duration::from_secs(3),
            announce_max: Duration::from_secs(1),
            find_again: Duration::from_secs(1),
            leave_max: Duration::from_secs(20),
            share_again: Duration::from_secs(1),
            unsynced_max: 2,
        }
    }
}
