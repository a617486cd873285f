//! Events of a world, and what they carry.

use std::fmt;
use std::sync::Arc;

use styx_protocol::catalog::Control;
use styx_protocol::ids::RequestId;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;

use crate::disk::End;
use crate::store::Manifest;
use crate::wire::Packet;

/// An event of the world.
#[derive(Debug)]
pub enum Event {
    /// To a process, in this life of its.
    Node(Life, NodeEvent),
    /// A packet of a node reaches another.
    Packet(usize, usize, Packet),
    /// A manifest, sent in this life of a node, reaches the store.
    Put(Life, Arc<Manifest>),
    /// A client's message (the attempt, and what it says) reaches a node.
    Message(usize, usize, Message),
    /// An answer from a life of a node (or from its kernel) reaches the client of an attempt.
    Response(Option<Life>, usize, Response),
    /// A client has waited long enough.
    Timeout(usize),
    /// A client's slot goes on.
    Wake(usize),
    /// A gateway learns of a generation.
    Learn(usize, u64),
    /// The administrator deploys.
    Deploy,
    /// A node starts (again).
    Start(usize),
    /// A node's disk is quick again.
    Quick(usize),
    /// The cluster may have this many members.
    Resize(u16),
    /// A fault of this kind.
    Fault(usize),
}

/// An event of a process.
#[derive(Debug)]
pub enum NodeEvent {
    /// An epoch may be cut.
    Tick,
    /// A thread has done its share of a job.
    BatchShare(u64, usize),
    /// A piece of a graph has come as far as it goes.
    TaskDone(u64),
    /// The fsync of the file up to an end is done; or failed.
    Synced(End, bool),
    /// The fence is raised and durable; or that failed.
    FenceRaised(u64, End, bool),
    /// A snapshot may be begun.
    SnapshotDue,
    /// A worker's driver takes more of what has changed.
    HandOver,
    /// A worker's part of a snapshot is written, or that failed.
    Uploaded,
    /// A worker has read the snapshot that it begins with.
    Loaded,
    /// The store has answered to a manifest.
    Put(Put),
    /// Heartbeats, repetitions, acknowledgements.
    Heartbeat,
}

/// Result of putting a manifest into the store.
#[derive(Clone, Debug)]
pub enum Put {
    /// It is there.
    Done,
    /// Its number is taken, by this one if it can be read.
    Taken(Option<Arc<Manifest>>),
    /// The store did not answer: the manifest may be there.
    Unanswered,
}

/// A life of a node: from a start to a crash. What is meant for an earlier one reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The node.
    pub node: usize,
    /// Starts.
    pub number: u32,
    /// The generation that an event belongs to, if it belongs to one.
    pub part: u64,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node, self.number)?;
        if self.part > 0 { write!(f, "/g{}", self.part) } else { Ok(()) }
    }
}

/// A message from a client to a node.
#[derive(Clone, Debug)]
pub enum Message {
    /// A request that may write; a receipt is enough if so.
    Submit(Arc<Request>, bool),
    /// A read-only request.
    Query(Arc<Request>),
    /// The question for a request's end.
    Await(RequestId),
    /// A deployment.
    Control(Control),
}

/// A message from a node, or its kernel, to a client.
#[derive(Clone, Debug)]
pub enum Response {
    /// The end.
    Reply(Reply),
    /// A receipt.
    Accepted,
    /// Nothing is known.
    Unknown,
    /// A deployment is done, or refused.
    Controlled,
    /// Nothing has happened of what was asked, nor will.
    Returned,
    /// The connection broke.
    Broken,
}
