//! The threads that take snapshots beside the driver of a process that is all of a cluster.

use std::sync::Arc;

use crossbeam_channel::Sender;
use styx_protocol::ids::{Generation, WorkerId};
use styx_protocol::machine::{coordinator, worker};
use styx_storage::snapshot::SnapshotStore;

use super::Event;
use super::appender::ToLog;
use crate::snapshots::{Beginning, Collector, Hands, Keeper, Noted, SnapshotOptions, Term};
use crate::stats::Stats;

/// The generation of a process that is alone, unless the snapshot that it begins with is of a later one: a
/// cluster's, or one that was restored.
const GENERATION: Generation = Generation(1);

/// See the module. Dropped in this order: the collector speaks to the keeper.
pub(super) struct Snapshots {
    pub collector: Collector,
    pub keeper: Keeper,
}

impl Snapshots {
    pub fn start(
        options: SnapshotOptions,
        store: SnapshotStore,
        beginning: &Beginning,
        inbox: &Sender<Event>,
        log: Sender<ToLog>,
        stats: Arc<Stats>,
    ) -> std::io::Result<Self> {
        let (to_begin, to_hand_over) = (inbox.clone(), inbox.clone());
        let hands = Hands {
            begin: Box::new(move || drop(to_begin.send(Event::Machine(coordinator::Input::Snapshot.into())))),
            remind: Box::new(|| {}),
            trim: Box::new(move |until| drop(log.send(ToLog::Trim(until)))),
        };
        let found = beginning.found.as_ref();
        let generation = beginning.generation().max(GENERATION.0);
        let term = Term { generation, workers: 1, genesis: beginning.genesis };
        let keeper = Keeper::start(store.clone(), options, term, found, hands, stats)?;
        let notes = keeper.notes();
        let collector = Collector::start(
            store,
            beginning.genesis.layout.partitions,
            generation,
            found.is_some(),
            move || drop(to_hand_over.send(Event::Machine(worker::Input::HandOver.into()))),
            move |written| drop(notes.send(Noted::Written(WorkerId(0), written))),
        )?;
        Ok(Snapshots { collector, keeper })
    }
}
