//! The threads that take snapshots beside the driver of a process that is all of a cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::machine::Input;
use styx_storage::snapshot::SnapshotStore;

use super::appender::ToLog;
use super::{Message, Stats};
use crate::snapshots::{Beginning, Collector, Hands, Keeper, KeeperOptions, Noted, SnapshotOptions};

/// The only generation of a process that is alone.
const GENERATION: u64 = 1;

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
        inbox: &Sender<Message>,
        log: Sender<ToLog>,
        stats: Arc<Stats>,
    ) -> std::io::Result<Self> {
        let (to_begin, to_hand_over) = (inbox.clone(), inbox.clone());
        let (reached, durable) = (stats.clone(), stats.clone());
        let hands = Hands {
            begin: Box::new(move || drop(to_begin.send(Message::Input(Input::Snapshot)))),
            remind: Box::new(|| {}),
            durable: Box::new(move || Epoch(durable.durable.load(Ordering::Relaxed))),
            reached: Box::new(move || Epoch(reached.epoch.load(Ordering::Relaxed))),
            trim: Box::new(move |until| drop(log.send(ToLog::Trim(until)))),
        };
        let found = beginning.found.as_ref();
        let keeping = KeeperOptions {
            interval: options.interval,
            retention: options.retention,
            generation: GENERATION,
            workers: 1,
            genesis: beginning.genesis,
            restored: found.map(|found| found.head.frame.epoch),
            components: found.map(|found| found.components()).unwrap_or_default(),
        };
        let keeper = Keeper::start(store.clone(), options.components, keeping, hands, stats.snapshots.clone())?;
        let notes = keeper.notes();
        let collector = Collector::start(
            store,
            beginning.genesis.layout.partitions,
            GENERATION,
            found.is_some(),
            move || drop(to_hand_over.send(Message::Input(Input::HandOver))),
            move |written| drop(notes.send(Noted::Written(WorkerId(0), written))),
        )?;
        Ok(Snapshots { collector, keeper })
    }
}
