//! Retention, and the collection of what no snapshot needs any more.
//!
//! Deleting is the one thing here that cannot be taken back, so it is done only to what provably nobody will
//! mention. A pack of which no manifest mentions anything may be
//! - *garbage of an older generation* than the newest manifest's: who wrote it can commit no more;
//! - *under way in this process*: it is on the store's list of those and left alone;
//! - *under way in another process of this generation* (a worker that writes its partitions): left alone
//!   until it is older than the grace period, by the store's clock.
//!
//! The packs are listed *before* the manifests: one that is mentioned in between was there when the manifests
//! were read, and is found to be mentioned.

use std::collections::{BTreeSet, HashSet};

use styx_planted::{Bug, planted};

use super::error::SnapshotError;
use super::manifest::{self, Manifest, object_name};
use super::part;
use super::{Listing, SnapshotStore};

/// Other folders in which crashed writers may leave staged files.
const COMPONENTS: &str = "components";
const BESIDES: &str = "";

/// Which snapshots to keep: the newest ones, and those that are young.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Minimum of epochs whose snapshots are kept, whatever their age. A compaction writes one epoch's snapshot
    /// again; those count as one. At least 1.
    pub epochs_min: usize,
    /// Younger snapshots are kept, however many they are, microseconds.
    pub age_us: u64,
    /// Time that another process of this cluster may take from writing a part to mentioning it, microseconds; should
    /// exceed the longest snapshot by far, and the difference between clocks.
    pub grace_us: u64,
}

impl Default for Retention {
    /// Three epochs; an hour of grace.
    fn default() -> Self {
        Self { epochs_min: 3, age_us: 0, grace_us: 3_600_000_000 }
    }
}

/// Result of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Snapshots that are retained, oldest first.
    pub retained: Vec<u64>,
    /// Manifests deleted.
    pub manifests: u64,
    /// Packs of parts deleted.
    pub parts: u64,
    /// Their size, bytes.
    pub bytes: u64,
    /// The log must be kept from this record on: any retained snapshot can be recovered from. `None` if none is
    /// retained.
    pub log_position: Option<u64>,
    /// What retained snapshots name besides partitions. `None` if none is retained, or one cannot be read.
    pub system: Option<SystemNames>,
}

/// Names of the system parts of several snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemNames {
    pub names: BTreeSet<String>,
    /// When the oldest of the snapshots was taken, microseconds since 1970.
    pub oldest_us: u64,
}

impl SystemNames {
    fn of(kept: &[&Listing]) -> Option<SystemNames> {
        let manifests = kept.iter().map(|listing| listing.manifest.as_ref().ok()).collect::<Option<Vec<_>>>()?;
        let oldest_us = manifests.iter().map(|manifest| manifest.created_us).min()?;
        let names = manifests.iter().flat_map(|manifest| manifest.system.keys().cloned());
        Some(SystemNames { names: names.collect(), oldest_us })
    }
}

impl SnapshotStore {
    /// Deletes snapshots that need not be retained, then packs of which no retained one mentions anything. `now_us` is the
    /// time, microseconds since 1970.
    ///
    /// Manifests that cannot be read are kept, and while there is one, parts are kept as well: what they mention is
    /// not known. They go when newer snapshots than theirs are enough.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer; what was deleted until then was right to delete.
    pub fn collect(&self, retention: Retention, now_us: u64) -> Result<Collected, SnapshotError> {
        let grace = now_us.saturating_sub(retention.grace_us);
        let parts = self.objects.list(part::FOLDER, None)?;
        // In this order: what is on no list any more was mentioned before, by a manifest that is read now.
        let under_way = self.uncommitted.all();
        let manifests = self.list()?;
        let Some(newest) = manifests.iter().rev().find_map(|listing| listing.manifest.as_ref().ok()) else {
            return Ok(Collected::default());
        };
        let keep_from = retained_from(&manifests, retention, now_us);
        let (gone, kept): (Vec<_>, Vec<_>) = manifests.iter().partition(|listing| listing.sequence < keep_from);
        let names: Vec<_> = gone.iter().map(|listing| object_name(listing.sequence)).collect();
        // Manifests first: one that mentions deleted parts would be a snapshot that cannot be restored.
        if !planted(Bug::PartsBeforeManifests) {
            self.objects.delete(&names)?;
        }
        let mut collected = Collected {
            retained: kept.iter().map(|listing| listing.sequence).collect(),
            manifests: names.len() as u64,
            log_position: kept.iter().filter_map(|listing| Some(listing.manifest.as_ref().ok()?.log_position)).min(),
            system: SystemNames::of(&kept),
            ..Collected::default()
        };
        if kept.iter().all(|listing| listing.manifest.is_ok()) {
            let mentioned: HashSet<&str> = kept
                .iter()
                .filter_map(|listing| listing.manifest.as_ref().ok())
                .filter(|manifest| manifest.sequence == newest.sequence || !planted(Bug::PartsOfOldDeleted))
                .flat_map(Manifest::parts)
                .map(|part| part.object.as_str())
                .collect();
            let garbage: Vec<_> = parts
                .into_iter()
                .filter(|object| !mentioned.contains(object.name.as_str()) && !under_way.contains(&object.name))
                .filter(|object| match part::generation_of(&object.name) {
                    Some(generation) if generation < newest.generation => true,
                    Some(generation) if generation == newest.generation => object.modified_us < grace,
                    // Of a generation that has yet to write its first manifest, or nothing of ours.
                    _ => false,
                })
                .collect();
            let names: Vec<_> = garbage.iter().map(|object| object.name.clone()).collect();
            self.objects.delete(&names)?;
            collected.parts = garbage.len() as u64;
            collected.bytes = garbage.iter().map(|object| object.bytes).sum();
        }
        if planted(Bug::PartsBeforeManifests) {
            self.objects.delete(&gone.iter().map(|listing| object_name(listing.sequence)).collect::<Vec<_>>())?;
        }
        for folder in [part::FOLDER, manifest::FOLDER, COMPONENTS, BESIDES] {
            self.objects.delete_staged(folder, grace)?;
        }
        Ok(collected)
    }
}

/// The number of the oldest manifest to keep.
fn retained_from(manifests: &[Listing], retention: Retention, now_us: u64) -> u64 {
    let young = now_us.saturating_sub(retention.age_us);
    let mut epochs = HashSet::new();
    let mut from = u64::MAX;
    for Listing { sequence, manifest } in manifests.iter().rev() {
        let Ok(manifest) = manifest else { continue };
        let new = !epochs.contains(&manifest.epoch);
        if new && epochs.len() >= retention.epochs_min.max(1) && manifest.created_us < young {
            break;
        }
        epochs.insert(manifest.epoch);
        from = *sequence;
    }
    from
}
