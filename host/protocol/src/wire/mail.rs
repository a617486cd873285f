//! What workers tell each other about graphs, in a round and a phase of it.

use rkyv::with::Map;

use crate::commit::share::Share;
use crate::execute::attempt::{Mode, RemoteRequest, RemoteResponse, Report, Usage};
use crate::execute::task::{GraphId, RunId};
use crate::ids::{OperatorId, RequestId, Round, Tid, Timestamp, WorkerId};
use crate::pieces::in_pieces;
use crate::state::entity::{Entity, Value};

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
pub(super) const ENTRY: usize = 128;

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

impl Order {
    fn weight(&self) -> usize {
        const HEADER: usize = 352;
        ENTRY + HEADER + self.asked.operation.weight()
    }
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

impl OrderReply {
    fn weight(&self) -> usize {
        ENTRY + self.answer.weight()
    }
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

/// A write of a long transaction.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct JoinWrite(
    pub Entity,
    /// Its value; none if it is deleted.
    #[rkyv(with = Map<crate::archive::Plain>)]
    pub Option<Value>,
);

impl JoinWrite {
    fn weight(&self) -> usize {
        let JoinWrite(entity, value) = self;
        ENTRY + entity.key().len() + value.as_ref().map_or(0, |value| value.len())
    }
}

/// The answer to [`Join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Joined {
    pub run: RunId,
    /// Whether all that it has read there still counts.
    pub current: bool,
}

/// What becomes of a graph in the fallback: now its locks may be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Decision {
    pub graph: GraphId,
    /// The attempt that counts.
    pub number: u32,
    pub ending: Ending,
}

/// How a graph leaves the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Ending {
    /// Its writes are applied.
    Commits,
    /// It ends without effect.
    Aborts,
    /// It runs again in a later epoch.
    Moves,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::attempt::Operation;
    use crate::execute::attempt::Stamp;
    use crate::state::entity::{Layout, Payload};

    const LAYOUT: Layout = Layout::new(1, 4);

    fn decision(graph: u64) -> Decision {
        Decision { graph: GraphId(graph), number: 1, ending: Ending::Commits }
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
