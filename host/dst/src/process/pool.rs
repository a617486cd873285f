//! The execution threads: a job's parts are taken in any order by any thread, and each thread's share is done after a
//! time of its own. So is each task of a graph; one that continues a guest goes to the thread where the guest waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_driver::suspicion::Suspect;
use styx_protocol::catalog::Catalog;
use styx_protocol::fallback::ComponentOutcome;
use styx_protocol::machine::worker::{Batch, Executed, FallbackBatch};
use styx_protocol::task::{AttemptSource, Started, Task, TaskKind, TaskProgress};
use styx_protocol::transaction::Transaction;

use super::around::Around;
use crate::environment::Environment;
use crate::event::{Event, Work};
use crate::poison::{Part, suspect};
use crate::random::Random;
use crate::threads::{self, Threads};

/// What execution threads have come to.
#[derive(Debug)]
pub enum Finished {
    /// A batch is executed.
    Executed(Executed),
    /// Some tasks are done.
    TaskProgress(Vec<TaskProgress>),
    /// Components have fallen back.
    FellBack(Vec<ComponentOutcome>),
    Forgotten,
}

#[derive(Debug)]
enum Batched {
    Execute(Batch),
    FallBack(FallbackBatch),
}

/// A batch under way.
#[derive(Debug)]
struct Job {
    batch: Batched,
    /// Parts that no thread has done, in the order in which they will be taken.
    left: Vec<usize>,
    started: Vec<Option<Started>>,
    outcomes: Vec<ComponentOutcome>,
}

/// What a task is of.
fn of(task: &Task) -> (&Transaction, &Arc<Catalog>) {
    match &task.attempt {
        AttemptSource::Existing(attempt) => (attempt.transaction(), attempt.catalog()),
        AttemptSource::New(seed) => (&seed.transaction, &seed.catalog),
    }
}

/// What ends the process, if a task does.
fn of_task(task: &Task, environment: &Environment) -> Option<Suspect> {
    let part = match task.kind {
        TaskKind::Root => Part::Root,
        TaskKind::Call { .. } => Part::Call,
        TaskKind::Resume { .. } => return None,
    };
    let (transaction, catalog) = of(task);
    environment.poison.ends(part, transaction, catalog).then(|| suspect(transaction, catalog, true))
}

/// The threads of one process.
#[derive(Debug)]
pub struct ExecutionPool {
    threads: Threads,
    /// Jobs with at most so many parts may run on the driver's own thread.
    inline_max: usize,
    job: Option<Job>,
    jobs: u64,
    tasks: BTreeMap<u64, (usize, Task)>,
    next_task: u64,
    /// What is out is to be forgotten.
    forgetting: bool,
    /// Shares and tasks that threads have not given back.
    out: usize,
    /// Something was executed.
    is_used: bool,
    /// What has ended the process.
    culprit: Option<Suspect>,
}

impl Job {
    fn new(batch: Batched) -> Self {
        let parts = match &batch {
            Batched::Execute(batch) => batch.transactions.len() + batch.queries.len(),
            Batched::FallBack(batch) => batch.components.len(),
        };
        let started = (0..parts).map(|_| None).collect();
        Job { batch, left: (0..parts).collect(), started, outcomes: Vec::new() }
    }

    /// Does some of what is left.
    fn run(&mut self, parts: usize, thread: usize, threads: &mut Threads) {
        for at in self.left.split_off(self.left.len().saturating_sub(parts)) {
            match &self.batch {
                Batched::Execute(batch) => self.started[at] = Some(threads.start(thread, batch, at)),
                Batched::FallBack(batch) => self.outcomes.push(threads.fall_back(thread, batch, at)),
            }
        }
    }

    /// What is taken next of transactions that are executed.
    fn next(&self) -> impl Iterator<Item = (&Transaction, &Arc<Catalog>)> {
        let batch = match &self.batch {
            Batched::Execute(batch) => Some(batch),
            Batched::FallBack(_) => None,
        };
        let parts = batch.into_iter().flat_map(|batch| self.left.iter().rev().map(move |at| (batch, *at)));
        parts.map(|(batch, at)| (threads::part(batch, at), &batch.catalog))
    }

    /// What of the next so many parts ends the process.
    fn culprit(&self, parts: usize, environment: &Environment) -> Option<Suspect> {
        let ends = |(transaction, catalog): &(&Transaction, &Arc<Catalog>)| {
            environment.poison.ends(Part::Root, transaction, catalog)
        };
        self.next().take(parts).find(ends).map(|(transaction, catalog)| suspect(transaction, catalog, true))
    }

    /// What the driver is told once nothing is left. Drops every reference to the state.
    fn finish(self) -> Finished {
        match self.batch {
            Batched::Execute(batch) => {
                let mut started = self.started.into_iter().map(|started| started.expect("all are done"));
                let transactions = started.by_ref().take(batch.transactions.len()).collect();
                Finished::Executed(Executed { transactions, queries: started.collect() })
            }
            Batched::FallBack(_) => Finished::FellBack(self.outcomes),
        }
    }

    fn claim(&self, threads: usize, random: &mut Random) -> usize {
        random.between(1, (self.left.len() / threads).max(1) as u64) as usize
    }
}

impl ExecutionPool {
    /// The threads of a process.
    pub fn new(deviating: bool, inline_max: usize, environment: &mut Environment) -> Self {
        let random = Random::new(environment.random.number());
        let threads = Threads::new(environment.plan.threads(), deviating, random);
        ExecutionPool {
            threads,
            inline_max,
            job: None,
            jobs: 0,
            tasks: BTreeMap::new(),
            next_task: 0,
            forgetting: false,
            out: 0,
            is_used: false,
            culprit: None,
        }
    }

    /// Executes a batch. Gives what was done at once.
    pub fn execute(&mut self, batch: Batch, around: &mut Around<'_>) -> Option<Finished> {
        self.hand_out(Job::new(Batched::Execute(batch)), around)
    }

    /// Runs components of the fallback. Gives what was done at once.
    pub fn fall_back(&mut self, batch: FallbackBatch, around: &mut Around<'_>) -> Option<Finished> {
        self.hand_out(Job::new(Batched::FallBack(batch)), around)
    }

    fn hand_out(&mut self, mut job: Job, around: &mut Around<'_>) -> Option<Finished> {
        assert!(self.job.is_none() && !self.forgetting, "one batch at a time");
        self.is_used |= !job.left.is_empty();
        around.environment.random.shuffle(&mut job.left);
        if job.left.len() <= self.inline_max {
            let thread = self.any(around.environment);
            for _ in 0..job.left.len() {
                let worked = around.environment.execution_time();
                around.spend(worked);
            }
            if let Some(culprit) = job.culprit(usize::MAX, around.environment) {
                self.job = Some(job);
                self.end(culprit, around);
                return None;
            }
            job.run(usize::MAX, thread, &mut self.threads);
            return Some(job.finish());
        }
        if job.left.is_empty() {
            return Some(job.finish());
        }
        self.jobs += 1;
        self.job = Some(job);
        for thread in 0..self.threads.count() {
            self.schedule_share(thread, around);
        }
        None
    }

    fn any(&self, environment: &mut Environment) -> usize {
        environment.random.below(self.threads.count() as u64) as usize
    }

    fn schedule_share(&mut self, thread: usize, around: &mut Around<'_>) {
        self.out += 1;
        let delay = around.environment.execution_time();
        let life = around.own.life;
        around.later(delay, Event::Work(life, Work::Share(self.jobs, thread)));
    }

    /// Advances tasks, each after a time of its own.
    pub fn advance(&mut self, mut tasks: Vec<Task>, around: &mut Around<'_>) {
        around.environment.random.shuffle(&mut tasks);
        for task in tasks {
            let thread = Threads::bound(&task).unwrap_or_else(|| self.any(around.environment));
            self.next_task += 1;
            self.tasks.insert(self.next_task, (thread, task));
            self.out += 1;
            let delay = around.environment.execution_time();
            let life = around.own.life;
            around.later(delay, Event::Work(life, Work::Task(self.next_task)));
        }
    }

    /// What ends the process is met.
    pub fn end(&mut self, culprit: Suspect, around: &mut Around<'_>) {
        self.culprit = Some(around.environment.poisoned(around.own.life, culprit));
    }

    /// What threads have noted that they execute; `None` if they never had anything to do.
    pub fn noted(&self) -> Option<Vec<Suspect>> {
        let tasks = self.tasks.values().map(|(_, task)| of(task));
        let batched = self.job.iter().flat_map(Job::next).chain(tasks);
        let under_way =
            batched.take(self.threads.count()).map(|(transaction, catalog)| suspect(transaction, catalog, false));
        let mut noted: Vec<Suspect> = self.culprit.iter().cloned().collect();
        for suspect in under_way {
            if noted.iter().all(|known| known.request != suspect.request) {
                noted.push(suspect);
            }
        }
        (self.is_used || !noted.is_empty()).then_some(noted)
    }

    /// A thread is done with something. Gives what is complete with it.
    pub fn done(&mut self, work: Work, around: &mut Around<'_>) -> Option<Finished> {
        if self.culprit.is_some() {
            return None;
        }
        self.out -= 1;
        if self.forgetting {
            return self.forgotten();
        }
        match work {
            Work::Task(number) => {
                if let Some(culprit) = of_task(&self.tasks[&number].1, around.environment) {
                    self.end(culprit, around);
                    return None;
                }
                let (thread, task) = self.tasks.remove(&number).expect("a task is done once");
                Some(Finished::TaskProgress(vec![self.threads.advance(thread, task)]))
            }
            Work::Share(number, thread) => {
                let job = self.job.as_mut().filter(|_| self.jobs == number)?;
                let parts = job.claim(self.threads.count(), &mut around.environment.random);
                if let Some(culprit) = job.culprit(parts, around.environment) {
                    self.end(culprit, around);
                    return None;
                }
                job.run(parts, thread, &mut self.threads);
                if job.left.is_empty() {
                    return Some(self.job.take().expect("just seen").finish());
                }
                self.schedule_share(thread, around);
                None
            }
        }
    }

    /// Forgets what is executed and what waits, as soon as nothing of it runs any more.
    pub fn forget(&mut self) -> Option<Finished> {
        self.forgetting = true;
        self.forgotten()
    }

    fn forgotten(&mut self) -> Option<Finished> {
        if self.out > 0 {
            return None;
        }
        self.forgetting = false;
        self.job = None;
        self.tasks.clear();
        self.threads.forget();
        Some(Finished::Forgotten)
    }

    /// Guests that wait; none between rounds.
    pub fn waiting(&self) -> usize {
        self.threads.waiting()
    }
}
