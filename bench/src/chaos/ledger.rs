//! The ledger: what was asked, and what was told. It is kept short, so that hours fit into memory; a
//! list that somebody saw is kept as its length and a hash.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use styx_client::Request;

use super::operation::{ACCOUNTS, OFFERS, Operation, What};

/// Lists that are appended to at the same time.
const LISTS: u32 = 8;
/// Appends until there are new lists.
const BLOCK: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Over HTTP, under an idempotency key: asked until it is answered.
    Keyed,
    /// Over HTTP, without: asked once, and perhaps nobody knows.
    Plain,
    /// As a record of Kafka's.
    Record,
}

/// A list that somebody saw: this much of it, with this hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) length: usize,
    pub(super) hash: u64,
}

impl Seen {
    pub(super) const NOTHING: Seen = Seen { length: 0, hash: 0 };

    pub(super) fn and(self, element: u64) -> Seen {
        let hash = (self.hash.rotate_left(5) ^ element).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Seen { length: self.length + 1, hash }
    }
}

/// A number, its own, is appended to two lists in one transaction.
#[derive(Clone, Debug)]
pub(super) struct Append {
    pub(super) number: u64,
    pub(super) block: u64,
    pub(super) lists: [u32; 2],
    pub(super) way: Way,
    pub(super) asked_us: u64,
    pub(super) told_us: u64,
    /// Both lists right after it; `None` if nobody knows.
    pub(super) told: Option<[Seen; 2]>,
}

impl Append {
    /// The names of the two lists.
    pub(super) fn names(&self) -> [String; 2] {
        self.lists.map(|list| format!("list-{}-{list}", self.block))
    }

    pub(super) fn arguments(&self) -> Value {
        json!([[self.names()[1]], self.number])
    }

    pub(super) fn call(&self) -> Request {
        let call = Request::new("testkit", "a", &self.names()[0], "append_all", self.arguments());
        keyed(call, self.is_named().then(|| self.id()))
    }

    /// True if it brings an id of its own: what comes over HTTP under a key does, and two of three records.
    pub(super) fn is_named(&self) -> bool {
        match self.way {
            Way::Keyed => true,
            Way::Plain => false,
            Way::Record => !self.number.is_multiple_of(3),
        }
    }

    /// The id under which its reply is remembered.
    pub(super) fn id(&self) -> String {
        format!("append-{}", self.number)
    }

    /// Reads a reply; an error if it cannot be one to this.
    pub(super) fn read(&self, reply: &Value) -> Result<[Seen; 2], String> {
        let lists: Option<Vec<Vec<u64>>> = serde_json::from_value(reply.clone()).ok();
        match lists.as_deref() {
            Some([first, second]) if [first, second].iter().all(|list| list.last() == Some(&self.number)) => {
                Ok([first, second].map(|list| list.iter().fold(Seen::NOTHING, |seen, element| seen.and(*element))))
            }
            _ => Err(format!("append {} was answered with {reply}", self.number)),
        }
    }
}

/// A call under this idempotency key, or under none.
pub(super) fn keyed(call: Request, key: Option<String>) -> Request {
    match key {
        Some(key) => call.idempotency_key(key),
        None => call.without_key(),
    }
}

/// Everything that was asked and told so far.
#[derive(Debug)]
pub(super) struct Ledger {
    seed: u64,
    next: u64,
    block: u64,
    in_block: u64,
    pub(super) operations: Vec<Operation>,
    pub(super) appends: BTreeMap<u64, Append>,
    /// Answers that nobody should have been given.
    pub(super) odd: Vec<String>,
    judged: u64,
}

impl Ledger {
    pub(super) fn new(seed: u64) -> Ledger {
        let (operations, appends) = (Vec::new(), BTreeMap::new());
        Ledger { seed, next: 0, block: 0, in_block: 0, operations, appends, odd: Vec::new(), judged: 0 }
    }

    /// Two different numbers below `bound`, which follow from the seed and the request's number.
    fn two(&self, number: u64, bound: u32) -> [u32; 2] {
        let mut random = StdRng::seed_from_u64(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = random.random_range(0..bound);
        [first, (first + random.random_range(1..bound)) % bound]
    }

    /// An operation to ask for.
    pub(super) fn operation(&mut self, what: What, way: Way) -> Operation {
        self.next += 1;
        let bound = if what == What::Transfer { ACCOUNTS } else { OFFERS };
        Operation { number: self.next, what, places: self.two(self.next, bound), way, told: None }
    }

    pub(super) fn append(&mut self, way: Way, now_us: u64) -> Append {
        self.next += 1;
        self.in_block += 1;
        if self.in_block > BLOCK {
            self.turn();
        }
        let (number, block) = (self.next, self.block);
        Append { number, block, lists: self.two(number, LISTS), way, asked_us: now_us, told_us: 0, told: None }
    }

    /// From now on there are other lists.
    pub(super) fn turn(&mut self) {
        (self.block, self.in_block) = (self.block + 1, 0);
    }

    /// Appends to some whole lists, about so many, that were never taken before: of the lists to
    /// which nothing is appended any more.
    pub(super) fn take_history(&mut self, about: usize) -> Vec<Append> {
        let blocks: BTreeSet<u64> = self
            .appends
            .values()
            .map(|append| append.block)
            .filter(|block| (self.judged..self.block).contains(block))
            .collect();
        let wanted = about.div_ceil(BLOCK as usize).min(blocks.len());
        // Spread over the time since the last look.
        let step = blocks.len().checked_div(wanted).unwrap_or(1).max(1);
        let chosen: BTreeSet<u64> = blocks.into_iter().rev().step_by(step).take(wanted).collect();
        self.judged = self.block;
        self.appends.values().filter(|append| chosen.contains(&append.block)).cloned().collect()
    }

    /// How many requests there were.
    pub(super) fn requests(&self) -> usize {
        self.operations.len() + self.appends.len()
    }

    /// How many have an unknown end.
    pub(super) fn doubtful(&self) -> usize {
        let operations = self.operations.iter().filter(|operation| operation.told.is_none()).count();
        operations + self.appends.values().filter(|append| append.told.is_none()).count()
    }
}
