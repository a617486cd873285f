//! The real machines of a cluster, driven in one thread, everything in order: what they tell each
//! other is counted, what they do is timed.
//!
//! Messages are encoded and decoded as between processes; there is no network, no disk and no
//! guest. Times are of this machine, and are not reproducible; counts are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use styx_protocol::attempt::Placement;
use styx_protocol::entity::Layout;
use styx_protocol::fallback::{Executor, run_component};
use styx_protocol::ids::{Timestamp, WorkerId};
use styx_protocol::machine::message::{Message, Node};
use styx_protocol::machine::{Action, Batch, Config, Coordinator, Executed, FallbackBatch, Input, Worker};
use styx_protocol::modes::Modes;
use styx_protocol::record::{Chain, Record};
use styx_protocol::replies::Retention;
use styx_protocol::task::{LocalView, Started, Task, TaskExecutor};

use super::bank::{self, Bank, Transfers};
use super::cost::{Op, Sample};
use super::load::{Kind, Load, Traffic};

/// Functions that may wait for others on a worker; a quarter of them is handed out at once.
const SUSPENDED_MAX: usize = 1024;

/// Roots that a worker hands out at once.
pub const BATCH: usize = SUSPENDED_MAX / 4;

/// What waits to happen to a node.
enum Event {
    Tick,
    Message(Node, Kind, usize, Vec<u8>),
    Execute(Batch),
    Advance(Vec<Task>),
    FallBack(FallbackBatch),
    Durable(styx_protocol::ids::Epoch),
}

/// See the module.
pub struct Cluster {
    load: Load,
    coordinator: Coordinator<()>,
    workers: Vec<Worker<()>>,
    bank: Bank,
    hands: Vec<Transfers>,
    events: VecDeque<(Node, Event)>,
    /// Whether workers are told only of graphs that they took part in.
    addressed: bool,
    now: u64,
    /// Messages since the last epoch began.
    pub traffic: BTreeMap<Kind, Traffic>,
    /// What steps took, since the last epoch began.
    pub samples: Vec<Sample>,
    /// Bytes of the last epoch's record.
    pub record_bytes: usize,
    /// Transactions that ended since the last epoch began: at once, and in the fallback.
    pub ended: [u64; 2],
}

impl Cluster {
    /// A cluster that has the app deployed.
    pub fn new(load: Load) -> Self {
        let layout = Layout { seed: 7, partitions: 16 * load.workers };
        let config = Config {
            layout,
            modes: Modes::CACHING,
            epoch_size_max: load.transactions,
            epoch_bytes_max: 64 << 20,
            backlog_max: 2 * load.transactions,
            suspended_max: SUSPENDED_MAX,
            retention: Retention::default(),
            engine: 0,
            generation: 1,
            snapshots: false,
            claim_order: false,
        };
        let placement = Arc::new(Placement::round_robin(layout.partitions, load.workers));
        let worker = |me| Worker::new(config.clone(), LocalView { me: WorkerId(me), placement: placement.clone() });
        let mut cluster = Cluster {
            load,
            workers: (0..load.workers).map(worker).collect(),
            coordinator: Coordinator::new(config.clone(), placement.clone()),
            bank: Bank::new(load, &layout, &placement),
            hands: (0..load.workers).map(|_| Transfers::default()).collect(),
            events: VecDeque::new(),
            addressed: false,
            now: 0,
            traffic: BTreeMap::new(),
            samples: Vec::new(),
            record_bytes: 0,
            ended: [0; 2],
        };
        cluster.step(Node::Coordinator, Input::Control { control: bank::deployment(), waiter: () });
        cluster.settle();
        cluster
    }

    /// Tells workers only of graphs that they took part in, from now on.
    pub fn address(&mut self) {
        self.addressed = true;
    }

    /// The state hash chain after the last epoch.
    pub fn chain(&self) -> Chain {
        self.coordinator.position().1
    }

    /// Runs one epoch.
    pub fn epoch(&mut self) {
        for worker in 0..self.load.workers {
            for request in self.bank.requests(usize::from(worker)) {
                let input = Input::Submit { request: Arc::new(request), waiter: (), receipt: false };
                self.step(Node::Worker(WorkerId(worker)), input);
            }
        }
        self.settle();
    }

    /// Cuts an epoch, and lets everything happen.
    fn settle(&mut self) {
        // Who wakes the coordinator between epochs does so while the next one fills.
        self.happen();
        self.traffic.clear();
        self.samples.clear();
        self.ended = [0; 2];
        self.events.push_back((Node::Coordinator, Event::Tick));
        self.happen();
        assert!(self.coordinator.is_idle() && !self.coordinator.has_work(), "an epoch ends, and all is done then");
    }

    fn happen(&mut self) {
        while let Some((node, event)) = self.events.pop_front() {
            self.take(node, event);
        }
    }

    fn take(&mut self, node: Node, event: Event) {
        let hand = match node {
            Node::Coordinator => 0,
            Node::Worker(worker) => usize::from(worker.0),
        };
        let hands = &mut self.hands[hand];
        let (op, features, started, input) = match event {
            Event::Tick => {
                self.now += 1000;
                (Op::Tell(Kind::Begin), [0; 3], Instant::now(), Input::Tick { now: Timestamp(self.now) })
            }
            Event::Durable(epoch) => (Op::Tell(Kind::Durable), [0; 3], Instant::now(), Input::Durable(epoch)),
            Event::Message(from, kind, items, bytes) => {
                let decoding = Instant::now();
                let mut message = Message::decode(&bytes).expect("it was encoded");
                let nanos = decoding.elapsed().as_nanos() as u64;
                self.samples.push(Sample { op: Op::Decode(kind), features: [1, 0, items], nanos });
                if let (Node::Worker(to), true) = (node, self.addressed) {
                    address(&mut message, to);
                }
                let (op, features) = match node {
                    Node::Coordinator => (Op::Hear(kind), [1, 0, items]),
                    Node::Worker(_) => self.follow(kind, items),
                };
                (op, features, Instant::now(), Input::Message { from, message })
            }
            Event::Execute(batch) => {
                let mut start = |transaction| match &batch.seat {
                    Some(seat) => TaskExecutor::start(hands, transaction, &batch.state, &batch.catalog, seat),
                    None => Started::Local(hands.execute(transaction, &batch.state, &batch.catalog)),
                };
                let transactions: Vec<Started> = batch.transactions.iter().map(&mut start).collect();
                drop(batch);
                let features = [1, transactions.len(), 0];
                let executed = Executed { transactions, queries: Vec::new() };
                (Op::Executed, features, Instant::now(), Input::Executed(executed))
            }
            Event::Advance(tasks) => {
                let features = [1, tasks.len(), 0];
                let advanced = tasks.into_iter().map(|task| hands.advance(task)).collect();
                (Op::Advanced, features, Instant::now(), Input::TaskProgress(advanced))
            }
            Event::FallBack(batch) => {
                let run = |members: &Vec<_>| run_component(hands, members, &batch.state, &batch.catalog);
                let outcomes: Vec<_> = batch.components.iter().map(run).collect();
                let features = [1, outcomes.len(), 0];
                drop(batch);
                (Op::FellBack, features, Instant::now(), Input::FellBack(outcomes))
            }
        };
        self.step_timed(node, op, features, started, input);
    }

    fn step(&mut self, node: Node, input: Input<()>) {
        self.step_timed(node, Op::Submit, [1, 0, 0], Instant::now(), input);
    }

    /// What a message makes a worker do.
    fn follow(&self, kind: Kind, items: usize) -> (Op, [usize; 3]) {
        let load = self.load;
        let part_of = load.transactions + load.all_shared() * (load.parts - 1) / usize::from(load.workers);
        match kind {
            Kind::Settle if load.all_shared() == 0 => (Op::Commit, [load.conflicts(), part_of, 0]),
            Kind::Decide => (Op::Follow(kind), [load.conflicts(), part_of, 0]),
            Kind::Begin | Kind::Settle => (Op::Follow(kind), [1, part_of, 0]),
            _ => (Op::Follow(kind), [1, items, 0]),
        }
    }

    /// A step, which ends when what it says is encoded.
    fn step_timed(&mut self, node: Node, mut op: Op, mut features: [usize; 3], started: Instant, input: Input<()>) {
        let mut actions = Vec::new();
        match node {
            Node::Coordinator => self.coordinator.step(input, &mut actions),
            Node::Worker(worker) => self.workers[usize::from(worker.0)].step(input, &mut actions),
        }
        let mut outgoing = Vec::new();
        let mut rest = Vec::new();
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    let (kind, items) = Kind::of(&message);
                    outgoing.push((to, kind, items, message.encode()));
                }
                other => rest.push(other),
            }
        }
        let nanos = started.elapsed().as_nanos() as u64;
        // What the last message of a phase makes the coordinator say costs more than to hear it.
        if let (Node::Coordinator, [(_, kind, items, _), ..]) = (node, &outgoing[..]) {
            (op, features) = (Op::Tell(*kind), [outgoing.len(), outgoing.len() * items, *items]);
        }
        self.samples.push(Sample { op, features, nanos });
        for (to, kind, items, bytes) in outgoing {
            let traffic = self.traffic.entry(kind).or_default();
            traffic.messages += 1;
            traffic.items += items;
            traffic.bytes += bytes.len();
            self.events.push_back((to, Event::Message(node, kind, items, bytes)));
        }
        rest.into_iter().for_each(|action| self.perform(node, action));
    }

    fn perform(&mut self, node: Node, action: Action<()>) {
        match action {
            Action::Append(record) => {
                let (epoch, requests) = (record.epoch, record.transactions().count());
                let started = Instant::now();
                self.record_bytes = Record::Epoch(record).encode().len();
                let nanos = started.elapsed().as_nanos() as u64;
                self.samples.push(Sample { op: Op::Record, features: [1, requests, 0], nanos });
                self.events.push_back((Node::Coordinator, Event::Durable(epoch)));
            }
            Action::Execute(batch) => self.events.push_back((node, Event::Execute(batch))),
            Action::RunTasks(tasks) => self.events.push_back((node, Event::Advance(tasks))),
            Action::FallBack(batch) => self.events.push_back((node, Event::FallBack(batch))),
            Action::Finished(summary) if node == Node::Coordinator => {
                self.ended[0] += summary.counts.committed;
                self.ended[1] += summary.counts.fell_back;
            }
            Action::Controlled { result, .. } => result.expect("the app can be deployed"),
            Action::Reply { reply, .. } => assert!(reply.outcome.is_ok(), "a transfer failed: {:?}", reply.outcome),
            Action::Finished(_) => {}
            other => unreachable!("nobody asked for {other:?}"),
        }
    }
}

/// Leaves of a message what concerns this worker: what it would be sent if the coordinator looked
/// at who took part. One end stays, for it says that there are some.
fn address(message: &mut Message, to: WorkerId) {
    if let Message::Settle { ends, .. } = message {
        let first = ends.first().cloned();
        ends.retain(|end| end.workers.contains(to));
        if ends.is_empty() {
            ends.extend(first);
        }
    }
}
