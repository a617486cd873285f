//! An executor that tells the recorder what it executes of requests that are watched.

use std::sync::Arc;

use styx_engine::Profile;
use styx_protocol::attempt::{Access, Attempt, Execution, Mode, Overlay, Reader};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::{Entity, Value};
use styx_protocol::executor::Executor;
use styx_protocol::state::State;
use styx_protocol::task::{
    AttemptSource, LocalView, LongTask, Progress, Started, Task, TaskExecutor, TaskKind, TaskProgress,
};
use styx_protocol::transaction::Transaction;

use super::Recorder;
use super::changes::{self, Reads};
use super::names::Names;
use super::recording::accesses_of;
use super::view::TraceAttempt;
use crate::clock::now;

/// An executor that can be watched.
pub trait Watched {
    /// Watches what is executed next.
    fn watch(&mut self, clock: fn() -> u64);
    /// What was seen.
    fn watched(&mut self) -> Option<Box<Profile>>;
}

impl Watched for styx_engine::Executor {
    fn watch(&mut self, clock: fn() -> u64) {
        styx_engine::Executor::watch(self, clock);
    }
    fn watched(&mut self) -> Option<Box<Profile>> {
        styx_engine::Executor::watched(self)
    }
}

/// An executor, and who hears of what it executes.
#[derive(Debug)]
pub struct Traced<E> {
    executor: E,
    recorder: Arc<Recorder>,
}

/// What was seen of an execution from outside.
#[derive(Default)]
struct Seen {
    /// When it began and ended.
    took: (u64, u64),
    profile: Option<Box<Profile>>,
}

fn clock() -> u64 {
    now().0
}

/// What is known of an entity at the start of an epoch.
fn at_start(state: &State) -> impl Fn(&Entity) -> Option<Option<Value>> {
    |entity| (!state.lacks(entity)).then(|| state.get(entity).cloned())
}

impl<E: Watched> Traced<E> {
    pub fn new(executor: E, recorder: Arc<Recorder>) -> Self {
        Traced { executor, recorder }
    }

    #[cold]
    fn watch<T>(&mut self, run: impl FnOnce(&mut E) -> T) -> (T, Seen) {
        self.executor.watch(clock);
        let begun = clock();
        let result = run(&mut self.executor);
        let took = (begun, clock());
        (result, Seen { took, profile: self.executor.watched() })
    }

    /// Keeps what an execution itself tells, if it aborted.
    #[inline]
    fn unwatched(&self, kind: &str, transaction: &Transaction, execution: &Execution, catalog: &Catalog) {
        if execution.outcome.is_err() && !execution.drifted && !execution.postponed {
            self.aborted(kind, transaction, execution, catalog);
        }
    }

    #[cold]
    fn aborted(&self, kind: &str, transaction: &Transaction, execution: &Execution, catalog: &Catalog) {
        if self.recorder.admits_unwatched() {
            let at = clock();
            let seen = Seen { took: (at, at), profile: None };
            self.tell(kind, transaction, seen, execution, catalog, |_| None);
        }
    }

    /// `before`: what an entity was before its writes, where that is known.
    fn tell(
        &self,
        kind: &str,
        transaction: &Transaction,
        Seen { took, profile }: Seen,
        execution: &Execution,
        catalog: &Catalog,
        before: impl Fn(&Entity) -> Option<Option<Value>>,
    ) {
        let names = Names::of(catalog, transaction.request.operator);
        let mut attempt = self.recorder.of_execution(kind, took, execution, profile, names);
        if execution.outcome.is_ok() && !execution.drifted && !execution.postponed {
            changes::note(&mut attempt.accesses, execution, before);
        }
        self.recorder.attempted(transaction, catalog, attempt);
    }

    /// Tells of a part of a graph that has gone as far as it goes here.
    fn tell_part(
        &self,
        transaction: &Transaction,
        Seen { took, profile }: Seen,
        attempt: &Attempt,
        progress: &Progress,
        is_root: bool,
    ) {
        let catalog = attempt.catalog();
        let names = Names::of(catalog, transaction.request.operator);
        let (outcome, abort) = match progress {
            Progress::Done(Ok(_)) if is_root => ("ok", None),
            Progress::Done(Err(abort)) if is_root && !attempt.so_far().drifted => ("aborted", Some(abort)),
            _ => ("open", None),
        };
        let mode = match attempt.mode() {
            Mode::Parallel => "lock_free",
            Mode::Cached => "cached",
            Mode::Strict { .. } => "strict",
        };
        let mut accesses = accesses_of(attempt.so_far(), names);
        if outcome != "aborted" && !attempt.is_doomed() {
            changes::note(&mut accesses, attempt.so_far(), |entity| attempt.before(entity));
        }
        let told = TraceAttempt {
            calls: profile.as_ref().map(|profile| self.recorder.profiled(profile, names)).unwrap_or_default(),
            cut: profile.is_some_and(|profile| profile.cut),
            accesses,
            outcome: outcome.into(),
            code: abort.map(|abort| abort.code.as_str().into()),
            message: abort.map(|abort| super::recording::shown(&abort.message)),
            ..self.recorder.of_execution(mode, took, &Execution::default(), None, names)
        };
        let told = TraceAttempt { fuel: attempt.used().fuel, ..told };
        self.recorder.attempted(transaction, catalog, told);
    }
}

impl<E: Executor + Watched> Executor for Traced<E> {
    #[inline]
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        if !self.recorder.wants(transaction.request.id) {
            let execution = self.executor.execute(transaction, state, catalog);
            self.unwatched("lock_free", transaction, &execution, catalog);
            return execution;
        }
        let (execution, seen) = self.watch(|executor| executor.execute(transaction, state, catalog));
        self.tell("lock_free", transaction, seen, &execution, catalog, at_start(state));
        execution
    }

    #[inline]
    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        if !self.recorder.wants(transaction.request.id) {
            let fell_back = self.executor.fall_back(transaction, state, catalog, overlay, cached);
            self.unwatched("fallback", transaction, &fell_back.0, catalog);
            return fell_back;
        }
        let ((execution, overlay), seen) =
            self.watch(|executor| executor.fall_back(transaction, state, catalog, overlay, cached));
        let start = at_start(state);
        let before =
            |entity: &Entity| overlay.get(entity).map_or_else(|| start(entity), |decided| Some(decided.clone()));
        self.tell("fallback", transaction, seen, &execution, catalog, before);
        (execution, overlay)
    }

    fn run_long(&mut self, task: &LongTask, reader: Box<dyn Reader>) -> Execution {
        if !self.recorder.wants(task.transaction.request.id) {
            return self.executor.run_long(task, reader);
        }
        let reads = Reads::default();
        let reader = reads.of(reader);
        let (execution, seen) = self.watch(|executor| executor.run_long(task, reader));
        // What it has read is what it was when it commits. What it only writes may have changed meanwhile.
        let accesses = &execution.footprint.accesses;
        let before =
            |entity: &Entity| accesses.get(entity).is_some_and(Access::is_read).then(|| reads.get(entity)).flatten();
        self.tell("long", &task.transaction, seen, &execution, &task.catalog, before);
        execution
    }
}

impl<E: TaskExecutor + Watched> TaskExecutor for Traced<E> {
    #[inline]
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        view: &LocalView,
    ) -> Started {
        if !self.recorder.wants(transaction.request.id) {
            let started = self.executor.start(transaction, state, catalog, view);
            if let Started::Local(execution) = &started {
                self.unwatched("lock_free", transaction, execution, catalog);
            }
            return started;
        }
        self.recorder.is_worker(view.me);
        let (started, seen) = self.watch(|executor| executor.start(transaction, state, catalog, view));
        match &started {
            Started::Local(execution) => {
                self.tell("lock_free", transaction, seen, execution, catalog, at_start(state));
            }
            Started::Distributed(attempt, progress) => self.tell_part(transaction, seen, attempt, progress, true),
        }
        started
    }

    #[inline]
    fn advance(&mut self, task: Task) -> TaskProgress {
        let (id, me) = match &task.attempt {
            AttemptSource::Existing(attempt) => (attempt.request_id(), None),
            AttemptSource::New(seed) => (seed.transaction.request.id, Some(seed.view.me)),
        };
        if !self.recorder.wants(id) {
            return self.executor.advance(task);
        }
        if let Some(me) = me {
            self.recorder.is_worker(me);
        }
        let is_root = match &task.kind {
            TaskKind::Root => true,
            TaskKind::Call { .. } => false,
            // The first task here was the root, or a call from elsewhere.
            TaskKind::Resume { .. } => match &task.attempt {
                AttemptSource::Existing(attempt) => {
                    attempt.so_far().entered.iter().next().is_some_and(|first| first.issuer.is_none())
                }
                AttemptSource::New(_) => false,
            },
        };
        let (done, seen) = self.watch(|executor| executor.advance(task));
        let transaction = done.attempt.transaction().clone();
        self.tell_part(&transaction, seen, &done.attempt, &done.progress, is_root);
        done
    }

    fn forget(&mut self) {
        self.executor.forget();
    }
}
