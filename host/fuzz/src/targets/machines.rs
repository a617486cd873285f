//! Coordinator and workers, whose peers do not keep to the protocol: messages come twice, late, from and to others, and say
//! something else than their sender did. A machine refuses what it cannot apply; nothing that a peer sends ends the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Operation, Reader, RemoteResponse};
use styx_protocol::control::Control;
use styx_protocol::entity::Layout;
use styx_protocol::executor::Executor;
use styx_protocol::fallback::run_component;
use styx_protocol::ids::{EngineHash, Epoch, Generation, OperatorId, RequestId, Timestamp, WorkerId};
use styx_protocol::machine::worker::{ClientRequest, Executed};
use styx_protocol::machine::{Config, Coordinator, Worker, coordinator, worker};
use styx_protocol::message::{Message, Node};
use styx_protocol::modes::Modes;
use styx_protocol::placement::Placement;
use styx_protocol::replies::Retention;
use styx_protocol::route::sequencer_of;
use styx_protocol::task::{LocalView, LongTask, RunId, Started, TaskExecutor};
use styx_protocol::transaction::Request;
use styx_sim::random::Random;
use styx_sim::toy::{self, Shape, Toy, keys};

use crate::choices::Choices;

const WORKERS: u16 = 2;
/// Bytes that choose.
const CHOICES_MAX: usize = 600;
/// Steps after the last choice: what was sent comes to its end, or stands still, as what was refused leaves it.
const STEPS_MAX: usize = 2000;

/// Work that a machine waits for.
enum Work {
    Worker(usize, Box<worker::Action<u64>>),
    Durable(Epoch),
    Continue(usize),
    /// A run of a long transaction goes on.
    Long(usize, RunId),
}

/// A run of a long transaction, with what it has read so far: it is run again from its start after each answer.
struct Long {
    task: LongTask,
    read: Vec<RemoteResponse>,
}

/// Answers as before, and notes what is asked then.
#[derive(Debug)]
struct ReadAgain {
    known: std::vec::IntoIter<RemoteResponse>,
    asked: Arc<Mutex<Option<Operation>>>,
}

impl Reader for ReadAgain {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        self.known.next().unwrap_or_else(|| {
            self.asked.lock().expect("nobody panics while it is held").get_or_insert(operation);
            RemoteResponse::Failed(Abort::new(Code::Interrupted, "not read yet"))
        })
    }
}

struct Cluster {
    coordinator: Coordinator<u64>,
    workers: Vec<Worker<u64>>,
    toys: Vec<Toy>,
    longs: BTreeMap<(usize, RunId), Long>,
    placement: Arc<Placement>,
    layout: Layout,
    mail: BTreeMap<(Node, Node), VecDeque<Message>>,
    work: Vec<Work>,
    sent: Vec<(Node, Node, Message)>,
    now: u64,
    requests: u64,
    /// A machine has refused something.
    refused: bool,
}

impl Cluster {
    /// Of a thousand transactions, `postponed` use up their slice.
    fn new(modes: Modes, postponed: u32) -> Self {
        let layout = Layout::new(7, 4);
        let config = Config {
            layout,
            modes,
            epoch_size_max: 8,
            epoch_fuel_max: 1 << 40,
            record_bytes_max: 1 << 14,
            backlog_max: 32,
            suspended_max: 2,
            long_max: 2,
            retention: Retention::default(),
            engine: EngineHash(0),
            generation: Generation(1),
            snapshots: true,
            step_max: 2,
            piece_bytes: 100,
            claim_order: false,
        };
        let placement = Arc::new(Placement::round_robin(layout.partitions, WORKERS));
        let view = |me| LocalView { me: WorkerId(me), placement: placement.clone() };
        let mut cluster = Cluster {
            coordinator: Coordinator::new(config.coordinator(), placement.clone()),
            workers: (0..WORKERS).map(|me| Worker::new(config.worker(), view(me))).collect(),
            toys: (0..WORKERS).map(|me| Toy::postponing(postponed, Random::new(me.into()))).collect(),
            longs: BTreeMap::new(),
            placement: placement.clone(),
            layout,
            mail: BTreeMap::new(),
            work: Vec::new(),
            sent: Vec::new(),
            now: 0,
            requests: 0,
            refused: false,
        };
        cluster
            .coordinate(coordinator::Input::Control { control: Control::Deploy(toy::deployment(1)), waiter: Some(0) });
        cluster.tick();
        cluster.settle();
        cluster
    }

    fn tick(&mut self) {
        self.now += 1;
        self.coordinate(coordinator::Input::Tick { now: Timestamp(self.now) });
    }

    fn coordinate(&mut self, input: coordinator::Input<u64>) {
        let mut actions = Vec::new();
        self.coordinator.step(input, &mut actions);
        for action in actions {
            match action {
                coordinator::Action::Send { to, message } => self.post(Node::Coordinator, Node::Worker(to), message),
                coordinator::Action::Append(record) => self.work.push(Work::Durable(record.epoch)),
                coordinator::Action::Fault(_) | coordinator::Action::Expel { .. } => self.refused = true,
                coordinator::Action::Controlled { .. }
                | coordinator::Action::Snapshot(_)
                | coordinator::Action::Placed(_)
                | coordinator::Action::Finished(_) => {}
            }
        }
    }

    fn step(&mut self, at: usize, input: worker::Input<u64>) {
        let mut actions = Vec::new();
        self.workers[at].step(input, &mut actions);
        for action in actions {
            match action {
                worker::Action::Send { to, message } => self.post(Node::Worker(WorkerId(at as u16)), to, message),
                worker::Action::Fault(_) => self.refused = true,
                worker::Action::Respond(_)
                | worker::Action::Logs { .. }
                | worker::Action::Discard(_)
                | worker::Action::Finished(_) => {}
                worker::Action::Changes { last: true, .. } => {}
                worker::Action::StartLong(task) => {
                    self.work.push(Work::Long(at, task.run));
                    self.longs.insert((at, task.run), Long { task, read: Vec::new() });
                }
                worker::Action::LongRead { run, answer } => {
                    if let Some(long) = self.longs.get_mut(&(at, run)) {
                        long.read.push(answer);
                        self.work.push(Work::Long(at, run));
                    }
                }
                action => self.work.push(Work::Worker(at, Box::new(action))),
            }
        }
        let continues = |work: &Work| matches!(work, Work::Continue(of) if *of == at);
        if self.workers[at].is_unfinished() && !self.work.iter().any(continues) {
            self.work.push(Work::Continue(at));
        }
    }

    fn post(&mut self, from: Node, to: Node, message: Message) {
        self.sent.push((from, to, message.clone()));
        self.mail.entry((from, to)).or_default().push_back(message);
    }

    fn deliver(&mut self, from: Node, to: Node, message: Message) {
        match (from, to) {
            (Node::Worker(from), Node::Coordinator) => self.coordinate(coordinator::Input::Message { from, message }),
            (from, Node::Worker(to)) => self.step(usize::from(to.0), worker::Input::Message { from, message }),
            (Node::Coordinator, Node::Coordinator) => {}
        }
    }

    /// Delivers one message or does one piece of work; false if there is none.
    fn happen(&mut self, choice: usize) -> bool {
        self.mail.retain(|_, mail| !mail.is_empty());
        let things = self.mail.len() + self.work.len();
        if things == 0 {
            return false;
        }
        let choice = choice % things;
        if let Some((&(from, to), mail)) = self.mail.iter_mut().nth(choice) {
            let message = mail.pop_front().expect("it is not empty");
            self.deliver(from, to, message);
            return true;
        }
        match self.work.swap_remove(choice - self.mail.len()) {
            Work::Continue(at) => self.step(at, worker::Input::Continue),
            Work::Long(at, run) => {
                let input = self.run_long(at, run);
                self.step(at, input);
            }
            Work::Durable(epoch) => self.coordinate(coordinator::Input::Durable(epoch)),
            Work::Worker(at, action) => {
                for input in done(&mut self.toys[at], *action) {
                    self.step(at, input);
                }
            }
        }
        true
    }

    /// Runs a long transaction as far as its reads have been answered.
    fn run_long(&mut self, at: usize, run: RunId) -> worker::Input<u64> {
        let Long { task, read } = &self.longs[&(at, run)];
        let asked = Arc::new(Mutex::new(None));
        let reader = ReadAgain { known: read.clone().into_iter(), asked: asked.clone() };
        let execution = Toy::default().run_long(task, Box::new(reader));
        let asked = asked.lock().expect("nobody panics while it is held").take();
        match asked {
            Some(operation) => worker::Input::LongRead { run, operation },
            None => {
                self.longs.remove(&(at, run));
                worker::Input::LongEnded { run, execution: Box::new(execution) }
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.happen(0) {
                break;
            }
        }
    }

    fn submit(&mut self, seed: u64, query: bool) {
        self.requests += 1;
        let mut random = Random::new(seed);
        let mut shape = Shape::draw(&mut random);
        (shape.keys, shape.steps_max) = (8, 4);
        let program = shape.program(&mut random, query);
        let request = Request {
            id: RequestId(u128::from(self.requests)),
            operator: OperatorId(random.below(2) as u32),
            function: toy::FUNCTIONS[usize::from(query)].into(),
            key: keys::name(u64::from(shape.key(&mut random))).into(),
            args: toy::args(0, shape.keys, &program).into(),
            retained: random.chance(300),
            origin: None,
        };
        let to = sequencer_of(&request, &self.layout, self.coordinator.catalog(), &self.placement);
        let waiter = self.requests;
        let request = if query {
            ClientRequest::Query { request: Arc::new(request), waiter }
        } else {
            ClientRequest::Submit { request: Arc::new(request), waiter, receipt: false }
        };
        self.step(usize::from(to.0), worker::Input::Client(request));
    }

    /// A message that is on its way says something else when it arrives.
    fn alter(&mut self, choices: &mut Choices<'_>) {
        self.mail.retain(|_, mail| !mail.is_empty());
        let Some(at) = choices.below(256).checked_rem(self.mail.len()) else { return };
        let Some((&(from, to), mail)) = self.mail.iter_mut().nth(at) else { return };
        let mut bytes = mail.pop_front().expect("it is not empty").encode();
        for _ in 0..=choices.below(3) {
            // Numbers stand near the end, behind the texts that they name.
            let at = usize::from(u16::from_le_bytes([choices.byte(), choices.byte()])) % bytes.len();
            let changed = &mut bytes[at];
            *changed = match choices.below(4) {
                0 => changed.wrapping_add(1),
                1 => changed.wrapping_sub(1),
                2 => choices.byte(),
                _ => *changed ^ 1 << choices.below(8),
            };
        }
        match Message::decode(&bytes) {
            Ok(message) => self.deliver(from, to, message),
            // Whoever cannot read what a peer says gives it up.
            Err(_) => self.refused = true,
        }
    }

    /// A message that was sent before comes again, or to somebody else, or from somebody else.
    fn mislead(&mut self, choices: &mut Choices<'_>) {
        let Some((mut from, mut to, message)) = self.sent.iter().nth_back(choices.below(32)).cloned() else { return };
        if choices.below(4) == 0 {
            let nodes = [Node::Coordinator, Node::Worker(WorkerId(0)), Node::Worker(WorkerId(1))];
            (from, to) = (nodes[choices.below(3)], nodes[choices.below(3)]);
        }
        if from != to {
            self.deliver(from, to, message);
        }
    }
}

/// What becomes of work.
fn done(toy: &mut Toy, action: worker::Action<u64>) -> Vec<worker::Input<u64>> {
    match action {
        worker::Action::Execute(batch) => {
            let mut start = |transaction| match &batch.view {
                Some(view) => toy.start(transaction, &batch.state, &batch.catalog, view),
                None => Started::Local(toy.execute(transaction, &batch.state, &batch.catalog)),
            };
            let transactions = batch.transactions.iter().map(&mut start).collect();
            let queries = batch.queries.iter().map(&mut start).collect();
            vec![worker::Input::Executed(Executed { transactions, queries })]
        }
        worker::Action::RunTasks(tasks) => {
            tasks.into_iter().map(|task| worker::Input::TaskProgress(vec![toy.advance(task)])).collect()
        }
        worker::Action::FallBack(batch) => {
            let run = |members: &Vec<_>| run_component(toy, members, &batch.state, &batch.catalog);
            vec![worker::Input::FellBack(batch.components.iter().map(run).collect())]
        }
        worker::Action::WorkerSnapshot(_) | worker::Action::Changes { .. } => vec![worker::Input::HandOver],
        _ => Vec::new(),
    }
}

fn run(bytes: &[u8], postponed: u32) -> Cluster {
    let mut choices = Choices::new(&bytes[..bytes.len().min(CHOICES_MAX)]);
    let mut cluster = Cluster::new(Modes::LADDER[choices.below(Modes::LADDER.len())].1, postponed);
    // Who has refused something goes on until its generation ends.
    while !choices.is_empty() {
        match choices.below(16) {
            0 | 1 => cluster.submit(choices.number(), false),
            2 => cluster.submit(choices.number(), true),
            3 => cluster.tick(),
            4 => cluster.coordinate(coordinator::Input::Snapshot),
            5 if choices.below(8) == 0 => cluster.coordinate(coordinator::Input::Drain),
            6..=8 => cluster.mislead(&mut choices),
            9 => cluster.settle(),
            10 => cluster.alter(&mut choices),
            _ => {
                let choice = choices.below(256);
                cluster.happen(choice);
            }
        }
    }
    cluster.settle();
    cluster
}

/// True if nothing was refused.
pub fn machines(bytes: &[u8]) -> bool {
    !run(bytes, 0).refused
}

/// The same, where many transactions are longer than an epoch.
pub fn long(bytes: &[u8]) -> bool {
    !run(bytes, 400).refused
}

/// Choices with which everybody keeps to the protocol, then some with which not, then some with which messages are altered.
pub fn stories() -> Vec<Vec<u8>> {
    let good = |seed: u8| {
        let asked = (0..6).flat_map(|at| [0, seed * 6 + at]);
        [vec![seed], asked.collect(), vec![2, seed, 3, 9, 4, 9, 3, 9]].concat()
    };
    let random = |seed: u64| {
        let mut random = Random::new(seed);
        (0..400).map(|_| random.number() as u8).collect()
    };
    (0..8).map(good).chain((0..8).map(random)).chain(ALTERED.map(altered)).collect()
}

/// Of these each ended a process by something else that a peer had made up.
const ALTERED: [u64; 20] = [
    73, 156, 204, 212, 213, 587, 1219, 1369, 1495, 2552, 2559, 2626, 3488, 3999, 4845, 6147, 9477, 13915, 15906, 16692,
];

/// Choices with which everybody works together, and messages are altered now and then.
fn altered(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![random.number() as u8];
    for _ in 0..random.between(50, 400) {
        match random.below(12) {
            0 | 1 => bytes.extend([0, random.number() as u8]),
            2 => bytes.extend([2, random.number() as u8]),
            3 => bytes.push(3),
            4 if random.below(6) == 0 => {
                let (which, times) = (random.number() as u8, random.number() as u8 % 3);
                bytes.extend([10, which, times]);
                bytes.extend((0..4).map(|_| random.number() as u8));
            }
            5 if random.below(20) == 0 => bytes.push(9),
            6 if random.below(20) == 0 => bytes.push(4),
            _ => bytes.extend([11, random.number() as u8]),
        }
    }
    bytes
}

/// Messages of the good stories.
fn sent(postponed: u32) -> impl Iterator<Item = (Node, Node, Message)> {
    stories().into_iter().take(8).flat_map(move |story| run(&story, postponed).sent)
}

/// What machines say to each other in the good stories, each sort a few times, with long transactions and without.
pub fn messages() -> Vec<Vec<u8>> {
    let mut kept: BTreeMap<(u32, &str, bool), Vec<Vec<u8>>> = BTreeMap::new();
    for postponed in [0, 400] {
        for (_, _, message) in sent(postponed) {
            let joins = matches!(&message, Message::Graphs(mail) if !(mail.joins.is_empty() && mail.joined.is_empty()));
            let kept = kept.entry((postponed, message.name(), joins)).or_default();
            if kept.len() < 8 {
                kept.push(message.encode());
            }
        }
    }
    kept.into_values().flatten().collect()
}
