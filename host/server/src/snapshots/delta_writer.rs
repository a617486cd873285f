//! Delta writer: takes what a worker's machine hands over for a snapshot, and writes it to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use rkyv::rancor;
use styx_driver::snapshots::{RETRY_AFTER, Retry};
use styx_driver::wire::WrittenPart;
use styx_protocol::archive::aligned;
use styx_protocol::ids::{Epoch, PartitionId};
use styx_protocol::snapshot::WorkerSnapshot;
use styx_protocol::state::Write;
use styx_storage::snapshot::{PartKind, PartRef, SnapshotError, SnapshotStore};

use super::changes::{Change, Changes};
use super::failure::failure;
use crate::diagnostics;
use crate::fatal::fatal_on_panic;

/// The objects that a worker has written, as they travel: only the store reads them.
fn encode_objects(parts: &Vec<PartRef>) -> Vec<u8> {
    rkyv::to_bytes::<rancor::Error>(parts).expect("a list in memory can be written to memory").to_vec()
}

/// Reads a worker's list of objects.
///
/// # Errors
/// It is none.
pub(super) fn decode_objects(bytes: &[u8]) -> Result<Vec<PartRef>, rancor::Error> {
    rkyv::from_bytes::<Vec<PartRef>, rancor::Error>(&aligned(bytes))
}

enum Note {
    WorkerSnapshot(Box<WorkerSnapshot>),
    Changes { changes: Vec<Write>, last: bool },
}

/// A worker's thread that writes its part of snapshots. It ends when this is dropped.
pub(crate) struct DeltaWriter {
    notes: Option<Sender<Note>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DeltaWriter {
    /// Starts the thread of a worker of `generation`, which began with nothing or with a snapshot
    /// (`restored`). `more` has the machine hand over more; `tell` hears what was written.
    pub fn start(
        store: SnapshotStore,
        partitions: u32,
        generation: u64,
        restored: bool,
        more: impl Fn() + Send + 'static,
        tell: impl Fn(WrittenPart) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (notes, inbox) = unbounded::<Note>();
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let thread = std::thread::Builder::new().name("styx-deltas".into()).spawn(move || {
            fatal_on_panic("deltas", move || {
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
                            tell(WrittenPart { epoch, objects: encode_objects(&parts), hashes, carried });
                        }
                    }
                }
            });
        })?;
        Ok(DeltaWriter { notes: Some(notes), over, thread: Some(thread) })
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

impl DeltaWriter {
    /// Gives up what is under way, and waits for nothing.
    pub fn abandon(mut self) {
        self.thread = None;
    }
}

impl Drop for DeltaWriter {
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
    /// Writes all changes; `None` if it is over before.
    fn all(&self, mut changes: Changes, over: &AtomicBool) -> Option<Vec<PartRef>> {
        let one = |(partition, changes)| persist(|| self.one(partition, changes), over);
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

/// Does it as often as the [driver](Retry) says; `None` if it gives up.
fn persist<T>(once: impl Fn() -> Result<T, SnapshotError>, over: &AtomicBool) -> Option<T> {
    loop {
        let error = match once() {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        match Retry::of_part(failure(&error), over.load(Ordering::Relaxed)) {
            Retry::Again(diagnostic) => diagnostics::show(&diagnostic),
            Retry::GiveUp => return None,
            Retry::Halt(why) => panic!("{why}"),
        }
        std::thread::sleep(RETRY_AFTER);
    }
}
