//! Several workers in one process: executors with a state of their own each, and a router that
//! carries requests and responses between them, one at a time, in a chosen order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use styx_engine::{Cluster, Determinism, Engine, Executor};
use styx_protocol::abort::Abort;
use styx_protocol::attempt::{
    Attempt, Execution, Mode, Operation, RemoteRequests, RemoteResponse, Report, Target, Usage,
};
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Limits;
use styx_protocol::entity::{Entity, Payload, Value};
use styx_protocol::ids::WorkerId;
use styx_protocol::placement::Placement;
use styx_protocol::state::State;
use styx_protocol::task::{
    AttemptSeed, AttemptSource, GraphId, LocalView, Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind,
};
use styx_protocol::transaction::Transaction;

use super::script::Script;
use super::{Guest, LAYOUT, deploy, options, transaction};

/// Room for a few guests: each takes address space, and tests run side by side.
pub const ROOM: Cluster = Cluster { suspended: 64, workers: 2, idle: 64 };

pub struct Worker {
    pub view: LocalView,
    pub executor: Executor,
    pub state: Arc<State>,
}

pub struct Workers {
    pub engine: Arc<Engine>,
    pub catalog: Arc<Catalog>,
    pub workers: Vec<Worker>,
    next_tid: u64,
    _cache: tempfile::TempDir,
}

/// Whether an entity was read, and what was written to it: a value, or `None` inside for a delete.
pub type Access = (bool, Option<Option<Vec<u8>>>);

/// What became of a graph, over all workers.
#[derive(Debug)]
pub struct Whole {
    pub outcome: Result<Value, Abort>,
    pub accesses: BTreeMap<(u32, String), Access>,
    pub ranges: BTreeSet<String>,
    pub report: Report,
    /// Whether all of it happened in `start`.
    pub local: bool,
    /// Log lines, per worker.
    pub logs: Vec<Vec<String>>,
}

impl Whole {
    /// The same of a transaction that ran on a single worker.
    pub fn of(execution: &Execution) -> Self {
        let mut whole = Whole {
            outcome: execution.outcome.clone(),
            accesses: BTreeMap::new(),
            ranges: BTreeSet::new(),
            report: Report::default(),
            local: true,
            logs: Vec::new(),
        };
        whole.report.usage.fuel = execution.fuel;
        whole.add(execution);
        whole
    }

    fn add(&mut self, execution: &Execution) {
        for (entity, access) in execution.footprint.accesses.iter() {
            let write = access.write().map(|value| value.map(|value| value.to_vec()));
            let before = self.accesses.insert(name(entity), (access.is_read(), write));
            assert_eq!(before, None, "an entity lives in one place");
        }
        self.ranges.extend(execution.footprint.ranges.iter().map(|read| format!("{read:?}")));
        self.logs.push(execution.logs.iter().map(|line| line.message.clone()).collect());
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.outcome.as_ref().unwrap_or_else(|abort| panic!("{abort}"))).into_owned()
    }
}

fn name(entity: &Entity) -> (u32, String) {
    (entity.operator().0, entity.key().to_string())
}

/// What is known of a graph, per worker.
pub struct Graph {
    pub transaction: Transaction,
    pub root: usize,
    pub mode: Mode,
    pub parts: Vec<Option<Box<Attempt>>>,
    pub outgoing: VecDeque<(WorkerId, Target)>,
}

impl Workers {
    pub fn new(count: u16, guests: &[Guest]) -> Self {
        Workers::with(count, guests, Limits::default(), Determinism::Off, ROOM)
    }

    pub fn with(count: u16, guests: &[Guest], limits: Limits, determinism: Determinism, room: Cluster) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let options = styx_engine::EngineOptions {
            cluster: Some(room),
            executors: count.into(),
            ..options(cache.path(), determinism)
        };
        let engine = Engine::new(options).unwrap();
        let catalog = deploy(&engine, cache.path(), guests, limits, Default::default());
        let placement = Arc::new(Placement::round_robin(LAYOUT.partitions, count));
        let workers = (0..count)
            .map(|me| Worker {
                view: LocalView { me: WorkerId(me), placement: placement.clone() },
                executor: engine.executor(),
                state: Arc::new(State::new(LAYOUT)),
            })
            .collect();
        Workers { engine, catalog, workers, next_tid: 0, _cache: cache }
    }

    /// A key that a worker owns; the first, second, … of them.
    pub fn key(&self, worker: usize, nth: usize) -> String {
        let placement = &self.workers[0].view.placement;
        let mut keys = (0..).map(|number| format!("k{number}"));
        keys.by_ref()
            .filter(|key| usize::from(placement.owner(LAYOUT.partition(key, false)).0) == worker)
            .nth(nth)
            .unwrap()
    }

    pub fn transaction(&mut self, operator: &str, key: &str, script: &Script) -> Transaction {
        self.next_tid += 1;
        transaction(&self.catalog, self.next_tid, operator, key, "f", &script.0)
    }

    /// The next transaction's id will be one more.
    pub fn set_next_tid(&mut self, tid: u64) {
        self.next_tid = tid;
    }

    /// Where a transaction is rooted.
    pub fn root(&self, transaction: &Transaction) -> usize {
        let key = &transaction.request.key;
        usize::from(self.workers[0].view.placement.owner(LAYOUT.partition(key, false)).0)
    }

    /// Runs a transaction as the first attempt at it is run.
    pub fn run(&mut self, operator: &str, key: &str, script: &Script) -> Whole {
        let transaction = self.transaction(operator, key, script);
        let (mut graph, begun) = self.start(&transaction);
        match begun {
            Ok(execution) => Whole::of(&execution),
            Err(progress) => self.complete(&mut graph, progress),
        }
    }

    /// Runs a transaction in some mode.
    pub fn run_in(&mut self, mode: Mode, operator: &str, key: &str, script: &Script) -> Whole {
        let transaction = self.transaction(operator, key, script);
        let mut graph = self.graph(&transaction, mode);
        let root = graph.root;
        let progress = self.advance(&mut graph, root, TaskKind::Root);
        self.complete(&mut graph, progress)
    }

    /// Runs and commits, on all workers.
    pub fn commit(&mut self, operator: &str, key: &str, script: &Script) -> Whole {
        let whole = self.run_in(Mode::STRICT, operator, key, script);
        if whole.outcome.is_ok() {
            for ((operator, key), (_, write)) in &whole.accesses {
                let Some(value) = write else { continue };
                let operator = styx_protocol::ids::OperatorId(*operator);
                let entity = Entity::new(&LAYOUT, operator, false, key.as_str().into());
                let owner = usize::from(self.workers[0].view.placement.owner(entity.partition()).0);
                let state = Arc::get_mut(&mut self.workers[owner].state).expect("nobody else holds the state");
                state.apply((entity, value.as_deref().map(Value::from)));
            }
        }
        whole
    }

    fn graph(&self, transaction: &Transaction, mode: Mode) -> Graph {
        let parts = self.workers.iter().map(|_| None).collect();
        let root = self.root(transaction);
        Graph { transaction: transaction.clone(), root, mode, parts, outgoing: VecDeque::new() }
    }

    /// Starts a transaction where it is rooted.
    pub fn start(&mut self, transaction: &Transaction) -> (Graph, Result<Box<Execution>, Progress>) {
        let mut graph = self.graph(transaction, Mode::default());
        let worker = &mut self.workers[graph.root];
        match worker.executor.start(transaction, &worker.state, &self.catalog, &worker.view) {
            Started::Local(execution) => (graph, Ok(Box::new(execution))),
            Started::Distributed(mut attempt, progress) => {
                graph.outgoing.extend(attempt.take_outgoing());
                let root = graph.root;
                graph.parts[root] = Some(attempt);
                (graph, Err(progress))
            }
        }
    }

    pub fn advance(&mut self, graph: &mut Graph, at: usize, task: TaskKind) -> Progress {
        self.advance_from(graph, at, task, Usage::default())
    }

    /// As [`Workers::advance`]; the transaction has used so much where it comes from.
    fn advance_from(&mut self, graph: &mut Graph, at: usize, kind: TaskKind, used: Usage) -> Progress {
        let worker = &mut self.workers[at];
        let attempt = match graph.parts[at].take() {
            Some(mut attempt) => {
                if let TaskKind::Call { .. } = &kind {
                    attempt.resume(used, false);
                }
                AttemptSource::Existing(attempt)
            }
            None => AttemptSource::New(AttemptSeed {
                view: worker.view.clone(),
                transaction: graph.transaction.clone(),
                state: worker.state.clone(),
                catalog: self.catalog.clone(),
                mode: graph.mode,
                used,
                drifted: false,
            }),
        };
        let advanced = worker.executor.advance(Task { graph: GraphId(graph.transaction.tid.0), attempt, kind });
        let mut attempt = advanced.attempt;
        graph.outgoing.extend(attempt.take_outgoing());
        graph.parts[at] = Some(attempt);
        advanced.progress
    }

    /// Goes on with a function until it is over.
    pub fn follow(&mut self, graph: &mut Graph, at: usize, mut progress: Progress) -> Result<Value, Abort> {
        loop {
            match progress {
                Progress::Done(result) => return result,
                Progress::Suspended(suspended, requests) => {
                    let responses = self.responses(graph, at, requests);
                    progress = self.resume(graph, at, suspended, responses);
                }
            }
        }
    }

    pub fn resume(
        &mut self,
        graph: &mut Graph,
        at: usize,
        suspended: SuspendedId,
        responses: Vec<RemoteResponse>,
    ) -> Progress {
        self.advance(graph, at, TaskKind::Resume { parked: suspended, answers: responses })
    }

    /// The responses of other workers.
    pub fn responses(&mut self, graph: &mut Graph, from: usize, requests: RemoteRequests) -> Vec<RemoteResponse> {
        let mut responses = Vec::new();
        for (to, asked) in requests.operations {
            let to = usize::from(to.0);
            assert_ne!(to, from, "nobody asks himself");
            let used = asked.used;
            let response = match asked.operation {
                Operation::Call(target) => {
                    let task = TaskKind::Call { target, issuer: WorkerId(from as u16) };
                    let progress = self.advance_from(graph, to, task, used);
                    RemoteResponse::Called(self.follow(graph, to, progress).map(Payload))
                }
                _ => {
                    let worker = &self.workers[to];
                    let begin = || worker.view.attempt(&graph.transaction, &worker.state, &self.catalog, graph.mode);
                    let part = graph.parts[to].get_or_insert_with(|| Box::new(begin()));
                    part.resume(used, false);
                    part.serve(asked)
                }
            };
            let used = graph.parts[to].as_ref().unwrap().used();
            graph.parts[from].as_mut().unwrap().resume(used, false);
            responses.push(response);
        }
        responses
    }

    /// Goes on until all is over, asynchronous calls included.
    pub fn complete(&mut self, graph: &mut Graph, progress: Progress) -> Whole {
        let root = graph.root;
        let mut outcome = self.follow(graph, root, progress);
        while let Some((to, target)) = graph.outgoing.pop_front() {
            let to = usize::from(to.0);
            let progress = self.advance(graph, to, TaskKind::Call { target, issuer: WorkerId(root as u16) });
            if let Err(abort) = self.follow(graph, to, progress)
                && outcome.is_ok()
            {
                outcome = Err(abort);
            }
        }
        let mut whole = Whole {
            outcome,
            accesses: BTreeMap::new(),
            ranges: BTreeSet::new(),
            report: Report::default(),
            local: false,
            logs: Vec::new(),
        };
        for part in &mut graph.parts {
            let Some(mut attempt) = part.take() else {
                whole.logs.push(Vec::new());
                continue;
            };
            whole.report.merge(attempt.take_report());
            let (execution, _) = attempt.finish(whole.outcome.clone());
            whole.add(&execution);
        }
        whole
    }
}
