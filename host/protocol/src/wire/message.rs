//! What the nodes of a cluster tell each other. All messages of one step and one destination
//! travel together.

#![allow(missing_docs, reason = "one field that rkyv derives lacks them; all of ours have them")]

use std::sync::Arc;

use rkyv::rancor::{self, Source as _};
use rkyv::with::{Map, Unshare};

use crate::archive;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::replies::ReplyChange;
use crate::commit::share::Share;
use crate::commit::validate::{Bits, Kind};
use crate::execute::attempt::{Mode, Operation, RemoteRequest, RemoteResponse, Report, Usage};
use crate::execute::task::{GraphId, RunId};
use crate::ids::{
    Epoch, OperatorId, PartitionId, PlacementVersion, RequestId, Round, SequencerCounter, Tid, Timestamp, WorkerId,
};
use crate::pieces::in_pieces;
use crate::sequence::catalog::Control;
use crate::sequence::outcome::EpochChanges;
use crate::sequence::record::Chain;
use crate::sequence::transaction::{CarriedTransaction, Request};
use crate::sequence::writes::PackedWrites;
use crate::state::entity::{Entity, Value};
use crate::state::{Inventory, StateHash};

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Coordinator,
    Worker(WorkerId),
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Coordinator => f.write_str("the coordinator"),
            Node::Worker(worker) => write!(f, "worker {worker}"),
        }
    }
}

/// A message between nodes of one generation. Rounds count what the coordinator begins: epochs,
/// and rounds of read-only requests, which are none.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Message {
    /// To the coordinator: there is something to do.
    WorkAvailable,
    /// To all workers: a round begins.
    Begin(Begin),
    /// To the coordinator: what this worker's sequencer adds.
    Share {
        round: Round,
        /// Requests in order.
        #[rkyv(with = Map<Unshare>)]
        requests: Vec<Arc<Request>>,
        /// Transactions of earlier epochs that it takes, in TID order.
        carried: Vec<Tid>,
    },
    /// To the coordinator: every graph that is rooted here is complete.
    Executed {
        round: Round,
        /// Those that others took part in.
        ends: Vec<GraphEnd>,
    },
    /// To all workers: every graph is complete.
    Settle {
        round: Round,
        /// Whether it is an epoch.
        logged: bool,
        /// Graphs of several workers, in TID order.
        ends: Vec<GraphEnd>,
    },
    /// To the coordinator: dependencies of graphs of several workers, as seen here.
    Bits {
        round: Round,
        /// Those that have any, in TID order.
        bits: Vec<(Tid, Bits)>,
    },
    /// To all workers: the same, of all workers together.
    Decide {
        round: Round,
        /// Those that have any, in TID order.
        bits: Vec<(Tid, Bits)>,
    },
    /// To the coordinator, before [`Message::Finished`]: some of what the epoch changed here. To a worker, before
    /// [`Replay::Apply`]: some of what it changed there.
    Changes {
        round: Round,
        /// Of one entity or reply the last counts.
        changes: EpochChanges,
    },
    /// To the coordinator: the round is over here.
    Finished(Finished),
    /// To all workers: the record of an epoch is durable.
    Durable(Epoch),
    /// To all workers, between rounds: note your part of a snapshot.
    Snapshot,
    /// To all workers: cut nothing new, for the generation is to end.
    Drain,
    /// Between workers: long transactions.
    Long(
        /// What is told of them.
        LongMail,
    ),
    /// Between workers: parts of graphs.
    Graphs(Mail),
    /// To a worker: have other workers follow partitions, which they are to own with a placement.
    Migrate {
        version: PlacementVersion,
        mode: MovingMode,
        /// Partitions of this worker, and who is to own each.
        moves: Vec<(PartitionId, WorkerId)>,
    },
    /// To a worker: that is not to happen.
    CancelMigration(PlacementVersion),
    /// To the coordinator: others have a copy of all that is to go with this placement.
    Copied(PlacementVersion),
    /// To the coordinator: all of the partitions is here that became this worker's with this placement.
    Complete(PlacementVersion),
    /// Between workers: partitions that go from one to the other.
    Moving(
        /// What is told of them.
        MovingMail,
    ),
}

impl Message {
    /// Its sort, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Message::WorkAvailable => "WorkAvailable",
            Message::Begin(_) => "Begin",
            Message::Share { .. } => "Share",
            Message::Executed { .. } => "Executed",
            Message::Settle { .. } => "Settle",
            Message::Bits { .. } => "Bits",
            Message::Decide { .. } => "Decide",
            Message::Changes { .. } => "Changes",
            Message::Finished(_) => "Finished",
            Message::Durable(_) => "Durable",
            Message::Snapshot => "Snapshot",
            Message::Drain => "Drain",
            Message::Long(_) => "Long",
            Message::Graphs(_) => "Graphs",
            Message::Migrate { .. } => "Migrate",
            Message::CancelMigration(_) => "CancelMigration",
            Message::Complete(_) => "Complete",
            Message::Copied(_) => "Copied",
            Message::Moving(_) => "Moving",
        }
    }

    /// Bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = Vec::with_capacity(self.bytes_expected());
        rkyv::api::high::to_bytes_in::<_, rancor::Error>(self, bytes)
            .expect("a message in memory can be written to memory")
    }

    /// About as many bytes as it takes: memory is taken once.
    fn bytes_expected(&self) -> usize {
        let entries = match self {
            Message::Share { requests, .. } => requests.len() * 128,
            Message::Executed { ends, .. } | Message::Settle { ends, .. } => ends.len() * 32,
            Message::Graphs(mail) => mail.weight(),
            Message::Changes { changes, .. } => changes.weight(),
            Message::Moving(mail) => mail.moving.weight(),
            _ => 0,
        };
        256 + entries
    }

    /// Reads a message, validating it before it is believed.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub fn decode(bytes: &[u8]) -> Result<Message, rancor::Error> {
        let message = archive::read(bytes)?;
        // What is no writes must not get into the log, where nobody looks at it until somebody recovers.
        if let Message::Changes { changes, .. } = &message
            && let Some(wrong) = changes.writes.iter().find_map(Result::err)
        {
            return Err(rancor::Error::new(wrong));
        }
        Ok(message)
    }
}

/// Begins a round.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Begin {
    pub round: Round,
    /// The epoch that it is, if anything is logged.
    pub epoch: Epoch,
    pub time: Timestamp,
    /// Where all sequencers' counters stand.
    pub counter: SequencerCounter,
    /// State hash chain before it.
    pub before: Chain,
    /// Deployments that take effect with it.
    pub controls: Vec<Control>,
    /// Bytes that what this worker adds may weigh.
    pub room: u64,
    /// What to do instead of cutting, if the epoch is one of the log.
    pub replay: Option<Replay>,
}

/// What becomes of an epoch of the log.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Replay {
    /// What is rooted here is executed again.
    Execute(Vec<Replayed>),
    /// What it changed here is applied, which was told before.
    Apply {
        /// Requests that were sequenced here and whose replies are kept, with the hashes of their bodies.
        begun: Vec<(RequestId, u64)>,
        /// Transactions of earlier epochs that it took, of all workers, in TID order.
        carried: Vec<Tid>,
    },
}

/// A transaction of the log.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Replayed {
    pub tid: Tid,
    /// What was asked.
    #[rkyv(with = Unshare)]
    pub request: Arc<Request>,
}

/// How a graph of several workers ended on the state of the epoch's start.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct GraphEnd {
    pub tid: Tid,
    /// The attempt that counts.
    pub number: u32,
    /// What it came to.
    pub kind: Kind,
    /// Whether its reads are not validated.
    pub snapshot: bool,
    /// Whether it ran beside the epochs: it does not enter the fallback.
    pub long: bool,
    /// Whether its calls can be invoked again from their cached parameters, all at once.
    pub cacheable: bool,
    /// Who took part in it.
    pub workers: WorkerSet,
}

/// How many transactions came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Counts {
    /// Committed in the lock-free phase.
    pub committed: u64,
    /// Committed in the fallback.
    pub fell_back: u64,
    /// Ended without effect, by their own doing.
    pub aborted: u64,
    /// Moved to the next epoch.
    pub rescheduled: u64,
    /// Queries answered.
    pub queries: u64,
    /// Fuel used.
    pub fuel: u64,
}

impl Counts {
    /// Adds what another worker did, whatever it says.
    pub fn add(&mut self, other: Counts) {
        self.committed = self.committed.saturating_add(other.committed);
        self.fell_back = self.fell_back.saturating_add(other.fell_back);
        self.aborted = self.aborted.saturating_add(other.aborted);
        self.rescheduled = self.rescheduled.saturating_add(other.rescheduled);
        self.queries = self.queries.saturating_add(other.queries);
        self.fuel = self.fuel.saturating_add(other.fuel);
    }
}

/// A worker's end of a round.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Finished {
    pub round: Round,
    /// Hash of the state that is here.
    pub hash: StateHash,
    /// Hash of what is deployed.
    pub deployment: u64,
    /// Transactions rooted here that moved to a later epoch, in TID order.
    pub carried: Vec<Tid>,
    /// Whether there is more to do.
    pub more: bool,
    /// What it did of the round.
    pub counts: Counts,
}

/// What one worker tells another about graphs, in one round and one phase of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Mail {
    pub round: Round,
    /// Whether it belongs to the fallback.
    pub fallback: bool,
    /// Work to be done.
    pub orders: Vec<Order>,
    /// Answers to work that somebody waits for.
    pub replies: Vec<OrderReply>,
    /// Ack shares, to the root.
    pub acks: Vec<Ack>,
    /// Results of calls that were re-invoked from cached parameters.
    pub results: Vec<CachedResult>,
    /// What becomes of graphs in the fallback.
    pub decisions: Vec<Decision>,
    /// Long transactions that take part in the epoch, and queries that read what the one before has left behind.
    pub joins: Vec<Join>,
    /// Answers to those.
    pub joined: Vec<Joined>,
}

impl Mail {
    /// Adds another mail of the same phase, if whoever reads it hears everything in the same order
    /// as if it came after this one; gives it back otherwise.
    pub fn append(&mut self, mut other: Mail) -> Option<Mail> {
        let follows = self.last().is_none_or(|last| other.first().is_none_or(|first| last <= first));
        if (self.round, self.fallback) != (other.round, other.fallback) || !follows {
            return Some(other);
        }
        self.orders.append(&mut other.orders);
        self.replies.append(&mut other.replies);
        self.acks.append(&mut other.acks);
        self.results.append(&mut other.results);
        self.decisions.append(&mut other.decisions);
        self.joins.append(&mut other.joins);
        self.joined.append(&mut other.joined);
        None
    }

    /// Splits it into mails of at most `most` entries and about as many `bytes` that mean the same one after the other.
    pub fn split(self, most: usize, bytes: usize) -> Vec<Mail> {
        if self.len() <= most && (bytes == usize::MAX || self.weight() <= bytes) {
            return vec![self];
        }
        let Mail { round, fallback, orders, replies, acks, results, decisions, joins, joined } = self;
        let mut mails = Vec::new();
        let empty = Mail { round, fallback, ..Mail::default() };
        in_pieces(orders, most, bytes, Order::weight, |orders| mails.push(Mail { orders, ..empty.clone() }));
        in_pieces(replies, most, bytes, OrderReply::weight, |replies| mails.push(Mail { replies, ..empty.clone() }));
        in_pieces(acks, most, bytes, |_| ENTRY, |acks| mails.push(Mail { acks, ..empty.clone() }));
        in_pieces(results, most, bytes, CachedResult::weight, |results| mails.push(Mail { results, ..empty.clone() }));
        in_pieces(decisions, most, bytes, |_| ENTRY, |decisions| mails.push(Mail { decisions, ..empty.clone() }));
        in_pieces(joins, most, bytes, Join::weight, |joins| mails.push(Mail { joins, ..empty.clone() }));
        in_pieces(joined, most, bytes, |_| ENTRY, |joined| mails.push(Mail { joined, ..empty.clone() }));
        mails
    }

    /// About as many bytes as it takes.
    pub fn weight(&self) -> usize {
        let orders: usize = self.orders.iter().map(Order::weight).sum();
        let replies: usize = self.replies.iter().map(OrderReply::weight).sum();
        let results: usize = self.results.iter().map(CachedResult::weight).sum();
        let joins: usize = self.joins.iter().map(Join::weight).sum();
        orders + replies + results + joins + ENTRY * (self.acks.len() + self.decisions.len() + self.joined.len())
    }

    /// Whether it holds nothing but results of calls that were re-invoked from cached parameters.
    pub fn has_only_results(&self) -> bool {
        self.len() == self.results.len()
    }

    /// How many entries there are, of all kinds.
    pub fn len(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Entries of each kind, in the order in which they are heard.
    fn counts(&self) -> [usize; 7] {
        let Mail { orders, replies, acks, results, decisions, joins, joined, .. } = self;
        [orders.len(), replies.len(), acks.len(), results.len(), decisions.len(), joins.len(), joined.len()]
    }

    fn first(&self) -> Option<usize> {
        self.counts().iter().position(|count| *count > 0)
    }

    fn last(&self) -> Option<usize> {
        self.counts().iter().rposition(|count| *count > 0)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes of an entry besides what it carries.
const ENTRY: usize = 128;

impl Order {
    fn weight(&self) -> usize {
        const HEADER: usize = 352;
        ENTRY + HEADER + self.asked.operation.weight()
    }
}

impl OrderReply {
    fn weight(&self) -> usize {
        ENTRY + self.answer.weight()
    }
}

impl CachedResult {
    fn weight(&self) -> usize {
        ENTRY + self.answer.weight()
    }
}

/// What a worker must know of a graph to take part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Header {
    pub graph: GraphId,
    /// The attempt at it.
    pub number: u32,
    /// How it is run.
    #[rkyv(with = crate::archive::AsFlags)]
    pub mode: Mode,
    /// Where its root is.
    pub root: WorkerId,
    /// The transaction's TID.
    pub tid: Tid,
    /// The transaction's time.
    pub time: Timestamp,
    pub request: RequestId,
    /// The operator that it asks for.
    pub operator: OperatorId,
    /// Whether it is a read-only request.
    pub query: bool,
}

/// Names what a function waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Question {
    /// The waiting fragment.
    pub fragment: u32,
    /// Which of its questions.
    pub index: u32,
}

/// Work for a graph.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Order {
    pub header: Header,
    /// What to do.
    pub asked: RemoteRequest,
    /// Who waits for the answer, if anybody.
    pub question: Option<Question>,
    /// The ack share that goes with a call.
    pub share: Option<Share>,
    /// What is known so far and not yet told to the root.
    pub report: Report,
}

#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct OrderReply {
    pub graph: GraphId,
    /// The attempt at it.
    pub number: u32,
    /// What is answered.
    pub question: Question,
    pub answer: RemoteResponse,
    /// The ack share, if it was not passed on.
    pub share: Option<Share>,
    /// In strict mode: what the transaction has used up to now.
    pub used: Usage,
    /// What was done.
    pub report: Report,
}

/// An ack share that goes back to the root (Styx §5.3); without one, a worker's part of a graph
/// that was re-invoked from cached parameters is complete.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Ack {
    pub graph: GraphId,
    /// The attempt at it.
    pub number: u32,
    pub share: Option<Share>,
    /// What was done.
    pub report: Report,
}

/// The result of a call that its caller reaches by itself.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CachedResult {
    pub graph: GraphId,
    /// The attempt at it.
    pub number: u32,
    /// The call's place in it.
    pub place: u64,
    /// What it came to.
    pub answer: RemoteResponse,
}

/// A long transaction, or a query, asks to take part.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Join {
    /// Its graph in this epoch; a query's means nothing.
    pub header: Header,
    /// The run that counts.
    pub run: RunId,
    /// What it writes there, or a piece of that.
    pub writes: Vec<JoinWrite>,
    /// Whether that is the last piece.
    pub last: bool,
}

/// A write of a long transaction.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct JoinWrite(
    pub Entity,
    /// Its value; none if it is deleted.
    #[rkyv(with = Map<crate::archive::Plain>)]
    pub Option<Value>,
);

/// The answer to [`Join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Joined {
    pub run: RunId,
    /// Whether all that it has read there still counts.
    pub current: bool,
}

/// What workers tell each other of long transactions, whatever round they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct LongMail {
    /// Reads of runs that are rooted at the sender.
    pub asks: Vec<LongAsk>,
    /// Answers to reads of runs that are rooted at the receiver.
    pub answers: Vec<LongAnswer>,
    /// Runs rooted at the receiver of which what they have read does not count any more.
    pub broken: Vec<RunId>,
    /// Runs rooted at the sender that are over.
    pub over: Vec<RunId>,
    /// Transactions that hold nobody back any more.
    pub released: Vec<Tid>,
}

/// A read of a run.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct LongAsk {
    pub run: RunId,
    pub tid: Tid,
    /// Whether it keeps younger ones from writing what it reads.
    pub holds: bool,
    /// [`Operation::Get`](crate::execute::attempt::Operation::Get) or
    /// [`Operation::Scan`](crate::execute::attempt::Operation::Scan).
    pub operation: Operation,
}

/// What a run has read.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct LongAnswer {
    pub run: RunId,
    /// What was found.
    pub answer: RemoteResponse,
}

impl Join {
    /// A query that is rooted at `root` begins.
    pub fn of_query(run: RunId, root: WorkerId) -> Self {
        let header = Header {
            graph: GraphId(0),
            number: 0,
            mode: Mode::default(),
            root,
            tid: Tid(0),
            time: Timestamp(0),
            request: RequestId(0),
            operator: OperatorId(0),
            query: true,
        };
        Join { header, run, writes: Vec::new(), last: true }
    }

    /// A transaction that takes part, in pieces of at most `most` writes and `bytes`, unless one alone is longer.
    pub fn in_pieces(header: Header, run: RunId, writes: Vec<JoinWrite>, most: usize, bytes: usize) -> Vec<Join> {
        let mut pieces = Vec::new();
        in_pieces(writes, most, bytes, JoinWrite::weight, |writes| {
            pieces.push(Join { header, run, writes, last: false });
        });
        match pieces.last_mut() {
            Some(piece) => piece.last = true,
            None => pieces.push(Join { header, run, writes: Vec::new(), last: true }),
        }
        pieces
    }

    fn weight(&self) -> usize {
        ENTRY + self.writes.iter().map(JoinWrite::weight).sum::<usize>()
    }
}

impl JoinWrite {
    fn weight(&self) -> usize {
        let JoinWrite(entity, value) = self;
        ENTRY + entity.key().len() + value.as_ref().map_or(0, |value| value.len())
    }
}

impl LongMail {
    /// Splits it into mails of about as many `bytes` that mean the same one after the other.
    pub fn split(self, bytes: usize) -> Vec<LongMail> {
        let LongMail { asks, answers, broken, over, released } = self;
        let mut mails = Vec::new();
        let ask = |ask: &LongAsk| ENTRY + ask.operation.weight();
        let answer = |answer: &LongAnswer| ENTRY + answer.answer.weight();
        in_pieces(asks, usize::MAX, bytes, ask, |asks| mails.push(LongMail { asks, ..LongMail::default() }));
        in_pieces(answers, usize::MAX, bytes, answer, |answers| {
            mails.push(LongMail { answers, ..LongMail::default() });
        });
        if !(broken.is_empty() && over.is_empty() && released.is_empty()) {
            mails.push(LongMail { broken, over, released, ..LongMail::default() });
        }
        mails
    }
}

/// When partitions that move change their owner (*State Migration in Styx*, §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum MovingMode {
    /// When the new owner has followed them: it has everything.
    #[default]
    Online,
    /// At once: entities follow, those first that are needed (Algorithm 4).
    Immediate,
}

/// What one worker tells another of partitions that go there.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct MovingMail {
    /// The placement with which they go.
    pub version: PlacementVersion,
    /// What is told.
    pub moving: Moving,
}

#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Moving {
    Copied(
        /// A piece of what is in them; answered with [`Moving::Taken`].
        PartitionChanges,
    ),
    Followed(
        /// What has become of what is copied.
        PartitionChanges,
    ),
    /// To the owner: a piece is there.
    Taken,
    Handed(
        /// All is said: they are the receiver's.
        HandedOver,
    ),
    /// They do not go.
    Cancelled,
    Wanted(
        /// To the former owner of partitions: what of them is needed at once.
        Vec<Wanted>,
    ),
    Fetched(
        /// What was wanted; a delete, where there is no such entity.
        PackedWrites,
    ),
    Pieces(
        /// More of partitions that are the receiver's already; answered with [`Moving::Taken`].
        Vec<ShadowPiece>,
    ),
}

/// What goes with partitions that change their owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct HandedOver {
    /// Transactions.
    pub carried: Vec<CarriedTransaction>,
    /// In mode immediate: partitions of which entities follow, and what they add up to.
    pub shadows: Option<Vec<(PartitionId, Inventory)>>,
}

/// What a new owner needs at once.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Wanted {
    Entity(Entity),
    /// All of it, as soon as may be.
    Partition(PartitionId),
}

impl Wanted {
    pub fn partition(&self) -> PartitionId {
        match self {
            Wanted::Entity(entity) => entity.partition(),
            Wanted::Partition(id) => *id,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Wanted::Entity(entity) => ENTRY + entity.key().len(),
            Wanted::Partition(_) => ENTRY,
        }
    }
}

/// A piece of a partition that has changed its owner.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ShadowPiece {
    pub partition: PartitionId,
    /// The next entities, in their order.
    pub writes: PackedWrites,
    /// Whether that is all.
    pub last: bool,
}

/// Changes in partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PartitionChanges {
    /// New values of entities.
    pub writes: PackedWrites,
    /// What is remembered of requests.
    pub replies: Vec<ReplyChange>,
}

impl Moving {
    fn weight(&self) -> usize {
        match self {
            Moving::Copied(changes) | Moving::Followed(changes) => {
                changes.writes.bytes().len() + changes.replies.iter().map(ReplyChange::weight).sum::<usize>()
            }
            Moving::Handed(HandedOver { carried, shadows }) => {
                let carried = carried.iter().map(|carried| carried.request.weight());
                carried.chain(shadows.iter().flatten().map(|(_, of)| ENTRY + of.sizes.len() * ENTRY)).sum()
            }
            Moving::Fetched(writes) => writes.bytes().len(),
            Moving::Pieces(pieces) => pieces.iter().map(|piece| ENTRY + piece.writes.bytes().len()).sum(),
            Moving::Wanted(wanted) => wanted.iter().map(Wanted::weight).sum(),
            Moving::Taken | Moving::Cancelled => 0,
        }
    }
}

/// What becomes of a graph in the fallback: now its locks may be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Decision {
    pub graph: GraphId,
    /// The attempt that counts.
    pub number: u32,
    /// Whether its writes are applied.
    pub commits: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::attempt::Stamp;
    use crate::state::entity::{Layout, Payload};

    const LAYOUT: Layout = Layout::new(1, 4);

    fn decision(graph: u64) -> Decision {
        Decision { graph: GraphId(graph), number: 1, commits: true }
    }

    fn ack(graph: u64) -> Ack {
        Ack { graph: GraphId(graph), number: 1, share: None, report: Report::default() }
    }

    fn reply(graph: u64) -> OrderReply {
        let question = Question { fragment: 1, index: 0 };
        let (used, report) = (Usage::default(), Report::default());
        OrderReply {
            graph: GraphId(graph),
            number: 1,
            question,
            answer: RemoteResponse::Noted,
            share: None,
            used,
            report,
        }
    }

    #[test]
    fn changes_that_say_nothing_readable_are_no_message() {
        let mut changes = EpochChanges::default();
        let message = |changes: &EpochChanges| Message::Changes { round: Round(1), changes: changes.clone() };
        assert_eq!(Message::decode(&message(&changes).encode()).unwrap(), message(&changes));
        changes.writes.extend(b"no header");
        assert!(Message::decode(&message(&changes).encode()).is_err());
    }

    #[test]
    fn mails_are_joined_only_where_their_order_stays() {
        let acks =
            |graphs: std::ops::Range<u64>| Mail { round: Round(7), acks: graphs.map(ack).collect(), ..Mail::default() };
        let decisions = |graphs: std::ops::Range<u64>| Mail {
            round: Round(7),
            decisions: graphs.map(decision).collect(),
            ..Mail::default()
        };
        let mut mail = acks(0..2);
        assert_eq!(mail.append(acks(2..3)), None);
        assert_eq!(mail.append(decisions(0..2)), None);
        assert_eq!(mail.append(acks(3..4)), Some(acks(3..4)), "acks are heard before decisions");
        assert_eq!(mail.append(Mail { round: Round(8), ..decisions(4..5) }).map(|other| other.round), Some(Round(8)));
        assert_eq!(mail, Mail { decisions: decisions(0..2).decisions, ..acks(0..3) });

        let answered = |graphs: std::ops::Range<u64>| Mail { replies: graphs.map(reply).collect(), ..acks(5..6) };
        let mut replies = Mail { acks: vec![], ..answered(0..1) };
        assert_eq!(replies.append(answered(1..3)), None);
        assert_eq!(replies, answered(0..3));

        let whole = mail.clone();
        assert_eq!(whole.clone().split(whole.len(), usize::MAX), std::slice::from_ref(&whole), "it need not be split");
        assert!(!whole.is_empty() && Mail { round: Round(7), ..Mail::default() }.is_empty());
        let mut tasks = mail.split(2, usize::MAX).into_iter();
        assert_eq!(tasks.len(), 3);
        let mut joined = tasks.next().unwrap();
        assert_eq!(joined.len(), 2);
        tasks.for_each(|task| assert_eq!(joined.append(task), None));
        assert_eq!(joined, whole);

        // Entries of all kinds.
        let target = Operation::Get(Entity::new(&LAYOUT, OperatorId(1), false, "k".into()));
        let asked = RemoteRequest { operation: target, stamp: Stamp::from_parts(&[], 0), used: Usage::default() };
        let join = Join::of_query(RunId(1), WorkerId(0));
        let order = Order { header: join.header, asked, question: None, share: None, report: Report::default() };
        let result = CachedResult { graph: GraphId(1), number: 1, place: 1, answer: RemoteResponse::Noted };
        let all = Mail {
            orders: vec![order; 2],
            results: vec![result; 2],
            joins: vec![join; 2],
            joined: vec![Joined { run: RunId(1), current: true }; 2],
            ..Mail { replies: answered(0..2).replies, ..whole }
        };
        assert_eq!(all.clone().split(99, all.weight()), std::slice::from_ref(&all));
        for (most, bytes) in [(1, usize::MAX), (99, all.weight() - 1), (99, 1)] {
            let mut pieces = all.clone().split(most, bytes).into_iter();
            let mut joined = pieces.next().unwrap();
            assert!(pieces.len() > 0);
            pieces.for_each(|piece| assert_eq!(joined.append(piece), None));
            assert_eq!(joined, all, "{most} {bytes}");
        }

        let value = Payload(vec![7; 1000].as_slice().into());
        replies.replies[1].answer = RemoteResponse::Value(Some(value));
        let pieces = replies.clone().split(10, 1200);
        assert_eq!(pieces.iter().map(Mail::len).collect::<Vec<_>>(), [1, 1, 1, 1]);
        assert!(replies.weight() >= 1000 && replies.split(10, 2000).len() == 1);
    }

    #[test]
    fn what_a_long_transaction_writes_is_told_in_pieces_by_its_keys_and_values() {
        let write = |key: usize, value: Option<usize>| {
            let entity = Entity::new(&LAYOUT, OperatorId(1), false, "k".repeat(key).as_str().into());
            JoinWrite(entity, value.map(|bytes| vec![7; bytes].into()))
        };
        let header = Join::of_query(RunId(1), WorkerId(0)).header;
        let pieces = |most: usize, bytes: usize, writes: &[JoinWrite]| {
            let pieces = Join::in_pieces(header, RunId(1), writes.to_vec(), most, bytes);
            let (last, others) = pieces.split_last().unwrap();
            assert!(last.last && !others.iter().any(|piece| piece.last), "whoever hears them knows when that is all");
            assert!(pieces.iter().flat_map(|piece| &piece.writes).eq(writes));
            pieces.iter().map(|piece| piece.writes.len()).collect::<Vec<_>>()
        };
        assert_eq!(pieces(9, 1000, &[]), [0]);
        let (keys, values) = (vec![write(500, None); 3], vec![write(1, Some(499)); 3]);
        for writes in [keys, values] {
            assert_eq!(pieces(9, 3 * (ENTRY + 500), &writes), [3]);
            assert_eq!(pieces(2, 3 * (ENTRY + 500), &writes), [2, 1]);
            assert_eq!(pieces(9, 2 * (ENTRY + 500), &writes), [2, 1]);
            assert_eq!(pieces(9, 1, &writes), [1, 1, 1]);
        }
    }
}
