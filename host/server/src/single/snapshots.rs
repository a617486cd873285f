//! The threads that write and put snapshots beside a process that is all of a cluster.

use crossbeam_channel::Sender;
use styx_driver::single::SnapshotStart;
use styx_driver::snapshots::SnapshotConfig;
use styx_protocol::ids::{Generation, LogPosition};
use styx_storage::snapshot::SnapshotStore;

use super::Event;
use crate::snapshots::{DeltaWriter, RecoveryPoint, SnapshotOptions, StoreThread};
use crate::stats::Stats;

/// The generation of a process that is alone, unless the snapshot that it begins with is of a later one: a
/// cluster's, or one that was restored.
const GENERATION: Generation = Generation(1);

fn generation(begin: &RecoveryPoint) -> Generation {
    Generation(begin.generation()).max(GENERATION)
}

/// What the driver must know of them.
pub(super) fn schedule(options: &SnapshotOptions, begin: &RecoveryPoint) -> SnapshotStart {
    let found = begin.found.as_ref();
    SnapshotStart {
        schedule: SnapshotConfig { interval: options.interval, ..SnapshotConfig::default() },
        generation: generation(begin),
        newest: found.map(|found| (found.metadata.header.epoch, LogPosition(found.manifest.log_position))),
    }
}

/// See the module.
pub(super) struct Snapshots {
    pub(super) delta_writer: DeltaWriter,
    pub(super) store: StoreThread,
}

impl Snapshots {
    /// Starts the threads.
    pub(super) fn start(
        options: SnapshotOptions,
        store: SnapshotStore,
        begin: &RecoveryPoint,
        inbox: &Sender<Event>,
        stats: &Stats,
    ) -> std::io::Result<Self> {
        // Only one store is ever used.
        let _ = stats.snapshots.store.set(store.clone());
        let found = begin.found.as_ref();
        let (to_hand_over, to_tell, to_report) = (inbox.clone(), inbox.clone(), inbox.clone());
        // The driver that takes these is gone only when the process is about to end.
        let delta_writer = DeltaWriter::start(
            store.clone(),
            begin.genesis.layout.partitions,
            generation(begin).0,
            found.is_some(),
            move || {
                let _ = to_hand_over.send(Event::HandOver);
            },
            move |part| {
                let _ = to_tell.send(Event::PartWritten(part));
            },
        )?;
        let store = StoreThread::start(store, options, begin.genesis, generation(begin), found, move |report| {
            let _ = to_report.send(Event::Store(report));
        })?;
        Ok(Snapshots { delta_writer, store })
    }
}
