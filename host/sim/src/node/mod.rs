//! Nodes: a process with its machine and the driver around it; what crashes, pauses and restarts.
//!
//! Everything that the real driver leaves to threads, channels and the kernel is an event here,
//! with a delay by chance: each thread's share of a batch, each piece of a graph, the fsync, the
//! answers, the next cut, packets, heartbeats.

mod appender;
mod coordinator;
mod crew;
mod links;
mod outside;
mod single;
mod snapshots;
mod worker;

use std::fmt;
use std::sync::Arc;

use styx_protocol::ids::Epoch;
use styx_protocol::record::{Chain, EpochRecord, Record};

use crate::check::judge::Ended;
use crate::check::state::Holdings;
use crate::check::{Checked, Failure};
use crate::disk::End;
use crate::wire::Packet;
use coordinator::CoordinatorNode;
pub use crew::Threads;
pub use outside::{Answer, Figures, Gateways, GenerationView, Message, Outside};
use single::Single;
pub use snapshots::{Put, Written};
use worker::WorkerNode;

/// What happens to a process.
#[derive(Debug)]
pub enum NodeEvent {
    /// An epoch may be cut.
    Tick,
    /// A thread has done its share of a job.
    Share(u64, usize),
    /// A piece of a graph has come as far as it goes.
    Piece(u64),
    /// The fsync of the file up to an end is done; or failed.
    Synced(End, bool),
    /// The fence is raised and durable; or that failed.
    Raised(u64, End, bool),
    /// A snapshot may be begun.
    Wish,
    /// A worker's driver takes more of what has changed.
    HandOver,
    /// A worker's part of a snapshot is written, or that failed.
    Uploaded,
    /// A worker has read the snapshot that it begins with.
    Loaded,
    /// The store has answered to a manifest.
    Put(Put),
    /// Heartbeats, repetitions, acknowledgements.
    Pulse,
}

/// A life of a node: from a start to a crash. What is meant for an earlier one reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The node.
    pub node: usize,
    /// Starts.
    pub number: u32,
    /// The generation that an event belongs to, if it belongs to one.
    pub part: u64,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node, self.number)?;
        if self.part > 0 { write!(f, "/g{}", self.part) } else { Ok(()) }
    }
}

/// What a node is there for.
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

/// See the module. A process that has crashed knows nothing.
#[derive(Debug)]
pub struct Node {
    role: Role,
    process: Option<Process>,
    /// The current life.
    pub life: Life,
    /// Until when the process stands still.
    pub paused_until: u64,
    /// What the clock shows beyond the true time.
    pub clock: i64,
}

impl Node {
    /// Node number `node`, which has never run.
    pub fn new(node: usize, role: Role) -> Self {
        let life = Life { node, number: 0, part: 0 };
        Node { role, process: None, life, paused_until: 0, clock: 1_000_000_000 }
    }

    /// What it is there for.
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
    pub fn start(&mut self, outside: &mut Outside) -> Checked {
        if self.is_up() {
            return Ok(());
        }
        self.life.number += 1;
        // Another machine's clock, perhaps.
        if !outside.calm && outside.random.chance(150) {
            self.clock += outside.random.between(0, 200_000) as i64 - 100_000;
        }
        let (now, life) = (outside.queue.now(), self.life);
        outside.trace.event(now, [8, life.node as u64], || format!("{life} starts as {:?}", self.role));
        let process = match self.role {
            Role::Single => Process::Single(Box::new(Single::start(life, outside)?)),
            Role::Coordinator | Role::Standby => Process::Coordinator(Box::new(CoordinatorNode::new(life, outside)?)),
            Role::Worker => Process::Worker(Box::new(WorkerNode::new(life, outside))),
        };
        self.process = Some(process);
        Ok(())
    }

    /// The process dies; of what was not synced, something may survive.
    pub fn crash(&mut self, outside: &mut Outside) {
        let (now, life) = (outside.queue.now(), self.life);
        outside.figures.crashes += 1;
        outside.trace.event(now, [7, life.node as u64, outside.disk.durable().0], || {
            format!("{life} crashes; epoch {} was durable", outside.disk.durable())
        });
        self.process = None;
        self.paused_until = 0;
        // What of two coordinators one writes, the other's death does not undo.
        if self.role != Role::Worker && outside.disk.owner().is_none_or(|owner| owner == life.node) {
            outside.disk.crash(&mut outside.random);
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
    pub fn resize(&mut self, most: u16, outside: &mut Outside) -> Checked {
        match &mut self.process {
            Some(Process::Coordinator(coordinator)) => coordinator.resize(most, outside),
            _ => Ok(()),
        }
    }

    /// What a worker holds in a generation.
    pub fn holdings(&self, generation: u64) -> Option<Holdings<'_>> {
        match &self.process {
            Some(Process::Worker(worker)) => worker.holdings(generation),
            _ => None,
        }
    }

    /// Where a coordinator stands in a generation.
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
    pub fn hear(&mut self, attempt: usize, message: Message, outside: &mut Outside) -> Checked {
        match self.process.as_mut().expect("the process runs") {
            Process::Single(single) => single.hear(attempt, message, outside),
            Process::Coordinator(coordinator) => coordinator.hear(attempt, message, outside),
            Process::Worker(worker) => worker.hear(attempt, message, outside),
        }
    }

    /// Another node's packet arrives.
    ///
    /// # Errors
    /// A check is broken.
    pub fn packet(&mut self, from: usize, packet: Packet, outside: &mut Outside) -> Checked {
        match self.process.as_mut().expect("the process runs") {
            Process::Single(_) => panic!("there is nobody else"),
            Process::Coordinator(coordinator) => coordinator.packet(from, packet, outside),
            Process::Worker(worker) => worker.packet(from, packet, outside),
        }
    }

    /// Something happens; a failed fsync says so, for the process must die of it.
    ///
    /// # Errors
    /// A check is broken.
    pub fn take(&mut self, life: Life, event: NodeEvent, outside: &mut Outside) -> Checked<bool> {
        if let NodeEvent::Synced(_, false) | NodeEvent::Raised(_, _, false) = event {
            return Ok(false);
        }
        match self.process.as_mut().expect("the process runs") {
            Process::Single(single) => single.take(event, self.clock, outside)?,
            Process::Coordinator(coordinator) if coordinator.leads(life.part) => {
                coordinator.take(event, self.clock, outside)?;
            }
            Process::Worker(worker) if worker.works_in(life.part) => worker.take(event, outside)?,
            Process::Coordinator(_) | Process::Worker(_) => {}
        }
        Ok(true)
    }

    /// After all is over: it is what its log says.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, outside: &Outside) -> Checked {
        match &self.process {
            Some(Process::Single(single)) => single.check(outside),
            Some(Process::Coordinator(coordinator)) if outside.gateways.coordinator == self.life.node => {
                coordinator.check(outside)
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

impl Outside {
    /// A record is about to be appended.
    ///
    /// # Errors
    /// It is not what follows.
    fn cut(&mut self, life: Life, record: &Arc<EpochRecord>) -> Checked {
        let requests = record.transactions().count();
        let numbers = [1, record.epoch.0, record.time.0, requests as u64];
        let now = self.queue.now();
        self.trace.event(now, numbers, || {
            format!(
                "{life} cuts epoch {}: {requests} requests from counter {} of {}, carried {:?}, {} controls",
                record.epoch,
                record.counter,
                record.sequencers,
                record.carried,
                record.controls.len()
            )
        });
        self.figures.deployments += record.controls.len() as u64;
        self.judge.cut(record)
    }

    /// An epoch has ended, or a round that is none, perhaps in a replay.
    ///
    /// # Errors
    /// It did not end as it must.
    fn finished(&mut self, life: Life, epoch: Option<Epoch>, ended: Ended) -> Checked {
        let numbers = [6, epoch.map_or(0, |epoch| epoch.0), ended.chain.0 as u64, ended.order.len() as u64];
        let now = self.queue.now();
        self.trace.event(now, numbers, || match epoch {
            Some(epoch) => format!(
                "{life} ends epoch {epoch}: order {:?}, {} rescheduled, chain {}",
                ended.order, ended.rescheduled, ended.chain
            ),
            None => format!("{life} ends a round of read-only requests"),
        });
        self.judge.finished(epoch, ended)
    }
}
