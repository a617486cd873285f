//! The execution threads: a job's parts are taken in any order by any thread, and each thread's
//! share is done after a delay of its own. So is each task of a graph; one that continues a guest
//! goes to the thread where the guest waits.

use std::collections::{BTreeMap, VecDeque};

use styx_protocol::fallback::ComponentOutcome;
use styx_protocol::machine::worker::{Batch, Executed, FallbackBatch, Input};
use styx_protocol::task::{Started, Task};

use crate::environment::Environment;
use crate::event::{Life, NodeEvent};
use crate::random::Random;
use crate::threads::Threads;

/// Inputs that work has produced for the machine.
pub(super) type Inputs = VecDeque<Input<u64>>;

#[derive(Debug)]
enum Work {
    Execute(Batch),
    FallBack(FallbackBatch),
}

/// A batch under way.
#[derive(Debug)]
struct Job {
    work: Work,
    /// Parts that no thread has done, in the order in which they will be taken.
    left: Vec<usize>,
    started: Vec<Option<Started>>,
    outcomes: Vec<ComponentOutcome>,
}

/// Jobs with fewer parts may run on the driver's own thread.
const INLINE_MAX: usize = 3;

/// The threads of one process.
#[derive(Debug)]
pub(super) struct ExecutionPool {
    life: Life,
    threads: Threads,
    job: Option<Job>,
    jobs: u64,
    tasks: BTreeMap<u64, (usize, Task)>,
    next_task: u64,
}

impl Job {
    fn new(work: Work) -> Self {
        let parts = match &work {
            Work::Execute(batch) => batch.transactions.len() + batch.queries.len(),
            Work::FallBack(batch) => batch.components.len(),
        };
        let started = (0..parts).map(|_| None).collect();
        Job { work, left: (0..parts).collect(), started, outcomes: Vec::new() }
    }

    /// Does some of what is left.
    fn run(&mut self, parts: usize, thread: usize, threads: &mut Threads) {
        for at in self.left.split_off(self.left.len().saturating_sub(parts)) {
            match &self.work {
                Work::Execute(batch) => self.started[at] = Some(threads.start(thread, batch, at)),
                Work::FallBack(batch) => self.outcomes.push(threads.fall_back(thread, batch, at)),
            }
        }
    }

    /// The machine's input once nothing is left. Drops every reference to the state.
    fn finish(self) -> Input<u64> {
        match self.work {
            Work::Execute(batch) => {
                let mut started = self.started.into_iter().map(|started| started.expect("all are done"));
                let transactions = started.by_ref().take(batch.transactions.len()).collect();
                Input::Executed(Executed { transactions, queries: started.collect() })
            }
            Work::FallBack(_) => Input::FellBack(self.outcomes),
        }
    }

    fn claim(&self, threads: usize, random: &mut Random) -> usize {
        random.between(1, (self.left.len() / threads).max(1) as u64) as usize
    }
}

impl ExecutionPool {
    /// The threads of a process.
    pub(super) fn new(life: Life, deviating: bool, environment: &mut Environment) -> Self {
        let random = Random::new(environment.random.number());
        let threads = Threads::new(environment.plan.threads(), deviating, random);
        ExecutionPool { life, threads, job: None, jobs: 0, tasks: BTreeMap::new(), next_task: 0 }
    }

    /// Executes a batch.
    pub(super) fn execute(&mut self, batch: Batch, inputs: &mut Inputs, environment: &mut Environment) {
        self.hand_out(Job::new(Work::Execute(batch)), inputs, environment);
    }

    /// Runs components of the fallback.
    pub(super) fn fall_back(&mut self, batch: FallbackBatch, inputs: &mut Inputs, environment: &mut Environment) {
        self.hand_out(Job::new(Work::FallBack(batch)), inputs, environment);
    }

    /// Gives a job to the threads, or does it at once; then it is the machine's next input.
    fn hand_out(&mut self, mut job: Job, inputs: &mut Inputs, environment: &mut Environment) {
        assert!(self.job.is_none(), "one batch at a time");
        environment.random.shuffle(&mut job.left);
        if job.left.len() <= INLINE_MAX && environment.random.chance(700) {
            let thread = self.any(environment);
            job.run(usize::MAX, thread, &mut self.threads);
            inputs.push_back(job.finish());
            return;
        }
        self.jobs += 1;
        self.job = Some(job);
        for thread in 0..self.threads.count() {
            self.schedule_share(thread, environment);
        }
    }

    fn any(&self, environment: &mut Environment) -> usize {
        environment.random.below(self.threads.count() as u64) as usize
    }

    fn schedule_share(&self, thread: usize, environment: &mut Environment) {
        let delay = environment.delay(environment.plan.execution);
        environment.later(self.life, delay, NodeEvent::BatchShare(self.jobs, thread));
    }

    /// A thread has done some parts; it takes more, or the job is done.
    pub(super) fn share_done(&mut self, id: u64, thread: usize, inputs: &mut Inputs, environment: &mut Environment) {
        let Some(job) = self.job.as_mut().filter(|_| self.jobs == id) else { return };
        let parts = job.claim(self.threads.count(), &mut environment.random);
        job.run(parts, thread, &mut self.threads);
        if job.left.is_empty() {
            inputs.push_back(self.job.take().expect("just seen").finish())
        } else {
            self.schedule_share(thread, environment)
        }
    }

    /// Advances tasks, some at once, the others each after a time of its own.
    pub(super) fn advance(&mut self, mut tasks: Vec<Task>, inputs: &mut Inputs, environment: &mut Environment) {
        environment.random.shuffle(&mut tasks);
        let at_once = environment.random.chance(500);
        let mut advanced = Vec::new();
        for task in tasks {
            let thread = Threads::bound(&task).unwrap_or_else(|| self.any(environment));
            if at_once && environment.random.chance(900) {
                advanced.push(self.threads.advance(thread, task));
            } else {
                self.next_task += 1;
                self.tasks.insert(self.next_task, (thread, task));
                let delay = environment.delay(environment.plan.execution);
                environment.later(self.life, delay, NodeEvent::TaskDone(self.next_task));
            }
        }
        if !advanced.is_empty() {
            inputs.push_back(Input::TaskProgress(advanced));
        }
    }

    /// A task has come as far as it goes.
    pub(super) fn task_done(&mut self, number: u64, inputs: &mut Inputs) {
        let Some((thread, task)) = self.tasks.remove(&number) else { return };
        inputs.push_back(Input::TaskProgress(vec![self.threads.advance(thread, task)]));
    }

    /// Guests that wait; none between rounds.
    pub(super) fn waiting(&self) -> usize {
        self.threads.waiting()
    }
}
