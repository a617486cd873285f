//! Restore: brings a snapshot's partitions, remembered replies and metadata back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use styx_driver::coordinator::SnapshotFound;
use styx_driver::snapshots::StoreFailure;
use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::{Epoch, Generation, LogPosition, OperatorId, PartitionId};
use styx_protocol::replies::Kept;
use styx_protocol::snapshot::{RestoredState, RetainedState};
use styx_protocol::state::Partition;
use styx_storage::snapshot::{Batch, Manifest, PartRef, Sink, SnapshotStore};

use super::changes::{REPLIES, decode};
use super::failure::{failure, is_damage};
use super::metadata::{COMPONENT, METADATA, SnapshotMetadata};
use crate::clock::now;
use crate::components::ComponentStore;

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
    pub fn bring_components(&self, store: &SnapshotStore, components: &ComponentStore) -> anyhow::Result<()> {
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
    /// [`SnapshotError`] if what is stored is damaged; anything else if it is not what was noted.
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
        let rebuilding = Rebuilding { layout, partitions: (0..layout.partitions).map(|_| Mutex::default()).collect() };
        let mut own = self.manifest.clone();
        own.partitions.retain(|partition, _| reads(PartitionId(*partition)));
        store.restore(&own, threads, &rebuilding)?;
        let mut replies = Vec::new();
        let mut partitions = Vec::new();
        for (id, rebuilt) in (0..).map(PartitionId).zip(rebuilding.partitions) {
            let rebuilt = rebuilt.into_inner().unwrap_or_else(PoisonError::into_inner);
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
        let mut restored = RestoredState { frame, partitions, carried, replies };
        if let Some(remains) = remains {
            remains.complete(&mut restored, layout.partitions, owns);
        }
        Ok(restored)
    }
}

/// The newest snapshot of an epoch before `before` that `attempt` finds no damage in, if there are
/// any; the next one will continue it.
///
/// # Errors
/// None is whole, or the store does not answer.
pub(crate) fn newest(
    store: &SnapshotStore,
    before: Option<Epoch>,
    attempt: &mut dyn FnMut(&SnapshotStore, &Found) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Found>> {
    let (mut older_than, mut first) = (None, None);
    loop {
        let Some((manifest, _)) = store.newest_complete(older_than)? else {
            return first.map_or(Ok(None), Err);
        };
        let sequence = manifest.sequence;
        older_than = Some(sequence);
        if before.is_some_and(|before| manifest.epoch >= before.0) {
            continue;
        }
        let found = Found::read(store, manifest).and_then(|found| attempt(store, &found).map(|()| found));
        match found {
            Ok(found) => {
                store.continue_from(&found.manifest)?;
                return Ok(Some(found));
            }
            Err(error) if is_damage(&error) => {
                tracing::error!(code = "SNAPSHOT_DAMAGED", sequence, "{error:#}; the snapshot before is taken");
                first = first.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes the store over for a generation, with the newest snapshot of an epoch before `before` that can be read. From
/// then on no earlier generation writes any, or deletes one that workers read.
///
/// # Errors
/// None is whole, or the store does not answer.
pub(crate) fn take_over(
    store: &SnapshotStore,
    before: Option<Epoch>,
    generation: Generation,
) -> Result<Option<Found>, StoreFailure> {
    let take_over = || {
        let Some(found) = newest(store, before, &mut |_, _| Ok(()))? else { return Ok(None) };
        let Manifest { sequence, log_position, .. } = found.manifest;
        let manifest = store.reinstate(sequence, generation.0, log_position, now().0)?;
        Ok(Some(Found { manifest, ..found }))
    };
    take_over().map_err(|error: anyhow::Error| match error.downcast_ref() {
        Some(error) => failure(error),
        None => StoreFailure::Unavailable(format!("{error:#}")),
    })
}

#[derive(Debug, Default)]
struct Rebuilt {
    partition: Partition,
    replies: BTreeMap<Box<[u8]>, Kept>,
}

struct Rebuilding {
    layout: Layout,
    partitions: Vec<Mutex<Rebuilt>>,
}

impl Rebuilding {
    fn partition(&self, id: PartitionId) -> anyhow::Result<MutexGuard<'_, Rebuilt>> {
        let rebuilt = self.partitions.get(usize::from(id.0));
        let rebuilt = rebuilt.with_context(|| format!("this cluster has no partition {id}"))?;
        Ok(rebuilt.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Rebuilding {
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()> {
        let id = PartitionId(batch.partition());
        // Batches of a partition come one after the other: nobody waits here.
        let mut rebuilt = self.partition(id)?;
        for entry in batch.entries() {
            match entry.operator {
                REPLIES => match entry.value {
                    Some(value) => drop(rebuilt.replies.insert(entry.key.into(), decode(entry.key, value)?)),
                    None => drop(rebuilt.replies.remove(entry.key)),
                },
                operator => {
                    let key = std::str::from_utf8(entry.key).context("a key is not text")?;
                    let entity = Entity::within(&self.layout, OperatorId(operator), id, key.into());
                    rebuilt.partition.apply(entity, entry.value.map(Into::into));
                }
            }
        }
        Ok(())
    }
}
