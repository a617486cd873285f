//! The threads that write and put snapshots beside a process that is all of a cluster.

use crossbeam_channel::Sender;
use styx_durability::recovery::RecoveryPoint;
use styx_storage::snapshot::SnapshotStore;

use super::Event;
use crate::snapshots::{DeltaWriter, SnapshotOptions, StoreThread};
use crate::stats::Stats;

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
        let _ = stats.snapshots.interval.set(options.interval);
        let (found, generation) = (begin.found.as_ref(), begin.single_generation());
        let (to_hand_over, to_tell, to_report) = (inbox.clone(), inbox.clone(), inbox.clone());
        // The driver that takes these is gone only when the process is about to end.
        let delta_writer = DeltaWriter::start(
            store.clone(),
            begin.layout,
            generation,
            begin.builds_on(),
            move || {
                let _ = to_hand_over.send(Event::HandOver);
            },
            move |part| {
                let _ = to_tell.send(Event::PartWritten(part));
            },
        )?;
        let store = StoreThread::start(store, options, begin.genesis, generation, found, move |report| {
            let _ = to_report.send(Event::Store(report));
        })?;
        Ok(Snapshots { delta_writer, store })
    }
}
