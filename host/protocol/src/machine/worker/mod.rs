//! A worker's state machine: admits requests, and does its part of each round.
//!
//! It owns partitions, sequences the requests that come to it, remembers the ends of those that
//! brought a key, and tells their clients, once the coordinator says that the record is durable.

mod drain;
mod epoch;
mod fall_back;
pub(crate) mod graphs;
mod io;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use io::{Action, Batch, ClientRequest, ClientResponse, Config, Executed, FallbackBatch, Input};

use self::epoch::Phase;
use super::outbox::Outbox;
use crate::abort::{Abort, Code};
use crate::commit::replies::{Known, Reply, ReplyTable};
use crate::execute::task::LocalView;
use crate::ids::{Epoch, PartitionId, RequestId, Round, Tid, Timestamp, WorkerId};
use crate::machine::worker::graphs::Graphs;
use crate::mutants::{Bug, planted};
use crate::sequence::catalog::Catalog;
use crate::sequence::record::Chain;
use crate::sequence::route::sequencer_of;
use crate::sequence::sequencer::Sequencer;
use crate::sequence::transaction::{Request, Transaction};
use crate::snapshot::{CarriedTransaction, RestoredState, WorkerSnapshot};
use crate::state::{Partition, State};
use crate::wire::fault::{PeerFault, why};
use crate::wire::message::{Mail, Message, Node};

/// The machine of a worker. `W` names a waiting client; it is handed back with the reply, never looked at.
#[derive(Debug)]
pub struct Worker<W> {
    config: Config,
    view: LocalView,
    state: Arc<State>,
    catalog: Arc<Catalog>,
    sequencer: Sequencer,
    replies: ReplyTable,
    admitted: VecDeque<Slot<W>>,
    /// Body hashes of admitted requests whose reply is kept, until they are sequenced.
    admitted_bodies: BTreeMap<RequestId, u64>,
    queries: VecDeque<(Request, W)>,
    carried: Vec<Slot<W>>,
    /// Further clients that wait for a request under way.
    waiting: BTreeMap<RequestId, Vec<W>>,
    /// Further clients that wait for the receipt of an admitted request. Which epoch it will be
    /// part of is not known yet: the next ones may be full.
    receipts: BTreeMap<RequestId, Vec<W>>,
    phase: Phase<W>,
    /// The last round that ended here.
    round: Round,
    /// The last epoch that ended here.
    epoch: Epoch,
    /// The chain after the epoch before: the coordinator knows the newest.
    chain: Chain,
    time: Timestamp,
    outbox: Outbox<ClientResponse<W>>,
    graphs: Graphs,
    /// Mail of a phase that this worker has not reached.
    early: Vec<(WorkerId, Mail)>,
    /// Nothing new is cut any more.
    draining: bool,
    /// The coordinator knows that there is something to do.
    woke: bool,
    handing_over: HandingOver,
    hand_over_most: usize,
}

/// Whether changes of entities are handed over for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandingOver {
    /// All is handed over.
    Done,
    /// Whenever the driver takes more.
    Offered,
    /// The driver takes more as soon as nobody reads the state.
    Asked,
}

/// A transaction and the client that waits for it.
#[derive(Debug)]
struct Slot<W> {
    pub transaction: Transaction,
    pub waiter: Option<W>,
    /// The client is told once the request is durable, not once it ends.
    pub receipt: bool,
}

/// Changes handed over at once, between two rounds.
const HAND_OVER_MOST: usize = 4096;

impl<W> Worker<W> {
    /// A worker with an empty state.
    pub fn new(config: Config, view: LocalView) -> Self {
        let workers = u64::from(view.placement.workers());
        let mut worker = Worker {
            state: Arc::new(State::new(config.layout)),
            catalog: Arc::default(),
            sequencer: Sequencer::new(u64::from(view.me.0) + 1, workers),
            replies: ReplyTable::new(config.retention),
            admitted: VecDeque::new(),
            admitted_bodies: BTreeMap::new(),
            queries: VecDeque::new(),
            carried: Vec::new(),
            waiting: BTreeMap::new(),
            receipts: BTreeMap::new(),
            phase: Phase::Idle,
            round: Round(0),
            epoch: Epoch(0),
            chain: Chain::default(),
            time: Timestamp(0),
            outbox: Outbox::default(),
            graphs: Graphs::new(view.me, config.suspended_max),
            early: Vec::new(),
            draining: false,
            woke: false,
            handing_over: HandingOver::Done,
            hand_over_most: HAND_OVER_MOST,
            view,
            config,
        };
        if worker.config.snapshots {
            worker.exclusive_state().track();
            worker.replies.track();
        }
        worker
    }

    /// Begins where a snapshot was taken, instead of with nothing.
    pub fn restore(&mut self, restored: RestoredState) {
        let RestoredState { frame, partitions, carried, replies } = restored;
        (self.epoch, self.time) = (frame.epoch, frame.time);
        self.catalog = Arc::new(Catalog::restored(&frame.catalog));
        let state = self.exclusive_state();
        partitions.into_iter().for_each(|(id, partition)| state.restore(id, partition));
        self.replies.restore(replies);
        for CarriedTransaction { tid, time, request } in carried {
            let sequencer = sequencer_of(&request, &self.config.layout, &self.catalog, &self.view.placement);
            if sequencer != self.view.me {
                continue;
            }
            if request.retained {
                self.replies.begin(request.id, request.body_hash());
            }
            let transaction = Transaction { tid, time, request, query: false };
            self.carried.push(Slot { transaction, waiter: None, receipt: false });
        }
        self.carried.sort_unstable_by_key(|slot| slot.transaction.tid);
        // Partitions that were put into their place are new.
        if self.config.snapshots {
            self.exclusive_state().track();
        }
    }

    /// Hands over at most so many changes at once from now on; by default a millisecond's work.
    pub fn hand_over_most(&mut self, changes: usize) {
        self.hand_over_most = changes;
    }

    /// The committed state that is here.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }
    /// What is deployed.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
    /// Which worker this is.
    pub fn view(&self) -> &LocalView {
        &self.view
    }
    /// The last epoch that ended here, and the state hash chain after the one before it.
    pub fn position(&self) -> (Epoch, Chain) {
        (self.epoch, self.chain)
    }
    /// Whether no round is under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }
    /// Whether a round would find anything to do here.
    pub fn has_work(&self) -> bool {
        !(self.admitted.is_empty() && self.queries.is_empty() && self.carried.is_empty())
    }
    /// Requests that wait for an epoch.
    pub fn backlog(&self) -> usize {
        self.admitted.len() + self.queries.len()
    }
    /// Replies remembered.
    pub fn remembered(&self) -> usize {
        self.replies.len()
    }

    /// Takes one input; pushes what is to be done.
    ///
    /// # Panics
    /// When the driver or another node breaks the protocol.
    pub fn step(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        match input {
            Input::Client(request) => self.client(request, actions),
            Input::Executed(executed) => self.executed(executed, actions),
            Input::TaskProgress(advanced) => {
                self.graphs.advanced(advanced);
                self.go_on(actions);
            }
            Input::FellBack(outcomes) => self.fell_back(outcomes, actions),
            Input::HandOver => {
                assert_ne!(self.handing_over, HandingOver::Done, "all is handed over");
                self.handing_over = HandingOver::Asked;
            }
            Input::Message { from, message } => self.on_message(from, message, actions),
        }
        if self.handing_over == HandingOver::Asked && self.is_idle() {
            self.hand_over(actions);
        }
        // Between rounds the coordinator must be told; during one it will ask.
        if !self.woke && self.is_idle() && self.has_work() {
            self.woke = true;
            self.send(Node::Coordinator, Message::WorkAvailable, actions);
        }
    }

    fn client(&mut self, request: ClientRequest<W>, actions: &mut Vec<Action<W>>) {
        match request {
            ClientRequest::Submit { request, waiter, receipt } => self.submit(request, waiter, receipt, actions),
            ClientRequest::Query { waiter, .. } if self.draining => {
                actions.push(Action::Respond(ClientResponse::Returned { waiter }));
            }
            ClientRequest::Query { request, waiter } => {
                if self.has_room() {
                    self.queries.push_back((request, waiter));
                } else {
                    actions.push(self.refuse(request.id, waiter, overloaded()));
                }
            }
            ClientRequest::Await { id, waiter } => self.wait_for(id, waiter, actions),
        }
    }

    /// Answers a client once `epoch` is durable.
    fn respond(&mut self, epoch: Epoch, response: ClientResponse<W>, actions: &mut Vec<Action<W>>) {
        actions.extend(self.outbox.hold(epoch, response).map(Action::Respond));
    }

    fn send(&self, to: Node, message: Message, actions: &mut Vec<Action<W>>) {
        actions.push(Action::Send { to, message });
    }

    fn on_message(&mut self, from: Node, message: Message, actions: &mut Vec<Action<W>>) {
        match (from, message) {
            (Node::Coordinator, Message::Begin(begin)) => self.begin(begin, actions),
            (Node::Coordinator, Message::Settle { round, logged, ends }) => self.settle(round, logged, ends, actions),
            (Node::Coordinator, Message::Decide { round, bits }) => self.decide(round, bits, actions),
            (Node::Coordinator, Message::Snapshot) => self.part(actions),
            (Node::Coordinator, Message::Drain) => self.drain(actions),
            (Node::Coordinator, Message::Durable(epoch)) => {
                actions.extend(self.outbox.release(epoch).map(Action::Respond))
            }
            (Node::Worker(worker), Message::Graphs(mail)) => self.mail(worker, mail, actions),
            (from, message) => self.fault(from, message.name(), why::NOT_FOR_THIS, actions),
        }
    }

    /// A peer's message is not applied.
    fn fault(&self, from: Node, what: &'static str, why: &'static str, actions: &mut Vec<Action<W>>) {
        actions.push(Action::Fault(PeerFault { from, what, why }));
    }

    /// Notes this worker's part of a snapshot.
    fn part(&mut self, actions: &mut Vec<Action<W>>) {
        if !self.is_idle() {
            return self.fault(Node::Coordinator, "Snapshot", why::ANOTHER_PHASE, actions);
        }
        if self.handing_over != HandingOver::Done {
            return self.fault(Node::Coordinator, "Snapshot", why::SNAPSHOT_UNDER_WAY, actions);
        }
        self.handing_over = HandingOver::Offered;
        self.exclusive_state().cut_delta();
        let owned = |(id, _): &(PartitionId, &Partition)| self.view.placement.owner(*id) == self.view.me;
        let partitions = self.state.partitions().iter().enumerate();
        let partitions = partitions.map(|(at, partition)| (PartitionId(at as u16), partition));
        let carried = self.carried.iter().map(|Slot { transaction, .. }| CarriedTransaction {
            tid: transaction.tid,
            time: transaction.time,
            request: transaction.request.clone(),
        });
        let part = WorkerSnapshot {
            epoch: self.epoch,
            hashes: partitions.filter(owned).map(|(id, partition)| (id, partition.hash())).collect(),
            carried: carried.collect(),
            replies: self.replies.cut(),
        };
        actions.push(Action::WorkerSnapshot(Box::new(part)));
    }

    /// Hands over some of what has changed up to the snapshot.
    fn hand_over(&mut self, actions: &mut Vec<Action<W>>) {
        let mut changes = Vec::new();
        let most = self.hand_over_most;
        let last = self.exclusive_state().hand_over(most, &mut changes);
        self.handing_over = if last { HandingOver::Done } else { HandingOver::Offered };
        actions.push(Action::Changes { changes, last });
    }

    fn has_room(&self) -> bool {
        self.backlog() < self.config.backlog_max
    }

    fn submit(&mut self, request: Arc<Request>, waiter: W, receipt: bool, actions: &mut Vec<Action<W>>) {
        if request.retained {
            let seen = self.replies.get(request.id).map(|(known, body)| (Some(known.clone()), body));
            // `None`: admitted, and not yet sequenced.
            let (known, body) = match seen {
                Some(seen) => seen,
                None => match self.admitted_bodies.get(&request.id) {
                    Some(&body) if !planted(Bug::DuplicatesAdmitted) => (None, body),
                    _ => return self.admit(request, waiter, receipt, actions),
                },
            };
            if body != request.body_hash() && !planted(Bug::BodiesNotCompared) {
                let abort = Abort::new(
                    Code::IdempotencyMismatch,
                    "this idempotency key was used before with another request; use a new key",
                );
                actions.push(self.refuse(request.id, waiter, abort));
                return;
            }
            // A duplicate: the first one's end is the answer.
            match known {
                Some(Known::Done(reply)) => {
                    let response = if receipt {
                        ClientResponse::Accepted { waiter, id: request.id }
                    } else {
                        ClientResponse::Reply { waiter, reply: reply.clone() }
                    };
                    self.respond(reply.epoch, response, actions);
                }
                None if receipt => {
                    self.receipts.entry(request.id).or_default().push(waiter);
                }
                Some(Known::Pending) if receipt => {
                    let accepted = ClientResponse::Accepted { waiter, id: request.id };
                    self.respond(self.current(), accepted, actions);
                }
                Some(Known::Pending) | None => self.waiting.entry(request.id).or_default().push(waiter),
            }
            return;
        }
        self.admit(request, waiter, receipt, actions);
    }

    fn admit(&mut self, request: Arc<Request>, waiter: W, receipt: bool, actions: &mut Vec<Action<W>>) {
        if self.draining {
            return actions.push(Action::Respond(ClientResponse::Returned { waiter }));
        }
        if !self.has_room() {
            actions.push(self.refuse(request.id, waiter, overloaded()));
            return;
        }
        if request.retained {
            self.admitted_bodies.insert(request.id, request.body_hash());
        }
        let transaction = Transaction { tid: Tid(0), time: Timestamp(0), request, query: false };
        self.admitted.push_back(Slot { transaction, waiter: Some(waiter), receipt });
    }

    fn refuse(&self, id: RequestId, waiter: W, abort: Abort) -> Action<W> {
        let reply = Reply { id, tid: Tid(0), epoch: Epoch(0), outcome: Err(abort) };
        Action::Respond(ClientResponse::Reply { waiter, reply })
    }

    fn wait_for(&mut self, id: RequestId, waiter: W, actions: &mut Vec<Action<W>>) {
        match self.replies.get(id) {
            Some((Known::Done(reply), _)) => {
                let (epoch, reply) = (reply.epoch, reply.clone());
                self.respond(epoch, ClientResponse::Reply { waiter, reply }, actions);
            }
            Some((Known::Pending, _)) => self.waiting.entry(id).or_default().push(waiter),
            None if self.admitted_bodies.contains_key(&id) => self.waiting.entry(id).or_default().push(waiter),
            None => actions.push(Action::Respond(ClientResponse::Unknown { waiter })),
        }
    }

    /// The epoch under way, or the last one that ended.
    fn current(&self) -> Epoch {
        match &self.phase {
            Phase::Idle => self.epoch,
            Phase::Running(running) => running.epoch(),
        }
    }
}

fn overloaded() -> Abort {
    Abort::new(Code::Overloaded, "too many requests are waiting; try again in a moment")
}
