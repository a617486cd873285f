//! The execution threads: a job's parts are taken in any order by any thread, and each thread's
//! share is done after a delay of its own.

use styx_protocol::attempt::Execution;
use styx_protocol::fallback::{ComponentOutcome, Executor, run_component};
use styx_protocol::machine::{Batch, Executed, FallbackBatch, Input};
use styx_protocol::piece::Started;

use super::{Node, NodeEvent, Outside};
use crate::check::Checked;
use crate::random::Random;
use crate::toy::Toy;

#[derive(Debug)]
enum Work {
    Execute(Batch),
    FallBack(FallbackBatch),
}

/// A batch under way.
#[derive(Debug)]
pub(super) struct Job {
    work: Work,
    /// Parts that no thread has done, in the order in which they will be taken.
    left: Vec<usize>,
    id: u64,
    executions: Vec<Option<Execution>>,
    outcomes: Vec<ComponentOutcome>,
}

/// Jobs with fewer parts may run on the driver's own thread.
const INLINE_MAX: usize = 3;

impl Job {
    fn new(work: Work) -> Self {
        let parts = match &work {
            Work::Execute(batch) => batch.transactions.len() + batch.queries.len(),
            Work::FallBack(batch) => batch.components.len(),
        };
        let executions = (0..parts).map(|_| None).collect();
        Job { work, left: (0..parts).collect(), id: 0, executions, outcomes: Vec::new() }
    }

    pub(super) fn execute(batch: Batch) -> Self {
        Job::new(Work::Execute(batch))
    }

    pub(super) fn fall_back(batch: FallbackBatch) -> Self {
        Job::new(Work::FallBack(batch))
    }

    /// Does some of what is left.
    fn run(&mut self, parts: usize) {
        let mut executor = Toy::default();
        for at in self.left.split_off(self.left.len().saturating_sub(parts)) {
            match &self.work {
                Work::Execute(batch) => {
                    let transaction = match at.checked_sub(batch.transactions.len()) {
                        None => &batch.transactions[at],
                        Some(query) => &batch.queries[query],
                    };
                    self.executions[at] = Some(executor.execute(transaction, &batch.state, &batch.catalog));
                }
                Work::FallBack(batch) => {
                    let members = &batch.components[at];
                    self.outcomes.push(run_component(&mut executor, members, &batch.state, &batch.catalog));
                }
            }
        }
    }

    /// What the machine is told once nothing is left. Drops every reference to the state.
    fn finish(self, outside: &mut Outside) -> Input<u64> {
        match self.work {
            Work::Execute(batch) => {
                let mut executions = self.executions.into_iter().map(|execution| execution.expect("all are done"));
                let transactions: Vec<Execution> = executions.by_ref().take(batch.transactions.len()).collect();
                for (transaction, execution) in batch.transactions.iter().zip(&transactions) {
                    outside.judge.executed(transaction.tid, &execution.outcome);
                }
                let local = |executions: Vec<Execution>| executions.into_iter().map(Started::Local).collect();
                Input::Executed(Executed { transactions: local(transactions), queries: local(executions.collect()) })
            }
            Work::FallBack(batch) => {
                let members = || batch.components.iter().flatten();
                for (index, execution) in self.outcomes.iter().flat_map(|outcome| &outcome.executions) {
                    let member = members().find(|member| member.index == *index).expect("executions are of members");
                    outside.judge.executed(member.transaction.tid, &execution.outcome);
                }
                Input::FellBack(self.outcomes)
            }
        }
    }

    /// Runs the whole job at once, in any order.
    pub(super) fn at_once(mut self, outside: &mut Outside) -> Input<u64> {
        outside.random.shuffle(&mut self.left);
        self.run(usize::MAX);
        self.finish(outside)
    }

    fn claim(&self, threads: u64, random: &mut Random) -> usize {
        random.between(1, (self.left.len() as u64 / threads).max(1)) as usize
    }
}

impl Node {
    /// Gives a job to the threads, or does it at once; then it is the machine's next input.
    pub(super) fn hand_out(&mut self, mut job: Job, outside: &mut Outside) -> Option<Input<u64>> {
        if job.left.len() <= INLINE_MAX && outside.random.chance(700) {
            return Some(job.at_once(outside));
        }
        outside.random.shuffle(&mut job.left);
        self.jobs += 1;
        job.id = self.jobs;
        self.job = Some(job);
        for _ in 0..outside.plan.threads {
            self.schedule_share(outside);
        }
        None
    }

    fn schedule_share(&self, outside: &mut Outside) {
        let execution = outside.plan.execution;
        let delay = outside.random.between(execution.0, execution.1);
        self.later(delay, NodeEvent::Share(self.jobs), outside);
    }

    /// A thread has done some parts; it takes more, or the job is done.
    pub(super) fn share_done(&mut self, id: u64, outside: &mut Outside) -> Checked {
        let Some(job) = self.job.as_mut().filter(|job| job.id == id) else { return Ok(()) };
        let parts = job.claim(outside.plan.threads, &mut outside.random);
        job.run(parts);
        if !job.left.is_empty() {
            self.schedule_share(outside);
            return Ok(());
        }
        let input = self.job.take().expect("just seen").finish(outside);
        self.step(input, outside)
    }
}
