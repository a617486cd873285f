//! Writes a part as its content comes, block by block, on the caller's thread.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::super::error::SnapshotError;
use super::super::manifest::{PartKind, PartRef};
use super::block::{Columns, Entry};
use super::compression::compress;
use super::pack::PackWriter;
use super::{BLOCK_BYTES, ENTRY_BYTES_MAX, FOOTER_MAGIC, Header, NAME_BYTES_MAX, block_checksum};

/// Writes one part of a partition into a pack. Encoding and compression run on the thread that calls, so call it from one
/// that may take the time; uploads run in the background.
///
/// A part that was begun must be finished: otherwise its pack cannot be.
pub struct PartWriter<'a> {
    sink: Sink<'a>,
    columns: Columns,
    /// The last entry's operator and key: what comes must be greater.
    last: Option<(u32, Vec<u8>)>,
    deletes: u64,
    /// Set by the first error: what was lost cannot be made up for.
    failed: bool,
}

impl<'a> PartWriter<'a> {
    pub(super) fn new(pack: &'a mut PackWriter, header: Header) -> Result<Self, SnapshotError> {
        debug_assert!(header.kind != PartKind::System && header.name.is_empty());
        let sink = Sink::new(pack, header)?;
        Ok(Self { sink, columns: Columns::default(), last: None, deletes: 0, failed: false })
    }

    /// Adds an entry. They come strictly ascending by operator, then key; `None` says deleted, in deltas only.
    ///
    /// # Errors
    /// [`SnapshotError::Misuse`] if the entry breaks a rule, [`SnapshotError::Store`] if an upload failed. After an
    /// error the part cannot be finished.
    pub fn push(&mut self, operator: u32, key: &[u8], value: Option<&[u8]>) -> Result<(), SnapshotError> {
        let result = self.try_push(Entry { operator, key, value });
        self.failed |= result.is_err();
        result
    }

    fn try_push(&mut self, entry: Entry<'_>) -> Result<(), SnapshotError> {
        if let Some((operator, key)) = &self.last
            && (*operator, key.as_slice()) >= (entry.operator, entry.key)
        {
            return Err(self.sink.misuse("entries must come in strictly ascending order of operator and key"));
        }
        let bytes = entry.key.len() + entry.value.map_or(0, <[u8]>::len);
        if bytes > ENTRY_BYTES_MAX {
            return Err(self.sink.misuse(format!("an entry has {bytes} bytes, at most {ENTRY_BYTES_MAX} are allowed")));
        }
        if entry.value.is_none() {
            if self.sink.header.kind == PartKind::Base {
                return Err(self.sink.misuse("a base holds what exists, it cannot say that something was deleted"));
            }
            self.deletes += 1;
        }
        // Lengths are 32 bits: what is large goes into a block of its own.
        if self.columns.len() > 0 && bytes >= BLOCK_BYTES {
            self.close_block()?;
        }
        let last = self.last.get_or_insert_default();
        last.0 = entry.operator;
        last.1.clear();
        last.1.extend_from_slice(entry.key);
        self.columns.push(entry);
        self.sink.entries += 1;
        self.sink.raw_bytes += bytes as u64;
        if self.columns.full() { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<(), SnapshotError> {
        if self.columns.len() > 0 {
            self.sink.block(&self.columns.encode(), self.columns.len())?;
            self.columns.clear();
        }
        Ok(())
    }

    /// Ends the part.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if an upload failed; [`SnapshotError::Misuse`] after an earlier error.
    pub fn finish(mut self) -> Result<(), SnapshotError> {
        if self.failed {
            return Err(self.sink.misuse("an entry was refused, so the part is not whole: write it again"));
        }
        self.close_block()?;
        self.sink.finish(self.deletes)
    }
}

/// Writes a blob as a system part, in a pack of its own.
pub(crate) fn write_system(mut pack: PackWriter, header: Header, blob: &[u8]) -> Result<PartRef, SnapshotError> {
    let mut sink = Sink::new(&mut pack, header)?;
    for piece in blob.chunks(BLOCK_BYTES) {
        sink.block(piece, 0)?;
        sink.raw_bytes += piece.len() as u64;
    }
    sink.finish(0)?;
    Ok(pack.finish()?.pop().expect("one was written"))
}

/// Compresses, checksums and uploads encoded blocks.
struct Sink<'a> {
    pack: &'a mut PackWriter,
    header: Header,
    /// Where in the pack the part begins.
    offset: u64,
    hasher: Box<Xxh3>,
    bytes: u64,
    raw_bytes: u64,
    blocks: u32,
    entries: u64,
}

impl<'a> Sink<'a> {
    fn new(pack: &'a mut PackWriter, header: Header) -> Result<Self, SnapshotError> {
        if header.name.len() > NAME_BYTES_MAX {
            return Err(pack.misuse(format!("names of system parts have at most {NAME_BYTES_MAX} bytes")));
        }
        let offset = pack.begin_part();
        let hasher = Box::new(Xxh3::new());
        let mut sink = Self { pack, offset, hasher, bytes: 0, raw_bytes: 0, blocks: 0, entries: 0, header };
        sink.put(sink.header.encode())?;
        Ok(sink)
    }

    fn misuse(&self, rule: impl Into<String>) -> SnapshotError {
        self.pack.misuse(rule)
    }

    fn put(&mut self, bytes: Vec<u8>) -> Result<(), SnapshotError> {
        self.hasher.update(&bytes);
        self.bytes += bytes.len() as u64;
        self.pack.write(Bytes::from(bytes))
    }

    fn block(&mut self, raw: &[u8], entries: usize) -> Result<(), SnapshotError> {
        let stored = compress(raw).map_err(|error| SnapshotError::store("compress", self.pack.object(), &error))?;
        let small = |length: usize| u32::try_from(length).expect("blocks are bounded");
        let mut block = Vec::with_capacity(super::BLOCK_HEADER + stored.len());
        for field in [small(stored.len()), small(raw.len()), small(entries), self.blocks] {
            block.extend_from_slice(&field.to_le_bytes());
        }
        let sum = block_checksum(&block, &stored);
        block.extend_from_slice(&sum.to_le_bytes());
        block.extend_from_slice(&stored);
        self.blocks += 1;
        self.put(block)
    }

    fn finish(mut self, deletes: u64) -> Result<(), SnapshotError> {
        let mut footer = FOOTER_MAGIC.to_vec();
        footer.extend_from_slice(&self.blocks.to_le_bytes());
        footer.extend_from_slice(&[0; 4]);
        for count in [self.entries, deletes, self.raw_bytes] {
            footer.extend_from_slice(&count.to_le_bytes());
        }
        self.put(footer)?;
        let checksum = self.hasher.digest128();
        self.put(checksum.to_le_bytes().to_vec())?;
        self.pack.end_part(PartRef {
            object: self.pack.object().to_owned(),
            // Not known before the pack ends.
            object_bytes: 0,
            offset: self.offset,
            kind: self.header.kind,
            partition: self.header.partition,
            name: self.header.name,
            epoch: self.header.epoch,
            bytes: self.bytes,
            raw_bytes: self.raw_bytes,
            entries: self.entries,
            deletes,
            checksum,
        });
        Ok(())
    }
}
