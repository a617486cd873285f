//! The thread of a [delta writer](styx_durability::parts).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use styx_driver::diagnostic::Diagnostic;
use styx_driver::wire::WrittenPart;
use styx_durability::parts::{self, Conditions, Note, Outcome};
use styx_protocol::entity::Layout;
use styx_protocol::ids::Generation;
use styx_protocol::snapshot::WorkerSnapshot;
use styx_protocol::state::Write;
use styx_storage::snapshot::SnapshotStore;

use crate::diagnostics;
use crate::fatal::{fatal, fatal_on_panic};

/// A worker's thread that writes its part of snapshots. It ends when this is dropped.
pub(crate) struct DeltaWriter {
    notes: Option<Sender<Note>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A generation that goes on until the writer is dropped.
struct UntilDropped(Arc<AtomicBool>);

impl Conditions for UntilDropped {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn pause(&mut self, pause: Duration) {
        std::thread::sleep(pause);
    }

    fn tell(&mut self, diagnostic: &Diagnostic) {
        diagnostics::show(diagnostic);
    }
}

impl DeltaWriter {
    /// Starts the thread of a worker of `generation`, which began with a snapshot that the next one builds on, or with nothing
    /// of the kind. `more` has the machine hand over more; `tell` hears what was written.
    pub fn start(
        store: SnapshotStore,
        layout: Layout,
        generation: Generation,
        builds_on: bool,
        more: impl Fn() + Send + 'static,
        tell: impl Fn(WrittenPart) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (notes, inbox) = unbounded();
        let over = Arc::<AtomicBool>::default();
        let mut conditions = UntilDropped(over.clone());
        let mut writer = parts::DeltaWriter::new(store, layout, generation, builds_on);
        let thread = std::thread::Builder::new().name("styx-deltas".into()).spawn(move || {
            super::go_behind();
            fatal_on_panic("deltas", move || {
                for note in inbox {
                    match writer.take(note, &mut conditions) {
                        Ok(Outcome::HandOver) => more(),
                        Ok(Outcome::Written(part)) => tell(part),
                        Ok(Outcome::GaveUp) => return,
                        Err(halt) => fatal(&halt.to_string()),
                    }
                }
            });
        })?;
        Ok(DeltaWriter { notes: Some(notes), over, thread: Some(thread) })
    }

    /// Takes the machine's part.
    pub fn part(&self, part: Box<WorkerSnapshot>) {
        self.note(Note::Part(part));
    }

    /// Takes changes of the machine's entities.
    pub fn changes(&self, changes: Vec<Write>, last: bool) {
        self.note(Note::Changes { changes, last });
    }

    fn note(&self, note: Note) {
        drop(self.notes.as_ref().expect("it is open until it is dropped").send(note));
    }

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
