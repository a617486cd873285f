//! Settings of snapshots, and the beginning of a process by them.

use std::time::Duration;

use styx_driver::snapshots::SnapshotConfig;
use styx_durability::recovery::{Found, RecoveryPoint, SnapshotSource};
use styx_protocol::entity::Layout;
use styx_storage::log::Log;
use styx_storage::snapshot::{Retention, Runtime, SnapshotStore, StoreLocation};

use crate::clock::now;
use crate::components::ComponentStore;

/// Where snapshots go and when they are taken.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    pub place: StoreLocation,
    /// Time between snapshots.
    pub interval: Duration,
    /// Which old ones are kept.
    pub retention: Retention,
    /// Where requests to it run.
    pub runtime: Runtime,
    /// The data directory's components.
    pub components: ComponentStore,
}

impl SnapshotOptions {
    /// When they are taken.
    pub(crate) fn schedule(&self) -> SnapshotConfig {
        SnapshotConfig { interval: self.interval, ..SnapshotConfig::default() }
    }
}

/// [`RecoveryPoint::find`], now.
pub(crate) fn recovery_point(
    log: &mut dyn Log,
    partitions: Option<u32>,
    options: Option<&SnapshotOptions>,
    restore: &mut dyn FnMut(&SnapshotStore, &Found, Layout) -> anyhow::Result<()>,
) -> anyhow::Result<RecoveryPoint> {
    let seed = rand::random();
    let source = options.map(|options| SnapshotSource {
        place: &options.place,
        runtime: &options.runtime,
        components: &options.components,
    });
    RecoveryPoint::find(log, partitions, now(), seed, source, restore)
}
