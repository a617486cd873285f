//! The threads that execute batches. They share the committed state, read-only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use styx_protocol::executor::Executor;
use styx_protocol::fallback::{ComponentOutcome, run_component};
use styx_protocol::machine::worker::{Batch, FallbackBatch};
use styx_protocol::task::{Started, Task, TaskExecutor, TaskProgress};
use styx_protocol::transaction::Transaction;

use crate::fatal::fatal_on_panic;

/// One thread's share of a job, done.
pub(crate) enum Completion {
    /// The thread, and executions by position: transactions first, then queries.
    Executed(usize, Vec<(usize, Started)>),
    /// Outcomes of components.
    FellBack(Vec<ComponentOutcome>),
    /// Tasks, and the thread in which those wait that wait.
    TaskProgress(usize, Vec<TaskProgress>),
}

/// An order to a thread.
enum Command {
    /// Take your share of a job.
    Share(Arc<Job>),
    /// Advance these tasks.
    Advance(Vec<Task>),
    /// Drop what waits: it is of an earlier generation.
    Forget,
}

enum Work {
    Execute(Batch),
    /// Components, and the order in which to start them: the longest first.
    FallBack(FallbackBatch, Vec<usize>),
}

struct Job {
    work: Work,
    next: AtomicUsize,
    chunk: usize,
    /// Threads that share it.
    threads: usize,
}

impl Job {
    /// Positions not yet claimed by any thread.
    fn claim(&self, len: usize) -> Option<std::ops::Range<usize>> {
        let start = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (start < len).then(|| start..(start + self.chunk).min(len))
    }
}

/// Threads, each with an executor of its own.
pub(crate) struct ExecutionPool {
    threads: Vec<Sender<Command>>,
    /// The thread that takes the next task that can run anywhere.
    next: usize,
}

impl ExecutionPool {
    /// Starts `threads` threads, each with an executor of its own. They end when the pool is dropped.
    /// `done` hears of every share that is done, on the thread that did it.
    pub(crate) fn start<E: Executor + TaskExecutor + Send + 'static>(
        threads: usize,
        stack_bytes: usize,
        make: &impl Fn() -> E,
        done: impl Fn(Completion) + Clone + Send + 'static,
    ) -> std::io::Result<ExecutionPool> {
        let start = |index: usize| {
            let (tasks, inbox) = unbounded();
            let (executor, done) = (make(), done.clone());
            std::thread::Builder::new()
                .name(format!("styx-exec-{index}"))
                .stack_size(stack_bytes)
                .spawn(move || fatal_on_panic("execution", move || work(index, executor, &inbox, done)))?;
            Ok(tasks)
        };
        Ok(ExecutionPool { threads: (0..threads.max(1)).map(start).collect::<std::io::Result<_>>()?, next: 0 })
    }

    /// Has tasks advanced, anywhere or where their guest waits; returns how many completions to expect.
    pub(crate) fn advance(&mut self, tasks: Vec<(Option<usize>, Task)>) -> usize {
        let mut shares: Vec<Vec<Task>> = self.threads.iter().map(|_| Vec::new()).collect();
        for (home, task) in tasks {
            let thread = home.unwrap_or_else(|| {
                self.next = (self.next + 1) % self.threads.len();
                self.next
            });
            shares[thread].push(task);
        }
        let mut shared = 0;
        for (thread, share) in self.threads.iter().zip(shares).filter(|(_, share)| !share.is_empty()) {
            thread.send(Command::Advance(share)).expect("execution threads live as long as the pool");
            shared += 1;
        }
        shared
    }

    /// Drops everything that waits.
    pub(crate) fn forget(&self) {
        for thread in &self.threads {
            thread.send(Command::Forget).expect("execution threads live as long as the pool");
        }
    }

    /// Has a batch executed; returns how many completions to expect.
    pub(crate) fn execute(&self, batch: Batch) -> usize {
        let len = batch.transactions.len() + batch.queries.len();
        let chunk = (len / (self.threads.len() * 4)).clamp(1, 32);
        self.hand_out(Work::Execute(batch), chunk, len)
    }

    /// Has components run; returns how many completions to expect.
    pub(crate) fn fall_back(&self, batch: FallbackBatch) -> usize {
        let mut order: Vec<usize> = (0..batch.components.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(batch.components[at].len()));
        let len = order.len();
        self.hand_out(Work::FallBack(batch, order), 1, len)
    }

    fn hand_out(&self, work: Work, chunk: usize, len: usize) -> usize {
        let threads = len.div_ceil(chunk).min(self.threads.len());
        let job = Arc::new(Job { work, next: AtomicUsize::new(0), chunk, threads });
        for thread in &self.threads[..threads] {
            thread.send(Command::Share(job.clone())).expect("execution threads live as long as the pool");
        }
        threads
    }
}

fn work(
    index: usize,
    mut executor: impl Executor + TaskExecutor,
    inbox: &Receiver<Command>,
    done: impl Fn(Completion),
) {
    for task in inbox {
        let job = match task {
            Command::Share(job) => job,
            Command::Advance(tasks) => {
                let advanced = tasks.into_iter().map(|task| executor.advance(task)).collect();
                done(Completion::TaskProgress(index, advanced));
                continue;
            }
            Command::Forget => {
                executor.forget();
                continue;
            }
        };
        let completion = match &job.work {
            Work::Execute(batch) => {
                let len = batch.transactions.len() + batch.queries.len();
                let mut executions = Vec::with_capacity(len / job.threads + job.chunk);
                while let Some(range) = job.claim(len) {
                    for at in range {
                        let transaction = match at.checked_sub(batch.transactions.len()) {
                            None => &batch.transactions[at],
                            Some(query) => &batch.queries[query],
                        };
                        executions.push((at, execute(&mut executor, batch, transaction)));
                    }
                }
                Completion::Executed(index, executions)
            }
            Work::FallBack(batch, order) => {
                let mut outcomes = Vec::new();
                while let Some(range) = job.claim(order.len()) {
                    for at in range {
                        outcomes.push(run_component(
                            &mut executor,
                            &batch.components[order[at]],
                            &batch.state,
                            &batch.catalog,
                        ));
                    }
                }
                Completion::FellBack(outcomes)
            }
        };
        // The job holds the state, which the machine changes as soon as all shares are in.
        drop(job);
        done(completion);
    }
}

/// Starts one transaction or query of a batch.
pub(crate) fn execute<E: Executor + TaskExecutor>(
    executor: &mut E,
    batch: &Batch,
    transaction: &Transaction,
) -> Started {
    match &batch.view {
        None => Started::Local(executor.execute(transaction, &batch.state, &batch.catalog)),
        Some(seat) => executor.start(transaction, &batch.state, &batch.catalog, seat),
    }
}
