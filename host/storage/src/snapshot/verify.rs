//! Reads a snapshot to its last byte and checks everything, without restoring it.

use std::sync::Mutex;

use super::SnapshotStore;
use super::error::SnapshotError;
use super::part::pieces::Pieces;
use super::part::reader::PartReader;
use super::restore::in_parallel;

/// Progress of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Parts, or objects of a copy, that are done.
    pub objects: u64,
    pub objects_total: u64,
    /// Bytes done, as stored.
    pub bytes: u64,
    pub bytes_total: u64,
}

/// Result of a verification.
#[derive(Debug)]
pub struct Verified {
    pub progress: Progress,
    /// Entries in all parts, deletions included.
    pub entries: u64,
    /// Everything that is wrong; empty if the snapshot is whole.
    pub damage: Vec<SnapshotError>,
}

impl SnapshotStore {
    /// Reads and checks all of snapshot `sequence` on at most `threads` threads; `report` is told after each object.
    /// Goes on behind damage, so that all of it is found.
    ///
    /// # Errors
    /// Damage of the manifest, or a store that does not answer; damaged parts are in the result.
    pub fn verify(
        &self,
        sequence: u64,
        threads: usize,
        report: &(dyn Fn(Progress) + Sync),
    ) -> Result<Verified, SnapshotError> {
        let manifest = self.read_manifest(sequence)?;
        let parts: Vec<_> = manifest.parts().collect();
        let progress =
            Progress { objects: 0, objects_total: parts.len() as u64, bytes: 0, bytes_total: manifest.bytes() };
        let pieces = Pieces::of(&self.objects, manifest.parts());
        let state = Mutex::new(Verified { progress, entries: 0, damage: Vec::new() });
        in_parallel(
            parts,
            threads,
            |part| u64::from(u16::MAX - part.partition),
            |part| {
                let result = PartReader::open_among(&pieces, part).and_then(PartReader::check);
                let now = {
                    let mut state = state.lock().expect("nobody panics while counting");
                    match result {
                        Ok(()) => state.entries += part.entries,
                        Err(error) if error.is_damage() => state.damage.push(error),
                        Err(error) => return Err(error),
                    }
                    state.progress.objects += 1;
                    state.progress.bytes += part.bytes;
                    state.progress
                };
                report(now);
                Ok(())
            },
        )?;
        Ok(state.into_inner().expect("nobody panics while counting"))
    }
}
