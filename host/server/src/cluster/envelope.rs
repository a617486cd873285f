//! What processes of a cluster tell each other besides the protocol's own messages: who is there,
//! what is deployed where, and what gateways ask for their clients.
//!
//! Travels on control links, which know no generations; what belongs to one says so.

#![allow(missing_docs, reason = "some fields that rkyv derives lack them; all of ours have them")]

use std::sync::Arc;

use rkyv::rancor;
use rkyv::with::Unshare;
use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Entry, Placement};
use styx_protocol::catalog::{Catalog, CatalogImage, Digest};
use styx_protocol::entity::{Layout, Value};
use styx_protocol::ids::{Epoch, RequestId, Tid, WorkerId};
use styx_protocol::membership::{Beat, Hello};
use styx_protocol::record::Chain;
use styx_protocol::replies::Retention;
use styx_protocol::shared::aligned;
use styx_protocol::transaction::Request;

use crate::snapshots::Written;

/// A message on a control link.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Envelope {
    /// Worker → coordinator: a heartbeat, and where other workers reach it.
    Hello {
        /// The heartbeat.
        hello: Hello,
        /// Its address.
        address: String,
    },
    /// Coordinator → worker: the answer.
    Beat(Beat),
    /// Coordinator → worker: it cannot be a member, and why.
    Refused(String),
    /// Coordinator → worker: it wanted to stop, and nobody counts on it any more.
    Released,
    /// Coordinator → worker: be a member of this generation, and begin anew.
    Invite(Invite),
    /// Worker → coordinator: it has begun anew as a member.
    Joined {
        /// The generation.
        generation: u64,
    },
    /// Worker → coordinator: it cannot begin with the snapshot that the generation begins with.
    Unrestored {
        /// The generation.
        generation: u64,
        /// Why.
        why: String,
        /// Whether the snapshot is damaged: an older one may do.
        damaged: bool,
    },
    /// Worker → coordinator: it has written its part of a snapshot.
    Written {
        /// The generation.
        generation: u64,
        /// What it has written.
        written: Written,
    },
    /// Coordinator → worker: say again what was written.
    Remind {
        /// The generation.
        generation: u64,
    },
    /// Worker → coordinator: a component is wanted.
    Want(Digest),
    /// Coordinator → worker: a component; nothing if there is none.
    Component(Digest, Option<Vec<u8>>),
    /// Coordinator → worker: make a component ready, for it will be deployed.
    Ready(Digest),
    /// Worker → coordinator: it is ready, or why it cannot be.
    Readied(Digest, Result<(), String>),
    /// Gateway → coordinator: tell me of every change.
    Watch {
        /// What it knows to be deployed.
        known: Edition,
    },
    /// Coordinator → gateway: how the cluster is.
    View(View),
    /// Gateway → worker or coordinator: questions of its clients.
    Ask(Vec<Ask>),
    /// The answers.
    Told(Vec<Told>),
}

/// Makes a worker a member.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Invite {
    /// The generation.
    pub generation: u64,
    /// For this life of the process alone.
    pub life: u64,
    /// Which worker it is.
    pub me: WorkerId,
    /// All members, by worker: node ids and addresses.
    pub members: Vec<(u64, String)>,
    /// Who owns what.
    pub placement: Placement,
    /// How keys are spread.
    pub layout: Layout,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Where snapshots go, if any are taken.
    pub store: Option<Store>,
}

/// Where snapshots go.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Store {
    /// The place; how to get in, each process knows from its own environment.
    pub place: String,
    /// Whose it is.
    pub identity: u128,
    /// The snapshot that the generation begins with.
    pub begin: Option<u64>,
}

/// The cluster as a gateway must know it.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct View {
    /// The generation.
    pub generation: u64,
    /// Whether it serves; otherwise it recovers.
    pub live: bool,
    /// Whether the disk of the log is nearly full: nothing that may write is to be taken.
    pub full: bool,
    /// Whether the log waits for its brokers: nothing at all is to be taken.
    pub stalled: bool,
    /// All members, by worker: node ids and addresses.
    pub members: Vec<(u64, String)>,
    /// Who owns what.
    pub placement: Placement,
    /// How keys are spread.
    pub layout: Layout,
    /// What is deployed, if it serves and whoever is told knows something else.
    pub catalog: Option<CatalogImage>,
}

/// Which catalog somebody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Edition {
    /// Grows with every change.
    pub version: u64,
    /// Of all changes up to it.
    pub hash: u64,
}

impl Edition {
    /// That of a catalog.
    pub fn of(catalog: &Catalog) -> Self {
        Edition { version: catalog.version(), hash: catalog.hash() }
    }
}

/// One question.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Ask {
    /// Comes back with the answer.
    pub ticket: u64,
    /// The generation that the asker has in mind; another one answers [`Answer::Moved`].
    pub generation: u64,
    /// What is asked.
    pub question: Question,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Question {
    /// A request that may write; a receipt is enough if so.
    Submit(#[rkyv(with = Unshare)] Arc<Request>, bool),
    /// A read-only request.
    Query(#[rkyv(with = Unshare)] Arc<Request>),
    /// The end of an earlier request.
    Await(RequestId),
    /// How things are.
    Inquire(Inquiry),
}

/// A look at how things are.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Inquiry {
    /// The cluster at a glance; for the coordinator.
    Cluster,
    /// Where each worker stands.
    Workers,
    /// Entities and bytes of each partition.
    Partitions,
    /// The value of an entity, as of the last durable epoch.
    Get {
        /// The operator's id.
        operator: u32,
        /// The key.
        key: String,
    },
    /// Entries of an operator, in key order.
    Scan {
        /// The operator's id.
        operator: u32,
        /// What keys start with.
        prefix: String,
        /// Only keys after this one.
        after: Option<String>,
        /// Most entries.
        limit: u32,
        /// Most bytes of values, the last one's excepted.
        bytes: u64,
    },
}

/// One answer.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Told {
    /// Of the question.
    pub ticket: u64,
    /// The answer.
    pub answer: Answer,
}

/// What can be answered.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Answer {
    /// The end of a request.
    Reply(Reply),
    /// A request is durable and will be carried out.
    Accepted(RequestId),
    /// Nothing is known of a request.
    Unknown,
    /// The cluster at a glance.
    Cluster(Overview),
    /// Where workers stand, by worker.
    Workers(Vec<Standing>),
    /// What partitions hold, by partition.
    Partitions(Vec<Holding>),
    /// The value of an entity.
    Value {
        /// The value; none if there is no such entity.
        value: Option<Bytes>,
        /// The partition that it belongs to.
        partition: u16,
        /// As of this epoch.
        epoch: Epoch,
    },
    /// Entries in key order.
    Entries {
        /// The entries.
        entries: Vec<Entry>,
        /// Whether there are more after the last one.
        more: bool,
        /// As of this epoch; of several workers, the earliest.
        epoch: Epoch,
    },
    /// This is another generation: ask again where the newest view says.
    Moved,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Bytes(#[rkyv(with = styx_protocol::shared::Plain)] pub Value);

/// The end of a request.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Reply {
    /// The request.
    pub id: RequestId,
    /// Its transaction.
    pub tid: Tid,
    /// The epoch in which it ended.
    pub epoch: Epoch,
    /// The result, or why there is none.
    pub outcome: Result<Bytes, Abort>,
}

/// The cluster at a glance, as its coordinator sees it.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Overview {
    /// Whether everything is in one process.
    pub single: bool,
    /// The generation.
    pub generation: u64,
    /// Whether it serves; otherwise it recovers, or waits for workers.
    pub live: bool,
    /// The last epoch that ended.
    pub epoch: Epoch,
    /// The state hash chain after it.
    pub chain: Chain,
    /// All members, by worker: node ids and addresses.
    pub members: Vec<(u64, String)>,
    /// Number of partitions.
    pub partitions: u16,
    /// Hash of the engine's configuration.
    pub engine: u64,
    /// Where the coordinator's admin endpoints are.
    pub admin: Option<String>,
}

/// Where a worker stands.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Standing {
    /// The worker.
    pub worker: WorkerId,
    /// The last epoch that ended there.
    pub epoch: Epoch,
    /// Requests that wait.
    pub waiting: u64,
    /// Replies remembered.
    pub remembered: u64,
    /// Partitions.
    pub partitions: u64,
    /// Entities.
    pub entities: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Holding {
    /// The partition.
    pub partition: u16,
    /// Whose it is.
    pub worker: WorkerId,
    /// Entities.
    pub entities: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

impl Envelope {
    /// Bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        rkyv::to_bytes::<rancor::Error>(self).expect("a message in memory can be written to memory").to_vec()
    }

    /// Reads a message, validating it before it is believed.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, rancor::Error> {
        rkyv::from_bytes::<Envelope, rancor::Error>(&aligned(bytes))
    }
}
