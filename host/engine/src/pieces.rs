//! TaskExecutor of graphs that several workers share, on the thread that owns the executor.
//!
//! A root that finds all that it needs here is settled here, as where one worker owns everything.
//! What knows something of other workers cannot be: their instances may have had a past too. It is
//! told to the attempt, and the root's worker has the whole graph run again.

use std::sync::Arc;
use std::task::Poll;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Mode, Next, RemoteResponse};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::state::State;
use styx_protocol::task::{LocalView, Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind, TaskProgress};
use styx_protocol::transaction::Transaction;

use crate::context::{Context, Instances};
use crate::determinism::Determinism;
use crate::executor::Executor;
use crate::parking::{Running, Waiting, poll};
use crate::room::Guests;

/// Needs an engine that is set up for it ([`crate::EngineOptions::cluster`]), and panics otherwise.
impl TaskExecutor for Executor {
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        seat: &LocalView,
    ) -> Started {
        self.settle(transaction, |executor, instances| {
            let attempt = Box::new(seat.attempt(transaction, state, catalog, Mode::default()));
            let (mut attempt, progress, apart) = executor.begin(attempt, instances, false, Attempt::start);
            match progress {
                Progress::Done(outcome) if attempt.is_local() && !apart => {
                    Started::Local(attempt.take_execution(outcome))
                }
                progress => {
                    executor.tell(&mut attempt);
                    Started::Distributed(attempt, progress)
                }
            }
        })
    }

    fn advance(&mut self, Task { graph, attempt, kind: task }: Task) -> TaskProgress {
        let attempt = attempt.into_attempt();
        // Where every attempt is proved, those that cannot be are as good as proved.
        let fresh = attempt.mode().fresh || self.engine.determinism() == Determinism::All;
        let instances = if fresh { Instances::Fresh } else { Instances::Warm };
        let (mut attempt, progress, _) = match task {
            TaskKind::Root => self.begin(attempt, instances, false, Attempt::start),
            TaskKind::Call { target, issuer } => {
                self.begin(attempt, instances, true, |attempt| attempt.serve_call(target, issuer))
            }
            TaskKind::Resume { parked, answers } => self.resume(attempt, parked, answers),
        };
        self.tell(&mut attempt);
        TaskProgress { graph, attempt, progress }
    }

    fn forget(&mut self) {
        self.parking.clear();
    }
}

impl Executor {
    /// Runs an attempt that has nobody to wait for.
    pub(crate) fn run_on_fibers(
        &mut self,
        attempt: Box<Attempt>,
        instances: Instances,
    ) -> (Box<Attempt>, Result<Value, Abort>) {
        match self.begin(attempt, instances, false, Attempt::start) {
            (attempt, Progress::Done(outcome), _) => (attempt, outcome),
            (_, Progress::Suspended(..), _) => panic!("an attempt of a single worker reached for another"),
        }
    }

    /// Drops what waits of a task that does not count.
    pub(crate) fn give_up(&mut self, progress: Progress) {
        if let Progress::Suspended(parked, _) = progress {
            drop(self.parking.take(parked));
        }
    }

    /// Tells the attempt what its last task must not be believed.
    fn tell(&self, attempt: &mut Attempt) {
        if self.is_suspect() {
            attempt.suspect();
        }
    }

    /// Begins a task, and goes as far as it goes. The last of the three: whether it needed
    /// anything of other workers.
    fn begin(
        &mut self,
        attempt: Box<Attempt>,
        instances: Instances,
        apart: bool,
        start: impl FnOnce(&mut Attempt) -> Next,
    ) -> (Box<Attempt>, Progress, bool) {
        assert!(self.engine.is_clustered(), "tasks need an engine that is set up for a cluster");
        let means = self.lend(instances, apart, Guests::default());
        let mut context = Box::new(Context { attempt, means });
        let next = start(&mut context.attempt);
        self.drive(Box::pin(context.finish(next)))
    }

    /// Goes on with a task that waits.
    fn resume(
        &mut self,
        mut attempt: Box<Attempt>,
        parked: SuspendedId,
        answers: Vec<RemoteResponse>,
    ) -> (Box<Attempt>, Progress, bool) {
        let Waiting { running, fragment, instances, room } = self.parking.take(parked);
        attempt.unpark(fragment);
        let means = self.lend(instances, true, room.guests);
        drop(room);
        self.exchange.answer(Box::new(Context { attempt, means }), answers);
        self.drive(running)
    }

    fn drive(&mut self, mut running: Running) -> (Box<Attempt>, Progress, bool) {
        loop {
            match poll(&mut running) {
                Poll::Ready((context, outcome)) => {
                    let Context { mut attempt, means } = *context;
                    let apart = means.apart;
                    attempt.rest();
                    self.means = Some(means);
                    return (attempt, Progress::Done(outcome), apart);
                }
                Poll::Pending => {
                    let (mut context, ask) = self.exchange.question();
                    context.means.apart = true;
                    let Context { attempt, means } = &mut *context;
                    let Some(room) = self.engine.suspend(means.guests, attempt.mode().reserved) else {
                        attempt.refuse();
                        let abort = Abort::new(Code::Overloaded, "too many functions wait; the transaction runs again");
                        let answers = vec![RemoteResponse::Failed(abort); ask.operations.len()];
                        self.exchange.answer(context, answers);
                        continue;
                    };
                    // Kept instances are for the attempt that proves this one: there will be none.
                    let instances = match means.instances {
                        Instances::Warm => Instances::Warm,
                        Instances::Fresh | Instances::FreshKept => Instances::Fresh,
                    };
                    let waiting = Waiting { running, fragment: attempt.park(), instances, room };
                    let parked = self.parking.park(waiting);
                    let Context { attempt, means } = *context;
                    self.means = Some(means);
                    return (attempt, Progress::Suspended(parked, ask), true);
                }
            }
        }
    }
}
