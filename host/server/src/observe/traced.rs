//! An executor that tells the recorder what it executes of requests that are watched.

use std::sync::Arc;

use styx_engine::Profile;
use styx_protocol::attempt::{Attempt, Execution, Mode, Overlay, Reader};
use styx_protocol::catalog::Catalog;
use styx_protocol::executor::Executor;
use styx_protocol::state::State;
use styx_protocol::task::{
    AttemptSource, LocalView, LongTask, Progress, Started, Task, TaskExecutor, TaskKind, TaskProgress,
};
use styx_protocol::transaction::Transaction;

use super::Recorder;
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

fn clock() -> u64 {
    now().0
}

impl<E: Watched> Traced<E> {
    pub fn new(executor: E, recorder: Arc<Recorder>) -> Self {
        Traced { executor, recorder }
    }

    #[cold]
    fn watch<T>(&mut self, run: impl FnOnce(&mut E) -> T) -> (T, (u64, u64), Option<Box<Profile>>) {
        self.executor.watch(clock);
        let begun = clock();
        let result = run(&mut self.executor);
        let took = (begun, clock());
        (result, took, self.executor.watched())
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
            self.tell(kind, transaction, (at, at), execution, None, catalog);
        }
    }

    fn tell(
        &self,
        kind: &str,
        transaction: &Transaction,
        took: (u64, u64),
        execution: &Execution,
        profile: Option<Box<Profile>>,
        catalog: &Catalog,
    ) {
        let names = Names::of(catalog, transaction.request.operator);
        let attempt = self.recorder.of_execution(kind, took, execution, profile, names);
        self.recorder.attempted(transaction, catalog, attempt);
    }

    /// Tells of a part of a graph that has gone as far as it goes here.
    fn tell_part(
        &self,
        transaction: &Transaction,
        (begun, ended): (u64, u64),
        attempt: &Attempt,
        progress: &Progress,
        profile: Option<Box<Profile>>,
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
        let told = TraceAttempt {
            calls: profile.as_ref().map(|profile| self.recorder.profiled(profile, names)).unwrap_or_default(),
            cut: profile.is_some_and(|profile| profile.cut),
            accesses: accesses_of(attempt.so_far(), names),
            outcome: outcome.into(),
            code: abort.map(|abort| abort.code.as_str().into()),
            message: abort.map(|abort| super::recording::shown(&abort.message)),
            ..self.recorder.of_execution(mode, (begun, ended), &Execution::default(), None, names)
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
        let (execution, took, profile) = self.watch(|executor| executor.execute(transaction, state, catalog));
        self.tell("lock_free", transaction, took, &execution, profile, catalog);
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
        let ((execution, overlay), took, profile) =
            self.watch(|executor| executor.fall_back(transaction, state, catalog, overlay, cached));
        self.tell("fallback", transaction, took, &execution, profile, catalog);
        (execution, overlay)
    }

    fn run_long(&mut self, task: &LongTask, reader: Box<dyn Reader>) -> Execution {
        if !self.recorder.wants(task.transaction.request.id) {
            return self.executor.run_long(task, reader);
        }
        let (execution, took, profile) = self.watch(|executor| executor.run_long(task, reader));
        self.tell("long", &task.transaction, took, &execution, profile, &task.catalog);
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
        let (started, took, profile) = self.watch(|executor| executor.start(transaction, state, catalog, view));
        match &started {
            Started::Local(execution) => self.tell("lock_free", transaction, took, execution, profile, catalog),
            Started::Distributed(attempt, progress) => {
                self.tell_part(transaction, took, attempt, progress, profile, true);
            }
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
        let (done, took, profile) = self.watch(|executor| executor.advance(task));
        let transaction = done.attempt.transaction().clone();
        self.tell_part(&transaction, took, &done.attempt, &done.progress, profile, is_root);
        done
    }

    fn forget(&mut self) {
        self.executor.forget();
    }
}
