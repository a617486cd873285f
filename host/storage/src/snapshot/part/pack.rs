//! Packs: objects that hold parts, one after the other.
//!
//! A store asks to be paid by the request, and takes as long for a small object as for one of a few hundred kilobytes. So what
//! a snapshot has of many partitions goes into one object, and a manifest says where in it each part is. An object is kept
//! as long as a part in it is mentioned; where too much is kept so, a [compaction](super::super::compact) writes the rest anew.

use bytes::Bytes;

use super::super::error::SnapshotError;
use super::super::manifest::{PartKind, PartRef};
use super::super::objects::Objects;
use super::super::uncommitted::UncommittedObjects;
use super::super::upload::Upload;
use super::writer::PartWriter;
use super::{Header, object_name};

/// Writes a pack, part by part.
///
/// Nothing exists until [`finish`](Self::finish) has returned; dropping the writer abandons the pack.
pub struct PackWriter {
    upload: Option<Upload>,
    object: String,
    uncommitted: UncommittedObjects,
    epoch: u64,
    generation: u64,
    bytes: u64,
    parts: Vec<PartRef>,
    /// Parts that were begun.
    begun: usize,
    exists: bool,
}

impl PackWriter {
    pub(crate) fn new(objects: Objects, uncommitted: &UncommittedObjects, epoch: u64, generation: u64) -> Self {
        let object = object_name(epoch, generation, objects.runtime().nonce());
        // Before the first byte is written, so that a collection under way cannot take it for garbage.
        uncommitted.insert(&object);
        let (uncommitted, upload) = (uncommitted.clone(), Some(Upload::new(objects, object.clone())));
        let parts = Vec::new();
        Self { upload, object, uncommitted, epoch, generation, bytes: 0, parts, begun: 0, exists: false }
    }

    /// Begins a part of `partition`: a base, or a delta of what changed up to the end of the pack's epoch.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if an upload failed.
    ///
    /// # Panics
    /// If `kind` is [`PartKind::System`]; those are written by
    /// [`SnapshotStore::write_system_part`](super::super::SnapshotStore::write_system_part).
    pub fn part(&mut self, kind: PartKind, partition: u16) -> Result<PartWriter<'_>, SnapshotError> {
        self.part_of(kind, partition, self.epoch)
    }

    /// Begins a part of another epoch, earlier than the pack's.
    pub(crate) fn part_of(
        &mut self,
        kind: PartKind,
        partition: u16,
        epoch: u64,
    ) -> Result<PartWriter<'_>, SnapshotError> {
        assert!(kind != PartKind::System, "system parts have no entries");
        let header = Header { kind, partition, epoch, generation: self.generation, name: String::new() };
        PartWriter::new(self, header)
    }

    /// Makes the pack exist; what is returned, its parts in the order in which they came, belongs into a manifest.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if an upload failed; [`SnapshotError::Misuse`] if a part was not finished.
    pub fn finish(mut self) -> Result<Vec<PartRef>, SnapshotError> {
        if self.begun > self.parts.len() {
            return Err(self.misuse("a part in it was not finished, so it is not whole: write it again"));
        }
        // An object without any part would be nobody's.
        if !self.parts.is_empty() {
            self.upload.take().expect("it is there until the end").finish().wait()?;
            self.exists = true;
        }
        let mut parts = std::mem::take(&mut self.parts);
        parts.iter_mut().for_each(|part| part.object_bytes = self.bytes);
        Ok(parts)
    }

    pub(super) fn object(&self) -> &str {
        &self.object
    }

    pub(super) fn misuse(&self, rule: impl Into<String>) -> SnapshotError {
        SnapshotError::Misuse { object: self.object.clone(), rule: rule.into() }
    }

    /// A part begins; where it does.
    pub(super) fn begin_part(&mut self) -> u64 {
        self.begun += 1;
        self.bytes
    }

    pub(super) fn write(&mut self, bytes: Bytes) -> Result<(), SnapshotError> {
        self.bytes += bytes.len() as u64;
        self.upload.as_mut().expect("it is there until the end").write(bytes)
    }

    pub(super) fn end_part(&mut self, part: PartRef) {
        self.parts.push(part);
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        if !self.exists {
            self.uncommitted.remove(&self.object);
        }
    }
}
