//! Topics of records and of replies, at brokers that all machines reach, as a front for records needs them: transactions
//! under names that somebody takes from whoever had them, and readers who see what is committed.
//!
//! What the brokers promise is imitated, and no more: what a process sends may arrive after it is gone, a transaction may
//! stay open, and answers are lost.

use std::collections::{BTreeMap, BTreeSet};

use styx_driver::kafka::Place;
use styx_driver::kafka::beginning::Right;
use styx_driver::kafka::recovery::ReplyMark;
use styx_driver::kafka::writing::Outgoing;
use styx_protocol::replies::Reply;

use crate::event::Life;

/// A record of the topic of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub what: Content,
    /// The topic of replies does not take what it comes to.
    pub is_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A request, by its place in the history, and of which operator it is.
    Request(usize, usize),
    /// No request; with the id of one in the history, or without.
    Nonsense(Option<usize>),
}

/// A reply that a front writes.
#[derive(Clone, Debug)]
pub struct Answered {
    pub place: Place,
    /// What the record came to; nothing, if it is no request.
    pub reply: Option<Reply>,
    /// A copy of the record goes with it.
    pub has_letter: bool,
    /// It is longer than its topic takes.
    pub is_long: bool,
}

impl Outgoing for Answered {
    fn place(&self) -> Place {
        self.place
    }

    fn has_letter(&self) -> bool {
        self.has_letter
    }

    fn drop_letter(&mut self) {
        self.has_letter = false;
    }

    fn shorten(&mut self) {
        self.is_long = false;
    }
}

/// A right to write replies, as of one that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    right: Right,
    epoch: u32,
}

/// Something that a process asks the brokers for.
#[derive(Clone, Debug)]
pub enum Call {
    /// To have a right.
    Take(Right),
    /// Where a partition of replies ends.
    EndOfSent(i32),
    /// Where it begins, and up to where it is decided.
    Decided(i32),
    /// Committed replies of a stretch of it.
    Replies { egress: i32, from: i64, until: i64 },
    /// Where a partition of requests begins and ends.
    Requests(i32),
    /// Records from these offsets on.
    Fetch(BTreeMap<i32, i64>),
    /// To have replies in the transaction under a name.
    Produce(Name, Vec<(Answered, i64)>),
    /// To commit it.
    Commit(Name),
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Told {
    Taken(Name),
    Offset(i64),
    Range(i64, i64),
    Marks(Vec<ReplyMark>),
    /// Records, and how many partitions the topic has.
    Records(Vec<(Place, Record)>, usize),
    Done,
    /// Another one has the name.
    Fenced,
}

/// A message of the topic of replies.
#[derive(Debug)]
struct Message {
    name: Right,
    mark: Option<ReplyMark>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

/// An open transaction.
#[derive(Debug, Default)]
struct Transaction {
    since: u64,
    replies: Vec<(Answered, i64)>,
}

/// The topics.
#[derive(Debug, Default)]
pub struct Brokers {
    requests: Vec<Vec<Record>>,
    replies: Vec<Vec<Message>>,
    /// Who took each name last.
    names: BTreeMap<Right, u32>,
    open: BTreeMap<Right, Transaction>,
    members: Vec<Member>,
    /// When each hears of the last of what it is to serve; also of those that are no members for a while.
    told: BTreeMap<Life, u64>,
    /// The group is another one from now on: its members are to be told.
    pub has_changed: bool,
}

/// A member of the group of fronts.
#[derive(Clone, Debug)]
struct Member {
    life: Life,
    heard: u64,
}

/// Records that are read at a time.
const FETCH_MAX: usize = 16;

impl Brokers {
    /// Topics with so many partitions.
    pub fn new(requests: usize, replies: usize) -> Self {
        Brokers {
            requests: (0..requests).map(|_| Vec::new()).collect(),
            replies: (0..replies).map(|_| Vec::new()).collect(),
            ..Brokers::default()
        }
    }

    /// Takes a record, and gives its place.
    pub fn append(&mut self, partition: usize, record: Record) -> Place {
        self.requests[partition].push(record);
        Place { partition: partition as i32, offset: self.requests[partition].len() as i64 - 1 }
    }

    /// The topic of requests has one partition more.
    pub fn grow(&mut self) {
        self.requests.push(Vec::new());
        self.has_changed = true;
    }

    /// The record at a place.
    pub fn record(&self, place: Place) -> &Record {
        &self.requests[place.partition as usize][place.offset as usize]
    }

    pub fn partitions(&self) -> usize {
        self.requests.len()
    }

    /// All records, and where they are.
    pub fn records(&self) -> impl Iterator<Item = (Place, &Record)> {
        self.requests.iter().enumerate().flat_map(|(partition, records)| {
            let place = move |offset: usize| Place { partition: partition as i32, offset: offset as i64 };
            records.iter().enumerate().map(move |(offset, record)| (place(offset), record))
        })
    }

    /// Up to where a partition of replies is decided.
    fn decided(&self, egress: i32) -> i64 {
        let messages = &self.replies[egress as usize];
        let open = messages.iter().position(|message| message.fate == Fate::Open);
        open.unwrap_or(messages.len()) as i64
    }

    fn holds(&self, name: Name) -> bool {
        self.names.get(&name.right) == Some(&name.epoch)
    }

    /// Decides the transaction under a name; gives what was in it.
    fn decide(&mut self, name: Right, fate: Fate) -> Vec<(Answered, i64)> {
        let Some(transaction) = self.open.remove(&name) else { return Vec::new() };
        for replies in &mut self.replies {
            let mut open = replies.iter_mut().filter(|message| message.name == name && message.fate == Fate::Open);
            let Some(first) = open.next() else { continue };
            first.fate = fate;
            open.for_each(|message| message.fate = fate);
            // The marker takes an offset.
            replies.push(Message { name, mark: None, fate });
        }
        transaction.replies
    }

    /// Carries out what was asked for; gives what was committed as well.
    pub fn take(&mut self, call: Call, now: u64) -> (Told, Vec<(Answered, i64)>) {
        let told = match call {
            Call::Take(right) => {
                let epoch = self.names.entry(right).or_default();
                *epoch += 1;
                let name = Name { right, epoch: *epoch };
                self.decide(right, Fate::Aborted);
                Told::Taken(name)
            }
            Call::EndOfSent(egress) => Told::Offset(self.replies[egress as usize].len() as i64),
            Call::Decided(egress) => Told::Range(0, self.decided(egress)),
            Call::Replies { egress, from, until } => {
                let messages = &self.replies[egress as usize][from as usize..until.min(self.decided(egress)) as usize];
                let committed = messages.iter().filter(|message| message.fate == Fate::Committed);
                Told::Marks(committed.filter_map(|message| message.mark).collect())
            }
            Call::Requests(partition) => Told::Range(0, self.requests[partition as usize].len() as i64),
            Call::Fetch(positions) => Told::Records(self.fetch(&positions), self.requests.len()),
            Call::Produce(name, _) | Call::Commit(name) if !self.holds(name) => Told::Fenced,
            Call::Produce(name, replies) => {
                let count = self.replies.len();
                for (answered, watermark) in &replies {
                    let Place { partition, offset } = answered.place;
                    let mark = Some(ReplyMark { partition, offset, watermark: *watermark });
                    let egress = &mut self.replies[partition as usize % count];
                    egress.push(Message { name: name.right, mark, fate: Fate::Open });
                }
                let open = self.open.entry(name.right).or_default();
                open.since = now;
                open.replies.extend(replies);
                Told::Done
            }
            Call::Commit(name) => return (Told::Done, self.decide(name.right, Fate::Committed)),
        };
        (told, Vec::new())
    }

    fn fetch(&self, positions: &BTreeMap<i32, i64>) -> Vec<(Place, Record)> {
        let of = |(partition, from): (&i32, &i64)| {
            let (partition, from) = (*partition, *from);
            let records = self.requests[partition as usize].iter().enumerate().skip(from as usize);
            let place = move |offset: usize| Place { partition, offset: offset as i64 };
            records.map(move |(offset, record)| (place(offset), record.clone()))
        };
        positions.iter().flat_map(of).take(FETCH_MAX).collect()
    }

    /// Aborts what has been open for too long; whoever sent it has lost its name.
    pub fn expire(&mut self, before: u64) {
        let late = self.open.iter().filter(|(_, transaction)| transaction.since < before);
        for name in late.map(|(name, _)| *name).collect::<Vec<_>>() {
            self.decide(name, Fate::Aborted);
            *self.names.entry(name).or_default() += 1;
        }
    }

    /// Members of the group that were heard of now; those of which nothing was heard since `before` are none any more.
    pub fn review(&mut self, heard: &BTreeSet<Life>, now: u64, before: u64) {
        for life in heard {
            match self.members.iter_mut().find(|member| member.life == *life) {
                Some(member) => member.heard = now,
                None => {
                    self.members.push(Member { life: *life, heard: now });
                    self.has_changed = true;
                }
            }
        }
        let all = self.members.len();
        self.members.retain(|member| member.heard >= before);
        self.has_changed |= self.members.len() != all;
    }

    /// A member hears of an assignment from `from` until `until`, though not before it has heard of the last; gives from when on.
    pub fn tells(&mut self, life: Life, from: u64, until: u64) -> u64 {
        let told = self.told.entry(life).or_default();
        let from = from.max(*told);
        *told = until.max(from + 1);
        from
    }

    /// Which partitions each member of the group is to serve.
    pub fn assignment(&self, turn: usize) -> Vec<(Life, Vec<i32>)> {
        let count = self.members.len();
        let of = |at: usize| (0..self.requests.len()).filter(move |partition| (partition + turn) % count == at);
        let member = |(at, member): (usize, &Member)| (member.life, of(at).map(|partition| partition as i32).collect());
        self.members.iter().enumerate().map(member).collect()
    }
}
