//! What nodes tell each other, and what the log holds.

use crate::program::{Bits, Found, KEYS, Outcome, Returned, Tid, Values, Verdict};

/// How many workers there are at the start.
pub const WORKERS: usize = 3;

/// One fixed membership and placement. A message of another generation is dropped.
pub type Generation = u8;

/// Workers of a generation; one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Members(u8);

impl Members {
    pub const ALL: Members = Members((1 << WORKERS) - 1);
    pub const NONE: Members = Members(0);

    pub fn contains(self, worker: usize) -> bool {
        self.0 & (1 << worker) != 0
    }

    pub fn with(self, worker: usize) -> Self {
        Members(self.0 | (1 << worker))
    }

    pub fn without(self, worker: usize) -> Self {
        Members(self.0 & !(1 << worker))
    }

    /// In the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..WORKERS).filter(move |worker| self.contains(*worker))
    }

    /// Who owns a key: the worker of its number or, failing that, the next one.
    pub fn owner(self, key: usize) -> usize {
        (0..WORKERS).map(|step| (key + step) % WORKERS).find(|worker| self.contains(*worker)).expect("somebody lives")
    }
}

/// An epoch's transactions in TID order: (TID, number of the request).
pub type Batch = Vec<(Tid, usize)>;

/// Which cut: who appended it, for which epoch. There is at most one such record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cut {
    /// The generation whose coordinator appended it.
    pub generation: Generation,
    /// Counted from the beginning of the log.
    pub epoch: u8,
}

/// One epoch in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub cut: Cut,
    /// New requests with their TIDs. Rescheduled ones are in an older record.
    pub requests: Batch,
    /// What all keys hold after it.
    pub values: Values,
    /// How requests ended in it.
    pub ends: Vec<(usize, Outcome)>,
    /// Those that run in the next epoch again.
    pub carried: Batch,
}

/// How a transaction ended in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// It has its place in the serial order, be it as an abort.
    Ended(Outcome),
    /// It drifted: next epoch, same TID.
    Rescheduled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum To {
    /// The coordinator of the message's generation.
    Coordinator,
    Worker(usize),
}

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// The sender's generation.
    pub generation: Generation,
    /// Which epoch it is about.
    pub epoch: u8,
    /// For whom.
    pub to: To,
    /// What it says.
    pub body: Body,
}

/// What a message says, in the order of an epoch's phases.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Body {
    /// Coordinator to workers: execute this batch. In a new generation: forget everything first.
    Begin {
        /// The cut that must be durable before anything of this epoch is told to clients.
        cut: Cut,
        members: Members,
        /// New and rescheduled transactions.
        batch: Batch,
        /// What all keys held when the generation began: whoever joins with this message begins with it.
        values: Values,
    },
    /// Worker to coordinator: what its keys held at the epoch's start. Stands for all calls and
    /// answers between workers while they execute.
    Executed(usize, Values),
    /// Coordinator to workers: all have executed; what all keys held.
    Settle(Values),
    /// Worker to coordinator: the conflicts on its keys.
    Validated(usize, Vec<Bits>),
    /// Coordinator to workers: who commits.
    Decide(Vec<Verdict>),
    /// Participant to root: a transaction's functions on the participant's keys ran again.
    Again(usize, [Option<Found>; KEYS]),
    /// Callee to caller: what the function of a transaction on a key returned when it ran again. Nobody
    /// waits for a result that its caller does not need any more: it may arrive epochs later.
    Returned(usize, usize, Returned),
    /// Root to participant: apply or drop, and release the locks.
    Resolve(usize, End),
    /// Worker to coordinator: what its keys hold now (stands for the state hash), how the
    /// transactions rooted there ended.
    Finished(usize, Values, Vec<Option<End>>),
}
