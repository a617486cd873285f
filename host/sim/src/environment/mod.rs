//! Environment of the nodes of a world: time, chance, the network between them, disk and store; and the checkers, which see
//! everything.

mod clients;
mod epochs;
mod network;
mod snapshots;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{OperatorId, WorkerId};
use styx_protocol::machine::EpochSummary;
use styx_protocol::placement::Placement;
use styx_protocol::transaction::Transaction;

use crate::check::checker::Checker;
use crate::check::history::History;
use crate::disk::Disk;
use crate::event::{Event, Life, NodeEvent};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::random::Random;
use crate::store::Store;
use crate::toy;
use crate::trace::Trace;
use crate::wire::Wire;

/// Everything outside the nodes; they reach it through this alone.
#[derive(Debug)]
pub struct Environment {
    /// The plan.
    pub plan: Plan,
    /// Chance.
    pub random: Random,
    /// Time.
    pub queue: Queue<Event>,
    /// Trace of all events.
    pub trace: Trace,
    /// Requests of clients and the responses to them.
    pub history: History,
    /// Checker of the log.
    pub checker: Checker,
    /// Counters.
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
    /// Views of the gateways.
    pub gateways: Gateways,
    /// Nodes that have just dropped their clients' connections.
    pub dropped: Vec<usize>,
    /// An epoch or a round has just ended in this generation: its workers can be looked at.
    pub ended: Option<u64>,
}

/// A generation, as somebody sees it who sees everything.
#[derive(Debug)]
pub struct GenerationView {
    /// Its placement.
    pub placement: Arc<Placement>,
    /// Its workers' nodes.
    pub members: Arc<[usize]>,
    /// Each worker's summaries of rounds that the coordinator has not ended.
    pub summaries: Vec<VecDeque<EpochSummary>>,
    /// Read-only requests of the round under way.
    pub queries: Vec<Transaction>,
    /// Whether its log is replayed.
    pub live: bool,
}

/// Views that gateways have of the cluster: soon the newest, not always.
#[derive(Debug, Default)]
pub struct Gateways {
    /// The ids of the operators.
    pub operators: [OperatorId; 2],
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The generation that each of them believes in.
    pub views: [Option<u64>; 3],
    /// The node of the coordinator.
    pub coordinator: usize,
}

impl Environment {
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
    pub fn expect_queries(&mut self, queries: impl IntoIterator<Item = Transaction>) {
        let next = self.checker.epoch().0 + 1;
        for query in queries {
            let expected = self.checker.query(query.time, &query.request);
            let base = self.checker.query_base();
            self.history.queried(query.request.id, expected, base, next);
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
