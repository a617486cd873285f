//! Partitions that this worker follows, until they are its own.

use std::collections::BTreeMap;

use styx_planted::{Bug, planted};

use super::super::io::Discarded;
use crate::cluster::placement::Placement;
use crate::commit::replies::FollowedReplies;
use crate::ids::{PartitionId, PlacementVersion, WorkerId};
use crate::sequence::route::partition_of;
use crate::sequence::transaction::CarriedTransaction;
use crate::state::entity::Layout;
use crate::state::{Inventory, Partition};
use crate::wire::fault::why;
use crate::wire::moving::{HandedOver, PartitionChanges};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    sources: BTreeMap<WorkerId, Source>,
    /// From whom which partitions come with the epoch that begins.
    awaited: BTreeMap<WorkerId, Vec<PartitionId>>,
}

/// What comes from one worker.
#[derive(Debug)]
struct Source {
    version: PlacementVersion,
    partitions: BTreeMap<PartitionId, Followed>,
    /// The last that it has said.
    handed: Option<HandedOver>,
}

/// What is here of a partition.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    pub partition: Partition,
    pub replies: FollowedReplies,
}

/// What this worker owns from now on.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    pub partitions: Vec<(PartitionId, Followed)>,
    pub carried: Vec<CarriedTransaction>,
    /// In mode immediate: of which partitions not all is here, who has the rest, and what they add up to.
    pub shadows: Option<BTreeMap<PartitionId, (WorkerId, Inventory)>>,
    pub discarded: Discarded,
}

impl Incoming {
    /// Another worker says what is in a partition that it has.
    ///
    /// # Errors
    /// It has not.
    pub fn follow(
        &mut self,
        from: WorkerId,
        version: PlacementVersion,
        changes: PartitionChanges,
        layout: &Layout,
        owns: impl Fn(PartitionId) -> bool,
    ) -> Result<(), &'static str> {
        let PartitionChanges { writes, replies } = changes;
        let writes = writes.unpack(layout).map_err(|_| why::NO_WRITES)?;
        let named = writes.iter().map(|(entity, _)| entity.partition());
        let named = named.chain(replies.iter().map(|change| partition_of(change.id(), layout)));
        if !named.into_iter().all(owns) {
            return Err(why::PLACEMENT);
        }
        let source = self.source(from, version)?;
        for (entity, value) in writes {
            source.partitions.entry(entity.partition()).or_default().partition.apply(entity, value);
        }
        for change in replies {
            let partition = partition_of(change.id(), layout);
            source.partitions.entry(partition).or_default().replies.apply(change);
        }
        Ok(())
    }

    /// Another worker has said all.
    ///
    /// # Errors
    /// It had before.
    pub fn hand(&mut self, from: WorkerId, version: PlacementVersion, handed: HandedOver) -> Result<(), &'static str> {
        self.source(from, version)?.handed = Some(handed);
        Ok(())
    }

    fn source(&mut self, from: WorkerId, version: PlacementVersion) -> Result<&mut Source, &'static str> {
        let new = || Source { version, partitions: BTreeMap::new(), handed: None };
        let source = self.sources.entry(from).or_insert_with(new);
        if source.version != version || source.handed.is_some() {
            return Err(why::PLACEMENT);
        }
        Ok(source)
    }

    /// Nothing comes from a worker with this placement.
    pub fn cancel(&mut self, from: WorkerId, version: PlacementVersion) -> Discarded {
        let given_up = self.sources.get(&from).is_some_and(|source| source.version == version);
        let source = if given_up { self.sources.remove(&from) } else { None };
        source.map_or_else(Discarded::default, Source::discard)
    }

    /// A placement takes effect: whoever had what is this worker's now is awaited.
    pub fn await_all(&mut self, me: WorkerId, before: &Placement, next: &Placement) {
        for id in (0..next.partitions()).map(|id| PartitionId(id as u16)) {
            if next.owner(id) == me && before.owner(id) != me {
                self.awaited.entry(before.owner(id)).or_default().push(id);
            }
        }
    }

    /// Whether somebody is awaited who has not said all.
    pub fn is_awaited(&self) -> bool {
        let handed = |from| self.sources.get(from).is_some_and(|source| source.handed.is_some());
        !self.awaited.keys().all(handed) && !planted(Bug::MigrationNotAwaited)
    }

    /// What has come, from all who were awaited.
    pub fn take(&mut self) -> Arrived {
        let mut arrived = Arrived::default();
        for (from, partitions) in std::mem::take(&mut self.awaited) {
            let Some(mut source) = self.sources.remove(&from) else { continue };
            for id in partitions {
                arrived.partitions.push((id, source.partitions.remove(&id).unwrap_or_default()));
            }
            let HandedOver { carried, shadows } = source.handed.take().unwrap_or_default();
            arrived.carried.extend(carried);
            if let Some(shadows) = shadows {
                let shadows = shadows.into_iter().map(|(id, inventory)| (id, (from, inventory)));
                arrived.shadows.get_or_insert_default().extend(shadows);
            }
            arrived.discarded.append(source.discard());
        }
        arrived
    }
}

impl Source {
    fn discard(self) -> Discarded {
        let mut discarded = Discarded::default();
        for Followed { partition, replies } in self.partitions.into_values() {
            discarded.partitions.push(partition);
            discarded.followed.push(replies);
        }
        discarded
    }
}
