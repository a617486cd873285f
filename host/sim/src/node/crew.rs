//! The execution threads: a job's parts are taken in any order by any thread, and each thread's
//! share is done after a delay of its own. So is each task of a graph; one that continues a guest
//! goes to the thread where the guest waits.

use std::collections::{BTreeMap, VecDeque};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::Attempt;
use styx_protocol::entity::Value;
use styx_protocol::executor::Executor;
use styx_protocol::fallback::{ComponentOutcome, run_component};
use styx_protocol::machine::worker::{Batch, Executed, FallbackBatch, Input};
use styx_protocol::task::{Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind, TaskProgress};

use super::{Life, NodeEvent, Outside};
use crate::plan::Plan;
use crate::random::Random;
use crate::toy::Toy;

/// What comes of work.
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
pub(super) struct Crew {
    life: Life,
    threads: Threads,
    job: Option<Job>,
    jobs: u64,
    tasks: BTreeMap<u64, (usize, Task)>,
    next_piece: u64,
}

/// An executor each.
#[derive(Debug)]
pub struct Threads {
    toys: Vec<Toy>,
    /// Another engine: it comes to other results.
    strange: bool,
    /// How often an instance fails for its own past, in a thousand; and whose chance that is.
    misfortune: u32,
    random: Random,
}

/// Where a thread's own number of a guest begins in the driver's.
const THREAD: u32 = 48;

impl Threads {
    /// As many as the plan says.
    pub fn new(plan: &Plan, strange: bool, random: Random) -> Self {
        let toys = (0..plan.threads).map(|_| Toy::default()).collect();
        Threads { toys, strange, misfortune: plan.misfortune, random }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.toys.len()
    }

    fn outcome<E>(&self, outcome: &mut Result<Value, E>) {
        if self.strange
            && let Ok(value) = outcome
        {
            let mut bytes = value.to_vec();
            bytes[3] ^= 1;
            *value = bytes.into();
        }
    }

    fn progress(&mut self, thread: usize, attempt: &mut Attempt, progress: &mut Progress) {
        match progress {
            Progress::Done(outcome) => {
                self.outcome(outcome);
                if self.misfortune > 0 && !attempt.mode().fresh && self.random.chance(self.misfortune) {
                    // What a warm instance's past does to it is settled by new instances.
                    attempt.suspect();
                    *outcome = Err(attempt.doom(Abort::new(Code::GuestTrap, "the instance has had a past")));
                }
            }
            Progress::Suspended(parked, _) => *parked = SuspendedId((thread as u64) << THREAD | parked.0),
        }
    }

    /// Starts the transaction number `at` of a batch.
    pub fn start(&mut self, thread: usize, batch: &Batch, at: usize) -> Started {
        let transaction = match at.checked_sub(batch.transactions.len()) {
            None => &batch.transactions[at],
            Some(query) => &batch.queries[query],
        };
        let toy = &mut self.toys[thread];
        let mut started = match &batch.seat {
            Some(seat) => toy.start(transaction, &batch.state, &batch.catalog, seat),
            None => Started::Local(toy.execute(transaction, &batch.state, &batch.catalog)),
        };
        match &mut started {
            Started::Local(execution) => self.outcome(&mut execution.outcome),
            Started::Distributed(attempt, progress) => self.progress(thread, attempt, progress),
        }
        started
    }

    /// The thread that must advance a task, if it must be a certain one.
    pub fn bound(task: &Task) -> Option<usize> {
        match task.kind {
            TaskKind::Resume { parked, .. } => Some((parked.0 >> THREAD) as usize),
            _ => None,
        }
    }

    /// Advances a task.
    pub fn advance(&mut self, thread: usize, mut task: Task) -> TaskProgress {
        if let TaskKind::Resume { parked, .. } = &mut task.kind {
            parked.0 &= (1 << THREAD) - 1;
        }
        let mut advanced = self.toys[thread].advance(task);
        self.progress(thread, &mut advanced.attempt, &mut advanced.progress);
        advanced
    }

    /// Runs a component of the fallback.
    pub fn fall_back(&mut self, thread: usize, batch: &FallbackBatch, at: usize) -> ComponentOutcome {
        let members = &batch.components[at];
        let mut outcome = run_component(&mut self.toys[thread], members, &batch.state, &batch.catalog);
        outcome.executions.iter_mut().for_each(|(_, execution)| self.outcome(&mut execution.outcome));
        outcome
    }

    /// Guests that wait.
    pub fn waiting(&self) -> usize {
        self.toys.iter().map(Toy::waiting).sum()
    }
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

    /// What the machine is told once nothing is left. Drops every reference to the state.
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

impl Crew {
    /// The threads of a process.
    pub(super) fn new(life: Life, strange: bool, outside: &mut Outside) -> Self {
        let random = Random::new(outside.random.number());
        let threads = Threads::new(&outside.plan, strange, random);
        Crew { life, threads, job: None, jobs: 0, tasks: BTreeMap::new(), next_piece: 0 }
    }

    /// Executes a batch.
    pub(super) fn execute(&mut self, batch: Batch, inputs: &mut Inputs, outside: &mut Outside) {
        self.hand_out(Job::new(Work::Execute(batch)), inputs, outside);
    }

    /// Runs components of the fallback.
    pub(super) fn fall_back(&mut self, batch: FallbackBatch, inputs: &mut Inputs, outside: &mut Outside) {
        self.hand_out(Job::new(Work::FallBack(batch)), inputs, outside);
    }

    /// Gives a job to the threads, or does it at once; then it is the machine's next input.
    fn hand_out(&mut self, mut job: Job, inputs: &mut Inputs, outside: &mut Outside) {
        assert!(self.job.is_none(), "one batch at a time");
        outside.random.shuffle(&mut job.left);
        if job.left.len() <= INLINE_MAX && outside.random.chance(700) {
            let thread = self.any(outside);
            job.run(usize::MAX, thread, &mut self.threads);
            inputs.push_back(job.finish());
            return;
        }
        self.jobs += 1;
        self.job = Some(job);
        for thread in 0..self.threads.count() {
            self.schedule_share(thread, outside);
        }
    }

    fn any(&self, outside: &mut Outside) -> usize {
        outside.random.below(self.threads.count() as u64) as usize
    }

    fn schedule_share(&self, thread: usize, outside: &mut Outside) {
        let delay = outside.delay(outside.plan.execution);
        outside.later(self.life, delay, NodeEvent::Share(self.jobs, thread));
    }

    /// A thread has done some parts; it takes more, or the job is done.
    pub(super) fn share_done(&mut self, id: u64, thread: usize, inputs: &mut Inputs, outside: &mut Outside) {
        let Some(job) = self.job.as_mut().filter(|_| self.jobs == id) else { return };
        let parts = job.claim(self.threads.count(), &mut outside.random);
        job.run(parts, thread, &mut self.threads);
        if job.left.is_empty() {
            inputs.push_back(self.job.take().expect("just seen").finish())
        } else {
            self.schedule_share(thread, outside)
        }
    }

    /// Advances tasks, some at once, the others each after a time of its own.
    pub(super) fn advance(&mut self, mut tasks: Vec<Task>, inputs: &mut Inputs, outside: &mut Outside) {
        outside.random.shuffle(&mut tasks);
        let at_once = outside.random.chance(500);
        let mut advanced = Vec::new();
        for task in tasks {
            let thread = Threads::bound(&task).unwrap_or_else(|| self.any(outside));
            if at_once && outside.random.chance(900) {
                advanced.push(self.threads.advance(thread, task));
            } else {
                self.next_piece += 1;
                self.tasks.insert(self.next_piece, (thread, task));
                let delay = outside.delay(outside.plan.execution);
                outside.later(self.life, delay, NodeEvent::Piece(self.next_piece));
            }
        }
        if !advanced.is_empty() {
            inputs.push_back(Input::TaskProgress(advanced));
        }
    }

    /// A task has come as far as it goes.
    pub(super) fn piece_done(&mut self, number: u64, inputs: &mut Inputs) {
        let Some((thread, task)) = self.tasks.remove(&number) else { return };
        inputs.push_back(Input::TaskProgress(vec![self.threads.advance(thread, task)]));
    }

    /// Guests that wait; none between rounds.
    pub(super) fn waiting(&self) -> usize {
        self.threads.waiting()
    }
}
