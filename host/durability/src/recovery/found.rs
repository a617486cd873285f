//! Restore: brings a snapshot's partitions, remembered replies and metadata back.

use std::collections::BTreeMap;

use anyhow::Context;
use styx_driver::coordinator::SnapshotFound;
use styx_protocol::ids::{LogPosition, PartitionId};
use styx_protocol::replies::RestoredReplies;
use styx_protocol::snapshot::{RestoredState, RetainedState};
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

    /// Brings back the partitions that `owns` names, on at most so many threads. What `remains` hold
    /// of them is not read.
    ///
    /// # Errors
    /// [`SnapshotError`](styx_storage::snapshot::SnapshotError) if what is stored is damaged; anything else if it is not what was noted.
    pub fn restore(
        &self,
        store: &SnapshotStore,
        threads: usize,
        owns: impl Fn(PartitionId) -> bool,
        remains: Option<RetainedState>,
    ) -> anyhow::Result<RestoredState> {
        let held = |id| remains.as_ref().is_some_and(|remains| remains.hold(&self.metadata.header, id));
        let reads = |id| owns(id) && !held(id);
        let layout = self.metadata.genesis.layout;
        let rebuilding = Rebuilding::new(layout);
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
            remains.complete(&frame, (&mut partitions, &mut replies), layout.partitions, owns);
        }
        let replies = RestoredReplies::new(replies, layout.partitions);
        Ok(RestoredState { frame, partitions, carried, replies })
    }
}
