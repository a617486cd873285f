//! Executor: runs transactions, one at a time, on the thread that owns it.
//!
//! **Outcomes depend on the transaction and the state alone**, so that a replay, whose instances have served other calls,
//! agrees. A trap, exhausted fuel or denied growth in a warm instance may be due to what the instance did in an earlier
//! call. Such a result is *unconfirmed*, and so is one that came near it (over half of its fuel): the whole attempt is
//! made again in fresh instances, and that one counts.

use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Execution, Overlay, Reader, run};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::state::State;
use styx_protocol::task::{LongTask, Started};
use styx_protocol::transaction::Transaction;

use crate::budget::GuestUsage;
use crate::determinism::{self, Determinism};
use crate::engine::Engine;
use crate::invocation::{Context, ExecutorResources, InstancePolicy, Invocation};
use crate::pool::Pool;
use crate::rendezvous::Rendezvous;
use crate::suspended::SuspendedCalls;

/// Runs transactions in warm instances of its own. One per execution thread; the thread needs
/// [`crate::EXECUTION_STACK_BYTES`] of stack.
pub struct Executor {
    pub(crate) engine: Arc<Engine>,
    /// Lent to the attempt while it runs.
    pub(crate) resources: Option<Box<ExecutorResources>>,
    pub(crate) rendezvous: Rendezvous<Box<Context>>,
    pub(crate) suspended: SuspendedCalls,
    number: u64,
    pub(crate) statistics: Statistics,
}

/// Counters of an executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Attempts made again in fresh instances because the result in warm ones was unconfirmed.
    pub repeated: u64,
    /// Attempts compared with one in fresh instances.
    pub compared: u64,
    /// Comparisons that found a difference.
    pub differed: u64,
    /// Attempts of a cluster that ran on the stack of their thread, and were no use there: they were made again on fibers.
    pub moved: u64,
}

/// Inputs of an attempt in the fallback, besides the transaction.
struct Fallback {
    overlay: Box<Overlay>,
    cached: Arc<Execution>,
}

impl Executor {
    pub(crate) fn new(engine: Arc<Engine>, number: u64) -> Self {
        let rendezvous = Rendezvous::new();
        let (components, memory) = (engine.components().clone(), engine.guest_memory().clone());
        let pool = Pool::new(engine.idle_max(), engine.tallies().clone());
        let resources = ExecutorResources::new(number, components, pool, memory, rendezvous.clone());
        let resources = Some(Box::new(resources));
        Executor {
            engine,
            resources,
            rendezvous,
            suspended: SuspendedCalls::new(number),
            number,
            statistics: Statistics::default(),
        }
    }

    /// Its number among the engine's executors; see [`crate::home`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The counters so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Instances that wait for a call.
    pub fn idle_instances(&self) -> usize {
        self.resources.as_ref().map_or(0, |resources| resources.pool.idle())
    }

    /// Makes as many attempts as it takes to confirm the outcome, as long as no other worker is needed.
    pub(crate) fn settle(
        &mut self,
        transaction: &Transaction,
        mut attempt: impl FnMut(&mut Self, InstancePolicy) -> Started,
    ) -> Started {
        if self.engine.determinism() == Determinism::All {
            return self.prove(transaction, attempt);
        }
        let first = match attempt(self, InstancePolicy::Warm) {
            Started::Local(first) => first,
            open => return open,
        };
        let unconfirmed = self.is_unconfirmed();
        if !unconfirmed && !self.engine.determinism().samples(transaction.tid) {
            return Started::Local(first);
        }
        self.statistics.repeated += u64::from(unconfirmed);
        let fresh = match attempt(self, InstancePolicy::Fresh) {
            Started::Local(fresh) => fresh,
            open => return open,
        };
        if !unconfirmed {
            self.compare(transaction, &first, &fresh);
        }
        Started::Local(fresh)
    }

    /// Makes an attempt in fresh instances, and a second one in those that the first has left behind. The comparison
    /// decides the outcome, so it must not depend on what an instance did for other transactions: a replay, whose
    /// instances have served other calls, has to come to the same.
    fn prove(
        &mut self,
        transaction: &Transaction,
        mut attempt: impl FnMut(&mut Self, InstancePolicy) -> Started,
    ) -> Started {
        self.resources.as_mut().expect("no attempt is under way").pool.clear();
        let fresh = match attempt(self, InstancePolicy::FreshKept) {
            Started::Local(fresh) => fresh,
            open => return open,
        };
        let again = attempt(self, InstancePolicy::Warm);
        if self.is_unconfirmed() {
            self.statistics.repeated += 1;
            return Started::Local(fresh);
        }
        let difference = match again {
            Started::Local(again) => self.compare(transaction, &again, &fresh),
            Started::Distributed(_, progress) => {
                self.give_up(progress);
                Some("only one of them needs other workers")
            }
        };
        let Some(difference) = difference else { return Started::Local(fresh) };
        let message = format!(
            "a fresh instance does not do what a warm one does: {difference}; keep state in entities, not in globals"
        );
        Started::Local(Execution { outcome: Err(Abort::new(Code::NonDeterministic, message)), ..fresh })
    }

    /// Compares two attempts, counts the comparison and logs a difference.
    fn compare(&mut self, transaction: &Transaction, warm: &Execution, fresh: &Execution) -> Option<&'static str> {
        self.statistics.compared += 1;
        let difference = determinism::difference(warm, fresh)?;
        self.statistics.differed += 1;
        let request = &transaction.request;
        tracing::warn!(tid = transaction.tid.0, function = %request.function, key = %request.key, "a warm instance did not do what a fresh one does: {difference}");
        Some(difference)
    }

    /// Whether the last attempt's outcome may be due to what an instance did in an earlier call.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.resources.as_ref().expect("the attempt is over").unconfirmed
    }

    /// Makes an attempt where one worker owns everything.
    fn attempt(
        &mut self,
        instances: InstancePolicy,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        fallback: &mut Option<Fallback>,
    ) -> Execution {
        let slice = self.engine.slice();
        let begin = || Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        let (mut attempt, cached) = match fallback.take() {
            Some(Fallback { overlay, cached }) => (Box::new(begin().fall_back(overlay, cached.clone())), Some(cached)),
            None => (Box::new(begin()), None),
        };
        attempt.slice(slice);
        let (mut attempt, outcome) = self.run_alone(attempt, instances);
        let execution = attempt.take_execution(outcome);
        if let (Some(overlay), Some(cached)) = (attempt.take_overlay(), cached) {
            *fallback = Some(Fallback { overlay, cached });
        }
        execution
    }

    /// Runs an attempt that needs no other worker.
    fn run_alone(&mut self, attempt: Box<Attempt>, instances: InstancePolicy) -> (Box<Attempt>, Result<Value, Abort>) {
        if self.engine.is_clustered() { self.run_in_cluster(attempt, instances) } else { self.run(attempt, instances) }
    }

    fn run(&mut self, attempt: Box<Attempt>, instances: InstancePolicy) -> (Box<Attempt>, Result<Value, Abort>) {
        let resources = self.lend(instances, false, GuestUsage::default());
        let mut invocation = Invocation::new(Box::new(Context { attempt, resources }));
        let outcome = run(&mut invocation);
        let Context { attempt, resources } = *invocation.into_inner();
        assert!(resources.needs_fiber.is_none(), "an attempt of a single worker reached for another");
        self.resources = Some(resources);
        (attempt, outcome)
    }

    /// Takes the resources for a task; it gives them back when it ends or is suspended.
    pub(crate) fn lend(
        &mut self,
        instances: InstancePolicy,
        distributed: bool,
        guests: GuestUsage,
    ) -> Box<ExecutorResources> {
        let mut resources = self.resources.take().expect("an attempt panicked, and the executor with it");
        resources.reset(instances, distributed, guests);
        resources
    }
}

impl Engine {
    /// A new executor, for one thread.
    pub fn executor(self: &Arc<Self>) -> Executor {
        Executor::new(self.clone(), self.next_executor())
    }
}

/// A component of the catalog that is not loaded ([`Engine::load`]) is a bug of the host, and panics.
impl styx_protocol::executor::Executor for Executor {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        let settled = self.settle(transaction, |executor, instances| {
            Started::Local(executor.attempt(instances, transaction, state, catalog, &mut None))
        });
        local(settled)
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        let mut fallback = Some(Fallback { overlay, cached: cached.clone() });
        let settled = self.settle(transaction, |executor, instances| {
            Started::Local(executor.attempt(instances, transaction, state, catalog, &mut fallback))
        });
        (local(settled), fallback.expect("each attempt gives the overlay back").overlay)
    }

    /// In fresh instances, so that nothing has to be confirmed; none of them is kept.
    fn run_long(&mut self, task: &LongTask, reader: Box<dyn Reader>) -> Execution {
        let LongTask { transaction, layout, catalog, .. } = task;
        let attempt = Attempt::begin_long(transaction.clone(), *layout, catalog.clone(), reader);
        self.resources.as_mut().expect("no attempt is under way").patient = true;
        let (mut attempt, outcome) = self.run_alone(Box::new(attempt), InstancePolicy::Fresh);
        let resources = self.resources.as_mut().expect("the attempt is over");
        resources.patient = false;
        resources.pool.clear();
        attempt.take_execution(outcome)
    }
}

fn local(settled: Started) -> Execution {
    match settled {
        Started::Local(execution) => execution,
        Started::Distributed(..) => panic!("an attempt of a single worker sent a request to another"),
    }
}
