//! Execution threads, an executor each, without the drivers around them.

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::Attempt;
use styx_protocol::entity::Value;
use styx_protocol::executor::Executor;
use styx_protocol::fallback::{ComponentOutcome, run_component};
use styx_protocol::machine::worker::{Batch, FallbackBatch};
use styx_protocol::task::{Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind, TaskProgress};
use styx_protocol::transaction::Transaction;

use crate::random::Random;
use crate::toy::Toy;

/// The execution threads that a process has.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPlan {
    /// Number of threads.
    pub count: u64,
    /// Results that are unconfirmed in warm instances, in a thousand.
    pub unconfirmed: u32,
    /// Attempts that use up their slice, in a thousand.
    pub long: u32,
}

/// The execution threads of one process.
#[derive(Debug)]
pub struct Threads {
    toys: Vec<Toy>,
    /// Another engine: it comes to other results.
    deviating: bool,
    /// Results that are unconfirmed in warm instances, in a thousand.
    unconfirmed: u32,
    random: Random,
}

/// Low bits of a [`SuspendedId`], which the thread's executor assigns; the thread's number is above them.
const THREAD: u32 = 48;

/// The transaction, or behind them the query, number `at` of a batch.
pub fn part(batch: &Batch, at: usize) -> &Transaction {
    match at.checked_sub(batch.transactions.len()) {
        None => &batch.transactions[at],
        Some(query) => &batch.queries[query],
    }
}

impl Threads {
    /// As many as the plan says.
    pub fn new(plan: ThreadPlan, deviating: bool, mut random: Random) -> Self {
        let toy = |_| match plan.long {
            0 => Toy::default(),
            long => Toy::postponing(long, Random::new(random.number())),
        };
        let toys = (0..plan.count).map(toy).collect();
        Threads { toys, deviating, unconfirmed: plan.unconfirmed, random }
    }

    /// Number of threads.
    pub fn count(&self) -> usize {
        self.toys.len()
    }

    fn outcome<E>(&self, outcome: &mut Result<Value, E>) {
        if self.deviating
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
                if self.unconfirmed > 0 && !attempt.mode().is_fresh() && self.random.chance(self.unconfirmed) {
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
        let transaction = part(batch, at);
        let toy = &mut self.toys[thread];
        let mut started = match &batch.view {
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

    /// Forgets all guests that wait.
    pub fn forget(&mut self) {
        self.toys.iter_mut().for_each(TaskExecutor::forget);
    }

    /// Guests that wait.
    pub fn waiting(&self) -> usize {
        self.toys.iter().map(Toy::waiting).sum()
    }
}
