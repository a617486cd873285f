//! The store of snapshots: parts with a name each, and manifests with a number each that say which
//! parts make up a state. Numbers are given once; what a manifest mentions is there before it.
//!
//! For each partition a manifest holds a chain of deltas, oldest first. A coordinator that begins a generation
//! *takes over*: it writes the newest manifest once more as its own, so that what older generations
//! are still writing finds its number taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use styx_protocol::catalog::Catalog;
use styx_protocol::entity::{Entity, Value};
use styx_protocol::ids::{Epoch, Generation, PartitionId, RequestId, Tid, Timestamp};
use styx_protocol::record::Chain;
use styx_protocol::replies::{Kept, ReplyChange};
use styx_protocol::snapshot::{CarriedTransaction, RestoredState, SnapshotHeader};
use styx_protocol::state::{Partition, StateHash, Write};

use crate::check::{Checked, ensure};
use crate::random::Random;

/// Changes in a partition from one snapshot to the next; the last change of an entity counts.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Entities.
    pub entities: Vec<Write>,
    /// Replies whose ids belong to the partition.
    pub replies: Vec<ReplyChange>,
}

/// A worker's part of a snapshot, written to the store.
#[derive(Clone, Debug)]
pub struct Written {
    /// The snapshot's epoch.
    pub epoch: Epoch,
    /// Hash of each of its partitions.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Names of the deltas of partitions that have changed.
    pub parts: Vec<(PartitionId, u64)>,
    /// Its transactions that were moved to the next epoch.
    pub carried: Vec<CarriedTransaction>,
}

/// A partition in a manifest.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Hash of its entities.
    pub hash: StateHash,
    /// Names of its deltas, oldest first.
    pub parts: Vec<u64>,
}

/// A snapshot.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Grows with every manifest.
    pub number: u64,
    /// The generation that wrote it.
    pub generation: u64,
    /// The coordinator's part.
    pub frame: SnapshotHeader,
    /// Transactions that were moved to the next epoch, in TID order.
    pub carried: Vec<CarriedTransaction>,
    /// The partitions, by id.
    pub partitions: Vec<Held>,
}

impl Manifest {
    /// The snapshot before anything has happened.
    fn nothing(partitions: u32) -> Self {
        let catalog = Catalog::default().image();
        let frame = SnapshotHeader {
            generation: Generation(0),
            epoch: Epoch(0),
            chain: Chain::default(),
            time: Timestamp(0),
            highest: Tid(0),
            catalog,
        };
        let partitions = (0..partitions).map(|_| Held::default()).collect();
        Manifest { number: 0, generation: 0, frame, carried: Vec::new(), partitions }
    }

    fn parts(&self) -> impl Iterator<Item = u64> {
        self.partitions.iter().flat_map(|held| held.parts.iter().copied())
    }
}

#[derive(Debug)]
struct Part {
    generation: u64,
    delta: Arc<Delta>,
}

/// The parts and manifests that are there.
#[derive(Debug, Default)]
pub struct Store {
    parts: BTreeMap<u64, Part>,
    next: u64,
    /// `None`: it cannot be read.
    manifests: BTreeMap<u64, Option<Arc<Manifest>>>,
    /// The number of the manifest that is damaged, itself or a part of it.
    damaged: Option<u64>,
}

/// Entities by operator and key.
type Entities = BTreeMap<(u32, Arc<str>), (Entity, Value)>;

/// A chain of more deltas than this is written anew.
const CHAIN_MAX: usize = 4;
/// Snapshots of so many epochs are kept.
const KEPT: usize = 2;

impl Store {
    /// Writes a part; its name.
    pub fn write(&mut self, generation: u64, delta: Delta) -> u64 {
        self.next += 1;
        self.parts.insert(self.next, Part { generation, delta: Arc::new(delta) });
        self.next
    }

    /// Writes a manifest unless its number is taken; by whom, if it is.
    pub fn put(&mut self, manifest: &Arc<Manifest>) -> Result<(), Option<Arc<Manifest>>> {
        if let Some(taken) = self.manifests.get(&manifest.number) {
            return Err(taken.clone());
        }
        self.manifests.insert(manifest.number, Some(manifest.clone()));
        Ok(())
    }

    /// Whether everything that a manifest mentions is there.
    pub fn is_whole(&self, manifest: &Manifest) -> bool {
        manifest.parts().all(|part| self.parts.contains_key(&part))
    }

    /// Snapshots that can be restored, newest first: those of which all is there, and all of the log after them.
    pub fn usable(&self, trimmed: Epoch) -> impl Iterator<Item = &Arc<Manifest>> {
        let readable = self.manifests.values().rev().flatten();
        readable.filter(move |manifest| manifest.frame.epoch >= trimmed && self.is_whole(manifest))
    }

    /// A generation begins: the newest usable snapshot, now as its own, and the number that it had; it is
    /// followed by the log behind it.
    ///
    /// # Errors
    /// There is none, though the log is trimmed; or a later generation has written.
    pub fn take_over(&mut self, generation: u64, partitions: u32, trimmed: Epoch) -> Checked<(Arc<Manifest>, u64)> {
        let newest = self.manifests.last_key_value().map_or(0, |(number, _)| *number);
        let later = self.manifests.values().flatten().find(|manifest| manifest.generation > generation);
        ensure(later.is_none(), "snapshot", || format!("generation {generation} begins after {later:?}"))?;
        let found = self.usable(trimmed).next().cloned();
        ensure(found.is_some() || trimmed == Epoch(0), "snapshot", || {
            format!("no snapshot can be restored, and the log begins after epoch {trimmed}")
        })?;
        let found = found.unwrap_or_else(|| Arc::new(Manifest::nothing(partitions)));
        let before = found.number;
        let own = Arc::new(Manifest { number: newest + 1, generation, ..(*found).clone() });
        self.manifests.insert(own.number, Some(own.clone()));
        Ok((own, before))
    }

    /// Forgets all but the snapshots of the newest epochs, and parts that none of them mentions, unless a later
    /// generation than this one may be about to. Returns the oldest epoch that can be restored.
    pub fn collect(&mut self, generation: u64) -> Epoch {
        let mut epochs = BTreeSet::new();
        let mut mentioned = BTreeSet::new();
        let mut oldest = Epoch(u64::MAX);
        self.manifests = std::mem::take(&mut self.manifests)
            .into_iter()
            .rev()
            .filter(|(_, manifest)| {
                let Some(manifest) = manifest else { return epochs.len() < KEPT };
                if epochs.len() >= KEPT && !epochs.contains(&manifest.frame.epoch) {
                    return false;
                }
                epochs.insert(manifest.frame.epoch);
                mentioned.extend(manifest.parts());
                oldest = oldest.min(manifest.frame.epoch);
                true
            })
            .collect();
        self.parts.retain(|name, part| part.generation > generation || mentioned.contains(name));
        oldest
    }

    /// The epoch of the oldest snapshot that is kept.
    pub fn oldest(&self) -> Epoch {
        self.manifests.values().flatten().map(|manifest| manifest.frame.epoch).min().unwrap_or_default()
    }

    /// Puts a chain of deltas together if it is long.
    pub fn compact(&mut self, generation: u64, parts: &mut Vec<u64>) {
        if parts.len() <= CHAIN_MAX {
            return;
        }
        let (entities, replies) = self.merge(parts);
        let entities = entities.into_values().map(|(entity, value)| (entity, Some(value))).collect();
        let replies = replies.into_values().map(ReplyChange::Kept).collect();
        *parts = vec![self.write(generation, Delta { entities, replies })];
    }

    /// Applies a chain of deltas, of which all are there.
    fn merge(&self, parts: &[u64]) -> (Entities, BTreeMap<RequestId, Kept>) {
        let (mut entities, mut replies) = (BTreeMap::new(), BTreeMap::new());
        for part in parts {
            let delta = &self.parts[part].delta;
            for (entity, value) in &delta.entities {
                let place = (entity.operator().0, entity.key().clone());
                match value {
                    Some(value) => {
                        entities.insert(place, (entity.clone(), value.clone()));
                    }
                    None => {
                        entities.remove(&place);
                    }
                }
            }
            for change in &delta.replies {
                match change {
                    ReplyChange::Kept(kept) => {
                        replies.insert(kept.id, kept.clone());
                    }
                    ReplyChange::Forgotten(id) => {
                        replies.remove(id);
                    }
                }
            }
        }
        (entities, replies)
    }

    /// Reads the state with which a machine begins that owns some of the partitions.
    ///
    /// # Errors
    /// A partition's hash is not what it was.
    pub fn load(&self, manifest: &Manifest, owned: impl Fn(PartitionId) -> bool) -> Checked<RestoredState> {
        let (mut partitions, mut replies) = (Vec::new(), Vec::new());
        for (at, held) in manifest.partitions.iter().enumerate() {
            let id = PartitionId(at as u16);
            let owned = owned(id);
            if !owned {
                continue;
            }
            let (entities, kept) = self.merge(&held.parts);
            replies.extend(kept.into_values());
            if !owned {
                continue;
            }
            let mut partition = Partition::default();
            entities.into_values().for_each(|(entity, value)| partition.apply(entity, Some(value)));
            ensure(partition.hash() == held.hash, "snapshot hash", || {
                let (frame, hash) = (&manifest.frame, partition.hash());
                format!("partition {id} of the snapshot of epoch {} has hash {hash}, not {}", frame.epoch, held.hash)
            })?;
            partitions.push((id, partition));
        }
        let (frame, carried) = (manifest.frame.clone(), manifest.carried.clone());
        Ok(RestoredState { frame, partitions, carried, replies })
    }

    /// Something of the newest snapshot turns out damaged, unless it is all that there is or something
    /// is damaged already: one must always be left, and is.
    pub fn damage(&mut self, random: &mut Random) -> bool {
        self.damaged = self.damaged.filter(|number| self.manifests.contains_key(number));
        let mut readable = self.manifests.values().rev().flatten();
        let (None, Some(newest)) = (self.damaged, readable.next().cloned()) else { return false };
        let Some(other) = readable.find(|other| other.frame.epoch != newest.frame.epoch) else { return false };
        let shared: BTreeSet<u64> = other.parts().collect();
        let own: Vec<u64> = newest.parts().filter(|part| !shared.contains(part)).collect();
        self.damaged = Some(newest.number);
        if own.is_empty() || random.chance(500) {
            self.manifests.insert(newest.number, None);
        } else {
            self.parts.remove(&random.pick(&own));
        }
        true
    }
}
