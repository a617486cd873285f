//! Several workers, driven at once and in any order: for the same cuts, the outcome is the same wherever entities live,
//! and it is that of the claimed serial order. Messages may arrive a round late.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::driver::long::Run;
use crate::driver::taken::Taken;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{LogLevel, LogLine, RemoteResponse, Report, Usage};
use styx_protocol::control::{Activation, Control};
use styx_protocol::entity::{Entity, Layout, Value};
use styx_protocol::fallback::run_component;
use styx_protocol::ids::{EngineHash, Generation, OperatorId, RequestId, Round, Tid, Timestamp, WorkerId};
use styx_protocol::machine::coordinator::MIGRATION_UNDER_WAY;
use styx_protocol::machine::worker::{Batch, ClientRequest, ClientResponse, Executed, FallbackBatch};
use styx_protocol::machine::{Config, Coordinator, EpochSummary, Rank, Worker, coordinator, worker};
use styx_protocol::mail::{Ack, CachedResult, Decision, Ending, Mail, OrderReply, Question};
use styx_protocol::message::{Message, Node};
use styx_protocol::modes::Modes;
use styx_protocol::moving::MovingMode;
use styx_protocol::placement::Placement;
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::replies::Retention;
use styx_protocol::route::sequencer_of;
use styx_protocol::system::SystemFunction;
use styx_protocol::task::{GraphId, LocalView, RunId, Started, Task, TaskExecutor, TaskKind};
use styx_protocol::transaction::Request;
use styx_sim::check::ended::same;
use styx_sim::check::oracle::{self, Oracle};
use styx_sim::random::Random;
use styx_sim::replay::without_outcome;
use styx_sim::toy::{self, Bound, Call, Op, Place, Scan, Shape, Toy, keys};
use styx_transcript::{Digest, did, scenario};

type Outcome = Result<Value, Abort>;

enum Work {
    Execute(Batch),
    Task(Task),
    FallBack(FallbackBatch),
    Long(Run),
    HandOver,
    Continue,
}

/// What an epoch came to.
#[derive(Debug, Default, PartialEq)]
struct Epoch {
    order: Vec<Rank>,
    outcomes: BTreeMap<Tid, Outcome>,
    chain: Chain,
}

struct Cluster {
    coordinator: Coordinator<u64>,
    workers: Vec<Worker<u64>>,
    toys: Vec<Toy>,
    placement: Arc<Placement>,
    mail: BTreeMap<(Node, Node), VecDeque<Message>>,
    ready: Vec<(usize, Work)>,
    random: Random,
    log: Vec<Arc<EpochRecord>>,
    epochs: Vec<Epoch>,
    current: Epoch,
    replies: BTreeMap<u64, Outcome>,
    /// What guests have logged, and on which worker.
    lines: Vec<(usize, Tid, LogLine)>,
    /// When each query ran last.
    ran: BTreeMap<RequestId, Timestamp>,
    /// The epochs on which answers rest.
    bases: BTreeMap<u64, u64>,
    taken: Taken,
    figures: [usize; 8],
    /// Runs beside the epochs that wait for what they read.
    reading: BTreeMap<(usize, RunId), Run>,
    /// Runs that have begun: of transactions, and of queries, that needed what a former owner still had.
    runs: usize,
    /// Links between workers whose messages arrive late: after everything else that can happen, so also in later phases
    /// and rounds. Empty: every round ends with all messages delivered.
    slow: Vec<(Node, Node)>,
    /// A migration is under way; how many took effect.
    migrating: bool,
    migrations: usize,
    /// How half of them move, if not online.
    mode: MovingMode,
    asked: BTreeMap<u64, Arc<Request>>,
    /// Requests that were given back, and are to be asked of who owns them now.
    returned: Vec<u64>,
}

/// Worlds of which is committed what machines say.
const DIGESTED: u64 = 50;

/// Whoever waits for a migration.
const MIGRATION: u64 = u64::MAX - 1;
/// Whoever has keys of operators changed.
const REKEYING: u64 = u64::MAX - 2;

fn config(layout: Layout, modes: Modes, suspended_max: usize) -> Config {
    Config {
        layout,
        modes,
        epoch_size_max: 100,
        epoch_fuel_max: 1 << 40,
        record_bytes_max: 1 << 20,
        backlog_max: 10_000,
        suspended_max,
        long_max: 4,
        retention: Retention::default(),
        engine: EngineHash(0),
        generation: Generation(1),
        snapshots: true,
        step_max: 3,
        piece_bytes: 100,
        claim_order: true,
    }
}

thread_local! {
    /// Of all that machines are told and do, if somebody wants to know.
    static DIGEST: Cell<Option<Digest>> = const { Cell::new(None) };
}

fn digest(node: Node, what: &impl std::fmt::Debug) {
    if let Some(mut digest) = DIGEST.get() {
        digest.take(&node);
        digest.take(what);
        DIGEST.set(Some(digest));
    }
}

fn trace(node: Node, input: &impl std::fmt::Debug) {
    digest(node, input);
    if std::env::var("STYX_TRACE").is_ok() {
        let text = format!("{input:?}");
        println!("{node:?} <- {}", text.chars().take(60000).collect::<String>());
    }
}

impl Cluster {
    fn new(config: &Config, workers: u16, random: Random) -> Self {
        let mut random = random;
        let owners = (0..config.layout.partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16)).collect();
        let placement = Arc::new(Placement::new(owners, workers));
        let worker = |me| Worker::new(config.worker(), LocalView { me: WorkerId(me), placement: placement.clone() });
        Cluster {
            coordinator: Coordinator::new(config.coordinator(), placement.clone()),
            workers: (0..workers).map(worker).collect(),
            toys: (0..workers).map(|_| Toy::default()).collect(),
            placement,
            mail: BTreeMap::new(),
            ready: Vec::new(),
            random,
            log: Vec::new(),
            epochs: Vec::new(),
            current: Epoch::default(),
            replies: BTreeMap::new(),
            lines: Vec::new(),
            ran: BTreeMap::new(),
            bases: BTreeMap::new(),
            taken: Taken::default(),
            figures: [0; 8],
            reading: BTreeMap::new(),
            runs: 0,
            slow: Vec::new(),
            migrating: false,
            migrations: 0,
            mode: MovingMode::Online,
            asked: BTreeMap::new(),
            returned: Vec::new(),
        }
    }

    /// Has partitions change their owners, or gives that up.
    fn migrate(&mut self) {
        let workers = u64::from(self.placement.workers());
        if self.migrating {
            if self.random.chance(200) {
                self.coordinate(coordinator::Input::CancelMigration);
            }
            return;
        }
        let mut owners = self.placement.owners().to_vec();
        for owner in &mut owners {
            if self.random.chance(400) {
                *owner = WorkerId(self.random.below(workers) as u16);
            }
        }
        if owners != self.placement.owners() {
            self.migrating = true;
            let mode = self.random.pick(&[MovingMode::Online, self.mode]);
            self.coordinate(coordinator::Input::Migrate { owners, mode, waiter: Some(MIGRATION) });
        }
    }

    /// Asks a worker, as a gateway does that knows the placement.
    fn ask(&mut self, id: u64, at: WorkerId) {
        let request = self.asked[&id].clone();
        self.work(
            usize::from(at.0),
            worker::Input::Client(ClientRequest::Submit { request, waiter: id, receipt: false }),
        );
    }

    /// Asks again what was given back.
    fn ask_again(&mut self) {
        for id in std::mem::take(&mut self.returned) {
            let at = sequencer_of(
                &self.asked[&id],
                &self.workers[0].state().layout(),
                self.coordinator.catalog(),
                &self.placement,
            );
            self.ask(id, at);
        }
    }

    /// Slows down some of the links between workers.
    fn slow_down(&mut self) {
        let workers = self.workers.len() as u16;
        let links =
            (0..workers).flat_map(|from| (0..workers).map(move |to| (from, to))).filter(|(from, to)| from != to);
        for (from, to) in links {
            if self.random.chance(400) {
                self.slow.push((Node::Worker(WorkerId(from)), Node::Worker(WorkerId(to))));
            }
        }
    }

    fn coordinate(&mut self, input: coordinator::Input<u64>) {
        trace(Node::Coordinator, &input);
        let mut actions = Vec::new();
        self.coordinator.step(input, &mut actions);
        for action in actions {
            digest(Node::Coordinator, &action);
            match action {
                coordinator::Action::Append(record) => {
                    self.log.push(record.clone());
                    self.coordinate(coordinator::Input::Durable(record.epoch));
                }
                coordinator::Action::Send { to, message } => self.post(Node::Coordinator, Node::Worker(to), message),
                coordinator::Action::Controlled { waiter: MIGRATION, result } => {
                    self.migrating = false;
                    self.migrations += usize::from(result.is_ok());
                }
                coordinator::Action::Controlled { waiter: REKEYING, result: Err(abort) } => {
                    assert_eq!(&*abort.message, MIGRATION_UNDER_WAY);
                }
                coordinator::Action::Controlled { result, .. } => result.unwrap(),
                coordinator::Action::Placed(placement) => self.placement = placement,
                coordinator::Action::Finished(summary) => self.finished(Node::Coordinator, summary),
                coordinator::Action::Expel { .. } => panic!("nobody differs"),
                coordinator::Action::Fault(fault) => panic!("{fault}"),
                coordinator::Action::Snapshot(frame) => self.taken.frame(*frame),
            }
        }
    }

    fn work(&mut self, at: usize, input: worker::Input<u64>) {
        let me = Node::Worker(WorkerId(at as u16));
        trace(me, &input);
        let mut actions = Vec::new();
        self.workers[at].step(input, &mut actions);
        for action in actions {
            digest(me, &action);
            match action {
                worker::Action::Send { to, message } => self.post(me, to, message),
                worker::Action::Execute(batch) => {
                    self.ran.extend(batch.queries.iter().map(|query| (query.request.id, query.time)));
                    self.ready.push((at, Work::Execute(batch)));
                }
                worker::Action::RunTasks(tasks) => {
                    self.ready.extend(tasks.into_iter().map(|task| (at, Work::Task(task))));
                }
                worker::Action::FallBack(batch) => self.ready.push((at, Work::FallBack(batch))),
                worker::Action::StartLong(task) => {
                    assert_eq!(self.mode, MovingMode::Immediate, "nothing else is postponed here");
                    self.runs += 1;
                    self.ran.insert(task.transaction.request.id, task.transaction.time);
                    self.ready.push((at, Work::Long(Run::new(task))));
                }
                worker::Action::LongRead { run, answer } => {
                    let mut reading = self.reading.remove(&(at, run)).expect("only who has asked is answered");
                    reading.answered(answer);
                    self.ready.push((at, Work::Long(reading)));
                }
                worker::Action::Respond(responses) => {
                    for response in responses {
                        match response {
                            ClientResponse::Reply { waiter, reply } | ClientResponse::Replayed { waiter, reply } => {
                                self.bases.insert(waiter, reply.epoch.0);
                                self.replies.insert(waiter, reply.outcome);
                            }
                            ClientResponse::Accepted { .. } | ClientResponse::Unknown { .. } => {}
                            ClientResponse::Returned { waiter } => self.returned.push(waiter),
                        }
                    }
                }
                worker::Action::Finished(summary) => self.finished(me, summary),
                worker::Action::Logs { tid, lines } => self.lines.extend(lines.into_iter().map(|line| (at, tid, line))),
                worker::Action::Discard(_) => {}
                worker::Action::Fault(fault) => panic!("{fault}"),
                worker::Action::WorkerSnapshot(part) => {
                    self.taken.part(*part);
                    self.ready.push((at, Work::HandOver));
                }
                worker::Action::Changes { changes, last } => {
                    self.taken.changes(changes, last, self.workers.len());
                    if !last {
                        self.ready.push((at, Work::HandOver));
                    }
                }
            }
        }
        let continues = |(of, work): &(usize, Work)| *of == at && matches!(work, Work::Continue);
        if self.workers[at].is_unfinished() && !self.ready.iter().any(continues) {
            self.ready.push((at, Work::Continue));
        }
    }

    /// What is shown of the lines of these, as the oracle adds them up.
    fn said(&self, of: impl Fn(Tid, &LogLine) -> bool) -> u64 {
        // Why something has failed is among them, louder.
        let lines = self.lines.iter().filter(|(_, tid, line)| line.level == LogLevel::Info && of(*tid, line));
        let hashes = lines.map(|(_, _, line)| oracle::line(line.operator.0, line.message.parse().unwrap()));
        hashes.fold(0, u64::wrapping_add)
    }

    fn post(&mut self, from: Node, to: Node, message: Message) {
        self.mail.entry((from, to)).or_default().push_back(message);
    }

    fn finished(&mut self, node: Node, summary: EpochSummary) {
        if node == Node::Coordinator {
            let mut epoch = std::mem::take(&mut self.current);
            epoch.order.sort_unstable();
            epoch.chain = summary.chain;
            self.epochs.push(epoch);
        } else {
            let counts = summary.counts;
            self.current.order.extend(summary.order);
            self.current.outcomes.extend(summary.outcomes);
            for (figure, number) in self.figures.iter_mut().zip([
                counts.committed as usize,
                counts.fell_back as usize,
                counts.rescheduled as usize,
                summary.shared,
            ]) {
                *figure += number;
            }
        }
    }

    /// Delivers one message or completes one job, chosen at random; false if there is none.
    fn happen(&mut self) -> bool {
        let mut pairs: Vec<(Node, Node)> =
            self.mail.iter().filter(|(_, mail)| !mail.is_empty()).map(|(pair, _)| *pair).collect();
        if !self.slow.is_empty() && self.random.chance(950) {
            let in_time = pairs.iter().filter(|pair| !self.slow.contains(pair)).copied().collect::<Vec<_>>();
            if in_time.len() + self.ready.len() > 0 {
                pairs = in_time;
            }
        }
        let choices = pairs.len() + self.ready.len();
        if choices == 0 {
            return false;
        }
        let choice = self.random.below(choices as u64) as usize;
        if let Some((from, to)) = pairs.get(choice).copied() {
            let message = self.mail.get_mut(&(from, to)).unwrap().pop_front().unwrap();
            match (from, to) {
                (Node::Worker(from), Node::Coordinator) => {
                    self.coordinate(coordinator::Input::Message { from, message });
                }
                (from, Node::Worker(to)) => self.work(usize::from(to.0), worker::Input::Message { from, message }),
                (Node::Coordinator, Node::Coordinator) => panic!("a coordinator does not speak to itself"),
            }
            return true;
        }
        let (at, work) = self.ready.swap_remove(choice - pairs.len());
        let toy = &mut self.toys[at];
        let input = match work {
            Work::Execute(batch) => {
                let mut start = |transaction| match &batch.view {
                    Some(seat) => toy.start(transaction, &batch.state, &batch.catalog, seat),
                    None => Started::Local(styx_protocol::executor::Executor::execute(
                        toy,
                        transaction,
                        &batch.state,
                        &batch.catalog,
                    )),
                };
                let transactions = batch.transactions.iter().map(&mut start).collect();
                let queries = batch.queries.iter().map(&mut start).collect();
                worker::Input::Executed(Executed { transactions, queries })
            }
            Work::Task(task) => {
                debug_assert!(matches!(task.kind, TaskKind::Root | TaskKind::Call { .. } | TaskKind::Resume { .. }));
                worker::Input::TaskProgress(vec![toy.advance(task)])
            }
            Work::Long(mut run) => match run.go_on(toy) {
                Ok(execution) => worker::Input::LongEnded { run: run.id(), execution },
                Err(operation) => {
                    let id = run.id();
                    self.reading.insert((at, id), run);
                    worker::Input::LongRead { run: id, operation }
                }
            },
            Work::Continue => worker::Input::Continue,
            Work::HandOver => worker::Input::HandOver,
            Work::FallBack(batch) => worker::Input::FellBack(
                batch
                    .components
                    .iter()
                    .map(|members| run_component(toy, members, &batch.state, &batch.catalog))
                    .collect(),
            ),
        };
        self.work(at, input);
        true
    }

    /// What can be asked of it.
    fn holds(&self) -> impl PartialEq + std::fmt::Debug {
        let of = |worker: &Worker<u64>| {
            (worker.state().hash(), worker.state().len(), worker.remembered(), worker.has_work())
        };
        (self.coordinator.position(), self.workers.iter().map(of).collect::<Vec<_>>())
    }

    fn settle(&mut self) {
        let mut steps = 0;
        while self.happen() {
            steps += 1;
            assert!(steps < 1_000_000, "it never ends");
        }
        assert!(self.coordinator.is_idle(), "stuck: {:?}\n{:?}", self.coordinator, self.workers);
        assert!(self.workers.iter().all(Worker::is_idle));
        assert!(self.toys.iter().all(|toy| toy.waiting() == 0));
    }

    fn round(&mut self, now: u64) {
        self.ask_again();
        if self.slow.is_empty() {
            self.coordinate(coordinator::Input::Tick { now: Timestamp(now) });
            self.settle();
            return;
        }
        // The coordinator learns of work; what is on its way between workers may stay there.
        while !self.coordinator.has_work() && self.happen() {}
        self.coordinate(coordinator::Input::Tick { now: Timestamp(now) });
        let mut steps = 0;
        while !self.coordinator.is_idle() {
            assert!(self.happen(), "stuck: {:?}\n{:?}", self.coordinator, self.workers);
            steps += 1;
            assert!(steps < 1_000_000, "it never ends");
        }
    }

    /// A round with a snapshot at its beginning, whose entities are handed over some time, or at its end.
    fn round_with_snapshot(&mut self, now: u64) {
        self.ask_again();
        let first = self.random.chance(700);
        if first {
            self.coordinate(coordinator::Input::Snapshot);
        }
        self.coordinate(coordinator::Input::Tick { now: Timestamp(now) });
        if !first {
            self.coordinate(coordinator::Input::Snapshot);
        }
        self.settle();
    }

    /// Operators' keys get a prefix or lose it, each the other way about than before.
    fn rekey(&mut self, version: u64, epoch: u64) {
        let mut deployment = toy::deployment(version);
        deployment.id = format!("{}_{epoch}", deployment.id);
        for operator in &mut deployment.operators {
            let has_prefix = self.coordinator.catalog().find(toy::APP, &operator.name).unwrap().composite;
            operator.key_prefix = (!has_prefix).then(|| "p".into());
        }
        let control = Control::Rekey(deployment);
        self.coordinate(coordinator::Input::Control { control, waiter: Some(REKEYING) });
    }

    /// Every entity is with the worker that is asked for it, in its partition there, and nothing else is anywhere.
    fn is_where_it_is_looked_for(&self, oracle: &Oracle) {
        let layout = self.workers[0].state().layout();
        for (entity, operator, key) in oracle.entities(layout) {
            let owner = self.placement.owner(entity.partition());
            assert!(self.workers[usize::from(owner.0)].state().get(&entity).is_some(), "{operator} {key}");
        }
        let here: usize = self.workers.iter().map(|worker| worker.state().len()).sum();
        assert_eq!(here, oracle.len(), "nothing is anywhere else");
    }

    /// Begins with a snapshot of another cluster.
    fn restore(&mut self, taken: &Taken) {
        for worker in &mut self.workers {
            let (me, layout) = (worker.view().me, worker.state().layout());
            worker.restore(taken.restored(layout, |partition| self.placement.owner(partition) == me));
        }
        let restored = taken.restored(self.workers[0].state().layout(), |_| false);
        let carried = restored.carried.iter().map(|carried| carried.tid).collect();
        self.coordinator.restore(&restored.frame, carried, restored.laid_in);
    }
}

/// Compares one log from a live run with its replays on other clusters; with `late`, messages of the live run may
/// arrive in a later round than that in which they were sent.
fn check(seed: u64, late: bool) -> [usize; 8] {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let layout = Layout::new(random.number(), random.pick(&[2, 5, 16]));
    let modes = random.pick(&Modes::LADDER.map(|(_, modes)| modes));
    let modes = if random.chance(500) { Modes::CACHING } else { modes };
    let config = Config { snapshots: !late, ..config(layout, modes, random.pick(&[1, 2, 1000])) };
    let shape = Shape::draw(&mut random);
    let workers = random.between(2, 4) as u16;
    let mut live = Cluster::new(&config, workers, Random::new(random.number()));
    if late {
        live.slow_down();
    }
    let version = random.between(1, 9);
    live.coordinate(coordinator::Input::Control {
        control: Control::Deploy(toy::deployment(version)),
        waiter: Some(u64::MAX),
    });
    live.round(1);
    let mut id = 0u64;
    let mut queries: Vec<(u64, Arc<Request>)> = Vec::new();
    let migrates = random.chance(600);
    if migrates && Random::new(seed ^ 0x0a11).chance(500) {
        live.mode = MovingMode::Immediate;
    }
    for epoch in 2..random.between(3, if migrates { 10 } else { 6 }) {
        if migrates && random.chance(600) {
            live.migrate();
        }
        if Random::new(seed ^ (epoch << 32)).chance(250) {
            live.rekey(version, epoch);
            if migrates && Random::new(seed ^ (epoch << 33)).chance(500) {
                // It is to be noticed by a migration that begins before all is where it is to be.
                live.coordinate(coordinator::Input::Tick { now: Timestamp(epoch) });
                live.migrate();
            }
        }
        for _ in 0..random.between(1, 24) {
            id += 1;
            let key = keys::name(u64::from(shape.key(&mut random))).into();
            let query = random.chance(100);
            let program = shape.program(&mut random, query);
            let (function, args): (&str, Value) = match random.below(1000) {
                _ if query => ("q", toy::args(0, shape.keys, &program).into()),
                0..40 => ("styx.put", random.number().to_le_bytes()[..].into()),
                40..60 => ("styx.delete", Value::default()),
                _ => ("f", toy::args(0, shape.keys, &program).into()),
            };
            let request = Request {
                id: RequestId(u128::from(id)),
                operator: OperatorId(random.below(2) as u32),
                function: function.into(),
                key,
                args,
                retained: random.chance(200),
                origin: None,
            };
            let worker = if request.retained || random.chance(900) {
                sequencer_of(&request, &layout, live.coordinator.catalog(), &live.placement)
            } else {
                WorkerId(random.below(u64::from(workers)) as u16)
            };
            if query {
                let request = Arc::new(request);
                queries.push((id, request.clone()));
                let request = ClientRequest::Query { request, waiter: id };
                live.work(usize::from(worker.0), worker::Input::Client(request));
            } else {
                live.asked.insert(id, Arc::new(request));
                live.ask(id, worker);
            }
        }
        if !late && random.chance(500) {
            live.round_with_snapshot(epoch);
        } else {
            live.round(epoch);
        }
    }
    if late {
        live.settle();
    }
    let mut now = 100;
    while live.coordinator.has_work() || !live.returned.is_empty() {
        now += 1;
        assert!(now < 300, "what is rescheduled never ends");
        live.round(now);
        if late && !live.coordinator.has_work() {
            live.settle();
        }
    }
    assert_eq!(live.replies.len() as u64, id, "everybody is answered");
    if late {
        live.settle();
    }
    // Whoever asks again is told the same, by who owns the partition of the request by now.
    let retained: Vec<u64> = live.asked.iter().filter(|(_, request)| request.retained).map(|(id, _)| *id).collect();
    for id in retained {
        let before = live.replies.remove(&id);
        let at = sequencer_of(&live.asked[&id], &layout, live.coordinator.catalog(), &live.placement);
        live.ask(id, at);
        assert_eq!(live.replies.get(&id), before.as_ref(), "seed {seed}: request {id}");
    }
    live.figures[7] +=
        live.log.iter().flat_map(|record| &record.controls).filter(|control| control.may_rekey()).count();
    live.figures[5] += live.migrations;
    live.figures[6] += live.runs;

    // The claimed order, run serially, comes to the same.
    let mut oracle = Oracle::new(layout.seed, false);
    let requests: BTreeMap<Tid, (Timestamp, Arc<Request>)> = live
        .log
        .iter()
        .flat_map(|record| record.transactions().map(|(tid, request)| (tid, (record.time, request.clone()))))
        .collect();
    let mut records = live.log.iter().peekable();
    for (at, epoch) in live.epochs.iter().enumerate() {
        // Rounds of queries have no record.
        let Some(record) = records
            .next_if(|record| at == 0 || live.epochs[at - 1].chain == record.before && epoch.chain != record.before)
        else {
            assert!(epoch.order.is_empty());
            continue;
        };
        record.controls.iter().for_each(|control| oracle.control(control));
        for rank in &epoch.order {
            let (time, request) = &requests[&rank.tid()];
            let expected = oracle.transaction(rank.tid(), time.0, false, request);
            let outcome = &epoch.outcomes[&rank.tid()];
            assert!(
                same(&expected, outcome),
                "seed {seed}: {rank:?} of epoch {} came to {outcome:x?}, and serially to {expected:x?}\n{}",
                record.epoch,
                shown(request),
            );
            let said = live.said(|tid, _| tid == rank.tid());
            assert!(
                said == oracle.said || is_stopped(outcome),
                "seed {seed}: lines of {rank:?}, which came to {outcome:x?}\n{}",
                shown(request)
            );
        }
        // One that deploys something answers queries with what was before it.
        let is_base =
            |id: &u64| live.bases[id] == record.epoch.0 && !record.controls.iter().any(Control::is_deployment);
        for (id, request) in queries.iter().filter(|(id, _)| is_base(id)) {
            let expected = oracle.transaction(Tid(0), live.ran[&request.id].0, true, request);
            let (outcome, program) = (&live.replies[id], shown(request));
            assert!(same(&expected, outcome), "seed {seed}: {outcome:x?}, and serially {expected:x?}\n{program}");
            let said = live.said(|tid, line| tid == Tid(0) && line.request == request.id);
            let is_said = said == oracle.said || is_stopped(outcome);
            assert!(is_said, "seed {seed}: lines of a query, which came to {outcome:x?}\n{program}");
        }
    }
    live.is_where_it_is_looked_for(&oracle);
    let epochs: Vec<&Epoch> = {
        let mut before = Chain::default();
        live.epochs.iter().filter(|epoch| std::mem::replace(&mut before, epoch.chain) != epoch.chain).collect()
    };
    assert_eq!(epochs.len(), live.log.len());
    if std::env::var("STYX_TRACE").is_ok() {
        println!("live on {workers} workers, {:?}", config.modes);
        for (tid, (_, request)) in &requests {
            println!("{tid} {}.{} {}: {}", request.operator, request.function, request.key, shown(request));
        }
        for epoch in &epochs {
            println!("{epoch:?}");
        }
    }
    for workers in 1..=4 {
        println!("  on {workers}");
        let seat = random.number();
        let mut recovered = Cluster::new(&config, workers, Random::new(seat));
        for record in &live.log {
            recovered.coordinate(coordinator::Input::Replay(record.clone()));
            recovered.settle();
        }
        assert_eq!(recovered.coordinator.position(), live.coordinator.position(), "seed {seed}: what is recovered");
        assert!(recovered.epochs.iter().all(|epoch| epoch.order.is_empty()), "nothing is executed to recover");
        recovered.is_where_it_is_looked_for(&oracle);
        // Who executes a record again, and has everything, postpones nobody.
        let executes = live.mode != MovingMode::Immediate || live.migrations == 0;
        if executes {
            let mut again = Cluster::new(&config, workers, Random::new(seat));
            for (at, record) in live.log.iter().enumerate() {
                again.coordinate(coordinator::Input::Replay(without_outcome(record)));
                again.settle();
                let (live, again) = (epochs[at], &again.epochs[at]);
                assert_eq!(live, again, "seed {seed}: epoch {} comes to something else on {workers} workers", at + 1);
            }
            assert_eq!(recovered.holds(), again.holds(), "seed {seed}: what is recovered on {workers} workers");
        }
        let Some(epoch) = live.taken.epoch() else { continue };
        let mut restored = Cluster::new(&config, workers, Random::new(random.number()));
        restored.restore(&live.taken);
        for (at, record) in live.log.iter().enumerate().skip(epoch.0 as usize) {
            let record = if executes { without_outcome(record) } else { record.clone() };
            restored.coordinate(coordinator::Input::Replay(record));
            restored.settle();
            let (live, restored) = (epochs[at], restored.epochs.last().expect("one has ended"));
            assert!(
                if executes { live == restored } else { live.chain == restored.chain },
                "seed {seed}: epoch {} comes to something else on {workers} workers that begin after epoch {epoch}: {live:?}, {restored:?}",
                at + 1
            );
        }
        restored.is_where_it_is_looked_for(&oracle);
        live.figures[4] += usize::from(restored.epochs.len() > 1);
    }
    live.figures
}

/// Whether something has ended that nobody wanted to end: it is open how much its functions did afterwards.
fn is_stopped(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|abort| abort.code != Code::Aborted)
}

fn shown(request: &Request) -> String {
    if SystemFunction::named(&request.function).is_some() {
        return format!("{:x?}", request.args);
    }
    toy::show(&request.args[2..])
}

fn worlds(late: bool, worlds: u64) {
    let worlds = std::env::var("STYX_WORLDS").map_or(worlds, |worlds| worlds.parse().unwrap());
    let first = std::env::var("STYX_SEED").map_or(0, |seed| seed.parse().unwrap());
    let mut figures = [0; 8];
    for seed in first..first + worlds {
        let found = check(seed, late);
        figures.iter_mut().zip(found).for_each(|(sum, number)| *sum += number);
    }
    let [committed, fell_back, rescheduled, shared, restored, migrations, runs, rekeys] = figures;
    println!("{committed} committed at once, {fell_back} in the fallback, {rescheduled} moved, {shared} shared");
    println!("{restored} clusters began with a snapshot, several epochs before the end");
    println!("{migrations} migrations, {runs} runs that needed what was still to come");
    println!("{rekeys} times an operator's keys got a prefix or lost it");
    let expected = figures.iter().enumerate().filter(|(at, _)| !late || *at != 4);
    assert!(worlds < 100 || expected.clone().all(|(_, number)| *number as u64 > worlds / 10), "{figures:?}");
}

#[test]
fn where_entities_live_changes_nothing() {
    worlds(false, 3000);
}

#[test]
fn a_message_that_arrives_in_a_later_round_changes_nothing() {
    worlds(true, 3000);
}

/// What machines are told and do is the same on every machine and in every build: a change shows that one was made, and of
/// whose worlds.
#[test]
fn what_machines_say_is_known() {
    let _transcript = scenario!("cluster");
    for (seed, late) in (0..DIGESTED).flat_map(|seed| [(seed, false), (seed, true)]) {
        DIGEST.set(Some(Digest::default()));
        let [committed, fell_back, rescheduled, shared, ..] = check(seed, late);
        let digest = DIGEST.take().expect("it was there a moment ago");
        let world = format!("world {seed}{}", if late { ", late" } else { "" });
        let figures = format!("{committed} at once, {fell_back} in the fallback, {rescheduled} moved, {shared} shared");
        did(&format_args!("{world}: {figures}: {digest}"));
    }
}

/// Three workers, an app whose functions say something if they do nothing else, and a key of each worker.
fn wordy(suspended_max: usize) -> (Cluster, [u8; 3]) {
    let config = config(Layout::new(3, 16), Modes::CACHING, suspended_max);
    let mut live = Cluster::new(&config, 3, Random::new(1));
    let says = |version: &u64| version % 8 < 3 && toy::fold(0, *version).is_multiple_of(4);
    let control = Control::Deploy(toy::deployment((1..250).find(says).unwrap()));
    live.coordinate(coordinator::Input::Control { control, waiter: Some(u64::MAX) });
    live.round(1);
    let owner = |number: &u8| {
        let key = keys::name(u64::from(*number)).into();
        live.placement.owner(Entity::new(&config.layout, OperatorId(0), false, key).partition())
    };
    let keys = [0, 1, 2].map(|worker| (0..100).find(|number| owner(number) == WorkerId(worker)).unwrap());
    (live, keys)
}

impl Cluster {
    /// The worker of a key is asked for a program.
    fn ask_for(&mut self, id: u64, query: bool, key: u8, program: &[Op<'_>]) {
        let (function, args) = if query {
            ("q", toy::args(0, 100, &Op::program(program)))
        } else {
            ("f", toy::args(0, 100, &Op::program(program)))
        };
        let request = Request {
            id: RequestId(id.into()),
            operator: OperatorId(0),
            function: function.into(),
            key: keys::name(key.into()).into(),
            args: args.into(),
            retained: false,
            origin: None,
        };
        let at = sequencer_of(&request, &self.workers[0].state().layout(), self.coordinator.catalog(), &self.placement);
        let request = Arc::new(request);
        let request = if query {
            ClientRequest::Query { request, waiter: id }
        } else {
            ClientRequest::Submit { request, waiter: id, receipt: false }
        };
        self.work(usize::from(at.0), worker::Input::Client(request));
    }

    /// Rounds, until nothing is left to be done.
    fn rounds(&mut self) {
        self.settle();
        while self.coordinator.has_work() {
            self.round(9);
        }
    }

    /// Lines of a request that were shown for an entity: where, and by which function.
    fn shown(&self, id: u64, key: u8) -> Vec<(usize, LogLevel, OperatorId, u16)> {
        let is_of = |line: &LogLine| line.request == RequestId(id.into()) && *line.key == *keys::name(key.into());
        let lines = self.lines.iter().filter(|(.., line)| is_of(line));
        lines.map(|(at, _, line)| (*at, line.level, line.operator, line.function)).collect()
    }
}

/// A call of the read-only function.
fn calls(key: u8, body: &[u8]) -> Call<'_> {
    Call { operator: 0, function: 1, place: Place::Key(key), pass: false, body }
}

#[test]
fn what_functions_log_on_another_worker_is_shown_there_once() {
    let (mut live, [here, there, _]) = wordy(100);
    let mut asked = Vec::new();
    for query in [true, false] {
        for n in 0..5 {
            let call = calls(there, &[]);
            for op in [Op::Call(call), Op::CallAsync(call)] {
                asked.push((query, asked.len() as u64));
                live.ask_for(asked.len() as u64 - 1, query, here, &[op, Op::AbortIfMultipleOf(n)]);
            }
        }
    }
    live.rounds();
    let line = (1, LogLevel::Info, OperatorId(0), 1);
    let mut ends = Vec::new();
    for (query, id) in asked {
        let ended = live.replies[&id].is_ok();
        // What is called asynchronously runs when its caller has returned.
        let expected = if ended || id.is_multiple_of(2) { vec![line] } else { vec![] };
        assert_eq!(live.shown(id, there), expected, "request {id}, a query: {query}, ended well: {ended}");
        ends.push((query, ended));
    }
    for end in [true, false].into_iter().flat_map(|query| [(query, true), (query, false)]) {
        assert!(ends.contains(&end), "{end:?}");
    }
}

#[test]
fn what_an_attempt_logs_that_does_not_count_is_not_shown() {
    // In a serial run the first call fails, and there is no second one. Beside each other there was.
    let (mut live, [here, there, third]) = wordy(100);
    let fails = Op::program(&[Op::Random, Op::AbortIfMultipleOf(0)].repeat(10));
    for (id, query) in [(0, true), (1, false)] {
        let program = [Op::CallAsync(calls(third, &fails)), Op::CallAsync(calls(there, &[]))];
        live.ask_for(id, query, here, &program);
        live.rounds();
        assert!(live.replies[&id].is_err(), "{:?}", live.replies[&id]);
        assert_eq!(live.shown(id, there), [], "a query: {query}");
    }
    // Where nobody else may wait, most are refused, and run again one after the other.
    let (mut live, [here, there, third]) = wordy(1);
    let inner = Op::program(&[Op::Call(calls(third, &[]))]);
    for id in 0..20 {
        live.ask_for(id, id.is_multiple_of(2), here, &[Op::Call(calls(there, &inner)), Op::Call(calls(third, &[]))]);
    }
    live.rounds();
    for id in 0..20 {
        assert_eq!(live.shown(id, third).len(), 2, "request {id}");
        assert!(live.shown(id, third).iter().all(|(at, ..)| *at == 2));
    }
}

/// A scan that finds more bytes than it may fails, whether one worker has all of them or each of several too many.
#[test]
fn a_scan_of_too_many_bytes_fails_wherever_entities_live() {
    let config = config(Layout::new(3, 16), Modes::CACHING, 100);
    let program = |ops: &[Op<'_>]| {
        let mut code = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut code));
        toy::args(0, 100, &code)
    };
    let set = |number: u8| program(&[Op::Set(Place::Key(number), 7)]);
    let scan = |limit, reverse| {
        program(&[Op::Scan(Scan { prefix: None, lower: Bound::Unbounded, upper: Bound::Unbounded, limit, reverse })])
    };
    // 32 times the payload is room for 33 entries of 31 bytes.
    let mut deployment = toy::deployment(1);
    deployment.limits.payload = 32;
    let scans = [(33, true), (34, false), (99, false), (0, false)]
        .into_iter()
        .flat_map(|(limit, fits)| [(scan(limit, false), fits), (scan(limit, true), fits)]);
    let scans: Vec<_> = scans.collect();
    let mut live = Cluster::new(&config, 3, Random::new(1));
    live.coordinate(coordinator::Input::Control { control: Control::Deploy(deployment), waiter: Some(u64::MAX) });
    live.round(1);
    let programs = (0..60).map(set).chain(scans.iter().map(|(program, _)| program.clone()));
    for (id, args) in programs.enumerate() {
        let (operator, function, key) = (OperatorId(0), "f".into(), keys::name(0).into());
        let id = id as u64;
        let request = Request {
            id: RequestId(id.into()),
            operator,
            function,
            key,
            args: args.into(),
            retained: false,
            origin: None,
        };
        let worker = sequencer_of(&request, &config.layout, live.coordinator.catalog(), &live.placement);
        let request = ClientRequest::Submit { request: Arc::new(request), waiter: id, receipt: false };
        live.work(usize::from(worker.0), worker::Input::Client(request));
        live.round(2 + id);
    }
    for (id, (_, fits)) in scans.iter().enumerate() {
        let outcome = &live.replies[&(60 + id as u64)];
        let exceeded = outcome.as_ref().is_err_and(|abort| abort.code == Code::LimitExceeded);
        assert_eq!((outcome.is_ok(), exceeded), (*fits, !*fits), "scan {id}: {outcome:?}");
    }
    for workers in 1..=4 {
        let mut again = Cluster::new(&config, workers, Random::new(workers.into()));
        for record in &live.log {
            again.coordinate(coordinator::Input::Replay(without_outcome(record)));
            again.settle();
        }
        assert!(again.epochs == live.epochs, "on {workers} workers");
    }
}

#[test]
fn a_placement_takes_effect_with_an_epoch_and_stands_in_the_log() {
    let config = config(Layout::new(3, 8), Modes::CACHING, 100);
    let mut live = Cluster::new(&config, 3, Random::new(1));
    let deploy = |version| Control::Deploy(toy::deployment(version));
    live.coordinate(coordinator::Input::Control { control: deploy(1), waiter: Some(0) });
    live.round(1);
    let first = (*live.placement).clone();
    assert_eq!(
        live.log[0].controls[0],
        Control::Place(first.clone()),
        "a generation's first record says who owns what"
    );

    let owners: Vec<_> = first.owners().iter().map(|owner| WorkerId((owner.0 + 1) % 3)).collect();
    let next = first.next(owners.clone());
    live.coordinate(coordinator::Input::Migrate { owners, mode: MovingMode::Online, waiter: Some(MIGRATION) });
    live.settle();
    assert!(!live.coordinator.has_work(), "it waits for a snapshot");
    assert!(live.workers.iter().all(|worker| worker.view().placement.version() == first.version()));
    live.round_with_snapshot(2);
    live.round(3);
    assert!(live.workers.iter().all(|worker| *worker.view().placement == next), "at all workers with the same epoch");
    assert_eq!(live.log[1].controls, [Control::Place(next.clone())]);

    // Another membership has its own owners, whatever the log says.
    let mut again = Cluster::new(&config, 2, Random::new(2));
    for record in &live.log {
        again.coordinate(coordinator::Input::Replay(record.clone()));
        again.settle();
    }
    assert_eq!(again.coordinator.position(), live.coordinator.position());
    assert!(again.workers.iter().all(|worker| worker.view().placement == again.placement));
}

#[test]
fn entities_are_placed_anew_where_keys_get_a_prefix_and_again_where_they_lose_it() {
    let config = config(Layout::new(3, 64), Modes::CACHING, 100);
    let mut live = Cluster::new(&config, 3, Random::new(1));
    let control = |live: &mut Cluster, control| {
        live.coordinate(coordinator::Input::Control { control, waiter: Some(0) });
        let now = live.log.len() as u64 + 1;
        live.round(now);
    };
    control(&mut live, Control::Deploy(toy::deployment(1)));
    let ask = |live: &mut Cluster, id: u64, function: &str, args: &[u8]| {
        let request = Request {
            id: RequestId(u128::from(id)),
            operator: OperatorId(0),
            function: function.into(),
            key: keys::name(id).into(),
            args: args.into(),
            retained: false,
            origin: None,
        };
        live.asked.insert(id, Arc::new(request));
        live.ask(id, WorkerId((id % 3) as u16));
    };
    for id in 0..200 {
        ask(&mut live, id, "styx.put", &id.to_le_bytes());
    }
    live.rounds();
    // Of each worker, the partitions in which it has something.
    let taken = |live: &Cluster| -> Vec<usize> {
        let taken = |worker: &Worker<u64>| worker.state().partitions().iter().filter(|one| !one.is_empty()).count();
        live.workers.iter().map(taken).collect()
    };
    let (before, version) = (taken(&live), live.placement.version());
    assert!(before.iter().sum::<usize>() > 40, "{before:?}");
    live.rekey(1, 1);
    live.round(10);
    assert_eq!(taken(&live).iter().sum::<usize>(), 4, "there are four prefixes");
    assert!(live.placement.version() > version, "who has looked before is to look again");
    let rekeyed = live.log.last().unwrap();
    assert!(matches!(rekeyed.controls[..], [Control::Rekey(_), Control::Place(_)]), "{:?}", rekeyed.controls);
    assert!(rekeyed.outcome.as_ref().unwrap().changes.writes.is_empty(), "nothing was written");
    let chain = live.coordinator.position().1;
    // Without rekeying there is no way back; a version that has the same keys is none.
    let back = |deployment: &str| Activation { app: toy::APP.into(), deployment: deployment.into() };
    let refused = live.coordinator.catalog().check(&Control::Activate(back("dp_1"))).unwrap_err();
    assert!(refused.message.contains("exists with a key prefix"), "{refused:?}");
    control(&mut live, Control::RekeyTo(back("dp_1")));
    assert_eq!(taken(&live), before);
    let again = live.placement.version();
    control(&mut live, Control::RekeyTo(back("dp_1")));
    assert_eq!(live.placement.version(), again);
    assert_ne!(live.coordinator.position().1, chain, "epochs have gone on");
}

#[test]
fn while_partitions_move_keys_stay_as_they_are() {
    let config = config(Layout::new(3, 8), Modes::CACHING, 100);
    let mut live = Cluster::new(&config, 2, Random::new(1));
    live.coordinate(coordinator::Input::Control { control: Control::Deploy(toy::deployment(1)), waiter: Some(0) });
    live.round(1);
    let rekeyed = || Control::Rekey(toy::rekeyed(3));
    let owners: Vec<_> = live.placement.owners().iter().map(|owner| WorkerId(1 - owner.0)).collect();
    let migrate = coordinator::Input::Migrate { owners, mode: MovingMode::Online, waiter: Some(MIGRATION) };
    // One has come before the migration, and its epoch is behind: it is not in the log.
    let mut actions = Vec::new();
    live.coordinator.step(coordinator::Input::Control { control: rekeyed(), waiter: Some(REKEYING) }, &mut actions);
    assert!(actions.is_empty());
    live.coordinate(migrate);
    live.round(2);
    live.coordinate(coordinator::Input::Control { control: rekeyed(), waiter: Some(REKEYING) });
    live.round_with_snapshot(3);
    live.round(4);
    assert!(!live.migrating);
    let in_log = |live: &Cluster| live.log.iter().flat_map(|record| &record.controls).any(Control::may_rekey);
    assert!(!in_log(&live), "it was refused twice");
    live.coordinate(coordinator::Input::Control { control: rekeyed(), waiter: Some(0) });
    live.round(5);
    assert!(in_log(&live));
}

#[test]
fn a_migration_that_cannot_be_is_refused() {
    let config = config(Layout::new(3, 8), Modes::CACHING, 100);
    let mut live = Cluster::new(&config, 2, Random::new(1));
    let first = (*live.placement).clone();
    let other: Vec<_> = first.owners().iter().map(|owner| WorkerId(1 - owner.0)).collect();
    let controlled = |live: &mut Cluster, input| {
        let mut actions = Vec::new();
        live.coordinator.step(input, &mut actions);
        match actions.into_iter().next() {
            Some(coordinator::Action::Controlled { result: Err(abort), .. }) => abort.message.to_string(),
            action => format!("{action:?}"),
        }
    };
    let place = coordinator::Input::Control { control: Control::Place(first.next(other.clone())), waiter: Some(0) };
    assert_eq!(controlled(&mut live, place), "partitions change their owner by a migration");
    for (owners, why) in [
        (first.owners().to_vec(), "every partition is where it is to be"),
        (other[1..].to_vec(), "every partition has an owner, and there are not more"),
        (vec![WorkerId(2); 8], "an owner is no member of the cluster"),
    ] {
        assert_eq!(
            controlled(&mut live, coordinator::Input::Migrate { owners, mode: MovingMode::Online, waiter: Some(0) }),
            why
        );
    }
    live.coordinate(coordinator::Input::Migrate {
        owners: other.clone(),
        mode: MovingMode::Online,
        waiter: Some(MIGRATION),
    });
    let second =
        controlled(&mut live, coordinator::Input::Migrate { owners: other, mode: MovingMode::Online, waiter: Some(0) });
    assert_eq!(second, "another migration is under way: wait for its end, or cancel it");
    live.coordinate(coordinator::Input::CancelMigration);
    live.settle();
    assert!(!live.migrating && live.migrations == 0);
}

/// A cluster where a round has ended and the next one is under way at the first worker.
fn in_the_second_round() -> Cluster {
    let config = config(Layout::new(3, 8), Modes::CACHING, 100);
    let mut live = Cluster::new(&config, 3, Random::new(1));
    let control = |version| Control::Deploy(toy::deployment(version));
    live.coordinate(coordinator::Input::Control { control: control(1), waiter: Some(0) });
    live.round(1);
    live.coordinate(coordinator::Input::Control { control: control(2), waiter: Some(1) });
    live.coordinate(coordinator::Input::Tick { now: Timestamp(2) });
    let pair = (Node::Coordinator, Node::Worker(WorkerId(0)));
    let begin = live.mail.get_mut(&pair).unwrap().pop_front().unwrap();
    assert!(matches!(&begin, Message::Durable(_) | Message::Begin(_)), "{begin:?}");
    live.work(0, worker::Input::Message { from: Node::Coordinator, message: begin });
    while let Some(message) = live.mail.get_mut(&pair).unwrap().pop_front() {
        live.work(0, worker::Input::Message { from: Node::Coordinator, message });
    }
    assert!(!live.workers[0].is_idle());
    live
}

/// What a worker asks for when another one sends it mail.
fn mailed(live: &mut Cluster, mail: Mail) -> Vec<worker::Action<u64>> {
    let from = Node::Worker(WorkerId(2));
    let mut actions = Vec::new();
    live.workers[0].step(worker::Input::Message { from, message: Message::Graphs(mail) }, &mut actions);
    actions
}

/// The end of a call that was re-invoked from cached parameters goes to whoever issued the call. Nobody waits for it:
/// where that function fails before it calls, its graph is over, and so may its round be, when the end arrives.
#[test]
fn a_result_that_arrives_a_round_late_is_dropped() {
    let mut live = in_the_second_round();
    let result = CachedResult { graph: GraphId(7), number: 1, place: 3, answer: RemoteResponse::Noted };
    let late = Mail { round: Round(1), fallback: true, results: vec![result], ..Mail::default() };
    assert!(mailed(&mut live, late).is_empty());
    live.settle();
    assert_eq!(live.coordinator.position().0.0, 2, "the epoch goes on as if nothing had come");
}

#[test]
fn mail_that_cannot_be_applied_is_the_fault_of_its_sender() {
    let decision = Decision { graph: GraphId(7), number: 1, ending: Ending::Commits };
    let ack = Ack { graph: GraphId(7), number: 1, share: None, report: Report::default() };
    let question = Question { fragment: 1, index: 0 };
    let reply = OrderReply {
        graph: GraphId(7),
        number: 1,
        question,
        answer: RemoteResponse::Noted,
        share: None,
        used: Usage::default(),
        report: Report::default(),
    };
    let mail = |round, fallback| Mail { round: Round(round), fallback, ..Mail::default() };
    for (mail, why) in [
        (Mail { acks: vec![ack.clone()], ..mail(1, true) }, "its phase is over, and somebody waits for what it asks"),
        (Mail { acks: vec![ack.clone()], ..mail(2, false) }, "its call graph is not known here"),
        (Mail { replies: vec![reply], ..mail(2, false) }, "its call graph is not known here"),
        (Mail { decisions: vec![decision], ..mail(2, false) }, "its call graph is not known here"),
        (Mail { acks: vec![ack.clone()], ..mail(3, false) }, "its phase is not the next one"),
        (Mail { acks: vec![ack], ..mail(9, true) }, "its phase is not the next one"),
    ] {
        let mut live = in_the_second_round();
        let actions = mailed(&mut live, mail);
        let [worker::Action::Fault(fault)] = &actions[..] else { panic!("{why}: {actions:?}") };
        assert_eq!(fault.to_string(), format!("worker 2 sent Graphs, which cannot be applied: {why}"));
        live.settle();
        assert_eq!(live.coordinator.position().0.0, 2, "the machine is as it was");
    }
}

#[test]
fn messages_out_of_place_are_faults_too() {
    let mut live = in_the_second_round();
    let coordinator = Node::Coordinator;
    for (from, message) in [
        (coordinator, Message::Snapshot),
        (coordinator, Message::Decide { round: Round(2), bits: vec![] }),
        (coordinator, Message::WorkAvailable),
        (Node::Worker(WorkerId(1)), Message::Drain),
    ] {
        let name = message.name();
        let mut actions = Vec::new();
        live.workers[0].step(worker::Input::Message { from, message }, &mut actions);
        assert!(matches!(&actions[..], [worker::Action::Fault(fault)] if fault.what == name && fault.from == from));
    }
    for message in [
        Message::Executed { round: Round(1), ends: vec![], queries: vec![] },
        Message::Share { round: Round(3), requests: vec![], carried: vec![] },
        Message::Bits { round: Round(2), bits: vec![] },
        Message::Drain,
    ] {
        let (name, from) = (message.name(), WorkerId(1));
        let mut actions = Vec::new();
        live.coordinator.step(coordinator::Input::Message { from, message }, &mut actions);
        assert!(matches!(&actions[..], [coordinator::Action::Fault(fault)] if fault.what == name), "{actions:?}");
    }
    live.settle();
    assert_eq!(live.coordinator.position().0.0, 2);
    let mut actions = Vec::new();
    let message = Message::Executed { round: Round(2), ends: vec![], queries: vec![] };
    live.coordinator.step(coordinator::Input::Message { from: WorkerId(1), message }, &mut actions);
    let [coordinator::Action::Fault(fault)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(fault.why, "no round is under way");
}
