//! What a snapshot holds besides the entities: all that the next epoch depends on.
//!
//! A snapshot is the state at an epoch's end. Between two rounds the coordinator notes its part and
//! tells all workers to note theirs; both do so in constant time, and hand over what has changed in
//! entities while later epochs run. Whoever restores it and replays the log from the next epoch on
//! comes to the same as whoever never stopped, under any membership.

use std::collections::BTreeMap;

use styx_planted::{Bug, planted};

use crate::cluster::placement::Seating;
use crate::commit::replies::{Kept, ReplyChange, RestoredReplies};
use crate::ids::{Epoch, Generation, PartitionId, Tid, Timestamp};
use crate::sequence::catalog::CatalogImage;
use crate::sequence::record::Chain;
use crate::sequence::route::partition_of;
use crate::sequence::transaction::CarriedTransaction;
use crate::state::entity::Layout;
use crate::state::{Partition, StateHash};

/// The coordinator's part.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct SnapshotHeader {
    /// The generation in which it was taken.
    pub generation: Generation,
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
    /// Who had which partition, in a cluster.
    pub seating: Option<Seating>,
}

/// A worker's part, without its entities: those are handed over by and by.
#[derive(Clone, Debug)]
pub struct WorkerSnapshot {
    /// The epoch at whose end it was taken.
    pub epoch: Epoch,
    pub layout: Layout,
    /// It continues the one before; otherwise its changes are all that there is.
    pub builds_on: bool,
    /// Hash of each partition that is here, by id.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Transactions that were moved to the next epoch, in TID order.
    pub carried: Vec<CarriedTransaction>,
    /// What has become of replies since the last snapshot; of one reply the last change counts.
    pub replies: Vec<ReplyChange>,
}

/// What a worker still holds of a generation that has ended where a snapshot was taken: it need not
/// be read again.
#[derive(Debug)]
pub struct RetainedState {
    generation: Generation,
    epoch: Epoch,
    partitions: BTreeMap<PartitionId, Partition>,
    replies: Vec<Kept>,
}

impl RetainedState {
    pub(crate) fn new(
        generation: Generation,
        epoch: Epoch,
        partitions: BTreeMap<PartitionId, Partition>,
        replies: Vec<Kept>,
    ) -> Self {
        RetainedState { generation, epoch, partitions, replies }
    }

    pub fn hold(&self, frame: &SnapshotHeader, partition: PartitionId) -> bool {
        let same = (self.generation, self.epoch) == (frame.generation, frame.epoch);
        (same || planted(Bug::RetainedOfAnother)) && self.partitions.contains_key(&partition)
    }

    /// Adds what they hold, of the partitions that `owns` names, to what was read of the snapshot: partitions and replies.
    pub fn complete(
        self,
        frame: &SnapshotHeader,
        (partitions, replies): (&mut Vec<(PartitionId, Partition)>, &mut Vec<Kept>),
        layout: &Layout,
        owns: impl Fn(PartitionId) -> bool,
    ) {
        // What they hold of another one may be laid out otherwise.
        let wanted = |id: PartitionId| self.hold(frame, id) && owns(id);
        replies.extend(self.replies.iter().filter(|kept| wanted(partition_of(kept.id, layout))).cloned());
        let wanted: Vec<_> = self.partitions.keys().copied().filter(|id| wanted(*id)).collect();
        partitions.extend(self.partitions.into_iter().filter(|(id, _)| wanted.contains(id)));
    }
}

/// What a worker begins with.
#[derive(Debug)]
pub struct RestoredState {
    /// The coordinator's part.
    pub frame: SnapshotHeader,
    /// The number of partitions in which the snapshot was taken. If it is another now, what is here was dealt out anew, and all
    /// of it is a change for the next snapshot, which builds on none.
    pub laid_in: u32,
    /// Its partitions, by id; those that are not named are empty.
    pub partitions: Vec<(PartitionId, Partition)>,
    /// Transactions that were moved to the next epoch, of all workers.
    pub carried: Vec<CarriedTransaction>,
    /// Replies whose ids belong to its partitions.
    pub replies: RestoredReplies,
}
