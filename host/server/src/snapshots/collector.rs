//! Takes what a worker's machine hands over for a snapshot, and writes it to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use rkyv::rancor;
use styx_driver::wire::WrittenPart;
use styx_protocol::archive::aligned;
use styx_protocol::ids::{Epoch, PartitionId};
use styx_protocol::snapshot::{CarriedTransaction, WorkerSnapshot};
use styx_protocol::state::{StateHash, Write};
use styx_storage::snapshot::{PartKind, PartRef, SnapshotError, SnapshotStore};

use super::changes::{Change, Changes};
use crate::fatal::fatal_on_panic;

/// What a worker has written of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The snapshot's epoch.
    pub epoch: Epoch,
    /// The deltas of the partitions that have changed.
    pub parts: Vec<PartRef>,
    /// Hash of each partition of this worker.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Its transactions that were moved to the next epoch.
    pub carried: Vec<CarriedTransaction>,
}

impl From<Written> for WrittenPart {
    fn from(written: Written) -> Self {
        let Written { epoch, parts, hashes, carried } = written;
        let objects = rkyv::to_bytes::<rancor::Error>(&parts).expect("a list in memory can be written to memory");
        WrittenPart { epoch, objects: objects.to_vec(), hashes, carried }
    }
}

impl Written {
    /// What a worker's message says.
    ///
    /// # Errors
    /// Its list of objects cannot be read.
    pub fn of(part: WrittenPart) -> Result<Self, rancor::Error> {
        let WrittenPart { epoch, objects, hashes, carried } = part;
        let parts = rkyv::from_bytes::<Vec<PartRef>, rancor::Error>(&aligned(&objects))?;
        Ok(Written { epoch, parts, hashes, carried })
    }
}

enum Note {
    WorkerSnapshot(Box<WorkerSnapshot>),
    Changes { changes: Vec<Write>, last: bool },
}

/// A worker's thread that writes its part of snapshots. It ends when this is dropped.
pub(crate) struct Collector {
    notes: Option<Sender<Note>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Pauses between attempts to write what could not be written.
const PAUSE: Duration = Duration::from_millis(500);

impl Collector {
    /// Starts the thread of a worker of `generation`, which began with nothing or with a snapshot
    /// (`restored`). `more` has the machine hand over more; `tell` hears what was written.
    pub fn start(
        store: SnapshotStore,
        partitions: u16,
        generation: u64,
        restored: bool,
        more: impl Fn() + Send + 'static,
        tell: impl Fn(Written) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (notes, inbox) = unbounded::<Note>();
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let thread = std::thread::Builder::new().name("styx-collector".into()).spawn(move || {
            fatal_on_panic("collector", move || {
                // What has changed since the beginning is everything.
                let mut kind = if restored { PartKind::Delta } else { PartKind::Base };
                // Of the snapshot before: somebody else has put its manifest by now.
                let mut mentioned = Vec::new();
                let mut part = None;
                let mut collected = Changes::new(partitions);
                for note in inbox {
                    match note {
                        Note::WorkerSnapshot(noted) => {
                            part = Some(noted);
                            more();
                        }
                        Note::Changes { changes, last: false } => {
                            collected.entities(changes);
                            more();
                        }
                        Note::Changes { changes, last: true } => {
                            collected.entities(changes);
                            let mut part = part.take().expect("a part comes before its changes");
                            collected.replies(std::mem::take(&mut part.replies));
                            let collected = std::mem::replace(&mut collected, Changes::new(partitions));
                            let writing = Writing { store: &store, kind, epoch: part.epoch, generation };
                            let Some(parts) = writing.all(collected, &stop) else { return };
                            kind = PartKind::Delta;
                            store.abandon(&std::mem::replace(&mut mentioned, parts.clone()));
                            let WorkerSnapshot { epoch, hashes, carried, .. } = *part;
                            tell(Written { epoch, parts, hashes, carried });
                        }
                    }
                }
            });
        })?;
        Ok(Collector { notes: Some(notes), over, thread: Some(thread) })
    }

    /// Takes the machine's part.
    pub fn part(&self, part: Box<WorkerSnapshot>) {
        self.note(Note::WorkerSnapshot(part));
    }

    /// Takes changes of the machine's entities.
    pub fn changes(&self, changes: Vec<Write>, last: bool) {
        self.note(Note::Changes { changes, last });
    }

    fn note(&self, note: Note) {
        drop(self.notes.as_ref().expect("it is open until it is dropped").send(note));
    }
}

impl Collector {
    /// Gives up what is under way, and waits for nothing.
    pub fn abandon(mut self) {
        self.thread = None;
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.notes = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// What is the same of all parts.
struct Writing<'a> {
    store: &'a SnapshotStore,
    kind: PartKind,
    epoch: Epoch,
    generation: u64,
}

impl Writing<'_> {
    /// Writes all changes, again and again until it works: what was handed over cannot be had
    /// again. `None` if it is over before.
    fn all(&self, mut changes: Changes, over: &AtomicBool) -> Option<Vec<PartRef>> {
        let one = |(partition, changes)| persist("a part of a snapshot", || self.one(partition, changes), over);
        changes.sorted().map(one).collect()
    }

    fn one(&self, partition: PartitionId, changes: &[Change]) -> Result<PartRef, SnapshotError> {
        let mut writer = self.store.part_writer(self.kind, partition.0, self.epoch.0, self.generation)?;
        for change in changes {
            // What is not there needs no word in a base.
            if change.value.is_some() || self.kind == PartKind::Delta {
                writer.push(change.operator, change.key(), change.value.as_deref())?;
            }
        }
        writer.finish()
    }
}

/// Does it until it works; `None` if it is over before.
///
/// # Panics
/// When it is not the store that fails.
pub(super) fn persist<T>(what: &str, once: impl Fn() -> Result<T, SnapshotError>, over: &AtomicBool) -> Option<T> {
    loop {
        match once() {
            Ok(done) => return Some(done),
            // Whoever is over may well be fenced.
            Err(_) if over.load(Ordering::Relaxed) => return None,
            Err(error @ SnapshotError::Store { .. }) => {
                tracing::warn!(code = "SNAPSHOT_STORE", "{what} cannot be written, and is tried again: {error}");
            }
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(PAUSE);
    }
}
