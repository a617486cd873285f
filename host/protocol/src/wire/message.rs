//! What the nodes of a cluster tell each other. All messages of one step and one destination
//! travel together.

use std::sync::Arc;

use rkyv::rancor::{self, Source as _};
use rkyv::with::{Map, Unshare};

use super::long::LongMail;
use super::mail::Mail;
use super::moving::{MovingMail, MovingMode};
use crate::archive;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::validate::{Bits, Kind};
use crate::execute::task::GraphId;
use crate::ids::{Epoch, PartitionId, PlacementVersion, RequestId, Round, SequencerCounter, Tid, Timestamp, WorkerId};
use crate::sequence::control::Control;
use crate::sequence::outcome::EpochChanges;
use crate::sequence::record::Chain;
use crate::sequence::transaction::Request;
use crate::sequence::writes::PackedWrites;
use crate::state::StateHash;

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
        /// Queries of which others have lines to show.
        queries: Vec<QueryEnd>,
    },
    /// To all workers: every graph is complete.
    Settle {
        round: Round,
        /// Whether it is an epoch.
        logged: bool,
        /// Graphs of several workers that the receiver took part in, in TID order; if there are others only, one of them. None:
        /// there are none, and each decides by itself.
        ends: Vec<GraphEnd>,
        /// Queries that are rooted elsewhere, and the attempts that count: what functions have logged here is to be shown. In
        /// the order of their graphs.
        queries: Vec<(GraphId, u32)>,
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
        /// Those that have any and that the receiver took part in, in TID order.
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
    /// Between workers, before the round is cut: entities that are the receiver's from now on, since keys of their operator
    /// have a prefix now, or none any more. Answered with [`Message::DealtTaken`].
    Dealt {
        round: Round,
        entities: PackedWrites,
        /// Whether there are no more.
        last: bool,
    },
    /// Between workers: some of what was dealt in this round is there.
    DealtTaken(Round),
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
            Message::Dealt { .. } => "Dealt",
            Message::DealtTaken(_) => "DealtTaken",
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
            Message::Executed { ends, queries, .. } => (ends.len() + queries.len()) * 32,
            Message::Settle { ends, queries, .. } => ends.len() * 32 + queries.len() * 16,
            Message::Graphs(mail) => mail.weight(),
            Message::Changes { changes, .. } => changes.weight(),
            Message::Moving(mail) => mail.moving.weight(),
            Message::Dealt { entities, .. } => entities.bytes().len(),
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

/// How a query ended that several workers share.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct QueryEnd {
    pub graph: GraphId,
    /// The attempt that counts.
    pub number: u32,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_say_nothing_readable_are_no_message() {
        let mut changes = EpochChanges::default();
        let message = |changes: &EpochChanges| Message::Changes { round: Round(1), changes: changes.clone() };
        assert_eq!(Message::decode(&message(&changes).encode()).unwrap(), message(&changes));
        changes.writes.extend(b"no header");
        assert!(Message::decode(&message(&changes).encode()).is_err());
    }
}
