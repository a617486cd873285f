//! A node: a machine, the driver around it, and a disk.
//!
//! Everything that the real driver leaves to threads, channels and the kernel is an event here,
//! with a delay by chance: each thread's share of a batch, the fsync, the answers, the next cut.

mod crew;
mod recovery;

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::catalog::Control;
use styx_protocol::ids::{Epoch, OperatorId, RequestId, Timestamp};
use styx_protocol::machine::{Action, Batch, Input, Machine};
use styx_protocol::record::{EpochRecord, Record};
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;

use crate::check::judge::Judge;
use crate::check::testimony::Testimony;
use crate::check::{Checked, ensure};
use crate::disk::Disk;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::random::Random;
use crate::toy;
use crate::trace::Trace;
use crate::world::Event;
use crew::Job;

/// What a node may use of the world.
#[derive(Debug)]
pub struct Outside {
    /// The plan.
    pub plan: Plan,
    /// Chance.
    pub random: Random,
    /// Time.
    pub queue: Queue<Event>,
    /// What happened.
    pub trace: Trace,
    /// What was asked and told.
    pub testimony: Testimony,
    /// Who reads the log.
    pub judge: Judge,
    /// What was done.
    pub figures: Figures,
    /// Whether faults have stopped.
    pub calm: bool,
}

/// What worlds did.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Transactions and queries that ended, replays not counted.
    pub transactions: u64,
    /// Of these, queries.
    pub queries: u64,
    /// Epochs.
    pub epochs: u64,
    /// Transactions that ended in the fallback.
    pub fell_back: u64,
    /// Transactions that moved to the next epoch.
    pub rescheduled: u64,
    /// Aborts.
    pub aborted: u64,
    /// Crashes and recoveries, failed fsyncs included.
    pub crashes: u64,
    /// Epochs replayed in recoveries.
    pub replayed: u64,
    /// Deployments, activations and removals in the log.
    pub deployments: u64,
    /// Pauses, clock jumps and slow disks.
    pub disturbances: u64,
    /// Messages lost.
    pub lost: u64,
}

/// What a client sends.
#[derive(Clone, Debug)]
pub enum Message {
    /// A request that may write; a receipt is enough if so.
    Submit(Arc<Request>, bool),
    /// A read-only request.
    Query(Arc<Request>),
    /// The question for a request's end.
    Await(RequestId),
    /// A deployment.
    Control(Control),
}

/// What a client is told.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The end.
    Reply(Reply),
    /// A receipt.
    Accepted,
    /// Nothing is known.
    Unknown,
    /// A deployment is done, or refused.
    Controlled,
    /// The connection broke.
    Broken,
}

/// What happens to a node.
#[derive(Debug)]
pub enum NodeEvent {
    /// A client's message arrives.
    Message(usize, Message),
    /// An epoch may be cut.
    Tick,
    /// A thread has done its share of a job.
    Share(u64),
    /// The fsync of the file up to a length, and so of the records up to an epoch, is done; or failed.
    Synced(usize, Epoch, bool),
}

/// A life of a node: from a start to a crash. What is meant for an earlier one reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The node.
    pub node: usize,
    /// Crashes before.
    pub number: u32,
}

/// A process that has crashed knows nothing; its disk does.
#[derive(Debug)]
pub struct Node {
    machine: Option<Machine<u64>>,
    /// The current life.
    pub life: Life,
    disk: Disk,
    durable: Epoch,
    /// Records that the appender has not yet taken.
    unwritten: VecDeque<Arc<EpochRecord>>,
    syncing: bool,
    job: Option<Job>,
    jobs: u64,
    ticking: bool,
    /// Until when the process stands still.
    pub paused_until: u64,
    /// What the clock shows beyond the true time.
    pub clock: i64,
    slow: u64,
    /// What the gateway knows of the operators.
    pub operators: [OperatorId; 2],
}

impl Node {
    /// Node number `node`, whose log is empty.
    pub fn new(node: usize, outside: &Outside) -> Self {
        Node {
            machine: Some(Machine::new(outside.plan.config.clone())),
            life: Life { node, number: 0 },
            disk: Disk::default(),
            durable: Epoch(0),
            unwritten: VecDeque::new(),
            syncing: false,
            job: None,
            jobs: 0,
            ticking: false,
            paused_until: 0,
            clock: 1_000_000_000,
            slow: 1,
            operators: [OperatorId(0), OperatorId(1)],
        }
    }

    /// Whether the process runs.
    pub fn is_up(&self) -> bool {
        self.machine.is_some()
    }

    /// Whether nothing is left to be done.
    pub fn is_quiet(&self) -> bool {
        let machine = |machine: &Machine<u64>| machine.is_idle() && !machine.has_work();
        self.machine.as_ref().is_some_and(machine) && !self.syncing && self.unwritten.is_empty()
    }

    /// Makes the disk slow, or quick again.
    pub fn slow_disk(&mut self, factor: u64) {
        self.slow = factor;
    }

    /// Something happens; a failed fsync says so, for the process must die of it.
    ///
    /// # Errors
    /// A check is broken.
    pub fn take(&mut self, event: NodeEvent, outside: &mut Outside) -> Checked<bool> {
        match event {
            NodeEvent::Message(attempt, message) => {
                let waiter = attempt as u64;
                self.step(
                    match message {
                        Message::Submit(request, receipt) => Input::Submit { request, waiter, receipt },
                        Message::Query(request) => Input::Query { request: (*request).clone(), waiter },
                        Message::Await(id) => Input::Await { id, waiter },
                        Message::Control(control) => Input::Control { control, waiter },
                    },
                    outside,
                )?;
            }
            NodeEvent::Tick => {
                self.ticking = false;
                let now = outside.queue.now().saturating_add_signed(self.clock);
                self.step(Input::Tick { now: Timestamp(now) }, outside)?;
            }
            NodeEvent::Share(job) => self.share_done(job, outside)?,
            NodeEvent::Synced(_, _, false) => return Ok(false),
            NodeEvent::Synced(len, epoch, true) => {
                self.syncing = false;
                self.disk.sync(len);
                self.durable = epoch;
                self.write(outside);
                self.step(Input::Durable(epoch), outside)?;
            }
        }
        self.pace(outside);
        Ok(true)
    }

    /// Has the next epoch cut some time, if there is anything to cut.
    fn pace(&mut self, outside: &mut Outside) {
        let ready = |machine: &Machine<u64>| machine.is_idle() && machine.has_work();
        if !self.ticking && self.machine.as_ref().is_some_and(ready) {
            self.ticking = true;
            let pace = outside.plan.pace;
            let delay = outside.random.between(pace.0, pace.1);
            self.later(delay, NodeEvent::Tick, outside);
        }
    }

    fn later(&self, delay: u64, event: NodeEvent, outside: &mut Outside) {
        outside.queue.after(&mut outside.random, delay, Event::Node(self.life, event));
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(&mut self, input: Input<u64>, outside: &mut Outside) -> Checked {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let mut actions = Vec::new();
            self.machine.as_mut().expect("the process runs").step(input, &mut actions);
            for action in actions {
                if let Some(input) = self.perform(action, outside)? {
                    next = Some(input);
                }
            }
        }
        Ok(())
    }

    fn perform(&mut self, action: Action<u64>, outside: &mut Outside) -> Checked<Option<Input<u64>>> {
        let now = outside.queue.now();
        match action {
            Action::Append(record) => {
                let requests = record.transactions().count();
                let numbers = [1, record.epoch.0, record.time.0, requests as u64];
                outside.trace.event(now, numbers, || {
                    format!(
                        "cut epoch {}: {requests} requests from counter {}, carried {:?}, {} controls",
                        record.epoch,
                        record.counter,
                        record.carried,
                        record.controls.len()
                    )
                });
                outside.judge.cut(&record)?;
                outside.figures.deployments += record.controls.len() as u64;
                self.unwritten.push_back(record);
                if !self.syncing {
                    self.write(outside);
                }
            }
            Action::Execute(batch) => {
                self.learn_operators();
                ask_oracle(&batch, outside);
                return Ok(self.hand_out(Job::execute(batch), outside));
            }
            Action::FallBack(batch) => {
                return Ok(self.hand_out(Job::fall_back(batch), outside));
            }
            Action::Reply { waiter, reply } => {
                let value = reply.outcome.as_ref().map_or(u64::MAX, |value| value[0].into());
                outside
                    .trace
                    .event(now, [2, waiter, reply.tid.0, reply.epoch.0, value], || format!("tell {waiter}: {reply:?}"));
                outside.testimony.reply(waiter as usize, &reply, &outside.judge, self.durable)?;
                self.answer(waiter, Answer::Reply(reply), outside);
            }
            Action::Accepted { waiter, id } => {
                outside.trace.event(now, [3, waiter], || format!("receipt to {waiter} for {id}"));
                outside.testimony.receipt(waiter as usize, &outside.judge, self.durable)?;
                self.answer(waiter, Answer::Accepted, outside);
            }
            Action::Unknown { waiter } => {
                outside.trace.event(now, [4, waiter], || format!("nothing known to {waiter}"));
                outside.testimony.unknown(waiter as usize, &outside.judge)?;
                self.answer(waiter, Answer::Unknown, outside);
            }
            Action::Controlled { waiter, result } => {
                outside
                    .trace
                    .event(now, [5, waiter, u64::from(result.is_ok())], || format!("deployment {waiter}: {result:?}"));
                outside.testimony.controlled(waiter as usize, result.is_ok(), &outside.judge, self.durable)?;
                self.answer(waiter, Answer::Controlled, outside);
            }
            Action::Logs { .. } => {}
            Action::Send { .. } | Action::Advance(_) | Action::Expel { .. } => panic!("there is one worker"),
            Action::Finished(summary) => {
                outside.trace.event(
                    now,
                    [6, summary.epoch.0, summary.chain.0 as u64, summary.order.len() as u64],
                    || {
                        format!(
                            "epoch {} ends: order {:?}, {} rescheduled, chain {}",
                            summary.epoch, summary.order, summary.rescheduled, summary.chain
                        )
                    },
                );
                outside.judge.finished(&summary)?;
                let thoroughly = outside.judge.epoch().0.is_multiple_of(8);
                outside.judge.compare(self.machine.as_ref().expect("the process runs"), thoroughly)?;
                let figures = &mut outside.figures;
                figures.transactions += (summary.order.len() + summary.queries) as u64;
                figures.queries += summary.queries as u64;
                figures.epochs += 1;
                figures.fell_back += summary.fell_back as u64;
                figures.rescheduled += summary.rescheduled as u64;
                figures.aborted += summary.aborted as u64;
            }
        }
        Ok(None)
    }

    fn answer(&mut self, waiter: u64, answer: Answer, outside: &mut Outside) {
        if !outside.calm && outside.random.chance(outside.plan.loss) {
            outside.figures.lost += 1;
            outside.testimony.attempts[waiter as usize].lost = true;
            return;
        }
        let network = outside.plan.network;
        let delay = outside.random.between(network.0, network.1);
        let event = Event::Answer(Some(self.life), waiter as usize, answer);
        outside.queue.after(&mut outside.random, delay, event);
    }

    /// The appender writes all records that it has got, and syncs them together.
    fn write(&mut self, outside: &mut Outside) {
        let Some(last) = self.unwritten.back().map(|record| record.epoch) else { return };
        let mut len = 0;
        for record in self.unwritten.drain(..) {
            len = self.disk.append(&Record::Epoch(record));
        }
        self.syncing = true;
        let sync = outside.plan.sync;
        let delay = outside.random.between(sync.0, sync.1) * self.slow;
        let works = outside.calm || !outside.random.chance(outside.plan.sync_failures);
        self.later(delay, NodeEvent::Synced(len, last, works), outside);
    }

    fn learn_operators(&mut self) {
        let catalog = self.machine.as_ref().expect("the process runs").catalog();
        for (at, name) in toy::OPERATORS.iter().enumerate() {
            if let Ok(operator) = catalog.find(toy::APP, name) {
                self.operators[at] = operator.id;
            }
        }
    }

    /// After all is over: the machine is what its log says, and another machine that reads the log
    /// with other threads comes to the same.
    ///
    /// # Errors
    /// It is not, or does not.
    pub fn check(&mut self, outside: &mut Outside) -> Checked {
        let machine = self.machine.as_ref().expect("the process runs at the end");
        outside.judge.compare(machine, true)?;
        let position = machine.position();
        ensure(position.0 == self.durable, "liveness", || {
            format!("epoch {} never becomes durable; {} is", position.0, self.durable)
        })?;
        let (replayed, _) = self.replay(outside)?;
        ensure(replayed.position() == position, "replay", || {
            format!("a replay comes to {:?}, the run to {position:?}", replayed.position())
        })
    }
}

/// Works out what the queries of a batch must come to.
fn ask_oracle(batch: &Batch, outside: &mut Outside) {
    let next = outside.judge.epoch().0 + 1;
    for query in batch.queries.iter() {
        let expected = outside.judge.query(query.time, &query.request);
        let base = outside.judge.query_base();
        outside.testimony.queried(query.request.id, expected, base, next);
    }
}
