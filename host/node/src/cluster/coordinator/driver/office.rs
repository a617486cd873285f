//! A generation that runs, as its coordinator knows it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Receiver;
use styx_protocol::attempt::Placement;
use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::machine::Coordinator;
use styx_protocol::membership::Seated;
use styx_protocol::record::EpochRecord;

use crate::transport::NodeId;
use crate::worker::Waiter;

/// A generation that runs.
pub(in crate::cluster::coordinator) struct Office {
    pub(super) generation: u64,
    pub(super) machine: Coordinator<Waiter>,
    pub(super) members: Vec<Seated<NodeId>>,
    pub(super) placement: Arc<Placement>,
    pub(super) joined: BTreeSet<NodeId>,
    /// The log, while it is replayed.
    pub(super) replay: Option<Receiver<Arc<EpochRecord>>>,
    pub(super) live: bool,
    pub(super) durable: Epoch,
    pub(super) waiting_since: Option<Instant>,
}

impl Office {
    pub(super) fn node(&self, worker: WorkerId) -> NodeId {
        self.members[usize::from(worker.0)].place
    }

    pub(super) fn worker(&self, node: NodeId) -> Option<WorkerId> {
        self.members.iter().position(|member| member.place == node).map(|at| WorkerId(at as u16))
    }
}
