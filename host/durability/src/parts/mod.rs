//! Delta writer: takes what a worker's machine hands over for a snapshot, and writes it to the store.

mod changes;

use std::time::Duration;

use styx_driver::diagnostic::Diagnostic;
use styx_driver::snapshots::{RETRY_AFTER, Retry};
use styx_driver::wire::WrittenPart;
use styx_planted::{Bug, planted};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, Generation, PartitionId};
use styx_protocol::snapshot::WorkerSnapshot;
use styx_protocol::state::Write;
use styx_storage::snapshot::{PartKind, PartRef, SnapshotError, SnapshotStore};

use self::changes::{Change, Changes};
pub(crate) use self::changes::{REPLIES, decode};
use crate::failure::failure;
use crate::objects;

/// Something that a machine hands over.
#[derive(Debug)]
pub enum Note {
    /// Its part of a snapshot; its entities follow.
    Part(Box<WorkerSnapshot>),
    /// Changes of its entities.
    Changes {
        /// Some of them.
        changes: Vec<Write>,
        /// These were the last.
        last: bool,
    },
}

/// What follows from a note.
#[derive(Debug)]
pub enum Outcome {
    /// The machine is to hand over more.
    HandOver,
    Written(WrittenPart),
    /// The generation is over, and takes no more notes.
    GaveUp,
}

/// What a delta writer goes by while the store does not answer.
pub trait Conditions {
    /// Whether the generation is over: nobody wants what is written.
    fn is_over(&self) -> bool;

    /// Waits before another attempt.
    fn pause(&mut self, pause: Duration);

    /// Tells people.
    fn tell(&mut self, diagnostic: &Diagnostic);
}

/// The process cannot go on, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Halt(pub String);

/// Bytes of a pack, about, before they are compressed: so much is written again when a store has not taken it.
const PACK_BYTES: usize = 64 << 20;

/// What has changed in a partition.
type Changed<'a> = (PartitionId, &'a [Change]);

/// A worker's part of the snapshots of a generation.
#[derive(Debug)]
pub struct DeltaWriter {
    store: SnapshotStore,
    layout: Layout,
    generation: Generation,
    /// What has changed since the beginning is everything.
    kind: PartKind,
    /// Of the snapshot before: somebody else has put its manifest by now.
    mentioned: Vec<PartRef>,
    part: Option<Box<WorkerSnapshot>>,
    collected: Changes,
}

impl DeltaWriter {
    /// That of a generation, which began with a snapshot that the next one builds on, or with nothing of the kind.
    pub fn new(store: SnapshotStore, layout: Layout, generation: Generation, builds_on: bool) -> Self {
        let kind = if builds_on { PartKind::Delta } else { PartKind::Base };
        let collected = Changes::new(layout);
        DeltaWriter { store, layout, generation, kind, mentioned: Vec::new(), part: None, collected }
    }

    /// Takes a note. After the last changes of a part it is written, as often as the [driver](Retry) says.
    ///
    /// # Errors
    /// It cannot be written, and another attempt does not help.
    ///
    /// # Panics
    /// If changes come without a part.
    pub fn take(&mut self, note: Note, conditions: &mut dyn Conditions) -> Result<Outcome, Halt> {
        match note {
            Note::Part(part) => {
                if !part.builds_on {
                    self.kind = PartKind::Base;
                }
                if part.layout != self.layout {
                    self.layout = part.layout;
                    self.collected = Changes::new(self.layout);
                }
                self.part = Some(part);
                Ok(Outcome::HandOver)
            }
            Note::Changes { changes, last } => {
                self.collected.entities(changes);
                if last { self.write(conditions) } else { Ok(Outcome::HandOver) }
            }
        }
    }

    fn write(&mut self, conditions: &mut dyn Conditions) -> Result<Outcome, Halt> {
        let part = *self.part.take().expect("a part comes before its changes");
        let WorkerSnapshot { epoch, hashes, carried, replies, .. } = part;
        self.collected.replies(replies);
        let mut collected = std::mem::replace(&mut self.collected, Changes::new(self.layout));
        let mut parts = Vec::new();
        let changed: Vec<_> = collected.sorted().collect();
        let mut left = changed.as_slice();
        while !left.is_empty() {
            let (some, others) = left.split_at(fill(left, PACK_BYTES));
            let Some(packed) = persist(|| self.pack(epoch, some), conditions)? else { return Ok(Outcome::GaveUp) };
            parts.extend(packed);
            left = others;
        }
        self.kind = PartKind::Delta;
        let objects = objects::encode(&parts);
        self.store.abandon(&std::mem::replace(&mut self.mentioned, parts));
        Ok(Outcome::Written(WrittenPart { epoch, objects, hashes, carried }))
    }

    fn pack(&self, epoch: Epoch, changed: &[Changed<'_>]) -> Result<Vec<PartRef>, SnapshotError> {
        let mut pack = self.store.pack_writer(epoch.0, self.generation.0);
        for (partition, changes) in changed {
            let mut part = pack.part(self.kind, partition.0)?;
            for change in *changes {
                // What is not there needs no word in a base.
                if change.value.is_some() || (self.kind == PartKind::Delta && !planted(Bug::DeletesNotWritten)) {
                    part.push(change.operator, change.key(), change.value.as_deref())?;
                }
            }
            part.finish()?;
        }
        pack.finish()
    }
}

/// How many of these, one at least, come to so many bytes.
fn fill(changed: &[Changed<'_>], bytes: usize) -> usize {
    let sizes = changed.iter().map(|(_, changes)| changes.iter().map(Change::bytes).sum::<usize>());
    let sums = sizes.scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    1 + sums.take_while(|sum| *sum < bytes).count().min(changed.len() - 1)
}

/// Does it as often as the [driver](Retry) says; `None` if it gives up.
fn persist<T>(
    mut once: impl FnMut() -> Result<T, SnapshotError>,
    conditions: &mut dyn Conditions,
) -> Result<Option<T>, Halt> {
    loop {
        let error = match once() {
            Ok(done) => return Ok(Some(done)),
            Err(error) => error,
        };
        match Retry::of_part(failure(&error), conditions.is_over()) {
            Retry::Again(diagnostic) => conditions.tell(&diagnostic),
            Retry::GiveUp => return Ok(None),
            Retry::Halt(why) => return Err(Halt(why)),
        }
        conditions.pause(RETRY_AFTER);
    }
}
