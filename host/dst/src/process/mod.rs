//! Processes: the product's drivers, threads and storage code, with a shell around them that decides nothing.
//!
//! A process takes what has come, one thing after the other, which takes time: meanwhile other processes, its own
//! threads and its network go on.

mod around;
mod booting;
mod candidate;
mod coordinator;
mod directory;
mod front;
mod gateway;
mod leasing;
mod log;
mod long;
mod pool;
mod restoring;
mod single;
mod storing;
mod worker;
mod writing;

use styx_driver::coordinator::Event as CoordinatorEvent;
use styx_driver::coordinator::{Goal, MigrationOptions};
use styx_driver::gateway::GatewayEvent;
use styx_driver::network::{NetworkEvent, Refusal};
use styx_driver::single::SingleEvent;
use styx_driver::suspicion::Suspect;
use styx_driver::time::Instant;
use styx_driver::worker::WorkerEvent;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{EngineHash, Epoch, Generation};

pub use around::{Around, Inbox, Own};
pub use booting::Booting;
pub use directory::{Directory, Kept};
pub use front::FrontInput;

use self::candidate::Candidate;
use self::coordinator::Coordinator;
use self::gateway::Gateway;
use self::single::Single;
use self::worker::Worker;
use crate::check::state::WorkerState;
use crate::check::{Checked, Failure};
use crate::event::{Message, Waiter, Work};

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Single,
    Coordinator,
    Worker,
    /// To ask for clients.
    Gateway,
}

/// Something for the driver of a process.
#[derive(Debug)]
pub enum Input {
    /// An execution thread is done with something.
    Done(Work),
    Network(NetworkEvent),
    /// A client's message.
    Client(usize, Message),
    /// Of a single process.
    Single(Box<SingleEvent<Waiter, usize, usize>>),
    /// Of a front for records.
    Front(Box<FrontInput>),
    Coordinator(Box<CoordinatorEvent<usize, usize>>),
    Worker(Box<WorkerEvent<usize, usize>>),
}

/// Inputs taken before what they made possible is done.
const BATCH_MAX: usize = 1024;

/// A process by its role.
#[derive(Debug)]
pub enum Process {
    /// It may come to coordinate.
    Candidate(Box<Candidate>),
    /// It opens its log and its store.
    Booting(Box<Booting>),
    /// Everything.
    Single(Box<Single>),
    Coordinator(Box<Coordinator>),
    Worker(Box<Worker>),
    Gateway(Box<Gateway>),
}

impl Process {
    /// A process that starts.
    pub fn start(role: Role, around: &mut Around<'_>) -> Self {
        match role {
            Role::Coordinator if around.environment.plan.cluster.coordinators > 1 => {
                Process::Candidate(Box::new(Candidate::new(around)))
            }
            Role::Single | Role::Coordinator => Process::Booting(Box::new(Booting::start(role, None, around))),
            Role::Worker => Process::Worker(Box::new(Worker::new(around))),
            Role::Gateway => {
                let coordinators = around.environment.plan.coordinators().map(around::address_of).collect();
                Process::Gateway(Box::new(Gateway::new(coordinators, around)))
            }
        }
    }

    /// Takes what has come, and does what is due.
    pub fn run(&mut self, around: &mut Around<'_>) -> Checked {
        if let Process::Candidate(candidate) = self {
            match candidate.lead(around) {
                Some(process) => *self = process,
                None => return Ok(()),
            }
        }
        if let Process::Booting(booting) = self {
            match booting.finish(around)? {
                Some(process) => *self = process,
                None => return Ok(()),
            }
        }
        let mut taken = 0;
        while taken < BATCH_MAX {
            let Some(input) = around.own.inbox.borrow_mut().pop_front() else { break };
            taken += 1;
            let worked = around.environment.step_time();
            around.spend(worked);
            self.take(input, around)?;
        }
        match self {
            Process::Candidate(_) | Process::Booting(_) => Ok(()),
            Process::Single(single) => single.settle(around),
            Process::Coordinator(coordinator) => coordinator.settle(around),
            Process::Worker(worker) => worker.settle(taken == 0, around),
            Process::Gateway(gateway) => gateway.settle(around),
        }
    }

    fn take(&mut self, input: Input, around: &mut Around<'_>) -> Checked {
        match (self, input) {
            (Process::Single(single), Input::Single(event)) => single.step(*event, around),
            (Process::Single(single), Input::Client(attempt, message)) => {
                if single.serves() {
                    single.hear(Waiter::Client(attempt), message, around)
                } else {
                    around.environment.break_connection(attempt);
                    Ok(())
                }
            }
            (Process::Single(single), Input::Done(work)) => single.done(work, around),
            (Process::Worker(worker), Input::Done(work)) => worker.done(work, around),
            (Process::Coordinator(coordinator), Input::Coordinator(event)) => coordinator.step(*event, around),
            (Process::Coordinator(coordinator), Input::Network(event)) => {
                coordinator.step(CoordinatorEvent::Network(event), around)
            }
            (Process::Coordinator(coordinator), Input::Client(attempt, message)) => {
                coordinator.hear(attempt, message, around)
            }
            (Process::Worker(worker), Input::Worker(event)) => worker.step(*event, around),
            (Process::Worker(worker), Input::Network(event)) => worker.step(WorkerEvent::Network(event), around),
            (Process::Gateway(gateway), Input::Network(event)) => gateway.step(GatewayEvent::Network(event), around),
            (Process::Gateway(gateway), Input::Client(attempt, message)) => {
                gateway.hear(Waiter::Client(attempt), message, around)
            }
            (Process::Gateway(gateway), Input::Front(input)) => gateway.front(*input, around),
            (Process::Single(single), Input::Front(input)) => single.front(*input, around),
            (Process::Booting(_), Input::Front(_)) => Ok(()),
            (_, other) => panic!("nobody sends this here: {other:?}"),
        }
    }

    /// When it wants to be woken, though nothing comes.
    pub fn wake(&mut self, around: &Around<'_>) -> Option<Instant> {
        match self {
            Process::Candidate(candidate) => candidate.leads().then(|| around.instant()),
            Process::Booting(booting) => booting.is_done().then(|| around.instant()),
            Process::Single(single) => single.wake(around),
            Process::Coordinator(coordinator) => Some(coordinator.wake(around)),
            Process::Worker(worker) => Some(worker.wake()),
            Process::Gateway(gateway) => Some(gateway.wake()),
        }
    }

    /// What its threads have said since they were looked at last. Gives why it cannot go on, if it cannot.
    pub fn listen(&mut self, around: &mut Around<'_>) -> Checked<Option<String>> {
        match self {
            Process::Single(single) => {
                single.listen(around)?;
                Ok(single.failure())
            }
            Process::Coordinator(coordinator) => {
                coordinator.listen(around)?;
                Ok(coordinator.failure())
            }
            Process::Candidate(candidate) => {
                candidate.listen(around)?;
                Ok(None)
            }
            Process::Booting(_) | Process::Worker(_) | Process::Gateway(_) => Ok(None),
        }
    }

    /// An execution thread is done with something.
    pub fn done(work: Work, around: &mut Around<'_>) {
        around.own.inbox.borrow_mut().push_back(Input::Done(work));
    }

    /// A component is compiled.
    pub fn compiled(&mut self, digest: Digest, around: &mut Around<'_>) {
        let event = WorkerEvent::ComponentPrepared(digest, Ok(()));
        around.own.inbox.borrow_mut().push_back(Input::Worker(Box::new(event)));
    }

    /// A run beside the epochs ends it.
    pub fn poisoned(&mut self, culprit: Suspect, around: &mut Around<'_>) {
        match self {
            Process::Single(single) => single.pool().end(culprit, around),
            Process::Worker(worker) => worker.pool().end(culprit, around),
            _ => unreachable!("nobody else executes"),
        }
    }

    /// What its threads have noted that they execute. `None` if they never had anything to do.
    pub fn noted(&mut self) -> Option<Vec<Suspect>> {
        match self {
            Process::Single(single) => single.pool().noted(),
            Process::Worker(worker) => worker.pool().noted(),
            _ => None,
        }
    }

    /// Whether it ends as it was asked to, so that nothing is to blame for it.
    pub fn ends_in_order(&self) -> bool {
        match self {
            Process::Worker(worker) => worker.has_left(),
            Process::Single(single) => single.has_ended(),
            _ => false,
        }
    }

    /// It is asked to end.
    pub fn retire(&mut self, around: &mut Around<'_>) {
        let input = match self {
            Process::Worker(_) => Input::Worker(Box::new(WorkerEvent::Leave)),
            Process::Coordinator(_) => Input::Coordinator(Box::new(CoordinatorEvent::Stop)),
            Process::Candidate(candidate) => return candidate.stop(),
            _ => return,
        };
        around.own.inbox.borrow_mut().push_back(input);
    }

    /// An administrator wants partitions to change their owners, or that they do not.
    pub fn migrate(&mut self, goal: Option<(Goal, MigrationOptions)>, around: &mut Around<'_>) {
        if let Process::Coordinator(_) = self {
            let event = match goal {
                Some((goal, options)) => CoordinatorEvent::Migrate { goal, options, gains: vec![], waiter: None },
                None => CoordinatorEvent::CancelMigration { waiter: None },
            };
            around.own.inbox.borrow_mut().push_back(Input::Coordinator(Box::new(event)));
        }
    }

    /// An administrator wants a snapshot of it, if it can be asked.
    pub fn take_snapshot(&mut self, around: &mut Around<'_>) {
        match self {
            Process::Single(single) if single.serves() => single.take_snapshot(around),
            Process::Coordinator(_) => {
                // How far its generation has come is known to itself only.
                let waiter = around.environment.wishes.ask(around.own.life, Epoch(0));
                let event = Box::new(CoordinatorEvent::TakeSnapshot { waiter });
                around.own.inbox.borrow_mut().push_back(Input::Coordinator(event));
            }
            _ => {}
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        match self {
            Process::Single(single) => single.has_ended(),
            Process::Coordinator(coordinator) => coordinator.has_ended(),
            Process::Worker(worker) => worker.has_ended(),
            Process::Candidate(candidate) => candidate.has_ended(),
            Process::Booting(_) | Process::Gateway(_) => false,
        }
    }

    /// Whether it is all of a cluster, and serves.
    pub fn serves(&self) -> bool {
        matches!(self, Process::Single(single) if single.serves())
    }

    /// What somebody waits for in it: nothing when all is quiet.
    pub fn under_way(&self) -> usize {
        match self {
            Process::Candidate(_) | Process::Booting(_) => 0,
            Process::Single(single) => single.under_way(),
            Process::Coordinator(coordinator) => coordinator.under_way(),
            Process::Worker(worker) => worker.under_way(),
            Process::Gateway(gateway) => gateway.under_way(),
        }
    }

    /// Whether it takes calls of others now; and if not, why.
    pub fn receives(
        &self,
        caller: EngineHash,
        mine: EngineHash,
        is_gateway: bool,
        now: Instant,
    ) -> Result<(), Option<Refusal>> {
        match self {
            Process::Candidate(_) => Err(Some(Refusal::Standby)),
            Process::Booting(booting) if booting.is_candidate() => Err(Some(Refusal::Standby)),
            Process::Coordinator(coordinator) if !coordinator.holds(now) => Err(Some(Refusal::Standby)),
            Process::Coordinator(_) | Process::Worker(_) if is_gateway || caller == mine => Ok(()),
            Process::Coordinator(_) | Process::Worker(_) => Err(Some(Refusal::Build)),
            _ => Err(None),
        }
    }

    pub fn worker_state(&self, generation: Generation) -> Option<WorkerState<'_>> {
        match self {
            Process::Worker(worker) => worker.worker_state(generation),
            _ => None,
        }
    }

    /// Whether clients may speak to it.
    pub fn listens(&self) -> bool {
        !matches!(self, Process::Candidate(_) | Process::Booting(_))
    }
}

/// The end of a process that no injected fault explains.
pub fn unexplained(why: &str) -> Failure {
    Failure::new("halt", why.to_owned())
}
