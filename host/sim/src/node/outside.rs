//! What the nodes of a world share: time, chance, the channel between them, the log's disk; and
//! the checkers, who see everything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use styx_protocol::abort::Abort;
use styx_protocol::catalog::{Catalog, Control};
use styx_protocol::ids::{OperatorId, RequestId, WorkerId};
use styx_protocol::machine::EpochSummary;
use styx_protocol::machine::worker::ClientResponse;
use styx_protocol::placement::Placement;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::{Request, Transaction};

use super::{Life, NodeEvent};
use crate::check::Checked;
use crate::check::judge::Judge;
use crate::check::testimony::Testimony;
use crate::disk::Disk;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::random::Random;
use crate::store::Store;
use crate::toy;
use crate::trace::Trace;
use crate::wire::Wire;
use crate::world::Event;

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
    /// The log. Coordinators that replace each other share it.
    pub disk: Disk,
    /// Snapshots.
    pub store: Store,
    /// The channel between nodes.
    pub wire: Wire,
    /// Generations that have begun.
    pub generations: BTreeMap<u64, GenerationView>,
    /// What gateways know.
    pub gateways: Gateways,
    /// Nodes that have just dropped their clients' connections.
    pub dropped: Vec<usize>,
    /// An epoch or a round has just ended in this generation: its workers can be looked at.
    pub ended: Option<u64>,
}

/// A generation, as somebody sees it who sees everything.
#[derive(Debug)]
pub struct GenerationView {
    /// Who owns what.
    pub placement: Arc<Placement>,
    /// Its workers' nodes.
    pub members: Arc<[usize]>,
    /// What each worker says of the rounds that the coordinator has not ended.
    pub summaries: Vec<VecDeque<EpochSummary>>,
    /// Read-only requests of the round under way.
    pub queries: Vec<Transaction>,
    /// Whether its log is replayed.
    pub live: bool,
}

/// What gateways know of the cluster: soon the newest, not always.
#[derive(Debug, Default)]
pub struct Gateways {
    /// The ids of the operators.
    pub operators: [OperatorId; 2],
    /// What is deployed.
    pub catalog: Arc<Catalog>,
    /// The generation that each of them believes in.
    pub views: [Option<u64>; 3],
    /// The node of the coordinator.
    pub coordinator: usize,
}

/// What worlds did.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Transactions and queries that ended, replays not counted.
    pub transactions: u64,
    /// Of these, those of several workers together.
    pub clustered: u64,
    /// Queries.
    pub queries: u64,
    /// Transactions and queries that needed other workers.
    pub shared: u64,
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
    /// Generations that began.
    pub generations: u64,
    /// Epochs replayed in recoveries.
    pub replayed: u64,
    /// Transactions run again at the end of worlds, on other placements.
    pub verified: u64,
    /// Snapshots written.
    pub snapshots: u64,
    /// Starts and generations that began with a snapshot.
    pub restores: u64,
    /// Partitions that a worker still held where a generation began, and so did not read.
    pub remained: u64,
    /// Snapshots that were damaged when they were wanted.
    pub damaged: u64,
    /// Writes of snapshots that failed, or of which nobody knew.
    pub store_failures: u64,
    /// Deployments, activations and removals in the log.
    pub deployments: u64,
    /// Pauses, clock jumps, slow disks, partitions, changes of membership.
    pub disturbances: u64,
    /// Messages lost.
    pub lost: u64,
    /// Frames of generations that were over, dropped.
    pub stale: u64,
    /// Frames delivered again, dropped.
    pub doubled: u64,
    /// Requests at workers that are not responsible for them, refused.
    pub misdirected: u64,
    /// Workers refused because they run something else.
    pub refused: u64,
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
    /// Nothing has happened of what was asked, nor will.
    Returned,
    /// The connection broke.
    Broken,
}

impl Outside {
    /// Lets something happen to a process after a delay, unless it dies before.
    pub fn later(&mut self, life: Life, delay: u64, event: NodeEvent) {
        self.queue.after(&mut self.random, delay, Event::Node(life, event));
    }

    /// Somewhere in an interval.
    pub fn delay(&mut self, delay: (u64, u64)) -> u64 {
        self.random.between(delay.0, delay.1)
    }

    /// The newest generation.
    pub fn newest(&self) -> u64 {
        self.generations.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// The client of an attempt sees its connection break.
    pub fn break_connection(&mut self, attempt: usize) {
        let delay = self.random.between(10, 1_000);
        self.queue.after(&mut self.random, delay, Event::Answer(None, attempt, Answer::Broken));
    }

    /// Tells a client what a machine says.
    ///
    /// # Errors
    /// It must not be told.
    pub fn tell(&mut self, life: Life, response: ClientResponse<u64>) -> Checked {
        let now = self.queue.now();
        let durable = self.disk.durable();
        let (waiter, answer) = match response {
            ClientResponse::Reply { waiter, reply } => {
                let value = reply.outcome.as_ref().map_or(u64::MAX, |value| value[0].into());
                self.trace.event(now, [2, waiter, reply.tid.0, reply.epoch.0, value], || {
                    format!("{} tells {waiter}: {reply:?}", life)
                });
                self.testimony.reply(waiter as usize, &reply, &self.judge, durable)?;
                (waiter, Answer::Reply(reply))
            }
            ClientResponse::Accepted { waiter, id } => {
                self.trace.event(now, [3, waiter], || format!("{life} gives {waiter} a receipt for {id}"));
                self.testimony.receipt(waiter as usize, &self.judge, durable)?;
                (waiter, Answer::Accepted)
            }
            ClientResponse::Unknown { waiter } => {
                let known = self.testimony.is_known(waiter as usize, &self.judge);
                return self.tell_unknown(life, waiter, known);
            }
            ClientResponse::Returned { waiter } => {
                self.trace.event(now, [18, waiter], || format!("{life} gives {waiter} its request back"));
                self.testimony.returned(waiter as usize)?;
                (waiter, Answer::Returned)
            }
        };
        self.answer(life, waiter, answer);
        Ok(())
    }

    /// Tells a client how its deployment ended.
    ///
    /// # Errors
    /// It must not be told.
    pub fn tell_controlled(&mut self, life: Life, waiter: u64, result: &Result<(), Abort>) -> Checked {
        let now = self.queue.now();
        self.trace
            .event(now, [5, waiter, u64::from(result.is_ok())], || format!("{life} deployed for {waiter}: {result:?}"));
        self.testimony.controlled(waiter as usize, result.is_ok(), &self.judge, self.disk.durable())?;
        self.answer(life, waiter, Answer::Controlled);
        Ok(())
    }

    /// Tells a client that nothing is known of its request, which was to be known or not when it asked.
    ///
    /// # Errors
    /// It was.
    pub fn tell_unknown(&mut self, life: Life, waiter: u64, known: bool) -> Checked {
        let now = self.queue.now();
        self.trace.event(now, [4, waiter], || format!("{life} knows nothing for {waiter}"));
        self.testimony.unknown(waiter as usize, known)?;
        self.answer(life, waiter, Answer::Unknown);
        Ok(())
    }

    fn answer(&mut self, life: Life, waiter: u64, answer: Answer) {
        if !self.calm && self.random.chance(self.plan.loss) {
            self.figures.lost += 1;
            self.testimony.attempts[waiter as usize].lost = true;
            return;
        }
        let delay = self.delay(self.plan.network);
        let event = Event::Answer(Some(life), waiter as usize, answer);
        self.queue.after(&mut self.random, delay, event);
    }

    /// Gateways learn what is deployed.
    pub fn learn(&mut self, catalog: &Arc<Catalog>) {
        if Arc::ptr_eq(&self.gateways.catalog, catalog) {
            return;
        }
        self.gateways.catalog = catalog.clone();
        for (at, name) in toy::OPERATORS.iter().enumerate() {
            if let Ok(operator) = catalog.find(toy::APP, name) {
                self.gateways.operators[at] = operator.id;
            }
        }
    }

    /// Works out what read-only requests must come to that are executed now.
    pub fn ask_oracle(&mut self, queries: impl IntoIterator<Item = Transaction>) {
        let next = self.judge.epoch().0 + 1;
        for query in queries {
            let expected = self.judge.query(query.time, &query.request);
            let base = self.judge.query_base();
            self.testimony.queried(query.request.id, expected, base, next);
        }
    }

    /// An epoch has ended, for the first time.
    pub fn count(&mut self, summaries: &[EpochSummary], several: bool) {
        let figures = &mut self.figures;
        figures.epochs += 1;
        for summary in summaries {
            let transactions = summary.order.len() as u64 + summary.counts.queries;
            figures.transactions += transactions;
            figures.clustered += if several { transactions } else { 0 };
            figures.queries += summary.counts.queries;
            figures.shared += summary.shared as u64;
            figures.fell_back += summary.counts.fell_back;
            figures.rescheduled += summary.counts.rescheduled;
            figures.aborted += summary.counts.aborted;
        }
    }
}

impl GenerationView {
    /// The worker that runs on a node.
    pub fn worker_on(&self, node: usize) -> Option<WorkerId> {
        self.members.iter().position(|member| *member == node).map(|at| WorkerId(at as u16))
    }
}

impl Figures {
    /// Adds another world's.
    pub fn add(&mut self, other: &Figures) {
        let add = |own: &mut u64, other: u64| *own += other;
        add(&mut self.transactions, other.transactions);
        add(&mut self.clustered, other.clustered);
        add(&mut self.queries, other.queries);
        add(&mut self.shared, other.shared);
        add(&mut self.epochs, other.epochs);
        add(&mut self.fell_back, other.fell_back);
        add(&mut self.rescheduled, other.rescheduled);
        add(&mut self.aborted, other.aborted);
        add(&mut self.crashes, other.crashes);
        add(&mut self.generations, other.generations);
        add(&mut self.replayed, other.replayed);
        add(&mut self.verified, other.verified);
        add(&mut self.snapshots, other.snapshots);
        add(&mut self.restores, other.restores);
        add(&mut self.remained, other.remained);
        add(&mut self.damaged, other.damaged);
        add(&mut self.store_failures, other.store_failures);
        add(&mut self.deployments, other.deployments);
        add(&mut self.disturbances, other.disturbances);
        add(&mut self.lost, other.lost);
        add(&mut self.stale, other.stale);
        add(&mut self.doubled, other.doubled);
        add(&mut self.misdirected, other.misdirected);
        add(&mut self.refused, other.refused);
    }
}
