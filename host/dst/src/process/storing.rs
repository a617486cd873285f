//! The threads with which a coordinator finds what a generation begins with, puts manifests, and tidies up behind them:
//! the product's code, on the simulated store.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use styx_driver::coordinator::Event;
use styx_driver::single::SingleEvent;
use styx_driver::snapshots::{ManifestDraft, ManifestPut, StoreFailure};
use styx_durability::manifests::ManifestWriter;
use styx_durability::recovery::{Found, take_over};
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::record::Genesis;
use styx_storage::snapshot::SnapshotStore;

use super::Input;
use super::around::Around;
use crate::event::ThreadId;
use crate::thread::{Wait, wait};

/// What a generation begins with: being looked for, and found last.
#[derive(Debug)]
pub struct Finding {
    store: Option<SnapshotStore>,
    genesis: Genesis,
    found: Rc<RefCell<Option<Box<Found>>>>,
    /// The generation that reads the log.
    reader: Generation,
}

impl Finding {
    /// Nothing is looked for.
    pub fn new(store: Option<SnapshotStore>, genesis: Genesis) -> Self {
        Finding { store, genesis, found: Rc::default(), reader: Generation(0) }
    }

    /// A generation reads the log from now on.
    pub fn reads(&mut self, generation: Generation) {
        self.reader = generation;
    }

    /// The generation that reads the log.
    pub fn reader(&self) -> Generation {
        self.reader
    }

    /// Takes the store over for a generation, beside everything else.
    pub fn start(&self, generation: Generation, before: Option<Epoch>, around: &mut Around<'_>) {
        let store = self.store.clone().expect("snapshots are on");
        let (kept, inbox, clock) = (self.found.clone(), around.own.inbox.clone(), around.wall());
        around.spawn(move || {
            let found = take_over(&store, before, generation, clock()).map(|found| found.map(Box::new));
            let described = match &found {
                Ok(found) => Ok(found.as_ref().map(|found| found.described())),
                Err(failure) => Err(failure.clone()),
            };
            *kept.borrow_mut() = found.ok().flatten();
            let event = Event::SnapshotFound { generation, found: described };
            inbox.borrow_mut().push_back(Input::Coordinator(Box::new(event)));
        });
    }
}

enum Order {
    Put(Box<ManifestDraft>),
    Maintain,
}

/// What has become of an order.
enum Report {
    Put(Result<ManifestPut, StoreFailure>),
    Maintained(Result<Option<LogPosition>, StoreFailure>),
}

/// Orders to the thread that puts manifests.
pub struct StoreThread {
    orders: Rc<RefCell<VecDeque<Order>>>,
    cut_short: Rc<Cell<bool>>,
    is_over: Rc<Cell<bool>>,
    thread: ThreadId,
}

impl std::fmt::Debug for StoreThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreThread").finish_non_exhaustive()
    }
}

impl StoreThread {
    pub fn of_coordinator(finding: &Finding, generation: Generation, around: &mut Around<'_>) -> Self {
        let store = finding.store.clone().expect("snapshots are on");
        let retention = around.environment.plan.snapshotting.retention;
        let found = finding.found.borrow();
        let writer = ManifestWriter::new(store, finding.genesis, generation, retention, found.as_deref());
        let input = move |report| {
            Input::Coordinator(Box::new(match report {
                Report::Put(result) => Event::ManifestPut { generation, result },
                Report::Maintained(result) => Event::Maintained { generation, result },
            }))
        };
        StoreThread::start(writer, input, around)
    }

    /// That of a single process.
    pub fn of_single(
        store: SnapshotStore,
        genesis: Genesis,
        generation: Generation,
        found: Option<&Found>,
        around: &mut Around<'_>,
    ) -> Self {
        let retention = around.environment.plan.snapshotting.retention;
        let writer = ManifestWriter::new(store, genesis, generation, retention, found);
        let input = |report| {
            Input::Single(Box::new(match report {
                Report::Put(result) => SingleEvent::ManifestPut(result),
                Report::Maintained(result) => SingleEvent::Maintained(result),
            }))
        };
        StoreThread::start(writer, input, around)
    }

    fn start(mut writer: ManifestWriter, input: impl Fn(Report) -> Input + 'static, around: &mut Around<'_>) -> Self {
        let orders: Rc<RefCell<VecDeque<Order>>> = Rc::default();
        let cut_short: Rc<Cell<bool>> = Rc::default();
        let is_over: Rc<Cell<bool>> = Rc::default();
        let (taken, stop, over) = (orders.clone(), cut_short.clone(), is_over.clone());
        let (inbox, clock) = (around.own.inbox.clone(), around.wall());
        let components = around.own.directory.components().clone();
        let thread = around.spawn(move || {
            loop {
                let order = taken.borrow_mut().pop_front();
                let report = match order {
                    None if over.get() => return,
                    None => {
                        wait(Wait::Order);
                        continue;
                    }
                    Some(Order::Put(draft)) => Report::Put(writer.put(*draft, &components, clock())),
                    Some(Order::Maintain) => Report::Maintained(writer.maintain(&components, clock(), &|| stop.get())),
                };
                if !over.get() {
                    inbox.borrow_mut().push_back(input(report));
                }
            }
        });
        StoreThread { orders, cut_short, is_over, thread }
    }

    fn order(&self, order: Order, around: &mut Around<'_>) {
        self.orders.borrow_mut().push_back(order);
        around.wake(self.thread);
    }

    pub fn put(&self, draft: Box<ManifestDraft>, around: &mut Around<'_>) {
        self.order(Order::Put(draft), around);
    }

    /// Merges deltas, and deletes what is too old.
    pub fn maintain(&self, around: &mut Around<'_>) {
        self.cut_short.set(false);
        self.order(Order::Maintain, around);
    }

    /// What of the maintenance is not done may wait.
    pub fn cut_short(&self) {
        self.cut_short.set(true);
    }

    /// Gives up what is under way, and waits for nothing.
    pub fn abandon(self) {
        self.cut_short.set(true);
        self.is_over.set(true);
    }
}
