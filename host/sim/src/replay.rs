//! Reads a log again, on any number of workers, in any order of threads and messages: it must come
//! to the same.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::ids::{Epoch, PartitionId, Tid, WorkerId};
use styx_protocol::machine::worker::{Batch, Executed, FallbackBatch};
use styx_protocol::machine::{Action, Config, Coordinator, EpochSummary, Input, Machine, Worker, coordinator, worker};
use styx_protocol::message::{Message, Node as Peer};
use styx_protocol::placement::Placement;
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::snapshot::{RestoredState, SnapshotHeader};
use styx_protocol::task::{LocalView, Task};

use crate::check::ended::Ended;
use crate::check::{Checked, Failure, ensure};
use crate::random::Random;
use crate::threads::{ThreadPlan, Threads};

/// Replays a record where one process does everything.
pub fn one(
    machine: &mut Machine<u64>,
    record: &Arc<EpochRecord>,
    threads: &mut Threads,
    random: &mut Random,
) -> Checked<Ended> {
    let mut inputs: Vec<Input<u64>> = vec![coordinator::Input::Replay(without_outcome(record)).into()];
    let mut ended = None;
    let mut actions = Vec::new();
    while let Some(input) = inputs.pop() {
        machine.step(input, &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Worker(worker::Action::Execute(batch)) => inputs.push(execute(&batch, threads, random).into()),
                Action::Worker(worker::Action::FallBack(batch)) => {
                    inputs.push(fall_back(&batch, threads, random).into());
                }
                Action::Finished(summary) => ended = Some(Ended::of([summary.clone()], summary.chain)),
                Action::Worker(worker::Action::Logs { .. }) => {}
                other => return Err(speaks(&other)),
            }
        }
    }
    ended.ok_or_else(|| Failure::new("replay", format!("epoch {} never ends", record.epoch)))
}

/// The record with which a replay executes its requests again.
pub fn without_outcome(record: &EpochRecord) -> Arc<EpochRecord> {
    Arc::new(EpochRecord { outcome: None, ..record.clone() })
}

fn speaks(action: &impl std::fmt::Debug) -> Failure {
    Failure::new("replay", format!("a replay speaks to the world: {action:?}"))
}

fn shuffled(parts: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parts).collect();
    random.shuffle(&mut order);
    order
}

fn thread(threads: &Threads, random: &mut Random) -> usize {
    random.below(threads.count() as u64) as usize
}

fn execute(batch: &Batch, threads: &mut Threads, random: &mut Random) -> worker::Input<u64> {
    let parts = batch.transactions.len() + batch.queries.len();
    let mut started: Vec<_> = (0..parts).map(|_| None).collect();
    for at in shuffled(parts, random) {
        started[at] = Some(threads.start(thread(threads, random), batch, at));
    }
    let mut started = started.into_iter().map(|started| started.expect("all are done"));
    let transactions = started.by_ref().take(batch.transactions.len()).collect();
    worker::Input::Executed(Executed { transactions, queries: started.collect() })
}

fn fall_back(batch: &FallbackBatch, threads: &mut Threads, random: &mut Random) -> worker::Input<u64> {
    let order = shuffled(batch.components.len(), random);
    worker::Input::FellBack(order.into_iter().map(|at| threads.fall_back(thread(threads, random), batch, at)).collect())
}

/// Work that a worker has given away.
#[derive(Debug)]
enum Work {
    Execute(Batch),
    FallBack(FallbackBatch),
    Advance(Task),
    Continue,
}

/// Workers and a coordinator whose messages arrive at once, each pair's in order, and otherwise in
/// any order.
#[derive(Debug)]
pub struct Cluster {
    coordinator: Coordinator<u64>,
    workers: Vec<Worker<u64>>,
    threads: Vec<Threads>,
    /// By sender and receiver, the coordinator last.
    mail: Vec<VecDeque<Message>>,
    /// Which of them are not empty.
    ready: Vec<usize>,
    work: Vec<(usize, Work)>,
    summaries: Vec<EpochSummary>,
    ended: Option<Chain>,
    random: Random,
    /// Kept for its memory.
    actions: Vec<worker::Action<u64>>,
}

impl Cluster {
    /// A cluster with an empty log.
    pub fn new(config: &Config, threads: ThreadPlan, placement: &Arc<Placement>, mut random: Random) -> Self {
        let seat = |at| LocalView { me: WorkerId(at), placement: placement.clone() };
        let workers = (0..placement.workers()).map(|at| Worker::new(config.worker(), seat(at))).collect();
        Cluster {
            coordinator: Coordinator::new(config.coordinator(), placement.clone()),
            workers,
            threads: (0..placement.workers())
                .map(|_| Threads::new(threads, false, Random::new(random.number())))
                .collect(),
            mail: (0..(placement.workers() + 1).pow(2)).map(|_| VecDeque::new()).collect(),
            ready: Vec::new(),
            actions: Vec::new(),
            work: Vec::new(),
            summaries: Vec::new(),
            ended: None,
            random,
        }
    }

    /// Begins with a snapshot; `restore` reads what a worker begins with that owns some partitions.
    pub fn restore(
        &mut self,
        header: &SnapshotHeader,
        (carried, partitions): (Vec<Tid>, u32),
        restore: impl Fn(&dyn Fn(PartitionId) -> bool) -> Checked<RestoredState>,
    ) -> Checked {
        self.coordinator.restore(header, carried, partitions);
        for worker in &mut self.workers {
            let LocalView { me, placement } = worker.view().clone();
            worker.restore(restore(&|partition| placement.owner(partition) == me)?);
        }
        Ok(())
    }

    /// Replays a record.
    ///
    /// # Errors
    /// A machine speaks to the world, or the epoch never ends.
    pub fn replay(&mut self, record: &Arc<EpochRecord>) -> Checked<Ended> {
        self.step_coordinator(coordinator::Input::Replay(without_outcome(record)))?;
        while self.ended.is_none() {
            let things = (self.ready.len() + self.work.len()) as u64;
            ensure(things > 0, "liveness", || format!("epoch {} never ends in a replay", record.epoch))?;
            let at = self.random.below(things) as usize;
            match at.checked_sub(self.ready.len()) {
                None => self.deliver(at)?,
                Some(at) => self.do_work(at)?,
            }
        }
        let chain = self.ended.take().expect("just seen");
        let waiting: usize = self.threads.iter().map(Threads::waiting).sum();
        ensure(waiting == 0, "guests", || format!("{waiting} guests wait after epoch {}", record.epoch))?;
        Ok(Ended::of(self.summaries.drain(..), chain))
    }

    /// The last epoch that ended and the chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        self.coordinator.position()
    }

    /// Delivers the next message of a pair.
    fn deliver(&mut self, at: usize) -> Checked {
        let pair = self.ready[at];
        let message = self.mail[pair].pop_front().expect("it is not empty");
        if self.mail[pair].is_empty() {
            self.ready.swap_remove(at);
        }
        let nodes = self.workers.len() + 1;
        let [from, to] = [pair / nodes, pair % nodes]
            .map(|node| if node + 1 == nodes { Peer::Coordinator } else { Peer::Worker(WorkerId(node as u16)) });
        match (from, to) {
            (Peer::Worker(from), Peer::Coordinator) => {
                self.step_coordinator(coordinator::Input::Message { from, message })
            }
            (from, Peer::Worker(to)) => self.step_worker(usize::from(to.0), worker::Input::Message { from, message }),
            (Peer::Coordinator, Peer::Coordinator) => panic!("a coordinator does not speak to itself"),
        }
    }

    fn do_work(&mut self, at: usize) -> Checked {
        let (worker, work) = self.work.swap_remove(at);
        let threads = &mut self.threads[worker];
        let input = match work {
            Work::Execute(batch) => execute(&batch, threads, &mut self.random),
            Work::FallBack(batch) => fall_back(&batch, threads, &mut self.random),
            Work::Advance(task) => {
                let thread = Threads::bound(&task).unwrap_or_else(|| thread(threads, &mut self.random));
                worker::Input::TaskProgress(vec![threads.advance(thread, task)])
            }
            Work::Continue => worker::Input::Continue,
        };
        self.step_worker(worker, input)
    }

    fn step_coordinator(&mut self, input: coordinator::Input<u64>) -> Checked {
        let mut actions = Vec::new();
        self.coordinator.step(input, &mut actions);
        for action in actions {
            match action {
                coordinator::Action::Send { to, message } => self.post(Peer::Coordinator, Peer::Worker(to), message),
                coordinator::Action::Finished(summary) => self.ended = Some(summary.chain),
                other => return Err(speaks(&other)),
            }
        }
        Ok(())
    }

    fn step_worker(&mut self, worker: usize, input: worker::Input<u64>) -> Checked {
        let mut actions = std::mem::take(&mut self.actions);
        self.workers[worker].step(input, &mut actions);
        for action in actions.drain(..) {
            match action {
                worker::Action::Send { to, message } => {
                    self.post(Peer::Worker(WorkerId(worker as u16)), to, message);
                }
                worker::Action::Execute(batch) => self.work.push((worker, Work::Execute(batch))),
                worker::Action::FallBack(batch) => self.work.push((worker, Work::FallBack(batch))),
                worker::Action::RunTasks(tasks) => {
                    self.work.extend(tasks.into_iter().map(|task| (worker, Work::Advance(task))));
                }
                worker::Action::Finished(summary) => self.summaries.push(summary),
                worker::Action::Logs { .. } => {}
                other => return Err(speaks(&other)),
            }
        }
        self.actions = actions;
        let continues = |(of, work): &(usize, Work)| *of == worker && matches!(work, Work::Continue);
        if self.workers[worker].is_unfinished() && !self.work.iter().any(continues) {
            self.work.push((worker, Work::Continue));
        }
        Ok(())
    }

    fn post(&mut self, from: Peer, to: Peer, message: Message) {
        let nodes = self.workers.len() + 1;
        let [from, to] = [from, to].map(|node| match node {
            Peer::Coordinator => nodes - 1,
            Peer::Worker(worker) => usize::from(worker.0),
        });
        let pair = from * nodes + to;
        if self.mail[pair].is_empty() {
            self.ready.push(pair);
        }
        self.mail[pair].push_back(message);
    }
}
