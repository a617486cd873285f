//! How a process begins that has a log and a store of snapshots, each of which may be new or old.
//!
//! They belong together if the log reaches from before the snapshot to its end or beyond. Whatever
//! else is found is refused before anything is changed: a log that is gone is not to be mistaken for
//! a new one.

mod embedded;
mod found;
mod newest;
mod rebuilding;
mod worker;

use anyhow::{Context, ensure};
use styx_driver::single::SnapshotStart;
use styx_driver::snapshots::SnapshotConfig;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, Generation, LogPosition, Timestamp};
use styx_protocol::placement::Seating;
use styx_protocol::record::Genesis;
use styx_storage::log::Log;
use styx_storage::snapshot::{Runtime, SnapshotStore, StoreLocation};

pub use self::embedded::open_embedded;
pub use self::found::Found;
pub use self::newest::{newest, take_over};
pub use self::worker::{Opened, Restore};

use crate::components::Components;
use crate::log::genesis;
use crate::metadata::identity;

/// Where a process finds snapshots, and keeps the components that they hold.
#[derive(Clone, Copy)]
pub struct SnapshotSource<'a> {
    pub place: &'a StoreLocation,
    /// Where requests to it run.
    pub runtime: &'a Runtime,
    /// The process's own components.
    pub components: &'a dyn Components,
}

#[derive(Debug)]
pub struct RecoveryPoint {
    /// What was decided when the cluster was created.
    pub genesis: Genesis,
    /// As was asked for; otherwise as the snapshot has it.
    pub layout: Layout,
    pub store: Option<SnapshotStore>,
    /// The snapshot to begin with.
    pub found: Option<Found>,
}

/// The layout to go on with: the one that is `there`, or the one that is asked for. Who asks for as many partitions as there
/// were at the beginning asks for nothing else than what is there.
fn layout(asked: Option<u32>, genesis: &Genesis, there: Layout) -> anyhow::Result<Layout> {
    match asked.filter(|asked| ![genesis.partitions, there.partitions].contains(asked)) {
        None => Ok(there),
        Some(asked) => {
            let wanted = there.repartitioned(asked).map_err(|why| {
                anyhow::anyhow!("--partitions: {why}; leave the setting out, or give --data-dir and --store new places")
            })?;
            Ok(wanted)
        }
    }
}

impl RecoveryPoint {
    /// Looks at what is there, and brings back the newest snapshot that is whole: `restore` brings its content, and
    /// what is damaged is not begun with. A new log gets its first record; data that is there must have a number of
    /// partitions from which one gets to those that are asked for, if any are.
    ///
    /// # Errors
    /// Log and snapshots do not belong together, or cannot be read. Nothing was changed.
    pub fn find(
        log: &mut dyn Log,
        partitions: Option<u32>,
        now: Timestamp,
        seed: u64,
        source: Option<SnapshotSource<'_>>,
        restore: &mut dyn FnMut(&SnapshotStore, &Found, Layout) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let Some(SnapshotSource { place, runtime, components }) = source else {
            let genesis = genesis(log, partitions, now, seed)?;
            let layout = layout(partitions, &genesis, genesis.layout())?;
            return Ok(RecoveryPoint { genesis, layout, store: None, found: None });
        };
        let theirs = SnapshotStore::identify(place, runtime)?;
        ensure!(
            theirs.is_none() || log.next() > 0,
            "the log is empty, and {} holds snapshots: what came after them would be lost. If the log is gone for \
             good, or this is a backup, `styx snapshots restore` makes a new one; otherwise give --data-dir the \
             directory of the log, or --store a new place",
            place.url()
        );
        let from_log = match log.first() {
            0 => Some(genesis(log, partitions, now, seed)?),
            _ => None,
        };
        if let Some(genesis) = &from_log {
            layout(partitions, genesis, genesis.layout())?;
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
            found.bring_components(store, components).context("components of the snapshot")?;
            restore(store, found, layout(partitions, &found.metadata.genesis, found.metadata.layout())?)
        })?;
        let genesis = match (from_log, &found) {
            (Some(genesis), _) => genesis,
            (None, Some(found)) => found.metadata.genesis,
            (None, None) => anyhow::bail!("{} holds no snapshot, and the log was trimmed behind one", place.url()),
        };
        let there = found.as_ref().map_or_else(|| genesis.layout(), |found| found.metadata.layout());
        let layout = layout(partitions, &genesis, there)?;
        Ok(RecoveryPoint { genesis, layout, store: Some(store), found })
    }

    /// The layout to go on with if the log says a number of partitions behind the snapshot.
    ///
    /// # Errors
    /// There cannot be as many as are asked for.
    pub fn layout_after(&self, asked: Option<u32>, logged: Option<u32>) -> anyhow::Result<Layout> {
        let there = logged.map_or(self.layout, |partitions| Layout { partitions, ..self.layout });
        layout(asked, &self.genesis, there)
    }

    /// Whether the next snapshot builds on the one to begin with.
    pub fn builds_on(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.metadata.layout() == self.layout)
    }

    /// Who had which partition when the snapshot to begin with was taken, if it was a cluster's.
    pub fn seating(&self) -> Option<&Seating> {
        self.found.as_ref().and_then(|found| found.metadata.header.seating.as_ref())
    }

    /// The generation of the snapshot to begin with; 0 without one.
    pub fn generation(&self) -> Generation {
        Generation(self.found.as_ref().map_or(0, |found| found.manifest.generation))
    }

    /// The epoch of the snapshot to begin with; 0 without one.
    pub fn epoch(&self) -> Epoch {
        self.found.as_ref().map_or(Epoch(0), |found| found.metadata.header.epoch)
    }

    /// The first record of the log to be replayed.
    pub fn position(&self) -> LogPosition {
        LogPosition(self.found.as_ref().map_or(1, |found| found.manifest.log_position))
    }

    /// The generation of a process that is all of a cluster: the first, unless the snapshot that it begins with is of a
    /// later one, a cluster's, or one that was restored.
    pub fn single_generation(&self) -> Generation {
        self.generation().max(Generation(1))
    }

    /// What the driver of such a process must know to take snapshots.
    pub fn snapshot_start(&self, schedule: SnapshotConfig) -> SnapshotStart {
        SnapshotStart {
            schedule,
            generation: self.single_generation(),
            newest: self.found.as_ref().map(|_| (self.epoch(), self.position())),
            builds_on: self.builds_on(),
        }
    }
}

#[cfg(test)]
mod tests {
    use styx_storage::log::MemoryDisk;

    use super::*;

    #[test]
    fn the_number_of_partitions_is_a_multiple_of_the_first() {
        let disk = MemoryDisk::default();
        let find = |partitions| {
            let (mut log, now) = (disk.open().unwrap(), Timestamp(5));
            let found = RecoveryPoint::find(&mut log, partitions, now, 7, None, &mut |_, _, _| Ok(()));
            found.map(|point| point.layout.partitions).map_err(|error| error.to_string())
        };
        assert_eq!(find(Some(8)), Ok(8));
        assert_eq!(find(None), Ok(8));
        assert_eq!(find(Some(8)), Ok(8));
        let refused = find(Some(12)).unwrap_err();
        assert!(refused.contains("--partitions: 12 partitions: there can be 8"), "{refused}");
        assert!(!refused.contains('\n'));
        assert_eq!(find(Some(1024)), Ok(1024));
    }
}
