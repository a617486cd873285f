//! Environment of the processes of a world: time, chance, the network between them, disks and the store; and the
//! checkers, which see everything.

mod clients;
mod epochs;
mod network;
mod records;
mod snapshots;
mod topic;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use styx_driver::client;
use styx_driver::fullness::Full;
use styx_driver::suspicion::Suspect;
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{Epoch, Generation, LogPosition, OperatorId, Timestamp, WorkerId};
use styx_protocol::machine::EpochSummary;
use styx_protocol::placement::Placement;
use styx_protocol::transaction::{Request, Transaction};

use crate::check::checker::Checker;
use crate::check::generations::Generations;
use crate::check::history::History;
use crate::check::manifests::Manifests;
use crate::check::placements::Placements;
use crate::check::records::Replied;
use crate::check::wishes::Wishes;
use crate::check::{Checked, Failure};
use crate::event::{Event, Life};
use crate::figures::Figures;
use crate::network::Network;
use crate::plan::{Delay, Plan};
use crate::poison::Poison;
use crate::process::Directory;
use crate::queue::Queue;
use crate::random::Random;
use crate::records::Brokers;
use crate::store::{Client, Names};
use crate::topic::Topic;
use crate::toy;
use crate::trace::Trace;

pub use records::TOPIC;

/// Everything outside the processes; they reach it through this alone.
#[derive(Debug)]
pub struct Environment {
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
    /// The store of snapshots.
    pub store: Client,
    /// Names for what is put there.
    pub names: Arc<Names>,
    /// Topics of records and of replies to them.
    pub brokers: Brokers,
    /// Replies that are committed.
    pub replied: Replied,
    /// The topic of the log, where it is not on a disk.
    pub topic: Topic,
    /// Who has written the last fence.
    writer: Option<Life>,
    /// Generation of the fence by which it became that; one that is not higher counts for nothing.
    writer_generation: u64,
    /// Until when machines do not reach the brokers.
    pub brokers_cut: BTreeMap<usize, u64>,
    /// The same of the store.
    pub store_cut: BTreeMap<usize, u64>,
    pub network: Network,
    /// Generations that have begun.
    pub generations: BTreeMap<Generation, GenerationView>,
    /// The ids of the operators, and the catalog, as clients know them.
    pub operators: [OperatorId; 2],
    catalog: Arc<Catalog>,
    /// Who has opened the log last: what others say of it, since they know no better, is of no account.
    owner: Option<Life>,
    /// Who has cut what nobody will ever hear of; and whether it has ended, so that its state is nobody's.
    unheard: BTreeMap<Life, bool>,
    /// The last epoch that is durable for whoever knows everything.
    pub durable: Epoch,
    /// Requests that end whoever executes them.
    pub poison: Poison,
    /// Generations, and what called for them.
    pub causes: Generations,
    /// Who had which partition.
    pub placements: Placements,
    /// The epoch of the round under way, by who leads.
    rounds: BTreeMap<Life, Option<Epoch>>,
    /// When a process cut its first epoch, and the log time of that.
    cut_at: BTreeMap<Life, (u64, Timestamp)>,
    /// A generation whose round has just ended: its workers can be looked at.
    pub round_ended: Option<Generation>,
    /// Manifests in the store.
    manifests: Manifests,
    /// Snapshots that are wanted.
    pub wishes: Wishes,
    /// Objects that are damaged, and what they were.
    damaged: BTreeMap<String, bytes::Bytes>,
    /// The log is damaged, and nobody has opened it since.
    log_damaged: bool,
    /// What stands in the log before is lost.
    log_from: LogPosition,
    /// Processes that may end because of a fault that was injected.
    excused: BTreeSet<Life>,
    /// Processes that cannot go on, or have ended.
    pub halted: Vec<Life>,
    /// Disks are slower by this factor, by node.
    pub slow_disks: BTreeMap<usize, u64>,
    /// Something broken that was found where nobody could say so.
    pub broken: Option<Failure>,
}

/// A generation, as somebody sees it who sees everything.
#[derive(Debug)]
pub struct GenerationView {
    pub leader: Life,
    pub placement: Arc<Placement>,
    /// Its workers' nodes.
    pub members: Vec<usize>,
    /// Each worker's summaries of rounds that the coordinator has not ended.
    pub summaries: Vec<VecDeque<EpochSummary>>,
    /// Read-only requests of the round under way.
    pub queries: Vec<Transaction>,
    /// Whether its log is replayed.
    pub live: bool,
}

impl Environment {
    /// An environment in which nothing has happened.
    pub fn new(plan: Plan, random: Random, notes: bool) -> Self {
        let alone = Arc::new(Placement::round_robin(plan.config.layout.partitions, 1));
        let brokers = plan.records.map_or_else(Brokers::default, |plan| Brokers::new(plan.partitions, plan.egress));
        Environment {
            checker: Checker::new(&plan.config, &plan.repartitions, alone, notes),
            plan,
            random,
            queue: Queue::default(),
            trace: Trace::new(notes),
            history: History::default(),
            figures: Figures::default(),
            calm: false,
            store: Client::default(),
            names: Arc::default(),
            brokers,
            replied: Replied::default(),
            topic: Topic::default(),
            writer: None,
            writer_generation: 0,
            brokers_cut: BTreeMap::new(),
            store_cut: BTreeMap::new(),
            network: Network::default(),
            generations: BTreeMap::new(),
            operators: Default::default(),
            catalog: Arc::default(),
            owner: None,
            unheard: BTreeMap::new(),
            durable: Epoch(0),
            poison: Poison::default(),
            causes: Generations::default(),
            placements: Placements::default(),
            rounds: BTreeMap::new(),
            cut_at: BTreeMap::new(),
            round_ended: None,
            manifests: Manifests::default(),
            wishes: Wishes::default(),
            damaged: BTreeMap::new(),
            log_damaged: false,
            log_from: LogPosition(0),
            excused: BTreeSet::new(),
            halted: Vec::new(),
            slow_disks: BTreeMap::new(),
            broken: None,
        }
    }

    /// Lets something happen after a delay.
    pub fn after(&mut self, delay: u64, event: Event) {
        self.queue.after(&mut self.random, delay, event);
    }

    /// Somewhere in an interval.
    pub fn delay(&mut self, delay: Delay) -> u64 {
        self.random.between(delay.0, delay.1)
    }

    /// How long an execution thread takes for its next share.
    pub fn execution_time(&mut self) -> u64 {
        self.delay(self.plan.execution)
    }

    /// How long a driver's thread takes for one thing.
    pub fn step_time(&mut self) -> u64 {
        self.delay(self.plan.step)
    }

    /// How long a component is compiled.
    pub fn compile_time(&mut self) -> u64 {
        self.delay((100, 20_000))
    }

    pub fn newest(&self) -> Option<Generation> {
        self.generations.last_key_value().map(|(number, _)| *number)
    }

    /// The newest generation, if this one leads it.
    pub fn led_by(&self, life: Life) -> Option<Generation> {
        self.generations.last_key_value().filter(|(_, view)| view.leader == life).map(|(number, _)| *number)
    }

    /// The node of who has opened the log last.
    pub fn leader(&self) -> Option<usize> {
        self.owner.map(|owner| owner.node)
    }

    /// Whether the log is another process's by now.
    pub fn is_replaced(&self, life: Life) -> bool {
        self.owner.is_some_and(|owner| owner != life)
    }

    /// Gateways learn what is deployed.
    pub fn learn(&mut self, catalog: &Arc<Catalog>) {
        if Arc::ptr_eq(&self.catalog, catalog) {
            return;
        }
        self.catalog = catalog.clone();
        for (at, name) in toy::OPERATORS.iter().enumerate() {
            if let Ok(operator) = catalog.find(toy::APP, name) {
                self.operators[at] = operator.id;
            }
        }
    }

    /// A peer has sent what cannot be read or applied: nobody does.
    pub fn peer_error(&mut self, life: Life) {
        self.broken.get_or_insert(Failure::new("peer", format!("{life} was sent what it cannot take")));
    }

    /// This process may end because of a fault that was injected.
    pub fn excuse(&mut self, life: Life) {
        self.excused.insert(life);
    }

    /// Why a request that may write is refused where these get no more state, if so.
    pub fn refuses_state(&mut self, full: &Full, catalog: &Catalog, request: &Request) -> Option<client::Failure> {
        let refused = full.refuses(catalog.operator(request.operator).map(|operator| &*operator.app), catalog);
        self.figures.state_full += u64::from(refused.is_some());
        refused
    }

    /// A thread of a process has met what ends it. Gives what it notes.
    pub fn poisoned(&mut self, life: Life, culprit: Suspect) -> Suspect {
        let now = self.queue.now();
        self.trace.event(now, [35, life.node as u64], || format!("{life} ends because of request {}", culprit.request));
        self.figures.poisoned += 1;
        self.halted.push(life);
        let is_silent = self.plan.poison.is_some_and(|plan| self.random.chance(plan.silent));
        Suspect { said: culprit.said.filter(|_| !is_silent), ..culprit }
    }

    /// A process has died while these were under way.
    ///
    /// # Errors
    /// One of them has ended more processes than it may.
    pub fn died(&mut self, node: usize, found: &[Suspect]) -> Checked {
        let workers = self.plan.cluster.workers;
        self.plan.poison.map_or(Ok(()), |plan| self.poison.died(node, found, plan, workers))
    }

    /// Some are suspected no more where a process notes them.
    ///
    /// # Errors
    /// One of them is not set aside for good.
    pub fn keep_suspects(&mut self, directory: &Directory, left: Vec<Suspect>) -> Checked {
        let before = directory.suspects();
        let is_left = |suspect: &&Suspect| left.iter().any(|one| one.request == suspect.request);
        for suspect in before.iter().filter(|suspect| !is_left(suspect)) {
            self.poison.settled(suspect, self.durable)?;
        }
        directory.keep_suspects(left);
        Ok(())
    }

    /// A process cannot go on, and says why.
    pub fn halts(&mut self, life: Life, why: &str) -> Checked {
        let now = self.queue.now();
        self.trace.event(now, [20, life.node as u64], || format!("{life} halts: {why}"));
        if why.contains("no space left") {
            // There is some for ever, unless a disk was filled.
            self.figures.full_disks += 1;
        } else if self.figures.damaged > 0 && why.contains(" is damaged at byte ") {
            // An object of a snapshot that it has put, without being told so: it begins again with the one before.
        } else if self.log_damaged && why.contains(": damaged at offset ") {
            // The store did not say whether that is covered.
        } else if !self.excused.contains(&life) {
            return Err(Failure::new("halt", format!("{life}: {why}")));
        }
        self.halted.push(life);
        Ok(())
    }
}

impl GenerationView {
    /// The worker that runs on a node.
    pub fn worker_on(&self, node: usize) -> Option<WorkerId> {
        self.members.iter().position(|member| *member == node).map(|at| WorkerId(at as u16))
    }
}
