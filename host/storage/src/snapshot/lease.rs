//! The lease: who coordinates, until when; so that a standby can take over from one that is gone.
//!
//! One object that is only ever changed by whoever has read its present version: a conditional update by ETag in
//! a bucket; in a directory, which knows no such thing, a comparison and a rename under an exclusive lock that the
//! operating system takes back from processes that die. (Such a lock holds between the processes of a machine.)
//!
//! A lease makes two coordinators unlikely, not impossible: clocks differ, and a process may sleep between looking
//! at the clock and acting. What makes two harmless is the *generation*, one higher at each change of hands, with
//! which everything is written. Therefore a lease that ran out is left alone for half its time more, which allows
//! for clocks, and its holder need not be asked.

use std::fs::{File, TryLockError};
use std::time::Duration;

use object_store::UpdateVersion;
use rkyv::{Archive, Deserialize, Serialize, rancor};

use super::SnapshotStore;
use super::error::SnapshotError;
use super::frame;
use super::objects::{Fetched, Objects};

const OBJECT: &str = "lease";
const LOCK: &str = "lease.lock";
const MAGIC: &[u8; 8] = b"STYXLEAS";
const VERSION: u16 = 1;
/// How often, and how many times, to try for the lock of a directory: others have it for as long as a write takes.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
const LOCK_TRIES: u32 = 2000;

/// Who holds the lease.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The process that holds it, by a name that no other has; empty if it was given back.
    pub holder: String,
    /// Higher than that of every earlier holder, and of every snapshot that was there.
    pub generation: u64,
    /// When it runs out unless it is renewed, microseconds since 1970.
    pub expires_us: u64,
    /// How long it is given for at a time, microseconds.
    pub term_us: u64,
    /// Tells this writing of the record from all others.
    nonce: u128,
}

/// What came of an attempt to get the lease.
#[derive(Debug)]
pub enum Acquired {
    /// It is ours, under a new generation.
    Ours(Lease),
    /// Somebody has it.
    Theirs(LeaseRecord),
}

/// The lease, held by this process.
#[derive(Debug)]
pub struct Lease {
    objects: Objects,
    record: LeaseRecord,
    version: UpdateVersion,
}

impl LeaseRecord {
    fn encode(&self) -> Vec<u8> {
        let body = rkyv::to_bytes::<rancor::Error>(self).expect("a record in memory can be written to memory");
        frame::wrap(MAGIC, VERSION, &body)
    }

    fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let body = frame::unwrap(MAGIC, VERSION, OBJECT, bytes)?;
        rkyv::from_bytes::<Self, rancor::Error>(&body)
            .map_err(|error| SnapshotError::damaged(OBJECT, frame::HEADER as u64, error.to_string()))
    }

    /// True if somebody else may take the lease now.
    fn free(&self, now_us: u64) -> bool {
        self.holder.is_empty() || now_us >= self.expires_us.saturating_add(self.term_us / 2)
    }
}

impl SnapshotStore {
    /// Takes the lease for `term_us` microseconds, if it is free or was `holder`'s already.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer. Whether the lease was taken is unknown then; nothing
    /// may be done in its name, and trying again is right.
    pub fn acquire_lease(&self, holder: &str, term_us: u64, now_us: u64) -> Result<Acquired, SnapshotError> {
        let found = self.objects.get(OBJECT)?;
        let old = found.as_ref().map(|found| LeaseRecord::decode(&found.bytes)).transpose()?;
        if let Some(old) = &old
            && !old.free(now_us)
            && old.holder != holder
        {
            return Ok(Acquired::Theirs(old.clone()));
        }
        let snapshots = self.latest()?.map_or(0, |manifest| manifest.generation);
        let generation = old.map_or(0, |old| old.generation).max(snapshots) + 1;
        let record = LeaseRecord {
            holder: holder.to_owned(),
            generation,
            expires_us: now_us.saturating_add(term_us),
            term_us,
            nonce: rand::random(),
        };
        Ok(match swap(&self.objects, found.as_ref(), &record)? {
            Swapped::Written(version) => Acquired::Ours(Lease { objects: self.objects.clone(), record, version }),
            Swapped::Lost(theirs) => Acquired::Theirs(theirs),
        })
    }

    /// Who holds the lease, or did last; `None` if nobody ever has.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer, [`SnapshotError::Damaged`] if the record is.
    pub fn lease(&self) -> Result<Option<LeaseRecord>, SnapshotError> {
        self.objects.get(OBJECT)?.map(|found| LeaseRecord::decode(&found.bytes)).transpose()
    }
}

impl Lease {
    /// What the store says about it.
    pub fn record(&self) -> &LeaseRecord {
        &self.record
    }

    /// The generation under which to act.
    pub fn generation(&self) -> u64 {
        self.record.generation
    }

    /// True until it runs out: who holds it must act in its name only so long.
    pub fn holds(&self, now_us: u64) -> bool {
        now_us < self.record.expires_us
    }

    /// Prolongs it to `now_us` and its term.
    ///
    /// # Errors
    /// [`SnapshotError::LeaseLost`] if somebody else has it now. [`SnapshotError::Store`] if the store does not answer:
    /// the lease is held until it runs out, and trying again is right.
    pub fn renew(&mut self, now_us: u64) -> Result<(), SnapshotError> {
        let expires_us = now_us.saturating_add(self.record.term_us);
        self.replace(LeaseRecord { expires_us, nonce: rand::random(), ..self.record.clone() })
    }

    /// Gives it back, so that nobody has to wait for its end.
    ///
    /// # Errors
    /// [`SnapshotError::LeaseLost`] if somebody else has it now, [`SnapshotError::Store`] if the store does not answer.
    pub fn release(mut self) -> Result<(), SnapshotError> {
        self.replace(LeaseRecord { holder: String::new(), nonce: rand::random(), ..self.record.clone() })
    }

    fn replace(&mut self, record: LeaseRecord) -> Result<(), SnapshotError> {
        let mut found = Fetched { bytes: self.record.encode().into(), version: self.version.clone() };
        loop {
            match swap(&self.objects, Some(&found), &record)? {
                Swapped::Written(version) => {
                    (self.record, self.version) = (record, version);
                    return Ok(());
                }
                Swapped::Lost(theirs) if theirs.generation != record.generation => {
                    let (ours, theirs, holder) = (record.generation, theirs.generation, theirs.holder);
                    return Err(SnapshotError::LeaseLost { ours, theirs, holder });
                }
                // A renewal of our own whose answer never came.
                Swapped::Lost(ours) => match self.objects.get(OBJECT)? {
                    Some(now) if LeaseRecord::decode(&now.bytes)? == ours => found = now,
                    _ => {}
                },
            }
        }
    }
}

/// What came of replacing the record.
enum Swapped {
    Written(UpdateVersion),
    /// Somebody was quicker.
    Lost(LeaseRecord),
}

/// Writes `record` if what is there is still what was `found`.
fn swap(objects: &Objects, found: Option<&Fetched>, record: &LeaseRecord) -> Result<Swapped, SnapshotError> {
    let written = match objects.directory() {
        None => objects.put_over(OBJECT, record.encode(), found.map(|found| found.version.clone()))?,
        Some(directory) => {
            let _lock = lock(&directory.join(LOCK))?;
            let now = objects.get(OBJECT)?;
            let same = now.map(|now| now.bytes) == found.map(|found| found.bytes.clone());
            if same {
                objects.put(OBJECT, record.encode())?;
            }
            same.then_some(UpdateVersion { e_tag: None, version: None })
        }
    };
    if let Some(version) = written {
        return Ok(Swapped::Written(version));
    }
    let Some(now) = objects.get(OBJECT)? else { return Err(SnapshotError::Missing { object: OBJECT.into() }) };
    let theirs = LeaseRecord::decode(&now.bytes)?;
    // By this very put, whose first try got through.
    Ok(if theirs == *record { Swapped::Written(now.version) } else { Swapped::Lost(theirs) })
}

/// The lock on a directory's lease; the operating system frees it with the file.
fn lock(path: &std::path::Path) -> Result<File, SnapshotError> {
    let failed = |error: &dyn std::error::Error| SnapshotError::store("lock", LOCK, error);
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(|error| failed(&error))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
    }
    Err(SnapshotError::Store {
        action: "lock",
        object: LOCK.into(),
        reason: "another process has held it for seconds: is one stopped?".into(),
    })
}
