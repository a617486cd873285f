//! The worker's state machine: inputs in, actions out.
//!
//! One epoch at a time: cut, Execute, validate, commit, fall back (Styx §4.2, §6). The driver
//! executes batches on threads, appends records, and tells what has become durable; it decides
//! nothing. Execution does not wait for durability; replies do: those of epoch *e* are held
//! until the record of *e* is durable.

mod epoch;
mod io;
mod outbox;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use io::{Action, Batch, Config, EpochSummary, Executed, FallbackBatch, Input};

use crate::abort::{Abort, Code};
use crate::catalog::{Catalog, Control};
use crate::ids::{Epoch, RequestId, Tid, Timestamp};
use crate::mutants::{Bug, planted};
use crate::record::Chain;
use crate::replies::{Known, Reply, ReplyTable};
use crate::sequencer::Sequencer;
use crate::state::State;
use crate::transaction::{Request, Transaction};
use epoch::Phase;
use outbox::Outbox;

/// The machine. `W` names a waiting client; it is handed back with the reply, never looked at.
#[derive(Debug)]
pub struct Machine<W> {
    config: Config,
    state: Arc<State>,
    catalog: Arc<Catalog>,
    sequencer: Sequencer,
    replies: ReplyTable,
    admitted: VecDeque<Slot<W>>,
    /// Body hashes of admitted requests whose reply is kept, until they are sequenced.
    admitted_bodies: BTreeMap<RequestId, u64>,
    queries: VecDeque<(Request, W)>,
    controls: VecDeque<(Control, Option<W>)>,
    carried: Vec<Slot<W>>,
    /// Further clients that wait for a request under way.
    waiting: BTreeMap<RequestId, Vec<W>>,
    /// Further clients that wait for the receipt of an admitted request. Which epoch it will be
    /// part of is not known yet: the next ones may be full.
    receipts: BTreeMap<RequestId, Vec<W>>,
    phase: Phase<W>,
    /// The last epoch that ended.
    epoch: Epoch,
    chain: Chain,
    time: Timestamp,
    outbox: Outbox<W>,
}

/// A transaction and the client that waits for it.
#[derive(Debug)]
struct Slot<W> {
    transaction: Transaction,
    waiter: Option<W>,
    /// The client is told once the request is durable, not once it ends.
    receipt: bool,
}

impl<W> Machine<W> {
    /// A machine with an empty state.
    pub fn new(config: Config) -> Self {
        Machine {
            state: Arc::new(State::new(config.layout)),
            catalog: Arc::default(),
            sequencer: Sequencer::new(config.sid, config.n_seq),
            replies: ReplyTable::new(config.retention),
            admitted: VecDeque::new(),
            admitted_bodies: BTreeMap::new(),
            queries: VecDeque::new(),
            controls: VecDeque::new(),
            carried: Vec::new(),
            waiting: BTreeMap::new(),
            receipts: BTreeMap::new(),
            phase: Phase::Idle,
            epoch: Epoch(0),
            chain: Chain::default(),
            time: Timestamp(0),
            outbox: Outbox::default(),
            config,
        }
    }

    /// The committed state.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }
    /// What is deployed.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
    /// The last epoch that ended, and the state hash chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        (self.epoch, self.chain)
    }
    /// Whether no epoch is under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }
    /// Whether a cut would find anything to do.
    pub fn has_work(&self) -> bool {
        !(self.admitted.is_empty() && self.queries.is_empty() && self.controls.is_empty() && self.carried.is_empty())
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
    /// When the driver breaks the protocol, or replay meets another state than the log was written on.
    pub fn step(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        match input {
            Input::Submit { request, waiter, receipt } => self.submit(request, waiter, receipt, actions),
            Input::Query { request, waiter } => match self.has_room() {
                true => self.queries.push_back((request, waiter)),
                false => actions.push(self.refuse(request.id, waiter, overloaded())),
            },
            Input::Await { id, waiter } => self.wait_for(id, waiter, actions),
            Input::Control { control, waiter } => match self.catalog.check(&control) {
                Ok(()) => self.controls.push_back((control, Some(waiter))),
                Err(abort) => actions.push(Action::Controlled { waiter, result: Err(abort) }),
            },
            Input::Tick { now } => {
                if self.is_idle() && self.has_work() {
                    self.cut(now, actions);
                }
            }
            Input::Replay(record) => self.replay(record, actions),
            Input::Executed(executed) => self.executed(executed, actions),
            Input::FellBack(outcomes) => self.fell_back(outcomes, actions),
            Input::Durable(epoch) => self.outbox.durable(epoch, actions),
        }
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
                    let action = match receipt {
                        true => Action::Accepted { waiter, id: request.id },
                        false => Action::Reply { waiter, reply: reply.clone() },
                    };
                    let epoch = if planted(Bug::DuplicateReplyAtOnce) { Epoch(0) } else { reply.epoch };
                    self.outbox.hold(epoch, action, actions);
                }
                None if receipt && !planted(Bug::ReceiptNextEpoch) => {
                    self.receipts.entry(request.id).or_default().push(waiter);
                }
                Some(Known::Pending) | None if receipt => {
                    let accepted = Action::Accepted { waiter, id: request.id };
                    let next = u64::from(planted(Bug::ReceiptNextEpoch));
                    self.outbox.hold(Epoch(self.current().0 + next), accepted, actions);
                }
                Some(Known::Pending) | None if planted(Bug::DuplicatesDropped) => {}
                Some(Known::Pending) | None => self.waiting.entry(request.id).or_default().push(waiter),
            }
            return;
        }
        self.admit(request, waiter, receipt, actions);
    }

    fn admit(&mut self, request: Arc<Request>, waiter: W, receipt: bool, actions: &mut Vec<Action<W>>) {
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
        Action::Reply { waiter, reply: Reply { id, tid: Tid(0), epoch: Epoch(0), outcome: Err(abort) } }
    }

    fn wait_for(&mut self, id: RequestId, waiter: W, actions: &mut Vec<Action<W>>) {
        match self.replies.get(id) {
            Some((Known::Done(reply), _)) => {
                let (epoch, reply) = (reply.epoch, reply.clone());
                self.outbox.hold(epoch, Action::Reply { waiter, reply }, actions);
            }
            Some((Known::Pending, _)) => self.waiting.entry(id).or_default().push(waiter),
            None if self.admitted_bodies.contains_key(&id) => self.waiting.entry(id).or_default().push(waiter),
            None => actions.push(Action::Unknown { waiter }),
        }
    }

    /// The epoch under way, or the last one that ended.
    fn current(&self) -> Epoch {
        match &self.phase {
            Phase::Idle => self.epoch,
            Phase::Running(running) => running.epoch,
        }
    }
}

fn overloaded() -> Abort {
    Abort::new(Code::Overloaded, "too many requests are waiting; try again in a moment")
}
