//! Faults of peers: messages that no node which keeps to the protocol sends.
//!
//! They are operating errors of this node, not broken invariants: the message is not applied, and
//! the driver ends the generation, or the sender's part in it.

use crate::wire::message::Node;

/// A message that could not be applied where it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from} sent {what}, which cannot be applied: {why}")]
pub struct PeerFault {
    pub from: Node,
    /// The sort of message.
    pub what: &'static str,
    pub why: &'static str,
}

/// Reasons that a message cannot be applied.
pub(crate) mod why {
    pub const NO_MEMBER: &str = "it is no member of this generation";
    pub const NO_ROUND: &str = "no round is under way";
    pub const ANOTHER_ROUND: &str = "another round is under way";
    pub const OTHER_WORKERS: &str = "it names workers that there are not, or leaves out its sender";
    pub const DISORDER: &str = "its transactions do not stand in TID order";
    pub const PLACEMENT: &str = "its placement does not follow on the one that is here";
    pub const MOVES: &str = "operators get other keys while partitions move";
    pub const MIGRATION: &str = "partitions change their owner behind a snapshot, and with nothing else";
    pub const NOT_ANNOUNCED: &str = "what it hands over is not what it announced";
    pub const ANOTHER_PHASE: &str = "the round is in another phase";
    pub const PHASE_OVER: &str = "its phase is over, and somebody waits for what it asks";
    pub const TOO_EARLY: &str = "its phase is not the next one";
    pub const UNKNOWN_GRAPH: &str = "its call graph is not known here";
    pub const ANOTHER_ATTEMPT: &str = "it belongs to another attempt at its call graph";
    pub const NOT_ROOTED: &str = "its call graph is rooted elsewhere";
    pub const ROOTED_HERE: &str = "its call graph would be rooted here";
    pub const ANOTHER_GRAPH: &str = "it contradicts what is known of its call graph";
    pub const NO_TARGET: &str = "what it asks for is not here";
    pub const SHARES: &str = "its ack shares do not add up";
    pub const NO_BITS: &str = "its dependencies are not those of the transactions that are settled";
    pub const ANOTHER_EPOCH: &str = "its epoch does not follow on the one that is here";
    pub const NO_COUNTER: &str = "its TIDs come too far";
    pub const NOT_ASKED: &str = "nobody asked for it";
    pub const NOBODY_WAITS: &str = "it names nobody who waits for its answer";
    pub const TWICE: &str = "it came before";
    pub const NOT_FOR_THIS: &str = "it is for another sort of node";
    pub const NOT_CARRIED: &str = "it takes transactions that no earlier epoch has left over";
    pub const NO_WRITES: &str = "it does not say what was written to partitions that are there";
    pub const TOO_MUCH: &str = "it adds more to the record than it may";
    pub const DIVIDES: &str = "former partitions are not dealt out yet";
    pub const SNAPSHOT_UNDER_WAY: &str = "the last snapshot has not been handed over";
}
