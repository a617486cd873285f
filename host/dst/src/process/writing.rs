//! The thread that writes a worker's part of snapshots: the product's, to the simulated store.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use styx_driver::diagnostic::Diagnostic;
use styx_driver::single::SingleEvent;
use styx_driver::wire::WrittenPart;
use styx_driver::worker::WorkerEvent;
use styx_durability::parts::{Conditions, DeltaWriter, Note, Outcome};
use styx_protocol::entity::Layout;
use styx_protocol::ids::Generation;
use styx_protocol::snapshot::WorkerSnapshot;
use styx_protocol::state::Write;
use styx_storage::snapshot::SnapshotStore;

use super::Input;
use super::around::Around;
use crate::event::ThreadId;
use crate::thread::{Wait, wait};

/// Orders to the thread.
#[derive(Debug)]
pub struct PartThread {
    notes: Rc<RefCell<VecDeque<Note>>>,
    is_over: Rc<Cell<bool>>,
    thread: ThreadId,
}

struct Over(Rc<Cell<bool>>);

impl Conditions for Over {
    fn is_over(&self) -> bool {
        self.0.get()
    }

    fn pause(&mut self, pause: Duration) {
        wait(Wait::Pause(pause));
    }

    fn tell(&mut self, _: &Diagnostic) {}
}

impl PartThread {
    /// That of a worker in a generation.
    pub fn of_worker(
        store: SnapshotStore,
        generation: Generation,
        layout: Layout,
        builds_on: bool,
        around: &mut Around<'_>,
    ) -> Self {
        let writer = DeltaWriter::new(store, layout, generation, builds_on);
        let more = move || Input::Worker(Box::new(WorkerEvent::HandOver(generation)));
        let written = move |part| Input::Worker(Box::new(WorkerEvent::PartWritten(generation, Box::new(part))));
        PartThread::start(writer, more, written, around)
    }

    /// That of a single process.
    pub fn of_single(
        store: SnapshotStore,
        generation: Generation,
        layout: Layout,
        builds_on: bool,
        around: &mut Around<'_>,
    ) -> Self {
        let writer = DeltaWriter::new(store, layout, generation, builds_on);
        let more = || Input::Single(Box::new(SingleEvent::HandOver));
        let written = |part| Input::Single(Box::new(SingleEvent::PartWritten(part)));
        PartThread::start(writer, more, written, around)
    }

    fn start(
        mut writer: DeltaWriter,
        more: impl Fn() -> Input + 'static,
        written: impl Fn(WrittenPart) -> Input + 'static,
        around: &mut Around<'_>,
    ) -> Self {
        let notes: Rc<RefCell<VecDeque<Note>>> = Rc::default();
        let is_over: Rc<Cell<bool>> = Rc::default();
        let (taken, over, inbox) = (notes.clone(), is_over.clone(), around.own.inbox.clone());
        let thread = around.spawn(move || {
            let mut conditions = Over(over.clone());
            loop {
                let note = taken.borrow_mut().pop_front();
                let Some(note) = note else {
                    if over.get() {
                        return;
                    }
                    wait(Wait::Order);
                    continue;
                };
                let input = match writer.take(note, &mut conditions) {
                    Ok(Outcome::HandOver) => more(),
                    Ok(Outcome::Written(part)) => written(part),
                    Ok(Outcome::GaveUp) => return,
                    Err(halt) => panic!("{halt}"),
                };
                if !over.get() {
                    inbox.borrow_mut().push_back(input);
                }
            }
        });
        PartThread { notes, is_over, thread }
    }

    fn note(&self, note: Note, around: &mut Around<'_>) {
        self.notes.borrow_mut().push_back(note);
        around.wake(self.thread);
    }

    /// Takes the machine's part.
    pub fn part(&self, part: Box<WorkerSnapshot>, around: &mut Around<'_>) {
        self.note(Note::Part(part), around);
    }

    /// Takes changes of the machine's entities.
    pub fn changes(&self, changes: Vec<Write>, last: bool, around: &mut Around<'_>) {
        self.note(Note::Changes { changes, last }, around);
    }

    /// Gives up what is under way, and waits for nothing.
    pub fn abandon(self) {
        self.is_over.set(true);
    }
}
