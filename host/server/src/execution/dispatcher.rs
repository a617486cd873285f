//! Dispatcher: hands what a machine wants executed to the pool and puts the shares together again.
//! What is small may run at once on the caller's own thread: handing over costs more.

use std::collections::HashMap;
use std::sync::Arc;

use styx_protocol::executor::Executor;
use styx_protocol::fallback::{ComponentOutcome, run_component};
use styx_protocol::machine::worker::{Batch, Executed, FallbackBatch, Input};
use styx_protocol::task::{Progress, Started, Task, TaskExecutor, TaskKind, TaskProgress};

use crate::observe::{Recorder, conflicts};

use super::pool::{Completion, ExecutionPool, execute};

/// Batches and tasks up to this many may run on the caller's own thread, if it has nothing else to do.
pub(crate) const INLINE_MAX: usize = 3;

/// Work that is done.
pub(crate) enum Finished {
    Executed(Executed),
    TaskProgress(Vec<TaskProgress>),
    FellBack(Vec<ComponentOutcome>),
}

impl<W> From<Finished> for Input<W> {
    fn from(finished: Finished) -> Self {
        match finished {
            Finished::Executed(executed) => Input::Executed(executed),
            Finished::TaskProgress(progress) => Input::TaskProgress(progress),
            Finished::FellBack(outcomes) => Input::FellBack(outcomes),
        }
    }
}

/// An executor for the caller's own thread, the pool, and what is out. One batch, or the components
/// of one fallback, is out at a time; tasks beside it.
pub(crate) struct Dispatcher<E> {
    executor: E,
    /// Batches and tasks up to this many run on the caller's own thread.
    inline_max: usize,
    pool: ExecutionPool,
    /// Completions that threads still owe, tasks included.
    owed: usize,
    /// The batch, or the components, that is out.
    job: Option<Job>,
    /// Threads in which guests wait; absent: in the driver's own executor.
    parked: HashMap<u64, usize>,
    recorder: Arc<Recorder>,
}

/// A batch, or components, of which not every share has come back.
struct Job {
    /// Shares that are still to come.
    missing: usize,
    /// How many of the executions are of transactions; the others are of queries.
    transactions: usize,
    executions: Vec<Option<Started>>,
    outcomes: Vec<ComponentOutcome>,
}

impl<E: Executor + TaskExecutor> Dispatcher<E> {
    /// A dispatcher that runs up to `inline_max` transactions or tasks on its caller's own thread; 0 if that
    /// must not wait for guests.
    pub(crate) fn new(executor: E, inline_max: usize, pool: ExecutionPool, recorder: Arc<Recorder>) -> Self {
        Dispatcher { executor, inline_max, pool, owed: 0, job: None, parked: HashMap::new(), recorder }
    }

    /// Has a batch executed. Gives what was done at once.
    pub(crate) fn execute(&mut self, batch: Batch) -> Option<Finished> {
        let (transactions, queries) = (batch.transactions.len(), batch.queries.len());
        if transactions + queries <= self.inline_max {
            let mut run = |transaction| execute(&mut self.executor, &batch, transaction);
            let transactions = batch.transactions.iter().map(&mut run).collect();
            let queries = batch.queries.iter().map(&mut run).collect();
            drop(batch);
            return Some(Finished::Executed(Executed { transactions, queries }));
        }
        let executions = std::iter::repeat_with(|| None).take(transactions + queries).collect();
        let missing = self.pool.execute(batch);
        self.hand_out(Job { missing, transactions, executions, outcomes: Vec::new() });
        None
    }

    /// Has components run. Gives what was done at once.
    pub(crate) fn fall_back(&mut self, batch: FallbackBatch) -> Option<Finished> {
        batch.components.iter().for_each(|members| conflicts(&self.recorder, members, &batch.catalog));
        let members: usize = batch.components.iter().map(Vec::len).sum();
        if members <= self.inline_max {
            let run = |members: &Vec<_>| run_component(&mut self.executor, members, &batch.state, &batch.catalog);
            let outcomes = batch.components.iter().map(run).collect();
            drop(batch);
            return Some(Finished::FellBack(outcomes));
        }
        let missing = self.pool.fall_back(batch);
        self.hand_out(Job { missing, transactions: 0, executions: Vec::new(), outcomes: Vec::new() });
        None
    }

    fn hand_out(&mut self, job: Job) {
        debug_assert!(self.job.is_none(), "the machine asks for one execution at a time");
        self.owed += job.missing;
        self.job = Some(job);
    }

    /// Has tasks advanced: where their guest waits, or anywhere if they begin. Gives what was done at
    /// once.
    pub(crate) fn advance(&mut self, tasks: Vec<Task>) -> Option<Finished> {
        let few = tasks.len() <= self.inline_max;
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for task in tasks {
            let home = match &task.kind {
                TaskKind::Resume { parked, .. } => self.parked.remove(&parked.0).map(Some),
                _ if few => None,
                _ => Some(None),
            };
            match home {
                Some(thread) => there.push((thread, task)),
                None => here.push(task),
            }
        }
        if !there.is_empty() {
            self.owed += self.pool.advance(there);
        }
        if here.is_empty() {
            return None;
        }
        Some(Finished::TaskProgress(here.into_iter().map(|task| self.executor.advance(task)).collect()))
    }

    /// Takes a thread's share. Gives what is complete with it.
    pub(crate) fn take(&mut self, completion: Completion) -> Option<Finished> {
        self.owed -= 1;
        let (executions, outcomes) = match completion {
            Completion::TaskProgress(thread, advanced) => {
                for progress in advanced.iter().map(|advanced| &advanced.progress) {
                    self.noted(thread, progress);
                }
                return Some(Finished::TaskProgress(advanced));
            }
            Completion::Executed(thread, executions) => {
                for (_, started) in &executions {
                    if let Started::Distributed(_, progress) = started {
                        self.noted(thread, progress);
                    }
                }
                (executions, Vec::new())
            }
            Completion::FellBack(outcomes) => (Vec::new(), outcomes),
        };
        let job = self.job.as_mut().expect("shares come of jobs that were handed out");
        for (at, started) in executions {
            job.executions[at] = Some(started);
        }
        job.outcomes.extend(outcomes);
        job.missing -= 1;
        if job.missing > 0 {
            return None;
        }
        let Job { transactions, executions, outcomes, .. } = self.job.take().expect("just seen");
        if executions.is_empty() {
            return Some(Finished::FellBack(outcomes));
        }
        let mut executions = executions.into_iter().map(|started| started.expect("every position was claimed"));
        let transactions = executions.by_ref().take(transactions).collect();
        Some(Finished::Executed(Executed { transactions, queries: executions.collect() }))
    }

    /// Notes where a guest waits, if one does.
    fn noted(&mut self, thread: usize, progress: &Progress) {
        if let Progress::Suspended(parked, _) = progress {
            self.parked.insert(parked.0, thread);
        }
    }

    /// Tells whether threads still owe anything.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// Drops a thread's share of what is to be forgotten.
    pub(crate) fn discard(&mut self, completion: Completion) {
        self.owed -= 1;
        drop(completion);
    }

    /// Forgets everything, guests that wait included. Nothing may be owed.
    pub(crate) fn forget(&mut self) {
        debug_assert!(!self.is_owed(), "what is out comes back first");
        self.job = None;
        self.parked.clear();
        self.executor.forget();
        self.pool.forget();
    }
}
