//! Lease on leadership, in the store: a standby can take over from a coordinator that is gone.
//!
//! One record that is only ever changed by whoever has read its present version: a conditional update by ETag in
//! a bucket. A directory knows no such thing: there each version is a file with the next number, linked only if that
//! number is free, and the highest counts. No lock is held, which a process that is paused would keep from others.
//!
//! Nobody compares clocks. The holder counts a term from before it asked for the renewal; everybody else counts it
//! from when that renewal was first seen, which is later, and a quarter of it more, for clocks that run unevenly.
//! So a lease that is free for others is over for its holder, unless that one sleeps between looking at the clock
//! and acting; what makes two harmless then is fencing, by the log and by the *generation* of snapshots.
//!
//! Nothing here asks whose the store is: one learns that from the log, and only whoever leads may open that.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::UpdateVersion;
use rkyv::{Archive, Deserialize, Serialize, rancor};

use super::envelope;
use super::error::SnapshotError;
use super::location::{RetryPolicy, StoreLocation};
use super::objects::{Fetched, Objects};
use super::runtime::Runtime;
use super::standbys::{Presence, Standbys};

const OBJECT: &str = "lease";
const CHECK: &str = "lease.check";
/// Earlier versions kept in a directory: a reader finds at least one of them while others write.
const KEPT: u64 = 16;
const MAGIC: &[u8; 8] = b"STYXLEAS";
const VERSION: u16 = 1;

/// The lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The process that holds it, by a name that no other has; empty if it was given back.
    pub holder: String,
    /// Higher than that of every earlier holder.
    pub generation: u64,
    /// End unless it is renewed, by its holder's clock, microseconds.
    pub expires_us: u64,
    /// Duration of each renewal, microseconds.
    pub term_us: u64,
    /// Tells this writing of the record from all others.
    nonce: u128,
}

/// Result of an attempt to acquire the lease.
#[derive(Debug)]
pub enum Acquired {
    /// It is ours, under a new generation.
    Ours(Lease),
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
        envelope::wrap(MAGIC, VERSION, &body)
    }

    fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let (_, body) = envelope::unwrap(MAGIC, VERSION, OBJECT, bytes)?;
        rkyv::from_bytes::<Self, rancor::Error>(&body)
            .map_err(|error| SnapshotError::damaged(OBJECT, envelope::HEADER as u64, error.to_string()))
    }
}

/// The lease of a store as a candidate sees it. Clones share what was seen.
#[derive(Clone, Debug)]
pub struct Leases {
    objects: Objects,
    /// The writing of the record that was seen last, and when it was seen first.
    seen: Arc<Mutex<Option<(u128, u64)>>>,
}

impl Leases {
    /// Opens the lease of the store at `location`, whichever cluster owns that.
    ///
    /// # Errors
    /// [`SnapshotError::Unusable`] if the place cannot be used, or overwrites what it must not.
    pub fn open(location: &StoreLocation, runtime: impl Into<Runtime>) -> Result<Self, SnapshotError> {
        let runtime = runtime.into();
        Objects::open(location, RetryPolicy::Opening, runtime.clone())?.probe(location)?;
        let objects = Objects::open(location, RetryPolicy::Lease, runtime)?;
        let leases = Self { objects, seen: Arc::default() };
        leases.check(location)?;
        Ok(leases)
    }

    /// Shows that conditional updates hold, on which everything rests: one of a version that there never was.
    fn check(&self, location: &StoreLocation) -> Result<(), SnapshotError> {
        let never = UpdateVersion { e_tag: Some("\"0\"".into()), version: None };
        if self.objects.directory().is_none()
            && self.objects.put_over(CHECK, vec![0], Some(never)).is_ok_and(|put| put.is_some())
        {
            return Err(location.unusable(
                "it overwrites what a conditional update must not (If-Match): two coordinators could both lead, use a \
                 server that supports conditional writes",
            ));
        }
        Ok(())
    }

    /// Takes the lease for `term_us` microseconds, if it is free or was `holder`'s already. `now_us` is the time, by
    /// any clock of this process that only goes forward.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer. Whether the lease was taken is unknown then; nothing
    /// may be done in its name, and trying again is right.
    pub fn acquire(&self, holder: &str, term_us: u64, now_us: u64) -> Result<Acquired, SnapshotError> {
        let found = fetch(&self.objects).inspect_err(|_| {
            // Nobody can renew at a store that does not answer: the holder has a whole term when it is back.
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
        })?;
        let old = found.as_ref().map(|found| LeaseRecord::decode(&found.bytes)).transpose()?;
        if let Some(old) = &old
            && old.holder != holder
            && !self.is_free(old, now_us)
        {
            return Ok(Acquired::Theirs(old.clone()));
        }
        let record = LeaseRecord {
            holder: holder.to_owned(),
            generation: old.map_or(0, |old| old.generation) + 1,
            expires_us: now_us.saturating_add(term_us),
            term_us,
            nonce: self.objects.runtime().nonce(),
        };
        Ok(match swap(&self.objects, found.as_ref(), &record)? {
            Swapped::Written(version) => Acquired::Ours(Lease { objects: self.objects.clone(), record, version }),
            Swapped::Lost(theirs) => Acquired::Theirs(theirs),
        })
    }

    /// Says in the store that `node` stands by.
    pub fn presence(&self, node: u64) -> Presence {
        Presence::new(self.objects.clone(), node)
    }

    /// Those who say so.
    pub fn standbys(&self) -> Standbys {
        Standbys::new(self.objects.clone())
    }

    /// True if somebody else than its holder may take the lease: it was given back, or not renewed for as long as it
    /// was given, and a quarter more, since it was first seen here.
    fn is_free(&self, record: &LeaseRecord, now_us: u64) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match *seen {
            Some((nonce, since)) if nonce == record.nonce => since,
            _ => now_us,
        };
        *seen = Some((record.nonce, since));
        record.holder.is_empty() || now_us.saturating_sub(since) >= record.term_us.saturating_add(record.term_us / 4)
    }

    /// The record of the present or last holder; `None` if nobody ever held the lease.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer, [`SnapshotError::Damaged`] if the record is.
    pub fn read(&self) -> Result<Option<LeaseRecord>, SnapshotError> {
        fetch(&self.objects)?.map(|found| LeaseRecord::decode(&found.bytes)).transpose()
    }
}

impl Lease {
    pub fn record(&self) -> &LeaseRecord {
        &self.record
    }

    pub fn generation(&self) -> u64 {
        self.record.generation
    }

    /// True until it runs out: who holds it must act in its name only so long. `now_us` is by the clock by which it
    /// was acquired.
    pub fn holds(&self, now_us: u64) -> bool {
        now_us < self.record.expires_us
    }

    /// Extends it to `now_us` and its term.
    ///
    /// # Errors
    /// [`SnapshotError::LeaseLost`] if somebody else has it now. [`SnapshotError::Store`] if the store does not answer:
    /// the lease is held until it runs out, and trying again is right.
    pub fn renew(&mut self, now_us: u64) -> Result<(), SnapshotError> {
        let expires_us = now_us.saturating_add(self.record.term_us);
        self.replace(LeaseRecord { expires_us, nonce: self.objects.runtime().nonce(), ..self.record.clone() })
    }

    /// Gives it back, so that nobody has to wait for its end.
    ///
    /// # Errors
    /// [`SnapshotError::LeaseLost`] if somebody else has it now, [`SnapshotError::Store`] if the store does not answer.
    pub fn release(mut self) -> Result<(), SnapshotError> {
        self.replace(LeaseRecord {
            holder: String::new(),
            nonce: self.objects.runtime().nonce(),
            ..self.record.clone()
        })
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
                Swapped::Lost(ours) => match fetch(&self.objects)? {
                    Some(now) if LeaseRecord::decode(&now.bytes)? == ours => found = now,
                    _ => {}
                },
            }
        }
    }
}

/// Result of a conditional update of the record.
enum Swapped {
    Written(UpdateVersion),
    /// Somebody was quicker.
    Lost(LeaseRecord),
}

/// The record as it is now.
fn fetch(objects: &Objects) -> Result<Option<Fetched>, SnapshotError> {
    let Some(directory) = objects.directory() else { return objects.get(OBJECT) };
    loop {
        let Some(number) = numbers(directory)?.into_iter().max() else { return Ok(None) };
        // Otherwise there is a higher number since it was looked for.
        if let Some(found) = objects.get(&numbered(number))? {
            return Ok(Some(Fetched { version: version(number), ..found }));
        }
    }
}

/// Writes `record` if what is there is still what was `found`.
fn swap(objects: &Objects, found: Option<&Fetched>, record: &LeaseRecord) -> Result<Swapped, SnapshotError> {
    let written = match objects.directory() {
        None => objects.put_over(OBJECT, record.encode(), found.map(|found| found.version.clone()))?,
        Some(directory) => put_next(objects, directory, found, record)?,
    };
    if let Some(version) = written {
        return Ok(Swapped::Written(version));
    }
    let Some(now) = fetch(objects)? else { return Err(SnapshotError::Missing { object: OBJECT.into() }) };
    let theirs = LeaseRecord::decode(&now.bytes)?;
    // By this very put, whose first try got through.
    Ok(if theirs == *record { Swapped::Written(now.version) } else { Swapped::Lost(theirs) })
}

/// Puts the version after the one that was found into a directory, unless there is one already.
fn put_next(
    objects: &Objects,
    directory: &Path,
    found: Option<&Fetched>,
    record: &LeaseRecord,
) -> Result<Option<UpdateVersion>, SnapshotError> {
    let before = found.and_then(|found| found.version.version.as_ref()?.parse::<u64>().ok());
    let number = before.map_or(0, |before| before + 1);
    if !objects.put_new(&numbered(number), record.encode())? {
        return Ok(None);
    }
    // Whoever slept since it looked may have put one that others have put, and deleted, long ago: there is one then
    // that it was deleted for. One that is only a little higher has followed this one.
    let all = numbers(directory)?;
    if all.iter().any(|other| *other > number + KEPT) {
        return Ok(None);
    }
    for old in all.into_iter().filter(|old| *old + KEPT < number) {
        // Somebody else may have been quicker, and next time is soon enough.
        let _ = fs::remove_file(directory.join(numbered(old)));
    }
    Ok(Some(version(number)))
}

/// The numbers of all versions in a directory.
fn numbers(directory: &Path) -> Result<Vec<u64>, SnapshotError> {
    let failed = |error: std::io::Error| SnapshotError::store("look for", OBJECT, &error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        match name.to_str().and_then(|name| name.strip_prefix(OBJECT)) {
            Some("") => numbers.push(0),
            Some(rest) => numbers.extend(rest.strip_prefix('.').and_then(|number| number.parse::<u64>().ok())),
            None => {}
        }
    }
    Ok(numbers)
}

fn numbered(number: u64) -> String {
    if number == 0 { OBJECT.to_owned() } else { format!("{OBJECT}.{number:020}") }
}

fn version(number: u64) -> UpdateVersion {
    UpdateVersion { e_tag: None, version: Some(number.to_string()) }
}
