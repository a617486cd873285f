//! Tasks: an executor's part in call graphs that several workers share.
//!
//! A root that finds all that it needs on this worker is confirmed here, as where one worker owns everything. A result
//! that depends on other workers cannot be: their instances may have served calls before, too. The attempt is told that
//! it is unconfirmed, and the root's worker has the whole graph run again.

use std::sync::Arc;
use std::task::Poll;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Mode, Next, RemoteResponse, Usage, finish};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::state::State;
use styx_protocol::task::{
    AttemptSource, LocalView, Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind, TaskProgress,
};
use styx_protocol::transaction::Transaction;

use crate::budget::GuestUsage;
use crate::determinism::Determinism;
use crate::executor::Executor;
use crate::invocation::{Context, FiberNeed, InstancePolicy, Invocation};
use crate::suspended::{Running, SuspendedCall, poll};

/// A task that begins.
struct Begun {
    attempt: Box<Attempt>,
    instances: InstancePolicy,
    /// Whether it depends on other workers.
    distributed: bool,
    /// How its attempt can be made again, if it can.
    again: Option<Again>,
}

/// What an attempt began with.
#[derive(Clone, Copy, Default)]
struct Again {
    used: Usage,
    drifted: bool,
}

/// Needs an engine that is set up for it ([`crate::EngineOptions::cluster`]), and panics otherwise.
impl TaskExecutor for Executor {
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        view: &LocalView,
    ) -> Started {
        self.settle(transaction, |executor, instances| {
            let mut attempt = Box::new(view.attempt(transaction, state, catalog, Mode::default()));
            attempt.slice(executor.engine.slice());
            let begun = Begun { attempt, instances, distributed: false, again: Some(Again::default()) };
            let (mut attempt, progress, distributed) = executor.begin(begun, Attempt::start);
            match progress {
                Progress::Done(outcome) if attempt.is_local() && !distributed => {
                    Started::Local(attempt.take_execution(outcome))
                }
                progress => {
                    executor.report(&mut attempt);
                    Started::Distributed(attempt, progress)
                }
            }
        })
    }

    fn advance(&mut self, Task { graph, attempt, kind }: Task) -> TaskProgress {
        let again = match &attempt {
            AttemptSource::New(seed) => Some(Again { used: seed.used, drifted: seed.drifted }),
            AttemptSource::Existing(_) => None,
        };
        let mut attempt = attempt.into_attempt();
        attempt.slice(self.engine.slice());
        // Where every attempt is compared with a fresh one, those that cannot be compared run in fresh instances.
        let fresh = attempt.mode().is_fresh() || self.engine.determinism() == Determinism::All;
        let instances = if fresh { InstancePolicy::Fresh } else { InstancePolicy::Warm };
        let (mut attempt, progress, _) = match kind {
            TaskKind::Root => self.begin(Begun { attempt, instances, distributed: false, again }, Attempt::start),
            TaskKind::Call { target, issuer } => {
                let begun = Begun { attempt, instances, distributed: true, again };
                self.begin(begun, |attempt| attempt.serve_call(target.clone(), issuer))
            }
            TaskKind::Resume { parked, answers } => self.resume(attempt, parked, answers),
        };
        self.report(&mut attempt);
        TaskProgress { graph, attempt, progress }
    }

    fn forget(&mut self) {
        self.suspended.clear();
    }
}

impl Executor {
    /// Runs an attempt that needs no other worker.
    pub(crate) fn run_in_cluster(
        &mut self,
        attempt: Box<Attempt>,
        instances: InstancePolicy,
    ) -> (Box<Attempt>, Result<Value, Abort>) {
        let again = Some(Again::default());
        match self.begin(Begun { attempt, instances, distributed: false, again }, Attempt::start) {
            (attempt, Progress::Done(outcome), _) => (attempt, outcome),
            (_, Progress::Suspended(..), _) => panic!("an attempt of a single worker sent a request to another"),
        }
    }

    /// Drops a suspended task that does not count.
    pub(crate) fn give_up(&mut self, progress: Progress) {
        if let Progress::Suspended(suspended, _) = progress {
            drop(self.suspended.remove(suspended));
        }
    }

    /// Tells the attempt that the result of its last task is unconfirmed, if it is.
    fn report(&self, attempt: &mut Attempt) {
        if self.is_unconfirmed() {
            attempt.suspect();
        }
    }

    /// Starts a task and runs it until it ends or is suspended. The flag says whether it depends on other workers.
    fn begin(&mut self, begun: Begun, start: impl Fn(&mut Attempt) -> Next) -> (Box<Attempt>, Progress, bool) {
        assert!(self.engine.is_clustered(), "tasks need an engine that is set up for a cluster");
        let Begun { attempt, instances, distributed, again } = begun;
        let resources = self.lend(instances, distributed, GuestUsage::default());
        let mut context = Box::new(Context { attempt, resources });
        let next = start(&mut context.attempt);
        let Next::Invoke = next else { return self.drive(Box::pin(context.finish(next))) };

        let (operator, function) = (context.attempt.operator().id, context.attempt.frame().function);
        // A second attempt is to find the instances of the first, where every attempt is compared with another.
        let again = again.filter(|_| self.engine.determinism() != Determinism::All);
        if let Some(again) = again
            && context.prefers_stack()
        {
            let mut invocation = Invocation::new(context);
            let outcome = finish(&mut invocation, Next::Invoke);
            context = invocation.into_inner();
            let need = context.resources.needs_fiber;
            context.resources.pool.note_waits(operator, function, need.is_some(), need == Some(FiberNeed::Guest));
            if need.is_none() {
                return self.done(*context, outcome);
            }
            self.statistics.moved += 1;
            let Context { attempt, mut resources } = *context;
            resources.reset(instances, distributed, GuestUsage::default());
            let mut attempt = Box::new(attempt.anew(again.used, again.drifted));
            let next = start(&mut attempt);
            return self.drive(Box::pin(Box::new(Context { attempt, resources }).finish(next)));
        }
        let (attempt, progress, distributed) = self.drive(Box::pin(context.finish(Next::Invoke)));
        let waited = matches!(progress, Progress::Suspended(..));
        let resources = self.resources.as_mut().expect("the task is over, or suspended");
        resources.pool.note_waits(operator, function, waited, false);
        (attempt, progress, distributed)
    }

    /// A task has ended.
    fn done(&mut self, context: Context, outcome: Result<Value, Abort>) -> (Box<Attempt>, Progress, bool) {
        let Context { mut attempt, resources } = context;
        let distributed = resources.distributed;
        attempt.rest();
        self.resources = Some(resources);
        (attempt, Progress::Done(outcome), distributed)
    }

    /// Resumes a suspended task.
    fn resume(
        &mut self,
        mut attempt: Box<Attempt>,
        suspended: SuspendedId,
        responses: Vec<RemoteResponse>,
    ) -> (Box<Attempt>, Progress, bool) {
        let SuspendedCall { running, fragment, instances, reservation } = self.suspended.remove(suspended);
        attempt.unpark(fragment);
        let resources = self.lend(instances, true, reservation.guests);
        drop(reservation);
        self.rendezvous.respond(Box::new(Context { attempt, resources }), responses);
        self.drive(running)
    }

    /// Polls a task until it ends or is suspended; one that finds no budget to be suspended fails its requests.
    fn drive(&mut self, mut running: Running) -> (Box<Attempt>, Progress, bool) {
        loop {
            match poll(&mut running) {
                Poll::Ready((context, outcome)) => return self.done(*context, outcome),
                Poll::Pending => {
                    let (mut context, requests) = self.rendezvous.requests();
                    context.resources.distributed = true;
                    let Context { attempt, resources } = &mut *context;
                    let Some(reservation) = self.engine.suspend(resources.guests, attempt.mode().is_reserved()) else {
                        attempt.refuse();
                        let abort = Abort::new(Code::Overloaded, "too many functions wait; the transaction runs again");
                        let responses = vec![RemoteResponse::Failed(abort); requests.operations.len()];
                        self.rendezvous.respond(context, responses);
                        continue;
                    };
                    // Instances are kept for the attempt that this one is compared with: there will be none.
                    let instances = match resources.instances {
                        InstancePolicy::Warm => InstancePolicy::Warm,
                        InstancePolicy::Fresh | InstancePolicy::FreshKept => InstancePolicy::Fresh,
                    };
                    let call = SuspendedCall { running, fragment: attempt.park(), instances, reservation };
                    let suspended = self.suspended.insert(call);
                    let Context { attempt, resources } = *context;
                    self.resources = Some(resources);
                    return (attempt, Progress::Suspended(suspended, requests), true);
                }
            }
        }
    }
}
