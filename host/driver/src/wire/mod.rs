//! Messages between the processes of a cluster besides the protocol's own: who is there, what is
//! deployed where, and what gateways ask for their clients.
//!
//! They travel on control links, which know no generations; what belongs to one says so. Each begins
//! with the version of the format that it is in: a process of a newer one is refused by name.

mod admin;
mod client;
#[cfg(test)]
mod tests;

pub use admin::{AdminQuery, Overview, PartitionStats, WorkerStatus};
pub use client::{Bytes, Query, Question, Reply, Response, TicketedResponse};

use rkyv::rancor;
use styx_protocol::archive::aligned;
use styx_protocol::catalog::{Catalog, CatalogImage};
use styx_protocol::deployment::Digest;
use styx_protocol::entity::Layout;
use styx_protocol::format::CONTROL_MESSAGES as VERSION;
use styx_protocol::ids::{Epoch, Generation, NodeId, PartitionId, PlacementVersion, WorkerId};
use styx_protocol::machine::worker::CopyProgress;
use styx_protocol::membership::{Beat, Hello};
use styx_protocol::placement::Placement;
use styx_protocol::replies::Retention;
use styx_protocol::state::StateHash;
use styx_protocol::transaction::CarriedTransaction;

use crate::fullness::{Full, Holdings};
use crate::suspicion::Suspect;

/// A member of a generation, and where others reach it.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Member {
    pub node: NodeId,
    /// Host and port.
    pub address: String,
}

/// How fast a worker copies partitions that leave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CopyPace {
    /// Most bytes a second, if there is a limit.
    pub rate: Option<u64>,
    /// Not at all.
    pub paused: bool,
}

/// A message on a control link.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Envelope {
    /// Worker → coordinator: a heartbeat, and where other workers reach it.
    Hello {
        hello: Hello,
        address: String,
        /// Requests that were under way when earlier lives of the process ended.
        suspects: Vec<Suspect>,
        /// How much of what leaves it, or left it last, is copied.
        copied: Option<CopyProgress>,
        /// What state it holds, if that has changed.
        holds: Option<Holdings>,
    },
    /// Coordinator → worker: the answer to a heartbeat.
    Beat(Beat),
    /// Coordinator → worker: it cannot be a member, and why.
    Refused(String),
    /// Coordinator → worker: it asked to leave, and nobody counts on it any more.
    Released,
    /// Coordinator → worker: be a member of this generation, and begin anew.
    Invite(Invite),
    /// Coordinator → worker: how fast to copy partitions that leave it.
    CopyPace {
        generation: Generation,
        /// The placement with which they go.
        version: PlacementVersion,
        pace: CopyPace,
    },
    /// Worker → coordinator: it has begun anew as a member.
    Joined {
        generation: Generation,
    },
    /// Worker → coordinator: it cannot restore the snapshot that the generation begins with.
    RestoreFailed {
        generation: Generation,
        why: String,
        /// The snapshot is damaged: an older one may do.
        damaged: bool,
    },
    /// Worker → coordinator: it has written its part of a snapshot.
    PartWritten {
        generation: Generation,
        part: WrittenPart,
    },
    /// Coordinator → worker: say again what was written, the message may be lost.
    ResendPart {
        generation: Generation,
    },
    /// Worker → coordinator: send this component.
    FetchComponent(Digest),
    /// Coordinator → worker: a component; nothing if there is none.
    Component(Digest, Option<Vec<u8>>),
    /// Coordinator → worker: compile a component, for it will be deployed.
    PrepareComponent(Digest),
    /// Worker → coordinator: it is compiled, or why it cannot be.
    ComponentPrepared(Digest, Result<(), String>),
    /// Gateway → coordinator: send a [`View`] after every change.
    Watch {
        /// What it knows to be deployed.
        known: CatalogVersion,
    },
    /// Coordinator → gateway: how the cluster is.
    View(View),
    /// Gateway → worker or coordinator: what its clients ask.
    Queries(Vec<Query>),
    Responses(Vec<TicketedResponse>),
    /// Worker or gateway → coordinator: how its process fares, in words of its own: no driver reads them.
    Report(Vec<u8>),
}

/// Makes a worker a member.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Invite {
    pub generation: Generation,
    /// For this life of the process alone.
    pub life: u64,
    pub me: WorkerId,
    /// All members, by worker.
    pub members: Vec<Member>,
    /// Who owns what.
    pub placement: Placement,
    /// How keys are spread.
    pub layout: Layout,
    /// How long replies are remembered.
    pub retention: Retention,
    /// The longest record that the log takes, in bytes.
    pub record_bytes_max: u64,
    /// Where snapshots go, if any are taken.
    pub store: Option<SnapshotPlace>,
}

impl Invite {
    /// Whether it can be followed: it names its receiver, and its placement is one of its members.
    pub fn is_sound(&self) -> bool {
        let members = self.members.len();
        let is_member = usize::from(self.me.0) < members;
        is_member && self.layout.is_sound() && self.placement.is_sound(self.layout.partitions, members)
    }
}

/// Where snapshots go.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct SnapshotPlace {
    /// The URL; how to get in, each process knows from its own environment.
    pub place: String,
    /// The cluster that it belongs to.
    pub identity: u128,
    /// The snapshot that the generation begins with.
    pub begin: Option<u64>,
}

/// What a worker has written of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct WrittenPart {
    /// The snapshot's epoch.
    pub epoch: Epoch,
    /// The objects with the changes of its partitions, in the store's own words: no driver reads them.
    pub objects: Vec<u8>,
    /// Hash of each partition of this worker.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Its transactions that were moved to the next epoch.
    pub carried: Vec<CarriedTransaction>,
}

/// The cluster as a gateway must know it.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct View {
    pub generation: Generation,
    /// It serves; otherwise it recovers.
    pub live: bool,
    /// The disk of the log is nearly full: nothing that may write is to be taken.
    pub full: bool,
    /// The log waits for its brokers: nothing at all is to be taken.
    pub stalled: bool,
    /// Who gets no more state.
    pub state: Full,
    /// All members, by worker.
    pub members: Vec<Member>,
    /// Who owns what.
    pub placement: Placement,
    /// How keys are spread.
    pub layout: Layout,
    /// What is deployed, if it serves and the receiver knows something else.
    pub catalog: Option<CatalogImage>,
}

/// Names a state of the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CatalogVersion {
    /// Grows with every change.
    pub version: u64,
    /// Hash of all changes up to it.
    pub hash: u64,
}

impl CatalogVersion {
    pub fn of(catalog: &Catalog) -> Self {
        CatalogVersion { version: catalog.version(), hash: catalog.hash() }
    }
}

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It does not even say its version.
    #[error("a message of {0} bytes is none")]
    TooShort(usize),
    /// Another release has sent it.
    #[error("the message is in format {found}, this process reads {VERSION}: install the same release on all nodes")]
    OtherVersion {
        /// What the message says.
        found: u16,
    },
    /// The bytes are not a message.
    #[error("not a message: {0}")]
    Malformed(#[from] rancor::Error),
}

impl Envelope {
    /// Bytes of the message: the version, then the message in rkyv.
    ///
    /// # Panics
    /// Never: memory that holds the message holds its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let body = rkyv::to_bytes::<rancor::Error>(self).expect("a message in memory can be written to memory");
        let mut bytes = Vec::with_capacity(2 + body.len());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads a message, validating it before it is believed.
    ///
    /// # Errors
    /// Another format, or no message at all.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((version, body)) = bytes.split_first_chunk() else {
            return Err(DecodeError::TooShort(bytes.len()));
        };
        match u16::from_le_bytes(*version) {
            VERSION => Ok(rkyv::from_bytes::<Envelope, rancor::Error>(&aligned(body))?),
            found => Err(DecodeError::OtherVersion { found }),
        }
    }
}
