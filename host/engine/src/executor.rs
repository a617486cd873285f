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
use styx_protocol::state::State;
use styx_protocol::transaction::Transaction;

use crate::context::{Carrier, Context, Instances, Means};
use crate::determinism::{self, Determinism};
use crate::engine::Engine;

/// Runs transactions in warm instances of its own. One per execution thread; the thread needs
/// [`crate::EXECUTION_STACK_BYTES`] of stack.
pub struct Executor {
    engine: Arc<Engine>,
    /// Away while an attempt runs.
    means: Option<Box<Means>>,
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
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let means = Box::new(Means::new(engine.clone()));
        Executor { engine, means: Some(means), statistics: Statistics::default() }
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Instances that wait for a call.
    pub fn idle_instances(&self) -> usize {
        self.means.as_ref().map_or(0, |means| means.pool.idle())
    }

    /// Makes as many attempts as it takes to know the outcome.
    fn settle(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        fallback: &mut Option<Fallback>,
    ) -> Execution {
        if self.engine.determinism() == Determinism::All {
            return self.prove(transaction, state, catalog, fallback);
        }
        let first = self.attempt(Instances::Warm, transaction, state, catalog, fallback);
        let suspect = self.is_suspect();
        if !suspect && !self.engine.determinism().samples(transaction.tid) {
            return first;
        }
        let fresh = self.attempt(Instances::Fresh, transaction, state, catalog, fallback);
        if suspect {
            self.statistics.repeated += 1;
        } else {
            self.compare(transaction, &first, &fresh);
        }
        fresh
    }

    /// An attempt in fresh instances, and a second one in those that the first has left behind. The
    /// verdict decides the outcome, so it must not depend on what an instance did for other
    /// transactions: a replay, whose instances have another past, has to come to the same.
    fn prove(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        fallback: &mut Option<Fallback>,
    ) -> Execution {
        self.means.as_mut().expect("no attempt is under way").pool.clear();
        let fresh = self.attempt(Instances::FreshKept, transaction, state, catalog, fallback);
        let again = self.attempt(Instances::Warm, transaction, state, catalog, fallback);
        if self.is_suspect() {
            self.statistics.repeated += 1;
            return fresh;
        }
        let Some(difference) = self.compare(transaction, &again, &fresh) else { return fresh };
        let message = format!(
            "a fresh instance does not do what a warm one does: {difference}; keep state in entities, not in globals"
        );
        Execution { outcome: Err(Abort::new(Code::NonDeterministic, message)), ..fresh }
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
    fn is_suspect(&self) -> bool {
        self.means.as_ref().expect("the attempt is over").suspect
    }

    fn attempt(
        &mut self,
        instances: Instances,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        fallback: &mut Option<Fallback>,
    ) -> Execution {
        let mut means = self.means.take().expect("an attempt panicked, and the executor with it");
        (means.instances, means.reused, means.suspect) = (instances, false, false);
        let attempt = Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        let (attempt, cached) = match fallback.take() {
            Some(Fallback { overlay, cached }) => (attempt.fall_back(overlay, cached.clone()), Some(cached)),
            None => (attempt, None),
        };
        let mut carrier = Carrier::new(Box::new(Context { attempt, means }));
        let outcome = run(&mut carrier);
        let Context { attempt, means } = *carrier.into_inner();
        self.means = Some(means);
        let (execution, overlay) = attempt.finish(outcome);
        if let (Some(overlay), Some(cached)) = (overlay, cached) {
            *fallback = Some(Fallback { overlay, cached });
        }
        execution
    }
}

/// A component of the catalog that is not loaded ([`Engine::load`]) is a bug of the host, and panics.
impl styx_protocol::fallback::Executor for Executor {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        self.settle(transaction, state, catalog, &mut None)
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
        let execution = self.settle(transaction, state, catalog, &mut fallback);
        (execution, fallback.expect("each attempt gives the overlay back").overlay)
    }
}
