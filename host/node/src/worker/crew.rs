//! The threads that execute batches. They share the committed state, read-only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use styx_protocol::fallback::{ComponentOutcome, Executor, run_component};
use styx_protocol::machine::{Batch, FallbackBatch};
use styx_protocol::piece::Started;

use super::{Message, fatal_on_panic};

/// What one thread did of a job.
pub(super) enum Part {
    /// Executions by position: transactions first, then queries.
    Executed(Vec<(usize, Started)>),
    /// Outcomes of components.
    FellBack(Vec<ComponentOutcome>),
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
}

impl Job {
    /// Positions not yet claimed by any thread.
    fn claim(&self, len: usize) -> Option<std::ops::Range<usize>> {
        let start = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (start < len).then(|| start..(start + self.chunk).min(len))
    }
}

pub(super) struct Crew {
    threads: Vec<Sender<Arc<Job>>>,
}

impl Crew {
    /// Starts `threads` threads, each with an executor of its own. They end when the crew is dropped.
    pub(super) fn start<E: Executor + Send + 'static>(
        threads: usize,
        stack_bytes: usize,
        make: &impl Fn() -> E,
        done: Sender<Message>,
    ) -> std::io::Result<Crew> {
        let start = |index: usize| {
            let (jobs, inbox) = unbounded();
            let (executor, done) = (make(), done.clone());
            std::thread::Builder::new()
                .name(format!("styx-exec-{index}"))
                .stack_size(stack_bytes)
                .spawn(move || fatal_on_panic("execution", move || work(executor, &inbox, &done)))?;
            Ok(jobs)
        };
        Ok(Crew { threads: (0..threads.max(1)).map(start).collect::<std::io::Result<_>>()? })
    }

    /// Has a batch executed; returns how many parts to expect.
    pub(super) fn execute(&self, batch: Batch) -> usize {
        let len = batch.transactions.len() + batch.queries.len();
        let chunk = (len / (self.threads.len() * 4)).clamp(1, 32);
        self.hand_out(Job { work: Work::Execute(batch), next: AtomicUsize::new(0), chunk }, len)
    }

    /// Has components run; returns how many parts to expect.
    pub(super) fn fall_back(&self, batch: FallbackBatch) -> usize {
        let mut order: Vec<usize> = (0..batch.components.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(batch.components[at].len()));
        let len = order.len();
        self.hand_out(Job { work: Work::FallBack(batch, order), next: AtomicUsize::new(0), chunk: 1 }, len)
    }

    fn hand_out(&self, job: Job, len: usize) -> usize {
        let wanted = len.div_ceil(job.chunk).min(self.threads.len());
        let job = Arc::new(job);
        for thread in &self.threads[..wanted] {
            thread.send(job.clone()).expect("execution threads live as long as the crew");
        }
        wanted
    }
}

fn work(mut executor: impl Executor, inbox: &Receiver<Arc<Job>>, done: &Sender<Message>) {
    for job in inbox {
        let part = match &job.work {
            Work::Execute(batch) => {
                let mut executions = Vec::new();
                while let Some(range) = job.claim(batch.transactions.len() + batch.queries.len()) {
                    for at in range {
                        let transaction = match at.checked_sub(batch.transactions.len()) {
                            None => &batch.transactions[at],
                            Some(query) => &batch.queries[query],
                        };
                        executions.push((at, Started::Local(executor.execute(transaction, &batch.state, &batch.catalog))));
                    }
                }
                Part::Executed(executions)
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
                Part::FellBack(outcomes)
            }
        };
        // The job holds the state, which the machine changes as soon as all parts are in.
        drop(job);
        drop(done.send(Message::Part(part)));
    }
}
