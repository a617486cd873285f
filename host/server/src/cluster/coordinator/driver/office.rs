//! A generation that runs, as its coordinator knows it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Receiver;
use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::machine::Coordinator;
use styx_protocol::membership::Seated;
use styx_protocol::placement::Placement;
use styx_protocol::record::EpochRecord;
use tokio::sync::oneshot;

use crate::cluster::archive::Beginning;
use crate::handle::Waiter;
use crate::snapshots::{Found, Keeper, Taken};
use styx_transport::NodeId;

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
    /// It is to end: what is under way comes to its end, and then to a snapshot.
    pub(super) resting: Option<Resting>,
    /// The snapshot that it began with.
    pub(super) found: Option<Arc<Found>>,
    pub(super) keeper: Option<Keeper>,
    pub(super) durable: Epoch,
    /// What of the log is durable: no later epoch stands before it.
    pub(super) position: u64,
    pub(super) waiting_since: Option<Instant>,
    /// When the last round began, and when what it waits for did.
    pub(super) started: Instant,
    pub(super) staged: Instant,
}

/// How far the end of a generation is that nobody is in a hurry for.
#[derive(Debug)]
pub(in crate::cluster::coordinator) enum Resting {
    /// Something is under way.
    Busy,
    /// The next generation shall not have to replay: a snapshot is being taken.
    Kept(oneshot::Receiver<Result<Taken, String>>),
    /// The membership knows.
    Done,
}

impl Office {
    /// Whether clients are served.
    pub(super) fn serves(&self) -> bool {
        self.live && self.resting.is_none()
    }

    /// From where the log is replayed.
    pub(super) fn beginning(&self) -> Beginning {
        self.found.as_ref().map_or_else(Beginning::default, |found| Beginning {
            position: found.manifest.log_position,
            after: found.head.frame.epoch,
        })
    }

    pub(super) fn node(&self, worker: WorkerId) -> NodeId {
        self.members[usize::from(worker.0)].place
    }

    pub(super) fn worker(&self, node: NodeId) -> Option<WorkerId> {
        self.members.iter().position(|member| member.place == node).map(|at| WorkerId(at as u16))
    }
}
