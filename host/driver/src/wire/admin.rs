//! What administrators ask of a running cluster, and what it says of itself.

use styx_protocol::ids::{EngineHash, Epoch, Generation, PlacementVersion, WorkerId};
use styx_protocol::record::Chain;

use super::Member;

/// A read of how things are.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AdminQuery {
    /// The cluster at a glance; for the coordinator.
    Cluster,
    /// How far each worker is.
    Workers,
    /// Entities and bytes of each partition.
    Partitions,
    /// The value of an entity, as of the last durable epoch.
    Get {
        /// The operator's id.
        operator: u32,
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
    /// What each worker has seen of requests and of log lines, in words of its process's own: no driver reads them.
    Observed(String),
    /// Some entities of an operator, from everywhere among its keys, and how many there are.
    Sample {
        /// The operator's id.
        operator: u32,
        /// Most entries.
        limit: u32,
        /// Most bytes of values, the last one's excepted, of each worker.
        bytes: u64,
    },
}

impl AdminQuery {
    /// Tells whether the answer shows entities: those of an epoch that is under way are not yet what they will be.
    pub fn shows_entities(&self) -> bool {
        matches!(self, AdminQuery::Get { .. } | AdminQuery::Scan { .. } | AdminQuery::Sample { .. })
    }
}

/// The cluster at a glance, as its coordinator sees it.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Overview {
    /// Everything is in one process.
    pub single: bool,
    pub generation: Generation,
    /// It serves; otherwise it recovers, or waits for workers.
    pub live: bool,
    /// The last epoch that ended.
    pub epoch: Epoch,
    /// The state hash chain after it.
    pub chain: Chain,
    /// All members, by worker.
    pub members: Vec<Member>,
    /// The newest placement of the generation.
    pub placement: PlacementVersion,
    pub partitions: u32,
    /// The number of partitions at the beginning.
    pub created: u32,
    /// Hash of the engine's configuration.
    pub engine: EngineHash,
    /// Where the coordinator's admin endpoints are.
    pub admin: Option<String>,
}

/// How far a worker is, and what it holds.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct WorkerStatus {
    pub worker: WorkerId,
    /// The last epoch that ended there.
    pub epoch: Epoch,
    /// Requests that wait.
    pub waiting: u64,
    /// Replies remembered.
    pub remembered: u64,
    pub partitions: u64,
    pub entities: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Functions called, since the worker has the partitions that it has.
    pub calls: u64,
    /// Fuel used, likewise.
    pub fuel: u64,
    /// Microseconds in which it executed something, since its generation began.
    pub busy_us: u64,
}

/// What a partition holds, and has been asked to do.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PartitionStats {
    pub partition: u16,
    pub worker: WorkerId,
    pub entities: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Functions called on its entities, since the worker has it.
    pub calls: u64,
    /// Fuel used, likewise.
    pub fuel: u64,
    /// Who is to have it, if it is on its way.
    pub moves_to: Option<WorkerId>,
}
