//! Requests and the transactions that they become.

use std::sync::Arc;

use rkyv::with::Unshare;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::ids::{OperatorId, RequestId, Tid, Timestamp};
use crate::sequence::origin::Origin;
use crate::state::entity::{Key, Value};

/// A request as the gateway has validated it and as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Request {
    pub id: RequestId,
    /// The operator called.
    pub operator: OperatorId,
    /// The function called, by name: the version that is live at the cut counts.
    #[rkyv(with = crate::archive::Plain)]
    pub function: Arc<str>,
    /// The entity's key.
    #[rkyv(with = crate::archive::Plain)]
    pub key: Key,
    #[rkyv(with = crate::archive::Plain)]
    pub args: Value,
    /// Whether the reply is kept, by id: the client brought an idempotency key, or will ask later.
    pub retained: bool,
    /// The record that it was read from, if it can be read again; its reply is kept.
    pub origin: Option<Box<Origin>>,
}

/// The part of a body's hash that is of arguments.
const ARGUMENTS: u64 = u32::MAX as u64;

/// Operator that there never is.
const NOBODY: OperatorId = OperatorId(u32::MAX / 2);

impl Request {
    /// What is asked under the id of a record that is no request: a call of an operator that there never is, which
    /// comes to `UNKNOWN_OPERATOR` and has the record be over. No two records have the same body.
    pub fn of_nothing(id: RequestId, origin: Origin) -> Request {
        let Origin { topic, partition, offset, .. } = origin;
        let args = format!("{topic:032x}:{partition}:{offset}").into_bytes().into();
        let (function, key) = ("".into(), "".into());
        Request { id, operator: NOBODY, function, key, args, retained: true, origin: Some(Box::new(origin)) }
    }

    /// Whether `body` is the hash of what was asked under this id by [`Request::of_nothing`] for another record than
    /// this request's.
    pub fn is_of_another_nothing(&self, body: u64) -> bool {
        self.origin.as_deref().is_some_and(|origin| {
            let nothing = Request::of_nothing(self.id, *origin);
            nothing.calls_as(body) && nothing.body_hash() != body
        })
    }

    /// Hash of what is asked, to tell a retry from another request under the same id: of the call in its upper half, of
    /// the arguments in its lower one.
    pub fn body_hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        hasher.update(&self.operator.0.to_le_bytes());
        for part in [self.function.as_bytes(), self.key.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.digest() & !ARGUMENTS | xxh3_64(&self.args) & ARGUMENTS
    }

    /// Whether `body` is the hash of the same function on the same entity, with whatever arguments.
    pub fn calls_as(&self, body: u64) -> bool {
        (self.body_hash() ^ body) & !ARGUMENTS == 0
    }
}

/// A transaction that was moved to the next epoch.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CarriedTransaction {
    /// Its TID, which it keeps.
    pub tid: Tid,
    /// When it was first sequenced.
    pub time: Timestamp,
    /// What is asked.
    #[rkyv(with = Unshare)]
    pub request: Arc<Request>,
}

/// A sequenced request.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub tid: Tid,
    /// When it was first sequenced; kept when it is rescheduled.
    pub time: Timestamp,
    /// What is asked.
    pub request: Arc<Request>,
    /// A read-only request: not logged, runs on the last committed epoch.
    pub query: bool,
}
