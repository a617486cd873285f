//! Runs transactions, one at a time, on the thread that owns it.
//!
//! **A warm instance's misfortune is never believed.** A trap, an empty fuel tank or denied memory
//! may be due to what the instance did before; so if an attempt used a warm instance and ended in
//! one of these (or came near: over half of its fuel), the whole attempt is made again with fresh
//! instances only, and that one counts. So outcomes depend on the transaction and the state alone,
//! and a replay, whose instances have another past, agrees.

use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Execution, Overlay, run};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::state::State;
use styx_protocol::task::Started;
use styx_protocol::transaction::Transaction;

use crate::context::{Carrier, Context, Instances, Means};
use crate::determinism::{self, Determinism};
use crate::engine::Engine;
use crate::parking::{Exchange, Parking};
use crate::room::Guests;

/// Runs transactions in warm instances of its own. One per execution thread; the thread needs
/// [`crate::EXECUTION_STACK_BYTES`] of stack.
pub struct Executor {
    pub(crate) engine: Arc<Engine>,
    /// Away while an attempt runs.
    pub(crate) means: Option<Box<Means>>,
    pub(crate) exchange: Exchange,
    pub(crate) parking: Parking,
    number: u64,
    statistics: Statistics,
}

/// What an executor has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Attempts made again with fresh instances because a warm one had a misfortune.
    pub repeated: u64,
    /// Attempts compared with one in fresh instances.
    pub compared: u64,
    /// Comparisons that differed.
    pub differed: u64,
}

/// The fallback's part of an attempt.
struct Fallback {
    overlay: Box<Overlay>,
    cached: Arc<Execution>,
}

impl Executor {
    pub(crate) fn new(engine: Arc<Engine>, number: u64) -> Self {
        let exchange = Exchange::default();
        let means = Some(Box::new(Means::new(engine.clone(), exchange.clone())));
        Executor { engine, means, exchange, parking: Parking::new(number), number, statistics: Statistics::default() }
    }

    /// Its number among the engine's executors; see [`crate::home`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Instances that wait for a call.
    pub fn idle_instances(&self) -> usize {
        self.means.as_ref().map_or(0, |means| means.pool.idle())
    }

    /// Makes as many attempts as it takes to know the outcome, as long as all of it happens here.
    pub(crate) fn settle(
        &mut self,
        transaction: &Transaction,
        mut attempt: impl FnMut(&mut Self, Instances) -> Started,
    ) -> Started {
        if self.engine.determinism() == Determinism::All {
            return self.prove(transaction, attempt);
        }
        let first = match attempt(self, Instances::Warm) {
            Started::Local(first) => first,
            open => return open,
        };
        let suspect = self.is_suspect();
        if !suspect && !self.engine.determinism().samples(transaction.tid) {
            return Started::Local(first);
        }
        self.statistics.repeated += u64::from(suspect);
        let fresh = match attempt(self, Instances::Fresh) {
            Started::Local(fresh) => fresh,
            open => return open,
        };
        if !suspect {
            self.compare(transaction, &first, &fresh);
        }
        Started::Local(fresh)
    }

    /// An attempt in fresh instances, and a second one in those that the first has left behind. The
    /// verdict decides the outcome, so it must not depend on what an instance did for other
    /// transactions: a replay, whose instances have another past, has to come to the same.
    fn prove(
        &mut self,
        transaction: &Transaction,
        mut attempt: impl FnMut(&mut Self, Instances) -> Started,
    ) -> Started {
        self.means.as_mut().expect("no attempt is under way").pool.clear();
        let fresh = match attempt(self, Instances::FreshKept) {
            Started::Local(fresh) => fresh,
            open => return open,
        };
        let again = attempt(self, Instances::Warm);
        if self.is_suspect() {
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

    /// Counts a comparison, and tells of a difference.
    fn compare(&mut self, transaction: &Transaction, warm: &Execution, fresh: &Execution) -> Option<&'static str> {
        self.statistics.compared += 1;
        let difference = determinism::difference(warm, fresh)?;
        self.statistics.differed += 1;
        let request = &transaction.request;
        tracing::warn!(tid = transaction.tid.0, function = %request.function, key = %request.key, "a warm instance did not do what a fresh one does: {difference}");
        Some(difference)
    }

    /// Whether the last attempt's outcome may be due to the past of an instance.
    pub(crate) fn is_suspect(&self) -> bool {
        self.means.as_ref().expect("the attempt is over").suspect
    }

    /// An attempt where one worker owns everything.
    fn attempt(
        &mut self,
        instances: Instances,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        fallback: &mut Option<Fallback>,
    ) -> Execution {
        let begin = || Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        let (attempt, cached) = match fallback.take() {
            Some(Fallback { overlay, cached }) => (Box::new(begin().fall_back(overlay, cached.clone())), Some(cached)),
            None => (Box::new(begin()), None),
        };
        let (mut attempt, outcome) = if self.engine.is_clustered() {
            self.run_on_fibers(attempt, instances)
        } else {
            self.run(attempt, instances)
        };
        let execution = attempt.take_execution(outcome);
        if let (Some(overlay), Some(cached)) = (attempt.take_overlay(), cached) {
            *fallback = Some(Fallback { overlay, cached });
        }
        execution
    }

    fn run(&mut self, attempt: Box<Attempt>, instances: Instances) -> (Box<Attempt>, Result<Value, Abort>) {
        let means = self.lend(instances, false, Guests::default());
        let mut carrier = Carrier::new(Box::new(Context { attempt, means }));
        let outcome = run(&mut carrier);
        let Context { attempt, means } = *carrier.into_inner();
        self.means = Some(means);
        (attempt, outcome)
    }

    /// The means for a task of work; they come back with it.
    pub(crate) fn lend(&mut self, instances: Instances, apart: bool, guests: Guests) -> Box<Means> {
        let mut means = self.means.take().expect("an attempt panicked, and the executor with it");
        means.renew(instances, apart, guests);
        means
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
}

fn local(settled: Started) -> Execution {
    match settled {
        Started::Local(execution) => execution,
        Started::Distributed(..) => panic!("an attempt of a single worker reached for another"),
    }
}
