//! What a worker begins a generation with, and its part of snapshots.

use styx_protocol::ids::PartitionId;
use styx_protocol::machine::Worker;
use styx_protocol::snapshot::{RestoredState, RetainedState};
use styx_storage::snapshot::SnapshotStore;
use tokio::runtime::Handle;

use super::components::missing;
use super::serving::Asker;
use super::{Driver, Event};
use crate::cluster::COORDINATOR;
use crate::config::store_location;
use crate::fatal::fatal;
use crate::snapshots::{Collector, Found, Written, is_damage};
use styx_driver::wire::{Envelope, SnapshotPlace};

/// What a generation begins with.
pub(in crate::cluster::worker) struct Opened {
    store: SnapshotStore,
    restored: Option<RestoredState>,
}

impl Driver {
    /// Reads what the generation begins with, beside everything else; then this worker has joined.
    pub(super) fn open(&mut self) {
        let Some(serving) = &self.serving else { return };
        let left = self.left.take();
        let Some(store) = serving.invite.store.clone() else {
            drop(std::thread::spawn(move || drop(left)));
            return self.begun();
        };
        let (generation, events, threads) = (serving.invite.generation, self.events.clone(), self.options.threads);
        let seat = serving.machine.seat().clone();
        let known = self.store.clone();
        let runtime = self.runtime.clone();
        let open = move || {
            let remains = left.and_then(remains);
            let owns = |partition| seat.placement.owner(partition) == seat.me;
            drop(events.send(Event::Opened(generation, open(&store, known, &runtime, threads, owns, remains))));
        };
        if let Err(error) = std::thread::Builder::new().name("styx-restore".into()).spawn(open) {
            fatal(&format!("cannot start a thread: {error}"));
        }
    }

    pub(super) fn opened(&mut self, generation: u64, opened: anyhow::Result<Opened>) {
        if !self.serves(generation) {
            return;
        }
        let Opened { store, restored } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let (why, damaged) = (format!("{error:#}"), is_damage(&error));
                tracing::error!(code = "SNAPSHOT_STORE", "this worker cannot begin: {why}");
                return self.control(COORDINATOR, &Envelope::RestoreFailed { generation, why, damaged });
            }
        };
        self.store = Some(store.clone());
        let Some(serving) = &mut self.serving else { return };
        let (to_hand_over, to_tell) = (self.events.clone(), self.events.clone());
        let collector = Collector::start(
            store,
            serving.invite.layout.partitions,
            generation,
            restored.is_some(),
            move || drop(to_hand_over.send(Event::HandOver(generation))),
            move |written| drop(to_tell.send(Event::Written(generation, Box::new(written)))),
        );
        match collector {
            Ok(collector) => serving.collector = Some(collector),
            Err(error) => fatal(&format!("cannot start a thread: {error}")),
        }
        if let Some(restored) = restored {
            tracing::info!(generation, epoch = restored.frame.epoch.0, "a snapshot was restored");
            serving.machine.restore(restored);
            serving.missing = missing(&self.engine, serving.machine.catalog());
        }
        if serving.missing.is_empty() {
            self.begun()
        } else {
            serving.missing.clone().into_iter().for_each(|digest| self.make_ready(digest))
        }
    }

    /// This worker is ready for the log.
    pub(super) fn begun(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        serving.beginning = false;
        let generation = serving.invite.generation;
        self.control(COORDINATOR, &Envelope::Joined { generation });
    }

    pub(super) fn written(&mut self, generation: u64, written: Written) {
        if self.serves(generation)
            && let Some(serving) = &mut self.serving
        {
            serving.written = Some(written);
            self.remind(generation);
        }
    }

    /// Tells the coordinator what was written.
    pub(super) fn remind(&mut self, generation: u64) {
        let Some(serving) = self.serving.as_ref().filter(|serving| serving.invite.generation == generation) else {
            return;
        };
        if let Some(written) = serving.written.clone() {
            self.control(COORDINATOR, &Envelope::PartWritten { generation, part: written.into() });
        }
    }
}

/// What can be used of a worker's part in the last generation. The rest is dropped, which may take as
/// long as reading a new one.
fn remains(left: Box<Worker<Asker>>) -> Option<RetainedState> {
    left.into_retained().map_err(|left| std::thread::spawn(move || drop(left))).ok()
}

fn open(
    store: &SnapshotPlace,
    known: Option<SnapshotStore>,
    runtime: &Handle,
    threads: usize,
    owns: impl Fn(PartitionId) -> bool,
    remains: Option<RetainedState>,
) -> anyhow::Result<Opened> {
    let same = |known: &SnapshotStore| known.identity() == store.identity && known.location().url() == store.place;
    let opened = match known.filter(same) {
        Some(known) => known,
        None => SnapshotStore::open(&store_location(&store.place), store.identity, runtime)?,
    };
    let restored = match store.begin {
        Some(sequence) => {
            Some(Found::read(&opened, opened.manifest(sequence)?)?.restore(&opened, threads, owns, remains)?)
        }
        None => None,
    };
    Ok(Opened { store: opened, restored })
}
