//! The channel between nodes: it delays, loses, doubles and reorders what they send, and some pairs
//! do not reach each other for a while, one way or both.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::membership::{Beat, Hello};
use styx_protocol::message::Message;
use styx_protocol::placement::Placement;

use crate::store::{Manifest, Written};

/// A packet from one node to another.
#[derive(Clone, Debug)]
pub enum Packet {
    /// A worker's heartbeat.
    Hello(Hello),
    /// A coordinator's answer.
    Beat(Beat),
    /// A worker cannot be a member.
    Refusal,
    /// A worker that is to stop may do so.
    Release,
    /// A worker shall be a member.
    Invitation(Invitation),
    /// A frame of a link.
    Frame(Box<Frame>),
}

/// A parcel on a link, or the acknowledgement of one.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The generation of the link.
    pub generation: u64,
    /// Highest number received by the sender.
    pub ack: u64,
    /// The parcel and its number; none in a bare acknowledgement.
    pub numbered: Option<(u64, Parcel)>,
}

/// All that a worker must know to be a member.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The generation.
    pub generation: u64,
    /// For this life of the process.
    pub life: u64,
    /// The coordinator's node.
    pub coordinator: usize,
    /// The workers' nodes, by worker.
    pub members: Arc<[usize]>,
    /// Placement.
    pub placement: Arc<Placement>,
    /// The snapshot to begin with.
    pub snapshot: Option<Arc<Manifest>>,
}

/// Payload of a link.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// The messages of one step for one destination.
    Messages(Vec<Message>),
    /// From a worker: its part of a snapshot is in the store.
    Written(Box<Written>),
    /// From the coordinator: the log is replayed, clients may come.
    Live,
}

/// State of the channel.
#[derive(Debug, Default)]
pub struct Wire {
    /// Pairs of nodes, and the time until which packets from the first do not reach the second.
    cut: BTreeMap<(usize, usize), u64>,
}

impl Wire {
    /// Nothing of `from` reaches `to` until then.
    pub fn cut(&mut self, from: usize, to: usize, until: u64) {
        self.cut.insert((from, to), until);
    }

    /// Whether nothing of `from` reaches `to` now.
    pub fn is_cut(&self, from: usize, to: usize, now: u64) -> bool {
        self.cut.get(&(from, to)).is_some_and(|until| now < *until)
    }

    /// Ends all cuts.
    pub fn heal(&mut self) {
        self.cut.clear();
    }
}
