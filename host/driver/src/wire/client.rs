//! What gateways ask workers and the coordinator for their clients, and what they are told.

use std::sync::Arc;

use rkyv::with::Unshare;
use styx_protocol::abort::Abort;
use styx_protocol::attempt::Entry;
use styx_protocol::entity::Value;
use styx_protocol::ids::{Epoch, Generation, PlacementVersion, RequestId, Tid};
use styx_protocol::transaction::Request;

use super::admin::{AdminQuery, Overview, PartitionStats, WorkerStatus};

#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Query {
    /// Comes back with the answer.
    pub ticket: u64,
    /// The generation that the sender has in mind; another one answers [`Response::WrongGeneration`].
    pub generation: Generation,
    /// The placement by which the sender chose whom to ask; a worker that has a later one answers
    /// [`Response::WrongGeneration`] too.
    pub placement: PlacementVersion,
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
    Admin(AdminQuery),
}

#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct TicketedResponse {
    /// Of the question.
    pub ticket: u64,
    pub response: Response,
}

impl TicketedResponse {
    /// About as many bytes as it takes.
    pub fn weight(&self) -> usize {
        const ENTRY: usize = 64;
        let entries = |entries: &[Entry]| entries.iter().map(|Entry(key, value)| ENTRY + key.len() + value.len()).sum();
        let carried = match &self.response {
            Response::Reply(Reply { outcome: Ok(Bytes(value)), .. })
            | Response::Replayed(Reply { outcome: Ok(Bytes(value)), .. })
            | Response::Value { value: Some(Bytes(value)), .. } => value.len(),
            Response::Reply(Reply { outcome: Err(abort), .. })
            | Response::Replayed(Reply { outcome: Err(abort), .. }) => abort.size(),
            Response::Entries { entries: found, .. } | Response::Sample { entries: found, .. } => entries(found),
            Response::Partitions(partitions) => partitions.len() * ENTRY,
            Response::Workers(workers) => workers.len() * ENTRY,
            Response::Observed(seen) => seen.iter().map(String::len).sum(),
            _ => 0,
        };
        ENTRY + carried
    }
}

/// What can be answered.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Response {
    /// The end of a request.
    Reply(Reply),
    /// A request is durable and will be carried out.
    Accepted(RequestId),
    /// Nothing is known of a request.
    Unknown,
    /// The cluster at a glance.
    Cluster(Overview),
    /// How far workers are, by worker.
    Workers(Vec<WorkerStatus>),
    /// What partitions hold, by partition.
    Partitions(Vec<PartitionStats>),
    /// The value of an entity.
    Value {
        /// The value; none if there is no such entity.
        value: Option<Bytes>,
        /// The partition that it belongs to.
        partition: u16,
        epoch: Epoch,
    },
    /// Entries in key order.
    Entries {
        entries: Vec<Entry>,
        /// There are more after the last one.
        more: bool,
        /// As of this epoch; of several workers, the earliest.
        epoch: Epoch,
    },
    /// What workers have seen, each in words of its process's own.
    Observed(Vec<String>),
    /// This is another generation, or another catalog: ask again where the newest view says. Nothing has happened.
    WrongGeneration,
    /// Some entities of an operator.
    Sample {
        entries: Vec<Entry>,
        /// All that there are.
        entities: u64,
    },
    /// The end of a request that somebody has asked before under the same id.
    Replayed(Reply),
}

#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Bytes(#[rkyv(with = styx_protocol::archive::Plain)] pub Value);

/// The end of a request.
#[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Reply {
    pub id: RequestId,
    pub tid: Tid,
    /// The epoch in which it ended.
    pub epoch: Epoch,
    /// The result, or why there is none.
    pub outcome: Result<Bytes, Abort>,
}

impl From<styx_protocol::replies::Reply> for Reply {
    fn from(reply: styx_protocol::replies::Reply) -> Self {
        let outcome = reply.outcome.map(Bytes);
        Reply { id: reply.id, tid: reply.tid, epoch: reply.epoch, outcome }
    }
}

impl From<Reply> for styx_protocol::replies::Reply {
    fn from(reply: Reply) -> Self {
        let outcome = reply.outcome.map(|Bytes(value)| value);
        styx_protocol::replies::Reply { id: reply.id, tid: reply.tid, epoch: reply.epoch, outcome }
    }
}
