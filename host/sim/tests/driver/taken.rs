//! What machines hand over for snapshots, put together as a store would: the last change counts.

use std::collections::BTreeMap;

use styx_protocol::entity::Key;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, OperatorId, PartitionId, RequestId};
use styx_protocol::replies::{Kept, ReplyChange, RestoredReplies};
use styx_protocol::route::partition_of;
use styx_protocol::snapshot::{RestoredState, SnapshotHeader, WorkerSnapshot};
use styx_protocol::state::{Partition, StateHash, Write};
use styx_protocol::transaction::CarriedTransaction;

/// A snapshot that is whole.
struct Whole {
    frame: SnapshotHeader,
    hashes: BTreeMap<PartitionId, StateHash>,
    carried: Vec<CarriedTransaction>,
    /// Of one partition an entity may be gone, and in another have come.
    entities: BTreeMap<(PartitionId, OperatorId, Key), Write>,
    replies: BTreeMap<RequestId, Kept>,
}

/// The last snapshot that is whole, and the one under way.
#[derive(Default)]
pub struct Taken {
    whole: Option<Whole>,
    frame: Option<SnapshotHeader>,
    parts: Vec<WorkerSnapshot>,
    changes: Vec<Write>,
    handed_over: usize,
}

impl Taken {
    pub fn frame(&mut self, frame: SnapshotHeader) {
        assert!(self.frame.replace(frame).is_none(), "snapshots come one after the other");
    }

    pub fn part(&mut self, part: WorkerSnapshot) {
        self.parts.push(part);
    }

    /// Changes of one of so many workers, the last or not.
    pub fn changes(&mut self, changes: Vec<Write>, last: bool, workers: usize) {
        self.changes.extend(changes);
        self.handed_over += usize::from(last);
        if self.handed_over < workers {
            return;
        }
        self.handed_over = 0;
        let frame = self.frame.take().expect("the coordinator's part comes first");
        let before = self.whole.take();
        let (mut entities, mut replies) = before.map(|whole| (whole.entities, whole.replies)).unwrap_or_default();
        for (entity, value) in self.changes.drain(..) {
            let place = (entity.partition(), entity.operator(), entity.key().clone());
            match &value {
                Some(_) => drop(entities.insert(place, (entity, value))),
                None => drop(entities.remove(&place)),
            }
        }
        let (mut hashes, mut carried) = (BTreeMap::new(), Vec::new());
        for part in self.parts.drain(..) {
            assert_eq!(part.epoch, frame.epoch, "all parts are of one epoch");
            hashes.extend(part.hashes);
            carried.extend(part.carried);
            for change in part.replies {
                match change {
                    ReplyChange::Kept(kept) => drop(replies.insert(kept.id, kept)),
                    ReplyChange::Forgotten(id) => drop(replies.remove(&id)),
                }
            }
        }
        carried.sort_unstable_by_key(|carried| carried.tid);
        self.whole = Some(Whole { frame, hashes, carried, entities, replies });
    }

    pub fn is_under_way(&self) -> bool {
        self.frame.is_some()
    }

    /// The epoch of the last one that is whole.
    pub fn epoch(&self) -> Option<Epoch> {
        self.whole.as_ref().map(|whole| whole.frame.epoch)
    }

    /// What a machine begins with that owns some of the partitions.
    pub fn restored(&self, layout: Layout, owned: impl Fn(PartitionId) -> bool) -> RestoredState {
        let whole = self.whole.as_ref().expect("one is whole");
        let mut partitions: BTreeMap<PartitionId, Partition> = BTreeMap::new();
        for (entity, value) in whole.entities.values().filter(|(entity, _)| owned(entity.partition())) {
            partitions.entry(entity.partition()).or_default().apply(entity.clone(), value.clone());
        }
        for (id, hash) in whole.hashes.iter().filter(|(id, _)| owned(**id)) {
            let found = partitions.get(id).map_or(StateHash::default(), Partition::hash);
            assert_eq!(found, *hash, "partition {id} of epoch {}", whole.frame.epoch);
        }
        let own = |kept: &&Kept| owned(partition_of(kept.id, &layout));
        RestoredState {
            frame: whole.frame.clone(),
            laid_in: layout.partitions,
            partitions: partitions.into_iter().collect(),
            carried: whole.carried.clone(),
            replies: RestoredReplies::new(whole.replies.values().filter(own).cloned().collect(), layout),
        }
    }
}
