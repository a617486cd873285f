//! Brings a snapshot back: every partition's base, then its deltas; several partitions at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::SnapshotStore;
use super::commit::Head;
use super::error::SnapshotError;
use super::manifest::{Manifest, PartRef};
use super::part;
use super::part::block::{Block, Entry};
use super::part::pieces::Pieces;
use super::part::reader::PartReader;

/// Some entries of one partition, in ascending order of operator and key.
pub struct Batch<'a> {
    partition: u16,
    block: &'a Block,
}

impl Batch<'_> {
    pub fn partition(&self) -> u16 {
        self.partition
    }

    /// The entries. What is kept of them must be copied: they are pieces of a block that is given up.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.block.entries()
    }
}

/// Receiver of restored entries.
///
/// Batches of one partition come one after the other; a later entry replaces an earlier one of the same key, or
/// deletes it. Different partitions come at the same time, from several threads.
pub trait Sink: Sync {
    /// Takes a batch. An error ends the restore.
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()>;
}

/// A snapshot that was brought back.
pub struct Restored<S> {
    pub manifest: Manifest,
    /// Receiver of its entries.
    pub sink: S,
    /// Its system parts by name.
    pub system: BTreeMap<String, Vec<u8>>,
    /// Newer snapshots that could not be used, newest first.
    pub skipped: Vec<Skipped>,
}

/// A snapshot that could not be used.
#[derive(Debug)]
pub struct Skipped {
    pub sequence: u64,
    pub error: SnapshotError,
}

impl SnapshotStore {
    /// Brings the newest snapshot back that is whole. `begin` makes a sink for each that is tried, on at most
    /// `threads` threads; what a sink of a damaged one has received is dropped with it. The next snapshot will
    /// continue the one that is returned. `None` if there is none at all.
    ///
    /// # Errors
    /// The newest one's damage if none is whole; any other failure at once, for an older snapshot does not help
    /// against a store that does not answer or a format that is too new.
    pub fn restore_newest<S: Sink>(
        &self,
        threads: usize,
        mut begin: impl FnMut(&Manifest) -> S,
    ) -> Result<Option<Restored<S>>, SnapshotError> {
        let found = self.first_good(None, |manifest| {
            let sink = begin(&manifest);
            let system = self.system_parts(&manifest)?;
            self.restore(&manifest, threads, &sink)?;
            Ok((manifest, sink, system))
        })?;
        let Some(((manifest, sink, system), skipped)) = found else { return Ok(None) };
        self.continue_from(&manifest)?;
        Ok(Some(Restored { manifest, sink, system, skipped }))
    }

    /// The newest snapshot older than number `before` (of all, if `None`) whose manifest is whole and whose parts are
    /// all there with their sizes; and those that were passed over. For who coordinates a restore that others do:
    /// each of them calls [`Self::restore`] with the manifest's `partitions` reduced to its own, and if one finds
    /// damage, all begin again with the snapshot before. Then comes [`Self::continue_from`].
    ///
    /// # Errors
    /// As of [`Self::restore_newest`].
    pub fn newest_complete(&self, before: Option<u64>) -> Result<Option<(Manifest, Vec<Skipped>)>, SnapshotError> {
        self.first_good(before, Ok)
    }

    /// Makes the next snapshot of this store continue `manifest`, which was restored, although newer ones may be
    /// there that could not be, or that somebody has written meanwhile.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer.
    pub fn continue_from(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        let mut head = self.lock_head();
        let newer: Vec<u64> = self.sequences()?.into_iter().filter(|sequence| *sequence > manifest.sequence).collect();
        let mut continued = Head::at(newer.last().copied().unwrap_or(manifest.sequence), Some(manifest.clone()));
        for sequence in newer {
            match self.read_manifest(sequence) {
                Ok(newer) => continued.passed_over(&newer),
                Err(SnapshotError::NoSuchSnapshot { .. }) => {}
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        *head = continued;
        Ok(())
    }

    /// Result of `attempt` on the newest snapshot in which it finds no damage.
    fn first_good<T>(
        &self,
        before: Option<u64>,
        mut attempt: impl FnMut(Manifest) -> Result<T, SnapshotError>,
    ) -> Result<Option<(T, Vec<Skipped>)>, SnapshotError> {
        let sequences = self.sequences()?;
        let sizes: HashMap<_, _> =
            self.objects.list(part::FOLDER, None)?.into_iter().map(|object| (object.name, object.bytes)).collect();
        let mut skipped = Vec::new();
        for sequence in sequences.into_iter().rev().filter(|sequence| before.is_none_or(|before| *sequence < before)) {
            let result = self.read_manifest(sequence).and_then(|manifest| {
                // What is missing is found before gigabytes were restored for nothing.
                manifest.parts().try_for_each(|part| part.check_size(sizes.get(&part.object).copied()))?;
                attempt(manifest)
            });
            match result {
                Ok(good) => return Ok(Some((good, skipped))),
                Err(SnapshotError::NoSuchSnapshot { .. }) => {}
                Err(error) if error.is_damage() => {
                    tracing::warn!(sequence, "snapshot cannot be used, trying the one before: {error}");
                    skipped.push(Skipped { sequence, error });
                }
                Err(error) => return Err(error),
            }
        }
        match skipped.into_iter().next() {
            Some(newest) => Err(newest.error),
            None => Ok(None),
        }
    }

    /// Hands all entries of a snapshot to `sink`, on at most `threads` threads of its own.
    ///
    /// # Errors
    /// [`SnapshotError::Damaged`] or [`SnapshotError::Missing`] about the first part that is; the sink has then
    /// received some of the entries. [`SnapshotError::Sink`] if the sink refused some.
    pub fn restore(&self, manifest: &Manifest, threads: usize, sink: &impl Sink) -> Result<(), SnapshotError> {
        let chains: Vec<_> = manifest.partitions.iter().map(|(partition, chain)| (*partition, &chain[..])).collect();
        let pieces = Pieces::of(&self.objects, manifest.partitions.values().flatten());
        in_parallel(
            chains,
            threads,
            // In the order in which they stand in packs, so that no piece is held for long.
            |(partition, _)| u64::from(u16::MAX - partition),
            |(partition, chain)| {
                for mut reader in PartReader::open_all(&pieces, chain)? {
                    while let Some(block) = reader.next_block()? {
                        let batch = Batch { partition, block: &block };
                        sink.apply(&batch).map_err(|source| SnapshotError::Sink { partition, source })?;
                    }
                }
                Ok(())
            },
        )
    }

    pub fn system_parts(&self, manifest: &Manifest) -> Result<BTreeMap<String, Vec<u8>>, SnapshotError> {
        manifest.system.iter().map(|(name, part)| Ok((name.clone(), self.system_part(part)?))).collect()
    }

    /// The blob of a system part.
    pub fn system_part(&self, part: &PartRef) -> Result<Vec<u8>, SnapshotError> {
        let mut reader = PartReader::open(self.objects.clone(), part)?;
        let mut blob = Vec::new();
        while let Some(piece) = reader.next_piece()? {
            blob.extend_from_slice(&piece);
        }
        Ok(blob)
    }
}

/// Does `work` on all items, those of the highest rank first, and stops at the first error.
pub(crate) fn in_parallel<T: Send>(
    mut items: Vec<T>,
    threads: usize,
    rank: impl Fn(&T) -> u64,
    work: impl Fn(T) -> Result<(), SnapshotError> + Sync,
) -> Result<(), SnapshotError> {
    // Taken from the end.
    items.sort_by_key(rank);
    let threads = threads.min(items.len());
    let (items, failed, first) = (Mutex::new(items), AtomicBool::new(false), Mutex::new(None));
    let run = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(item) = items.lock().expect("nobody panics while taking an item").pop() else { return };
            if let Err(error) = work(item) {
                failed.store(true, Ordering::Relaxed);
                first.lock().expect("nobody panics while leaving an error").get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    first.into_inner().expect("nobody panics while leaving an error").map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::time::Duration;

    use super::*;

    #[test]
    fn so_many_threads_work_at_a_time_as_are_asked_for_and_no_more_than_there_is_work_for() {
        for (items, threads, expected) in [(9, 3, 3), (2, 5, 2), (1, 1, 1), (0, 2, 0)] {
            let (working, changed) = (Mutex::new((0, 0, 0)), Condvar::new());
            let done = in_parallel(
                (0..items).collect(),
                threads,
                |size| *size,
                |_| {
                    let mut guard = working.lock().unwrap();
                    guard.0 += 1;
                    guard.1 = guard.1.max(guard.0);
                    changed.notify_all();
                    // Whoever is first waits until as many are at work as there are to be.
                    let few = |(_, most, _): &mut (usize, usize, usize)| *most < expected;
                    guard = changed.wait_timeout_while(guard, Duration::from_secs(10), few).unwrap().0;
                    guard.0 -= 1;
                    guard.2 += 1;
                    Ok(())
                },
            );
            let (_, most, all) = working.into_inner().unwrap();
            assert_eq!((done.is_ok(), most, all), (true, expected, items as usize));
        }
    }
}
