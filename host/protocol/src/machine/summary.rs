//! Summary of an epoch, and the serial order that it claims.

use styx_planted::{Bug, planted};

use crate::abort::Abort;
use crate::ids::{Epoch, Tid, Timestamp};
use crate::sequence::record::Chain;
use crate::state::entity::Value;
use crate::wire::message::Counts;

/// Result of an epoch or of a round of read-only requests: at a worker, of its part; at the coordinator,
/// of all workers.
#[derive(Clone, Debug, Default)]
pub struct EpochSummary {
    pub epoch: Epoch,
    pub time: Timestamp,
    /// How many transactions came to what; at the coordinator, of all workers.
    pub counts: Counts,
    /// Transactions and queries that needed other workers.
    pub shared: usize,
    /// State hash chain after it; at the coordinator, and where one worker owns everything.
    pub chain: Chain,
    /// Where those that ended stand in the serial order that the epoch claims to be equal to, if
    /// asked for: that of all workers, sorted.
    pub order: Vec<Rank>,
    /// What they came to, if asked for.
    pub outcomes: Vec<(Tid, Result<Value, Abort>)>,
}

/// A transaction's place in the serial order of its epoch.
///
/// Those that wrote nothing; then those that read what a lower TID wrote, highest first; then the
/// others by TID; then the fallback. (Of two committed transactions, the one that reads what the
/// other writes must precede it. One that reads what a lower TID writes writes nothing that a
/// lower TID reads, so only higher TIDs must precede it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// It wrote nothing.
    ReadOnly(Tid),
    /// It goes before the lower TIDs whose writes it did not see.
    Early(Tid),
    /// It goes by TID.
    Commit(Tid),
    /// It ran after all of these.
    FellBack(Tid),
}

impl Rank {
    pub fn tid(self) -> Tid {
        match self {
            Rank::ReadOnly(tid) | Rank::Early(tid) | Rank::Commit(tid) | Rank::FellBack(tid) => tid,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Rank::ReadOnly(tid) => (0, tid.0),
            Rank::Early(tid) if planted(Bug::EarlyByTid) => (1, tid.0),
            Rank::Early(tid) => (1, u64::MAX - tid.0),
            Rank::Commit(tid) => (2, tid.0),
            Rank::FellBack(tid) => (3, tid.0),
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
