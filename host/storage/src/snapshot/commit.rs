//! Makes a snapshot exist: puts the next manifest, if nobody else may.

use std::collections::{BTreeMap, HashSet};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use styx_planted::{Bug, planted};
use xxhash_rust::xxh3::xxh3_128;

use super::SnapshotStore;
use super::error::SnapshotError;
use super::manifest::{Manifest, PartKind, PartRef, object_name};

/// Retries of a number that the store refuses and does not show.
const CONFLICT_TRIES: u32 = 50;
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// Between two looks at whether nobody else of this thread writes a manifest.
const HEAD_PAUSE: Duration = Duration::from_millis(1);

/// Contents of a new snapshot; the store adds the chains that its deltas continue.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The writer's generation.
    pub generation: u64,
    /// The state is that of this epoch's end.
    pub epoch: u64,
    /// The epoch of the snapshot that the deltas continue: partitions without a part are as they were then.
    /// `None` if this is a whole one: every partition that is not empty has a base.
    pub builds_on: Option<u64>,
    pub state_hash: u128,
    /// The chain of state hashes up to this epoch.
    pub chain_hash: u128,
    /// Replay of the log starts with this record.
    pub log_position: u64,
    /// The time now, microseconds since 1970.
    pub created_us: u64,
    /// One part for each partition that changed.
    pub parts: Vec<PartRef>,
    pub system: Vec<PartRef>,
}

/// Newest manifest, as far as this store knows.
#[derive(Default)]
pub(crate) struct Head {
    /// False until the store has been read.
    known: bool,
    /// The highest number that was seen.
    highest: u64,
    /// The snapshot that the next one continues.
    manifest: Option<Manifest>,
    /// Generation and number of the manifest of the highest generation that was read, be it passed over.
    written: (u64, u64),
    /// Manifests whose puts failed without an answer: they may be there, or may come still. Number and hash.
    unconfirmed: HashSet<(u64, u128)>,
}

impl Head {
    pub(crate) fn at(highest: u64, manifest: Option<Manifest>) -> Self {
        let written = manifest.as_ref().map_or((0, 0), |manifest| (manifest.generation, manifest.sequence));
        Self { known: true, highest, manifest, written, unconfirmed: HashSet::new() }
    }

    /// A manifest was read that the next one does not continue.
    pub(crate) fn passed_over(&mut self, manifest: &Manifest) {
        self.written = self.written.max((manifest.generation, manifest.sequence));
    }
}

/// Reaction to a manifest of an older generation that took the number in between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// Takes the next number; the manifest stays based on what this writer knew.
    Skip,
    /// Bases the manifest on the one found.
    Rebase,
}

/// Result of putting a manifest under a number.
enum PutOutcome {
    Written,
    /// Another manifest, of no consequence any more, has the number.
    Taken,
}

impl SnapshotStore {
    /// Makes the snapshot exist, as the next one. All its parts must have been finished.
    ///
    /// # Errors
    /// [`SnapshotError::Fenced`] if somebody else writes: stop. [`SnapshotError::Unfit`] if the deltas do not
    /// continue the newest snapshot. [`SnapshotError::Store`] if the store did not answer: whether the snapshot
    /// exists is unknown then, and the next may be taken either on the one before, or whole.
    pub fn commit(&self, draft: Draft) -> Result<Manifest, SnapshotError> {
        self.put_next(draft.generation, OnConflict::Skip, |previous| self.assemble(&draft, previous))
    }

    /// Takes the store over: writes the newest snapshot once more, as one of `generation`. From then on no older
    /// generation can write any. An empty store gets an empty snapshot, of epoch 0 and log position 0.
    ///
    /// # Errors
    /// [`SnapshotError::Fenced`] if the store has seen a higher generation.
    pub fn take_over(&self, generation: u64, created_us: u64) -> Result<Manifest, SnapshotError> {
        self.lock_head().known = false;
        let empty = || Manifest {
            identity: self.identity,
            sequence: 0,
            generation,
            epoch: 0,
            state_hash: 0,
            chain_hash: 0,
            log_position: 0,
            created_us,
            partitions: BTreeMap::new(),
            system: BTreeMap::new(),
        };
        self.put_next(generation, OnConflict::Rebase, |previous| {
            Ok(Manifest { generation, created_us, ..previous.cloned().unwrap_or_else(empty) })
        })
    }

    /// Writes snapshot `sequence` once more, as the newest one, for a log in which replay starts with record
    /// `log_position`: how one goes back to an older state, or goes on without the old log.
    ///
    /// # Errors
    /// Damage of the manifest; [`SnapshotError::Fenced`] if the store has seen a higher generation.
    pub fn reinstate(
        &self,
        sequence: u64,
        generation: u64,
        log_position: u64,
        created_us: u64,
    ) -> Result<Manifest, SnapshotError> {
        let old = self.read_manifest(sequence)?;
        self.put_next(generation, OnConflict::Skip, |_| {
            Ok(Manifest { generation, log_position, created_us, ..old.clone() })
        })
    }

    /// The snapshot that `draft` makes of the one before.
    fn assemble(&self, draft: &Draft, previous: Option<&Manifest>) -> Result<Manifest, SnapshotError> {
        let unfit = |what: String| Err(SnapshotError::Unfit(what));
        let mut partitions = match (draft.builds_on, previous) {
            (None, _) => BTreeMap::new(),
            (Some(epoch), Some(previous)) if previous.epoch == epoch => previous.partitions.clone(),
            (Some(epoch), Some(previous)) => {
                return unfit(format!("it continues epoch {epoch}, the newest snapshot is of {}", previous.epoch));
            }
            (Some(epoch), None) => return unfit(format!("it continues epoch {epoch}, and there is no snapshot")),
        };
        if let Some(previous) = previous
            && draft.builds_on.is_some()
            && draft.epoch < previous.epoch
        {
            return unfit(format!("it is of epoch {}, the newest snapshot is of {}", draft.epoch, previous.epoch));
        }
        let mut mentioned = HashSet::new();
        for part in &draft.parts {
            if !mentioned.insert(part.partition) {
                return unfit(format!("partition {} has two parts", part.partition));
            }
            let chain = partitions.entry(part.partition).or_insert_with(Vec::new);
            match part.kind {
                PartKind::Base => chain.clear(),
                PartKind::Delta if draft.builds_on.is_some() => {}
                _ => return unfit(format!("{} is a delta in a whole snapshot", part.object)),
            }
            chain.push(part.clone());
        }
        let system: BTreeMap<_, _> = draft.system.iter().map(|part| (part.name.clone(), part.clone())).collect();
        if system.len() < draft.system.len() {
            return unfit("two system parts have one name".into());
        }
        Ok(Manifest {
            identity: self.identity,
            sequence: 0,
            generation: draft.generation,
            epoch: draft.epoch,
            state_hash: draft.state_hash,
            chain_hash: draft.chain_hash,
            log_position: draft.log_position,
            created_us: draft.created_us,
            partitions,
            system,
        })
    }

    pub(crate) fn lock_head(&self) -> MutexGuard<'_, Head> {
        // A panic in the middle leaves at worst an old head, and then the put finds its number taken.
        loop {
            match self.head.try_lock() {
                Ok(head) => return head,
                Err(TryLockError::Poisoned(head)) => return head.into_inner(),
                // Whoever holds it may be somebody on this very thread, who goes on while this one pauses.
                Err(TryLockError::WouldBlock) if self.objects.runtime().is_inline() => {
                    self.objects.runtime().pause(HEAD_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return self.head.lock().unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The newest snapshot as far as this store knows: what the next one continues.
    pub(crate) fn head_manifest(&self) -> Result<Option<Manifest>, SnapshotError> {
        let mut head = self.lock_head();
        self.learn(&mut head)?;
        Ok(head.manifest.clone())
    }

    fn learn(&self, head: &mut Head) -> Result<(), SnapshotError> {
        if !head.known {
            let highest = self.sequences()?.last().copied().unwrap_or(0);
            let manifest = self.latest()?;
            let highest = highest.max(manifest.as_ref().map_or(0, |manifest| manifest.sequence));
            *head = Head { unconfirmed: std::mem::take(&mut head.unconfirmed), ..Head::at(highest, manifest) };
        }
        Ok(())
    }

    /// Puts what `make` makes of the newest snapshot under the next free number.
    pub(crate) fn put_next(
        &self,
        generation: u64,
        on_conflict: OnConflict,
        mut make: impl FnMut(Option<&Manifest>) -> Result<Manifest, SnapshotError>,
    ) -> Result<Manifest, SnapshotError> {
        let mut head = self.lock_head();
        self.learn(&mut head)?;
        let manifest = loop {
            let (theirs, sequence) = head.written;
            if theirs > generation {
                return Err(SnapshotError::Fenced { ours: generation, theirs, sequence });
            }
            let mut manifest = make(head.manifest.as_ref())?;
            manifest.sequence = head.highest + 1;
            manifest.check().map_err(SnapshotError::Unfit)?;
            if let Err(error) = self.check_parts(&manifest, head.manifest.as_ref()) {
                // Somebody who has taken over may have collected them.
                self.check_newest(head.highest, generation, &mut head)?;
                return Err(error);
            }
            match self.attempt(&manifest, &mut head)? {
                PutOutcome::Written => break manifest,
                PutOutcome::Taken => head.highest += 1,
            }
            if on_conflict == OnConflict::Rebase {
                head.known = false;
                self.learn(&mut head)?;
            }
        };
        // The number was free, but perhaps only because a collection has freed it since this writer last looked.
        if let Err(error) = self.check_newest(manifest.sequence, generation, &mut head) {
            // It may be there, and its writer is not told: the next one still continues the one before.
            if !planted(Bug::ManifestNotRecognized) {
                head.unconfirmed.insert((manifest.sequence, xxh3_128(&manifest.encode())));
            }
            return Err(error);
        }
        *head = Head {
            unconfirmed: std::mem::take(&mut head.unconfirmed),
            ..Head::at(manifest.sequence, Some(manifest.clone()))
        };
        self.abandon(manifest.parts());
        Ok(manifest)
    }

    /// Fenced, if there is a manifest behind number `sequence`.
    fn check_newest(&self, sequence: u64, generation: u64, head: &mut Head) -> Result<(), SnapshotError> {
        let later = self.objects.list(super::manifest::FOLDER, Some(&object_name(sequence)))?;
        let Some(sequence) = later.iter().rev().find_map(|object| super::sequence_of(&object.name)) else {
            return Ok(());
        };
        let found = self.objects.get(&object_name(sequence))?;
        let theirs = found.as_ref().and_then(|found| Manifest::decode(sequence, &found.bytes).ok());
        let theirs = theirs.map_or(generation, |theirs| theirs.generation);
        // A put of this writer that it was not told of; one of the next generation is, as anybody's, the end of this one.
        let is_own = |hash| theirs <= generation && head.unconfirmed.contains(&(sequence, hash));
        if found.is_some_and(|found| is_own(xxh3_128(&found.bytes))) {
            return Ok(());
        }
        head.known = false;
        Err(SnapshotError::Fenced { ours: generation, theirs, sequence })
    }

    fn attempt(&self, manifest: &Manifest, head: &mut Head) -> Result<PutOutcome, SnapshotError> {
        let bytes = manifest.encode();
        let hash = xxh3_128(&bytes);
        let sequence = manifest.sequence;
        // Refused, and yet nothing there: a server may refuse a put only because another one is under way, and that
        // one may still fail. The number must not be passed over then, or both would get one.
        let mut found = None;
        for _ in 0..CONFLICT_TRIES {
            match self.objects.put_new(&object_name(sequence), bytes.clone()) {
                Ok(true) => return Ok(PutOutcome::Written),
                Ok(false) => {}
                Err(error) => {
                    head.unconfirmed.insert((sequence, hash));
                    return Err(error);
                }
            }
            found = self.objects.get(&object_name(sequence))?;
            if found.is_some() {
                break;
            }
            self.objects.runtime().pause(CONFLICT_PAUSE);
        }
        let Some(found) = found else {
            return Err(SnapshotError::Store {
                action: "write",
                object: object_name(sequence),
                reason: "the store says that it is there when it is written, and that it is not when it is read".into(),
            });
        };
        // Taken. By this very put, if a first try got through and only its answer was lost?
        let theirs = xxh3_128(&found.bytes);
        if theirs == hash {
            return Ok(PutOutcome::Written);
        }
        let is_own = head.unconfirmed.contains(&(sequence, theirs));
        match Manifest::decode(sequence, &found.bytes) {
            Ok(other) if other.generation < manifest.generation => Ok(PutOutcome::Taken),
            Ok(other) if other.generation == manifest.generation && is_own => Ok(PutOutcome::Taken),
            Ok(other) => {
                head.known = false;
                Err(SnapshotError::Fenced { ours: manifest.generation, theirs: other.generation, sequence })
            }
            // Whose it was cannot be known, so this attempt fails; the next one goes behind it.
            Err(error) => {
                head.known = false;
                Err(error)
            }
        }
    }

    /// Checks that all objects exist which the previous manifest did not mention: a manifest never mentions a missing part.
    fn check_parts(&self, manifest: &Manifest, previous: Option<&Manifest>) -> Result<(), SnapshotError> {
        let known: HashSet<_> = previous.into_iter().flat_map(Manifest::parts).map(|part| &part.object).collect();
        let packs = manifest.packs();
        let new: Vec<_> = packs.values().map(|parts| parts[0]).filter(|part| !known.contains(&part.object)).collect();
        let sizes = self.objects.sizes(new.iter().map(|part| part.object.clone()).collect())?;
        new.iter().zip(sizes).try_for_each(|(part, size)| part.check_size(size))
    }
}
