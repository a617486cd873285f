//! Nodes: a process with its machine and the driver around it; what crashes, pauses and restarts.
//!
//! Everything that the real driver leaves to threads, channels and the kernel is an event here,
//! with a delay by chance: each thread's share of a batch, each piece of a graph, the fsync, the
//! answers, the next cut, packets, heartbeats.

mod appender;
mod coordinator;
mod links;
mod pool;
mod single;
mod snapshots;
mod worker;

use std::sync::Arc;

use styx_protocol::ids::Epoch;
use styx_protocol::record::{Chain, EpochRecord, Record};

use crate::check::state::WorkerState;
use crate::check::{Checked, Failure};
use crate::environment::Environment;
use crate::event::{Life, Message, NodeEvent};
use crate::wire::Packet;
use coordinator::CoordinatorNode;
use single::Single;
use worker::WorkerNode;

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Single,
    /// To coordinate.
    Coordinator,
    /// To coordinate when it is told to.
    Standby,
    /// To work.
    Worker,
}

#[derive(Debug)]
enum Process {
    Single(Box<Single>),
    Coordinator(Box<CoordinatorNode>),
    Worker(Box<WorkerNode>),
}

/// A machine and the process on it, which forgets everything when it crashes.
#[derive(Debug)]
pub struct Node {
    role: Role,
    process: Option<Process>,
    /// The current life.
    pub life: Life,
    /// Until when the process stands still.
    pub paused_until: u64,
    /// Difference between its clock and the true time.
    pub clock: i64,
}

impl Node {
    /// Node number `node`, which has never run.
    pub fn new(node: usize, role: Role) -> Self {
        let life = Life { node, number: 0, part: 0 };
        Node { role, process: None, life, paused_until: 0, clock: 1_000_000_000 }
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether the process runs.
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// The process starts, and reads its log if it has one.
    ///
    /// # Errors
    /// The log does not give what it gave before.
    pub fn start(&mut self, environment: &mut Environment) -> Checked {
        if self.is_up() {
            return Ok(());
        }
        self.life.number += 1;
        // Another machine's clock, perhaps.
        if !environment.calm && environment.random.chance(150) {
            self.clock += environment.random.between(0, 200_000) as i64 - 100_000;
        }
        let (now, life) = (environment.queue.now(), self.life);
        environment.trace.event(now, [8, life.node as u64], || format!("{life} starts as {:?}", self.role));
        let process = match self.role {
            Role::Single => Process::Single(Box::new(Single::start(life, environment)?)),
            Role::Coordinator | Role::Standby => {
                Process::Coordinator(Box::new(CoordinatorNode::new(life, environment)?))
            }
            Role::Worker => Process::Worker(Box::new(WorkerNode::new(life, environment))),
        };
        self.process = Some(process);
        Ok(())
    }

    /// The process dies; of what was not synced, something may survive.
    pub fn crash(&mut self, environment: &mut Environment) {
        let (now, life) = (environment.queue.now(), self.life);
        environment.figures.crashes += 1;
        environment.trace.event(now, [7, life.node as u64, environment.disk.durable().0], || {
            format!("{life} crashes; epoch {} was durable", environment.disk.durable())
        });
        self.process = None;
        self.paused_until = 0;
        // What of two coordinators one writes, the other's death does not undo.
        if self.role != Role::Worker && environment.disk.owner().is_none_or(|owner| owner == life.node) {
            environment.disk.crash(&mut environment.random);
        }
    }

    /// The generation that a coordinator leads which has nothing left to do; 0 for a single process
    /// that has nothing left to do.
    pub fn quiet_generation(&self) -> Option<u64> {
        match &self.process {
            Some(Process::Single(single)) => single.is_quiet().then_some(0),
            Some(Process::Coordinator(coordinator)) => coordinator.quiet_generation(),
            _ => None,
        }
    }

    /// Whether a worker has nothing left to do in a generation.
    pub fn is_quiet(&self, generation: u64) -> bool {
        matches!(&self.process, Some(Process::Worker(worker)) if worker.is_quiet(generation))
    }

    /// A worker is asked to stop.
    pub fn retire(&mut self) {
        if let Some(Process::Worker(worker)) = &mut self.process {
            worker.retire();
        }
    }

    /// Whether a worker that was asked to stop may do so.
    pub fn is_released(&self) -> bool {
        matches!(&self.process, Some(Process::Worker(worker)) if worker.is_released())
    }

    /// Whether a coordinator has learned that it was replaced.
    pub fn is_deposed(&self) -> bool {
        matches!(&self.process, Some(Process::Coordinator(coordinator)) if coordinator.is_deposed())
    }

    /// Makes the disk slow, or quick again.
    pub fn slow_disk(&mut self, factor: u64) {
        match &mut self.process {
            Some(Process::Single(single)) => single.slow_disk(factor),
            Some(Process::Coordinator(coordinator)) => coordinator.slow_disk(factor),
            _ => {}
        }
    }

    /// From now on there are at most so many members.
    ///
    /// # Errors
    /// A check is broken.
    pub fn resize(&mut self, most: u16, environment: &mut Environment) -> Checked {
        match &mut self.process {
            Some(Process::Coordinator(coordinator)) => coordinator.resize(most, environment),
            _ => Ok(()),
        }
    }

    /// State of a worker in a generation.
    pub fn worker_state(&self, generation: u64) -> Option<WorkerState<'_>> {
        match &self.process {
            Some(Process::Worker(worker)) => worker.worker_state(generation),
            _ => None,
        }
    }

    /// Last epoch and chain of a coordinator in a generation.
    pub fn position(&self, generation: u64) -> Option<(Epoch, Chain)> {
        match &self.process {
            Some(Process::Coordinator(coordinator)) => coordinator.position(generation),
            _ => None,
        }
    }

    /// A client's message arrives.
    ///
    /// # Errors
    /// A check is broken.
    pub fn hear(&mut self, attempt: usize, message: Message, environment: &mut Environment) -> Checked {
        match self.process.as_mut().expect("the process runs") {
            Process::Single(single) => single.hear(attempt, message, environment),
            Process::Coordinator(coordinator) => coordinator.hear(attempt, message, environment),
            Process::Worker(worker) => worker.hear(attempt, message, environment),
        }
    }

    /// Another node's packet arrives.
    ///
    /// # Errors
    /// A check is broken.
    pub fn packet(&mut self, from: usize, packet: Packet, environment: &mut Environment) -> Checked {
        match self.process.as_mut().expect("the process runs") {
            Process::Single(_) => panic!("there is nobody else"),
            Process::Coordinator(coordinator) => coordinator.packet(from, packet, environment),
            Process::Worker(worker) => worker.packet(from, packet, environment),
        }
    }

    /// Something happens; a failed fsync says so, for the process must die of it.
    ///
    /// # Errors
    /// A check is broken.
    pub fn take(&mut self, life: Life, event: NodeEvent, environment: &mut Environment) -> Checked<bool> {
        if let NodeEvent::Synced(_, false) | NodeEvent::FenceRaised(_, _, false) = event {
            return Ok(false);
        }
        match self.process.as_mut().expect("the process runs") {
            Process::Single(single) => single.take(event, self.clock, environment)?,
            Process::Coordinator(coordinator) if coordinator.leads(life.part) => {
                coordinator.take(event, self.clock, environment)?;
            }
            Process::Worker(worker) if worker.works_in(life.part) => worker.take(event, environment)?,
            Process::Coordinator(_) | Process::Worker(_) => {}
        }
        Ok(true)
    }

    /// After all is over: it is what its log says.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, environment: &Environment) -> Checked {
        match &self.process {
            Some(Process::Single(single)) => single.check(environment),
            Some(Process::Coordinator(coordinator)) if environment.gateways.coordinator == self.life.node => {
                coordinator.check(environment)
            }
            _ => Ok(()),
        }
    }
}

/// The epochs of a log.
fn records(log: Vec<Record>) -> Checked<Vec<Arc<EpochRecord>>> {
    let epoch = |record| match record {
        Record::Epoch(record) => Some(Ok(record)),
        Record::Generation(_) => None,
        Record::Genesis(_) => Some(Err(Failure::new("log", "the simulated log holds no genesis"))),
    };
    log.into_iter().filter_map(epoch).collect()
}
