//! Restore: brings a snapshot's partitions, remembered replies and metadata back.

use std::collections::BTreeMap;

use anyhow::Context;
use styx_driver::coordinator::SnapshotFound;
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::{LogPosition, PartitionId};
use styx_protocol::replies::RestoredReplies;
use styx_protocol::route::partition_of;
use styx_protocol::snapshot::{RestoredState, RetainedState};
use styx_protocol::state::Partition;
use styx_storage::snapshot::{Manifest, PartRef, SnapshotStore};

use super::rebuilding::Rebuilding;
use crate::components::Components;
use crate::metadata::{COMPONENT, METADATA, SnapshotMetadata};

/// The snapshot that a restart begins with.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it consists of.
    pub manifest: Manifest,
    /// What it holds besides partitions.
    pub metadata: SnapshotMetadata,
}

impl Found {
    /// Reads what a manifest mentions besides partitions.
    ///
    /// # Errors
    /// It is damaged, or of another version.
    pub fn read(store: &SnapshotStore, manifest: Manifest) -> anyhow::Result<Found> {
        let part =
            manifest.system.get(METADATA).with_context(|| format!("snapshot {} has no metadata", manifest.sequence))?;
        let metadata = SnapshotMetadata::decode(&store.system_part(part)?)
            .with_context(|| format!("the metadata of snapshot {} is not of this version", manifest.sequence))?;
        Ok(Found { manifest, metadata })
    }

    /// What a coordinator must know of it.
    pub fn described(&self) -> SnapshotFound {
        SnapshotFound {
            sequence: self.manifest.sequence,
            log_position: LogPosition(self.manifest.log_position),
            header: self.metadata.header.clone(),
            partitions: self.metadata.layout().partitions,
            carried: self.metadata.carried.iter().map(|carried| carried.tid).collect(),
        }
    }

    /// Whether it goes on in a log that holds these records.
    ///
    /// # Errors
    /// It does not: they do not belong together.
    pub fn fits(&self, log: std::ops::RangeInclusive<u64>) -> anyhow::Result<()> {
        let position = self.manifest.log_position;
        anyhow::ensure!(
            log.contains(&position),
            "snapshot {} goes on at log record {position}, and the log holds records {} to {}: it is not the log that \
             the snapshot was taken beside; give --data-dir and --store what belongs together",
            self.manifest.sequence,
            log.start(),
            log.end()
        );
        Ok(())
    }

    /// The parts that hold components, by name.
    pub fn components(&self) -> BTreeMap<String, PartRef> {
        let system = self.manifest.system.iter();
        system
            .filter(|(name, _)| name.starts_with(COMPONENT))
            .map(|(name, part)| (name.clone(), part.clone()))
            .collect()
    }

    /// Puts the components that are not in the data directory there.
    ///
    /// # Errors
    /// One is damaged, or the directory cannot be written.
    pub fn bring_components(&self, store: &SnapshotStore, components: &dyn Components) -> anyhow::Result<()> {
        for digest in self.metadata.header.catalog.components() {
            if components.contains(digest) {
                continue;
            }
            let name = format!("{COMPONENT}{digest}");
            let part = self.manifest.system.get(&name).with_context(|| format!("the snapshot has no {name}"))?;
            components.put(&store.system_part(part)?)?;
        }
        Ok(())
    }

    /// Brings back the partitions of a layout that `owns` names, on at most so many threads. What `remains` hold
    /// of them is not read. What was laid out otherwise is dealt out anew.
    ///
    /// # Errors
    /// [`SnapshotError`](styx_storage::snapshot::SnapshotError) if what is stored is damaged; anything else if it is not what was noted.
    pub fn restore(
        &self,
        store: &SnapshotStore,
        threads: usize,
        (layout, owns): (Layout, &dyn Fn(PartitionId) -> bool),
        remains: Option<RetainedState>,
    ) -> anyhow::Result<RestoredState> {
        let before = self.metadata.layout();
        let wanted = |id| layout.parts_of(id, &before).any(owns);
        let held = |id| remains.as_ref().is_some_and(|remains| remains.hold(&self.metadata.header, id));
        let reads = |id| wanted(id) && !held(id);
        let rebuilding = Rebuilding::new(before);
        let mut own = self.manifest.clone();
        own.partitions.retain(|partition, _| reads(PartitionId(*partition)));
        store.restore(&own, threads, &rebuilding)?;
        let mut replies = Vec::new();
        let mut partitions = Vec::new();
        for (id, rebuilt) in rebuilding.into_partitions() {
            replies.extend(rebuilt.replies.into_values());
            partitions.push((id, rebuilt.partition));
        }
        for (id, noted) in self.metadata.hashes.iter().filter(|(id, _)| reads(*id)) {
            let found = partitions[usize::from(id.0)].1.hash();
            anyhow::ensure!(
                found == *noted,
                "partition {id} of snapshot {} has the state hash {found}, and had {noted} when it was taken; \
                 restore an older snapshot",
                self.manifest.sequence
            );
        }
        partitions.retain(|(id, _)| reads(*id));
        let SnapshotMetadata { header: frame, carried, .. } = self.metadata.clone();
        if let Some(remains) = remains {
            remains.complete(&frame, (&mut partitions, &mut replies), &before, wanted);
        }
        replies.retain(|kept| owns(partition_of(kept.id, &layout)));
        let mut replies = RestoredReplies::new(replies, layout);
        if before != layout {
            partitions = relaid(partitions, (&before, &layout), &Catalog::restored(&frame.catalog), owns);
            replies = replies.as_changes();
        }
        Ok(RestoredState { frame, laid_in: before.partitions, partitions, carried, replies })
    }
}

/// Deals the entities of partitions out to those of another layout that `owns` names. All of them are changes for the next
/// snapshot.
fn relaid(
    partitions: Vec<(PartitionId, Partition)>,
    (before, layout): (&Layout, &Layout),
    catalog: &Catalog,
    owns: &dyn Fn(PartitionId) -> bool,
) -> Vec<(PartitionId, Partition)> {
    let mut dealt: BTreeMap<PartitionId, Partition> = BTreeMap::new();
    for (id, partition) in partitions {
        for (entity, value) in partition.into_entities() {
            let operator = (entity.operator(), catalog.is_composite(entity.operator()));
            let entity = Entity::relaid(layout, before, operator, id, entity.key().clone());
            if !owns(entity.partition()) {
                continue;
            }
            let place = dealt.entry(entity.partition()).or_insert_with(|| {
                let mut place = Partition::default();
                place.track();
                place
            });
            place.apply(entity, Some(value));
        }
    }
    dealt.into_iter().collect()
}
