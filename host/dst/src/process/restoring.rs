//! The thread that reads what a worker's generation begins with: the product's code, on the simulated store.

use std::cell::RefCell;
use std::rc::Rc;

use styx_driver::wire::SnapshotPlace;
use styx_driver::worker::{RestoreFailure, WorkerEvent};
use styx_durability::recovery::{Opened, Restore};
use styx_protocol::entity::Layout;
use styx_protocol::ids::Generation;
use styx_protocol::snapshot::RetainedState;
use styx_protocol::task::LocalView;
use styx_storage::snapshot::SnapshotStore;

use super::Input;
use super::around::Around;

/// The store that was used last.
pub type KnownStore = Rc<RefCell<Option<SnapshotStore>>>;

/// What is to be read.
pub struct Restoring {
    /// The generation that begins.
    pub generation: Generation,
    /// Where snapshots are.
    pub place: SnapshotPlace,
    /// The partitions that are this worker's.
    pub view: LocalView,
    pub layout: Layout,
    /// What is left of the generation before.
    pub former: Option<RetainedState>,
    /// The store that was used last.
    pub known: KnownStore,
}

impl Restoring {
    /// Starts a thread that reads it.
    pub fn start(self, around: &mut Around<'_>) {
        let Restoring { generation, place, view, layout, former, known } = self;
        let (inbox, directory) = (around.own.inbox.clone(), around.own.directory.clone());
        around.spawn(move || {
            let before = known.borrow().clone();
            let restore = Restore { place: &place, view: &view, layout, retained: former, known: before, threads: 1 };
            let open = || SnapshotStore::open(&directory.place, place.identity, &directory.runtime);
            let result: Result<_, RestoreFailure> = restore.run(open).map(|Opened { store, restored }| {
                *known.borrow_mut() = Some(store);
                restored.map(Box::new)
            });
            inbox.borrow_mut().push_back(Input::Worker(Box::new(WorkerEvent::Restored { generation, result })));
        });
    }
}
