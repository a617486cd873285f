//! Snapshots of the committed state in an object store: a directory, or a bucket of S3.
//!
//! # What is stored
//!
//! ```text
//! cluster                        id of the store's cluster    (identity)
//! lease                          the coordinator's lease      (lease)
//! log-cluster                    id of the log's cluster      (cluster_metadata)
//! components/3f…                 a component under its digest (cluster_metadata)
//! manifests/00000000000000000017 one snapshot                 (manifest)
//! parts/e…-g…-…                  a pack of parts             (part)
//! standbys/00c0ffee…             a coordinator that stands by (standbys)
//! ```
//!
//! A *part* is everything that a partition holds (a base), what has changed in it since the snapshot before (a delta), or a
//! blob of the protocol's own state. A snapshot is a manifest: the state at the end of an epoch, as a *chain* of parts per
//! partition (a base, then deltas), and system parts. Parts are written first, in *packs* of many, in any order, by any number
//! of threads and processes ([`SnapshotStore::pack_writer`]); whoever coordinates then puts the manifest
//! ([`SnapshotStore::commit`]). Until then nothing has happened. Nothing is ever overwritten, so a snapshot that exists stays as it is.
//!
//! # Writers and fencing
//!
//! Manifests are numbered without gaps and each is put only if its number is free, so that two coordinators that
//! both take themselves for the leader cannot both succeed. Each carries its writer's generation: a writer that
//! finds a higher one, or a foreign manifest under its number, is fenced and must stop. A new coordinator calls
//! [`SnapshotStore::take_over`] before it reads, after which no older generation can commit anything.
//!
//! # Integrity
//!
//! Every byte that is read is under a checksum, and so is every object as a whole, in the manifest. Damage is
//! reported with the object's name and the offset. [`SnapshotStore::restore_newest`] falls back to the snapshot
//! before; the log must therefore reach back to the oldest retained snapshot ([`Collected::log_position`]).
//!
//! # Threads
//!
//! All calls block, and are for plain threads: encoding and compression happen where the call is made, input and
//! output where the [`Runtime`] says that [`SnapshotStore::open`] is given. Times come with the calls; of clocks, only
//! timeouts of the store's client and pauses between retries depend.

mod backup;
mod cluster_metadata;
mod collect;
mod commit;
mod compact;
mod envelope;
mod error;
mod identity;
mod lease;
mod location;
mod manifest;
mod merge;
mod objects;
mod part;
mod restore;
mod runtime;
mod staged;
mod standbys;
mod stored;
mod uncommitted;
mod upload;
mod verify;

use std::sync::{Arc, Mutex};

pub use self::backup::{Imported, Transferred};
pub use self::cluster_metadata::ClusterMetadata;
pub use self::collect::{Collected, Retention, SystemNames};
pub use self::commit::Draft;
pub use self::compact::{Compacted, CompactionPolicy};
pub use self::error::SnapshotError;
pub use self::lease::{Acquired, Lease, LeaseRecord, Leases};
pub use self::location::{Memory, StoreLocation};
pub use self::manifest::{MANIFEST_VERSION, Manifest, PartKind, PartRef};
pub use self::part::block::Entry;
pub use self::part::pack::PackWriter;
pub use self::part::writer::PartWriter;
pub use self::part::{ENTRY_BYTES_MAX, PART_VERSION};
pub use self::restore::{Batch, Restored, Sink, Skipped};
pub use self::runtime::{Environment, Numbered, Runtime};
pub use self::standbys::{Look, Presence, Present, Standbys};
pub use self::verify::{Progress, Verified};

use self::commit::Head;
use self::location::RetryPolicy;
use self::manifest::{object_name, sequence_of};
use self::objects::Objects;
use self::part::Header;
use self::uncommitted::UncommittedObjects;

/// A snapshot in the list of all.
#[derive(Debug)]
pub struct Listing {
    pub sequence: u64,
    /// Its manifest, or what is wrong with that.
    pub manifest: Result<Manifest, SnapshotError>,
}

/// A cluster's snapshots. Clones are the same store.
#[derive(Clone)]
pub struct SnapshotStore {
    objects: Objects,
    location: StoreLocation,
    identity: u128,
    /// Locked while a manifest is written.
    head: Arc<Mutex<Head>>,
    uncommitted: UncommittedObjects,
}

impl SnapshotStore {
    /// Opens the store at `location` for the cluster `identity`; an empty place becomes this cluster's.
    ///
    /// Whether the place can be used is found out here: that it answers, lets us in, can be written, and that
    /// conditional puts hold.
    ///
    /// # Errors
    /// [`SnapshotError::Unusable`] and [`SnapshotError::OtherCluster`], before anything else was written.
    pub fn open(location: &StoreLocation, identity: u128, runtime: impl Into<Runtime>) -> Result<Self, SnapshotError> {
        let runtime = runtime.into();
        // Few retries first: a wrong setting should not be tried for a minute.
        let objects = Objects::open(location, RetryPolicy::Opening, runtime.clone())?;
        objects.probe(location)?;
        identity::claim(&objects, location, identity)?;
        // The first opening made a memory store of its own; it must stay the same one.
        let objects = if location.url().starts_with("memory:") {
            objects
        } else {
            Objects::open(location, RetryPolicy::Running, runtime)?
        };
        Ok(Self {
            objects,
            location: location.clone(),
            identity,
            head: Arc::default(),
            uncommitted: UncommittedObjects::default(),
        })
    }

    /// Id of the cluster that owns the store at `location`; `None` if it is empty. Writes nothing.
    ///
    /// # Errors
    /// [`SnapshotError::Unusable`], if there is no asking.
    pub fn identify(location: &StoreLocation, runtime: impl Into<Runtime>) -> Result<Option<u128>, SnapshotError> {
        let objects = Objects::open(location, RetryPolicy::Opening, runtime.into())?;
        objects.probe(location)?;
        identity::read(&objects)
    }

    /// Id of the cluster that owns the store.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    pub fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// Starts a pack of parts of a snapshot of `epoch`. Any number of writers may be at work at the same time. What
    /// [`PackWriter::finish`] returns goes into a [`Draft`], of this process or, sent there, of another one; in the latter
    /// case call [`Self::abandon`] when that is over.
    pub fn pack_writer(&self, epoch: u64, generation: u64) -> PackWriter {
        PackWriter::new(self.objects.clone(), &self.uncommitted, epoch, generation)
    }

    /// Writes `blob` as the system part `name` (at most 255 bytes) of a snapshot of `epoch`.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not take it.
    pub fn write_system_part(
        &self,
        name: &str,
        epoch: u64,
        generation: u64,
        blob: &[u8],
    ) -> Result<PartRef, SnapshotError> {
        let header = Header { kind: PartKind::System, partition: 0, epoch, generation, name: name.to_owned() };
        part::writer::write_system(self.pack_writer(epoch, generation), header, blob)
    }

    /// Forgets parts that were written through this store and that it will not mention itself: those that are given
    /// up, so that a collection may have them, and those whose manifest another process has put. Parts that
    /// [`Self::commit`] has mentioned are forgotten by themselves; others are remembered until this is called.
    pub fn abandon<'a>(&self, parts: impl IntoIterator<Item = &'a PartRef>) {
        for part in parts {
            self.uncommitted.remove(&part.object);
        }
    }

    /// All snapshots, oldest first; those whose manifest cannot be read with the reason.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer.
    pub fn list(&self) -> Result<Vec<Listing>, SnapshotError> {
        let mut all = Vec::new();
        for sequence in self.sequences()? {
            match self.read_manifest(sequence) {
                // Collected since it was listed.
                Err(SnapshotError::NoSuchSnapshot { .. }) => {}
                Err(error @ SnapshotError::Store { .. }) => return Err(error),
                manifest => all.push(Listing { sequence, manifest }),
            }
        }
        Ok(all)
    }

    /// The manifest of snapshot `sequence`.
    ///
    /// # Errors
    /// [`SnapshotError::NoSuchSnapshot`], or what is wrong with it.
    pub fn manifest(&self, sequence: u64) -> Result<Manifest, SnapshotError> {
        self.read_manifest(sequence)
    }

    /// The newest snapshot whose manifest is whole; its parts are not looked at.
    ///
    /// # Errors
    /// Damage of the newest manifest if there are some and none is whole.
    pub fn latest(&self) -> Result<Option<Manifest>, SnapshotError> {
        let mut first = None;
        for sequence in self.sequences()?.into_iter().rev() {
            match self.read_manifest(sequence) {
                Ok(manifest) => return Ok(Some(manifest)),
                Err(SnapshotError::NoSuchSnapshot { .. }) => {}
                Err(error) if error.is_damage() => first = first.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        first.map_or(Ok(None), Err)
    }

    /// The numbers of all manifests, ascending.
    fn sequences(&self) -> Result<Vec<u64>, SnapshotError> {
        let listed = self.objects.list(manifest::FOLDER, None)?;
        Ok(listed.iter().filter_map(|object| sequence_of(&object.name)).collect())
    }

    fn read_manifest(&self, sequence: u64) -> Result<Manifest, SnapshotError> {
        let Some(found) = self.objects.get(&object_name(sequence))? else {
            return Err(SnapshotError::NoSuchSnapshot { location: self.location.url().to_owned(), sequence });
        };
        let manifest = Manifest::decode(sequence, &found.bytes)?;
        if manifest.identity != self.identity {
            let (ours, theirs) = (self.identity, manifest.identity);
            return Err(SnapshotError::OtherCluster { location: self.location.url().to_owned(), ours, theirs });
        }
        Ok(manifest)
    }
}

impl std::fmt::Debug for SnapshotStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let identity = format_args!("{:032x}", self.identity);
        formatter.debug_struct("SnapshotStore").field("location", &self.location).field("identity", &identity).finish()
    }
}
