//! How a process begins that has a log and a store of snapshots, each of which may be new or old.
//!
//! They belong together if the log reaches from before the snapshot to its end or beyond. Whatever
//! else is found is refused before anything is changed: a log that is gone is not to be mistaken for
//! a new one.

use std::time::Duration;

use anyhow::{Context, ensure};
use styx_durability::log::genesis;
use styx_protocol::ids::{Epoch, LogPosition};
use styx_protocol::record::Genesis;
use styx_storage::log::Log;
use styx_storage::snapshot::{Retention, SnapshotStore, StoreLocation};
use tokio::runtime::Handle;

use super::metadata::identity;
use super::restore::{Found, newest};
use crate::clock::now;
use crate::components::ComponentStore;

/// Where snapshots go and when they are taken.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// The store.
    pub place: StoreLocation,
    /// Time between snapshots.
    pub interval: Duration,
    /// Which old ones are kept.
    pub retention: Retention,
    /// Does the input and output.
    pub runtime: Handle,
    /// The data directory's components.
    pub components: ComponentStore,
}

/// See the module.
pub(crate) struct RecoveryPoint {
    /// What was decided when the cluster was created.
    pub genesis: Genesis,
    /// The store, if snapshots are on.
    pub store: Option<SnapshotStore>,
    /// The snapshot to begin with.
    pub found: Option<Found>,
}

/// Brings a snapshot's content back; what is damaged is not begun with.
pub(crate) type Restore<'a> = &'a mut dyn FnMut(&SnapshotStore, &Found) -> anyhow::Result<()>;

/// Checks that what was asked for is what was decided when the data began.
fn check_partitions(asked: Option<u32>, genesis: &Genesis) -> anyhow::Result<()> {
    let there = genesis.layout.partitions;
    ensure!(
        asked.is_none_or(|asked| asked == there),
        "the data is in {there} partitions, and --partitions asks for {}: the number is decided when data begins, so \
         leave the setting out, or give --data-dir and --store new places",
        asked.unwrap_or_default()
    );
    Ok(())
}

impl RecoveryPoint {
    /// Looks at what is there, and brings back the newest snapshot that is whole; a new log gets its
    /// first record.
    ///
    /// # Errors
    /// Log and snapshots do not belong together, or cannot be read. Nothing was changed.
    pub fn find(
        log: &mut dyn Log,
        partitions: Option<u32>,
        options: Option<&SnapshotOptions>,
        restore: Restore<'_>,
    ) -> anyhow::Result<Self> {
        let Some(options) = options else {
            let genesis = genesis(log, partitions, now(), seed())?;
            check_partitions(partitions, &genesis)?;
            return Ok(RecoveryPoint { genesis, store: None, found: None });
        };
        let SnapshotOptions { place, runtime, .. } = options;
        let theirs = SnapshotStore::identify(place, runtime)?;
        ensure!(
            theirs.is_none() || log.next() > 0,
            "the log is empty, and {} holds snapshots: what came after them would be lost. If the log is gone for \
             good, or this is a backup, `styx snapshots restore` makes a new one; otherwise give --data-dir the \
             directory of the log, or --store a new place",
            place.url()
        );
        let from_log = match log.first() {
            0 => Some(genesis(log, partitions, now(), seed())?),
            _ => None,
        };
        if let Some(genesis) = &from_log {
            check_partitions(partitions, genesis)?;
        }
        let ours = match (from_log.as_ref().map(identity), theirs) {
            (Some(ours), _) => ours,
            (None, Some(theirs)) => theirs,
            (None, None) => anyhow::bail!(
                "the log begins at record {}, and {} holds no snapshots: give --store the place of those that the \
                 log was trimmed behind",
                log.first(),
                place.url()
            ),
        };
        let store = SnapshotStore::open(place, ours, runtime)?;
        let found = newest(&store, None, &mut |store, found| {
            found.fits(log.first()..=log.next())?;
            found.bring_components(store, &options.components).context("components of the snapshot")?;
            restore(store, found)
        })?;
        let genesis = match (from_log, &found) {
            (Some(genesis), _) => genesis,
            (None, Some(found)) => found.metadata.genesis,
            (None, None) => anyhow::bail!("{} holds no snapshot, and the log was trimmed behind one", place.url()),
        };
        check_partitions(partitions, &genesis)?;
        Ok(RecoveryPoint { genesis, store: Some(store), found })
    }

    /// The generation of the snapshot to begin with; 0 without one.
    pub fn generation(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.manifest.generation)
    }

    /// The epoch of the snapshot to begin with; 0 without one.
    pub fn epoch(&self) -> Epoch {
        self.found.as_ref().map_or(Epoch(0), |found| found.metadata.header.epoch)
    }

    /// The first record of the log to be replayed.
    pub fn position(&self) -> LogPosition {
        LogPosition(self.found.as_ref().map_or(1, |found| found.manifest.log_position))
    }
}

fn seed() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1
}

#[cfg(test)]
mod tests {
    use styx_storage::log::MemoryDisk;

    use super::*;

    #[test]
    fn the_number_of_partitions_is_decided_once() {
        let disk = MemoryDisk::default();
        let find = |partitions| {
            let found = RecoveryPoint::find(&mut disk.open().unwrap(), partitions, None, &mut |_, _| Ok(()));
            found.map(|point| point.genesis.layout.partitions).map_err(|error| error.to_string())
        };
        assert_eq!(find(Some(8)), Ok(8));
        assert_eq!(find(None), Ok(8));
        assert_eq!(find(Some(8)), Ok(8));
        let refused = find(Some(1024)).unwrap_err();
        assert!(refused.contains("in 8 partitions") && refused.contains("asks for 1024"), "{refused}");
        assert!(!refused.contains('\n'));
    }
}
