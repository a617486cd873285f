//! What a cluster is asked to do in each epoch, and what messages that must come to, by formula.

use std::collections::BTreeMap;

use styx_protocol::machine::message::{
    ArchivedAck, ArchivedCachedResult, ArchivedDecision, ArchivedGraphEnd, ArchivedMessage, ArchivedOrder, Message,
};
use styx_protocol::transaction::ArchivedRequest;

/// A cluster and what comes to each of its workers in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Workers.
    pub workers: u16,
    /// Transactions that each worker sequences.
    pub transactions: usize,
    /// Entities that a transaction touches; of one that is shared, each lives on another worker.
    pub parts: usize,
    /// Transactions that several workers share, in a hundred.
    pub shared: usize,
    /// Transactions that conflict with the one before, in a hundred: 50 at most.
    pub conflicts: usize,
}

impl Load {
    /// Whether the transaction at this place of a worker's sequence is shared.
    pub fn shared_at(&self, at: usize) -> bool {
        self.workers > 1 && every(at, self.shared)
    }

    /// Whether it writes what the one before it writes.
    pub fn conflicts_at(&self, at: usize) -> bool {
        at > 0 && every(at, self.conflicts)
    }

    fn count(&self, of: impl Fn(usize) -> bool) -> usize {
        (0..self.transactions).filter(|at| of(*at)).count()
    }

    /// Transactions of a worker that conflict.
    pub fn conflicts(&self) -> usize {
        self.count(|at| self.conflicts_at(at))
    }

    /// Shared transactions of all workers.
    pub fn all_shared(&self) -> usize {
        self.count(|at| self.shared_at(at)) * usize::from(self.workers)
    }

    /// Those of them that conflict.
    pub fn all_shared_conflicts(&self) -> usize {
        self.count(|at| self.shared_at(at) && self.conflicts_at(at)) * usize::from(self.workers)
    }
}

/// Evenly so many in a hundred.
fn every(at: usize, percent: usize) -> bool {
    (at + 1) * percent / 100 > at * percent / 100
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// [`Message::Begin`]
    Begin,
    /// [`Message::Share`]
    Share,
    /// [`Message::Executed`]
    Executed,
    /// [`Message::Settle`]
    Settle,
    /// [`Message::Bits`]
    Bits,
    /// [`Message::Decide`]
    Decide,
    /// [`Message::Finished`]
    Finished,
    /// [`Message::Durable`]
    Durable,
    /// [`Message::Graphs`]
    Graphs,
    /// [`Message::WorkAvailable`], and what belongs to snapshots.
    Other,
}

impl Kind {
    /// That of a message, and how many things it lists.
    pub fn of(message: &Message) -> (Kind, usize) {
        match message {
            Message::Begin(_) => (Kind::Begin, 0),
            Message::Share { requests, .. } => (Kind::Share, requests.len()),
            Message::Executed { ends, .. } => (Kind::Executed, ends.len()),
            Message::Settle { ends, .. } => (Kind::Settle, ends.len()),
            Message::Bits { bits, .. } => (Kind::Bits, bits.len()),
            Message::Decide { bits, .. } => (Kind::Decide, bits.len()),
            Message::Finished(_) => (Kind::Finished, 0),
            Message::Durable(_) => (Kind::Durable, 0),
            Message::Graphs(mail) => (Kind::Graphs, mail.len()),
            _ => (Kind::Other, 0),
        }
    }
}

/// Messages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Messages.
    pub messages: usize,
    /// Things that they list: requests, ends of graphs, bits, parts of graphs.
    pub items: usize,
    /// Bytes, encoded, without the 56 of each frame's header.
    pub bytes: usize,
}

/// Digits of an account's key.
pub const KEY_BYTES: usize = 6;

/// Bytes of an order that do not fit into the structure itself: the path of its call.
const ORDER_TAIL: usize = 12;

/// Bytes that one thing takes in a message of this kind, in an epoch of this load without conflicts.
pub fn item_bytes(kind: Kind, load: Load) -> usize {
    // A set of workers is one word, up to 64 of them. Nobody has built a wider one; it would take a bit for each.
    let wider = (usize::from(load.workers).div_ceil(64) - 1) * size_of::<u64>();
    match kind {
        // The keys of the other accounts and commas between them; its own and the function's name are inside.
        Kind::Share => size_of::<ArchivedRequest>() + (load.parts - 1) * (KEY_BYTES + 1) - 1,
        Kind::Executed | Kind::Settle => size_of::<ArchivedGraphEnd>() + wider,
        Kind::Bits | Kind::Decide => 16,
        // As many orders as acks.
        Kind::Graphs => (size_of::<ArchivedOrder>() + ORDER_TAIL + size_of::<ArchivedAck>()) / 2 + wider,
        Kind::Begin | Kind::Finished | Kind::Durable | Kind::Other => 0,
    }
}

/// Bytes of a message that lists nothing.
pub fn empty_bytes() -> usize {
    size_of::<ArchivedMessage>()
}

/// Messages of one epoch, by formula. `batch`: roots that a worker hands out at once.
pub fn expected(load: Load, batch: usize) -> BTreeMap<Kind, Traffic> {
    let workers = usize::from(load.workers);
    let (shared, conflicts) = (load.all_shared(), load.all_shared_conflicts());
    let mut all = BTreeMap::new();
    let mut add = |kind, messages, items| {
        let bytes = messages * empty_bytes() + items * item_bytes(kind, load);
        all.insert(kind, Traffic { messages, items, bytes });
    };
    // To and from each worker.
    add(Kind::Begin, workers, 0);
    add(Kind::Share, workers, workers * load.transactions);
    add(Kind::Executed, workers, shared);
    add(Kind::Finished, workers, 0);
    add(Kind::Durable, workers, 0);
    // What all workers together have said goes to each of them.
    add(Kind::Settle, workers, workers * shared);
    if shared > 0 {
        add(Kind::Bits, workers, conflicts);
        add(Kind::Decide, workers, workers * conflicts);
        // An order and an ack for each call that leaves its worker; one mail for all of a batch that go to one worker.
        let calls = |at: &usize| if load.shared_at(*at) { load.parts - 1 } else { 0 };
        let places: Vec<usize> = (0..load.transactions).collect();
        let mails: usize =
            places.chunks(batch).map(|batch| batch.iter().map(calls).sum::<usize>().min(workers - 1)).sum();
        let parts = 2 * shared * (load.parts - 1);
        let again = conflicts * (load.parts - 1);
        let bytes = 2 * mails * workers * empty_bytes()
            + parts * item_bytes(Kind::Graphs, load)
            + again * (size_of::<ArchivedCachedResult>() + size_of::<ArchivedAck>() + size_of::<ArchivedDecision>());
        // In the fallback: the result of each call, an ack from whoever took part, and a decision for it.
        all.insert(Kind::Graphs, Traffic { messages: 2 * mails * workers, items: parts + 3 * again, bytes });
    }
    all
}
