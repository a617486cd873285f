//! Export and import of a snapshot: backup, and the start of another cluster from it.

use std::collections::BTreeMap;

use super::SnapshotStore;
use super::error::SnapshotError;
use super::identity;
use super::location::{RetryPolicy, StoreLocation};
use super::manifest::{self, Manifest, sequence_of};
use super::objects::Objects;
use super::part::fetch::Fetch;
use super::part::object_name;
use super::part::pieces::Pieces;
use super::part::reader::PartReader;
use super::upload::Upload;
use super::verify::Progress;

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Result of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// The snapshot where it is now.
    pub manifest: Manifest,
    pub progress: Progress,
}

/// Fields of a snapshot that change in the cluster that imports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Writer of the copy.
    pub generation: u64,
    /// Start of replay in the new cluster's log, which is not the old one's.
    pub log_position: u64,
    /// Now, microseconds since 1970.
    pub created_us: u64,
}

impl SnapshotStore {
    /// Copies snapshot `sequence` to another place, a store of its own that keeps this cluster's identity; several
    /// snapshots can be exported to one place. Each part is read back there and checked.
    ///
    /// # Errors
    /// Damage of the snapshot; a location that cannot be used.
    pub fn export(
        &self,
        sequence: u64,
        to: &StoreLocation,
        report: &dyn Fn(Progress),
    ) -> Result<Transferred, SnapshotError> {
        let manifest = self.read_manifest(sequence)?;
        let target = Self::open(to, self.identity, self.objects.runtime())?;
        let names = manifest.parts().map(|part| (part.object.clone(), part.object.clone())).collect();
        let progress = copy(&self.objects, &target.objects, &manifest, &names, report)?;
        target.put_copy(&manifest)?;
        Ok(Transferred { manifest, progress })
    }

    /// Copies the newest snapshot of an export, or of any other cluster's store that nobody writes to, into this
    /// store, which must have none, so before this cluster is first started; it becomes its first one.
    ///
    /// # Errors
    /// [`SnapshotError::NotEmpty`] if there are snapshots here; what is wrong with the one there.
    pub fn import(
        &self,
        from: &StoreLocation,
        imported: Imported,
        report: &dyn Fn(Progress),
    ) -> Result<Transferred, SnapshotError> {
        if !self.sequences()?.is_empty() {
            return Err(SnapshotError::NotEmpty { location: self.location.url().to_owned() });
        }
        let source = Objects::open(from, RetryPolicy::Opening, self.objects.runtime().clone())?;
        source.probe(from)?;
        let Some(theirs) = identity::read(&source)? else {
            return Err(from.unusable("there are no snapshots there: name the place of an export"));
        };
        let newest = source.list(manifest::FOLDER, None)?;
        let Some(sequence) = newest.iter().rev().find_map(|object| sequence_of(&object.name)) else {
            return Err(from.unusable("there are no snapshots there: name the place of an export"));
        };
        let Some(found) = source.get(&manifest::object_name(sequence))? else {
            return Err(SnapshotError::Missing { object: manifest::object_name(sequence) });
        };
        let mut manifest = Manifest::decode(sequence, &found.bytes)?;
        if manifest.identity != theirs {
            let what = format!("it is of cluster {:032x}, not of {theirs:032x}", manifest.identity);
            return Err(SnapshotError::damaged(&manifest::object_name(sequence), 0, what));
        }
        // Names tell generations, by which garbage is known: theirs mean nothing here.
        let (mut names, epoch) = (BTreeMap::new(), manifest.epoch);
        for part in manifest.partitions.values_mut().flatten().chain(manifest.system.values_mut()) {
            let name = names.entry(part.object.clone()).or_insert_with(|| {
                let name = object_name(epoch, imported.generation, self.objects.runtime().nonce());
                self.uncommitted.insert(&name);
                name
            });
            part.object.clone_from(name);
        }
        let manifest = Manifest {
            identity: self.identity,
            sequence: 1,
            generation: imported.generation,
            log_position: imported.log_position,
            created_us: imported.created_us,
            ..manifest
        };
        let result = copy(&source, &self.objects, &manifest, &names, report).and_then(|progress| {
            self.put_copy(&manifest)?;
            Ok(Transferred { manifest: manifest.clone(), progress })
        });
        self.abandon(manifest.parts());
        // What the next snapshot continues is there, not what was believed before.
        *self.lock_head() = Default::default();
        result
    }

    /// Puts a manifest under its own number; the same one may be there already.
    fn put_copy(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        let bytes = manifest.encode();
        if !self.objects.put_new(&manifest.object(), bytes.clone())? {
            let found = self.objects.get(&manifest.object())?;
            if found.is_none_or(|found| found.bytes != bytes) {
                return Err(SnapshotError::NotEmpty { location: self.location.url().to_owned() });
            }
        }
        Ok(())
    }
}

/// Copies the objects of a snapshot to their new names, by the old ones, reads its parts back there and checks them.
/// `manifest` has the new names.
fn copy(
    from: &Objects,
    to: &Objects,
    manifest: &Manifest,
    names: &BTreeMap<String, String>,
    report: &dyn Fn(Progress),
) -> Result<Progress, SnapshotError> {
    let packs = manifest.packs();
    let bytes_total = packs.values().map(|parts| parts[0].object_bytes).sum();
    let mut progress = Progress { objects: 0, objects_total: packs.len() as u64, bytes: 0, bytes_total };
    for (old, new) in names {
        let parts = &packs[new.as_str()];
        let bytes = parts[0].object_bytes;
        let mut fetch = Fetch::whole(from.clone(), old, bytes);
        let mut upload = Upload::new(to.clone(), new.clone());
        let mut at = 0;
        while at < bytes {
            let length = PIECE_BYTES.min(bytes - at);
            upload.write(fetch.take(at, length as usize)?)?;
            at += length;
        }
        upload.finish().wait()?;
        let pieces = Pieces::of(to, parts.iter().copied());
        parts.iter().try_for_each(|part| PartReader::open_among(&pieces, part)?.check())?;
        progress.objects += 1;
        progress.bytes += bytes;
        report(progress);
    }
    Ok(progress)
}
