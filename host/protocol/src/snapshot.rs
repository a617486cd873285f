//! What a snapshot holds besides the entities: all that the next epoch depends on.
//!
//! A snapshot is the state at an epoch's end. Between two rounds the coordinator notes its part and
//! tells all workers to note theirs; both do so in constant time, and hand over what has changed in
//! entities while later epochs run. Whoever restores it and replays the log from the next epoch on
//! comes to the same as whoever never stopped, under any membership.

use std::sync::Arc;

use rkyv::with::Unshare;

use crate::catalog::CatalogImage;
use crate::ids::{Epoch, PartitionId, Tid, Timestamp};
use crate::record::Chain;
use crate::replies::{Kept, ReplyChange};
use crate::state::{Partition, StateHash};
use crate::transaction::Request;

/// The coordinator's part.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Frame {
    /// The epoch at whose end it was taken.
    pub epoch: Epoch,
    /// The state hash chain after it.
    pub chain: Chain,
    /// The epoch's time.
    pub time: Timestamp,
    /// No TID up to now is higher.
    pub highest: Tid,
    /// What is deployed.
    pub catalog: CatalogImage,
}

/// A worker's part, without its entities: those are handed over by and by.
#[derive(Clone, Debug)]
pub struct Part {
    /// The epoch at whose end it was taken.
    pub epoch: Epoch,
    /// Hash of each partition that is here, by id.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Transactions that were moved to the next epoch, in TID order.
    pub carried: Vec<Carried>,
    /// What has become of replies since the last snapshot; of one reply the last change counts.
    pub replies: Vec<ReplyChange>,
}

/// A transaction that was moved to the next epoch.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Carried {
    /// Its TID, which it keeps.
    pub tid: Tid,
    /// When it was first sequenced.
    pub time: Timestamp,
    /// What is asked.
    #[rkyv(with = Unshare)]
    pub request: Arc<Request>,
}

/// What a worker begins with.
#[derive(Debug)]
pub struct Restored {
    /// The coordinator's part.
    pub frame: Frame,
    /// Its partitions, by id; those that are not named are empty.
    pub partitions: Vec<(PartitionId, Partition)>,
    /// Carried transactions, of all workers.
    pub carried: Vec<Carried>,
    /// Replies whose ids belong to its partitions, in any order.
    pub replies: Vec<Kept>,
}
