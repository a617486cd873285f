//! An executor that notes what it executes.

use std::sync::Arc;

use styx_protocol::attempt::{Execution, Overlay, Reader};
use styx_protocol::catalog::Catalog;
use styx_protocol::executor::Executor;
use styx_protocol::ids::Tid;
use styx_protocol::state::State;
use styx_protocol::task::{AttemptSource, LocalView, LongTask, Started, Task, TaskExecutor, TaskProgress};
use styx_protocol::transaction::{Request, Transaction};

use super::{Executing, Slot};

/// An executor, and where its thread notes what it executes.
#[derive(Debug)]
pub struct Noted<E> {
    executor: E,
    slot: Slot,
    #[cfg(debug_assertions)]
    planted: planted::Planted,
}

impl<E> Noted<E> {
    pub fn new(executor: E, executing: &Executing) -> Self {
        Noted {
            executor,
            slot: executing.slot(),
            #[cfg(debug_assertions)]
            planted: planted::Planted(executing.directory().join("test-end")),
        }
    }

    /// No guest is entered for an operator that is not there.
    #[inline]
    fn enter(&mut self, tid: Tid, request: &Request, catalog: &Catalog, is_long: bool) {
        if let Some(operator) = catalog.operator(request.operator) {
            self.slot.enter(request, &operator.app);
            #[cfg(debug_assertions)]
            self.planted.strike(
                request,
                || catalog.quarantine().refusal(request.id, Some(tid), &operator.app),
                is_long,
            );
            #[cfg(not(debug_assertions))]
            let _ = (tid, is_long);
        }
    }

    /// Not done when a panic unwinds: what was executed then stays noted.
    #[inline]
    fn left<T>(&mut self, result: T) -> T {
        self.slot.leave();
        result
    }
}

impl<E: Executor> Executor for Noted<E> {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        self.enter(transaction.tid, &transaction.request, catalog, false);
        let execution = self.executor.execute(transaction, state, catalog);
        self.left(execution)
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        self.enter(transaction.tid, &transaction.request, catalog, false);
        let execution = self.executor.fall_back(transaction, state, catalog, overlay, cached);
        self.left(execution)
    }

    fn run_long(&mut self, task: &LongTask, reader: Box<dyn Reader>) -> Execution {
        self.enter(task.transaction.tid, &task.transaction.request, &task.catalog, true);
        let execution = self.executor.run_long(task, reader);
        self.left(execution)
    }
}

impl<E: TaskExecutor> TaskExecutor for Noted<E> {
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        view: &LocalView,
    ) -> Started {
        self.enter(transaction.tid, &transaction.request, catalog, false);
        let started = self.executor.start(transaction, state, catalog, view);
        self.left(started)
    }

    fn advance(&mut self, task: Task) -> TaskProgress {
        match &task.attempt {
            AttemptSource::Existing(attempt) => self.enter(attempt.tid(), attempt.request(), attempt.catalog(), false),
            AttemptSource::New(seed) => {
                self.enter(seed.transaction.tid, &seed.transaction.request, &seed.catalog, false)
            }
        }
        let progress = self.executor.advance(task);
        self.left(progress)
    }

    fn forget(&mut self) {
        self.executor.forget();
    }
}

#[cfg(debug_assertions)]
mod planted {
    //! Ends of the process as a test wants them. Products have none of it.

    use std::path::PathBuf;

    use styx_protocol::abort::Abort;
    use styx_protocol::transaction::Request;

    /// The file `test-end` of the data directory holds `HOW:KEY`: the process ends when that key's entity is called.
    #[derive(Debug)]
    pub(super) struct Planted(pub PathBuf);

    impl Planted {
        pub(super) fn strike(&self, request: &Request, refusal: impl FnOnce() -> Option<Abort>, is_long: bool) {
            let Ok(wanted) = std::fs::read_to_string(&self.0) else { return };
            let Some((how, _)) = wanted.trim().split_once(':').filter(|(_, key)| *key == &*request.key) else { return };
            // No guest is entered for what is in quarantine.
            if (how == "long") != is_long || refusal().is_some() {
                return;
            }
            match how {
                "abort" => std::process::abort(),
                "kill" => {
                    let killed =
                        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                    killed.expect("one may kill oneself");
                }
                _ => panic!("planted for {wanted}"),
            }
        }
    }
}
