//! Reads a part block by block; nothing is handed on before it was checked.

use rkyv::util::AlignedVec;
use xxhash_rust::xxh3::Xxh3;

use super::super::error::SnapshotError;
use super::super::manifest::{PartKind, PartRef};
use super::super::objects::Objects;
use super::block::Block;
use super::compression::decompress;
use super::fetch::Fetch;
use super::pieces::Pieces;
use super::{
    BLOCK_BYTES, BLOCK_HEADER, CHECKSUM, ENTRY_BYTES_MAX, FOOTER, FOOTER_MAGIC, HEADER_START, Header, block_checksum,
    u32_at, u64_at,
};

/// A block has no more bytes than one entry may have, and its columns.
const BLOCK_BYTES_MAX: usize = ENTRY_BYTES_MAX + 2 * BLOCK_BYTES;

/// A block's bytes, unpacked.
struct Raw {
    bytes: AlignedVec<16>,
    entries: usize,
    /// Offset of the block in the part.
    at: u64,
}

pub(crate) struct PartReader {
    fetch: Fetch,
    part: PartRef,
    hasher: Box<Xxh3>,
    /// Offset in the part, bytes.
    at: u64,
    blocks: u32,
    entries: u64,
    deletes: u64,
    raw_bytes: u64,
    last: Option<(u32, Vec<u8>)>,
    done: bool,
}

impl PartReader {
    /// Starts to read; the header must say what the manifest says.
    pub(crate) fn open(objects: Objects, part: &PartRef) -> Result<Self, SnapshotError> {
        let mut reader = Self::of(Fetch::new(objects, part), part);
        reader.header()?;
        Ok(reader)
    }

    /// Starts to read one of several.
    pub(crate) fn open_among(pieces: &Pieces, part: &PartRef) -> Result<Self, SnapshotError> {
        let mut reader = Self::of(Fetch::among(pieces, part), part);
        reader.header()?;
        Ok(reader)
    }

    /// Starts to read some of several; what they begin with is asked for at once.
    pub(crate) fn open_all(pieces: &Pieces, parts: &[PartRef]) -> Result<Vec<Self>, SnapshotError> {
        let mut readers: Vec<_> = parts.iter().map(|part| Self::of(Fetch::among(pieces, part), part)).collect();
        readers.iter_mut().try_for_each(Self::header)?;
        Ok(readers)
    }

    fn of(fetch: Fetch, part: &PartRef) -> Self {
        Self {
            fetch,
            part: part.clone(),
            hasher: Box::new(Xxh3::new()),
            at: 0,
            blocks: 0,
            entries: 0,
            deletes: 0,
            raw_bytes: 0,
            last: None,
            done: false,
        }
    }

    fn damaged(&self, what: impl Into<String>) -> SnapshotError {
        SnapshotError::damaged(&self.part.object, self.part.offset + self.at, what)
    }

    fn header(&mut self) -> Result<(), SnapshotError> {
        let (object, offset) = (self.part.object.clone(), self.part.offset);
        let mut bytes = self.fetch.take(0, HEADER_START)?.to_vec();
        let length = Header::length(&object, offset, &bytes)?;
        bytes.extend_from_slice(&self.fetch.take(HEADER_START as u64, length - HEADER_START)?);
        let header = Header::decode(&object, offset, &bytes)?;
        let (part, said) = (&self.part, (header.kind, header.partition, header.epoch, header.name.as_str()));
        if said != (part.kind, part.partition, part.epoch, part.name.as_str()) {
            return Err(self.damaged(format!("it is another part than the manifest's: {said:?}")));
        }
        self.hasher.update(&bytes);
        self.at = length as u64;
        Ok(())
    }

    /// The next block, checked and decompressed; `None` at the end.
    fn next_raw(&mut self) -> Result<Option<Raw>, SnapshotError> {
        if self.done {
            return Ok(None);
        }
        if self.at + FOOTER as u64 == self.part.bytes {
            return self.footer().map(|()| None);
        }
        let header = self.fetch.take(self.at, BLOCK_HEADER)?;
        let (stored, raw) = (u32_at(&header, 0) as usize, u32_at(&header, 4) as usize);
        let behind = self.at + (BLOCK_HEADER + stored) as u64;
        if behind + FOOTER as u64 > self.part.bytes || raw > BLOCK_BYTES_MAX {
            return Err(self.damaged(format!("a block of {stored} bytes ({raw} unpacked) cannot be there")));
        }
        let body = self.fetch.take(self.at + BLOCK_HEADER as u64, stored)?;
        if block_checksum(&header[..BLOCK_HEADER - CHECKSUM], &body).to_le_bytes() != header[BLOCK_HEADER - CHECKSUM..]
        {
            return Err(self.damaged("the block's checksum does not fit"));
        }
        if u32_at(&header, 12) != self.blocks {
            return Err(self.damaged(format!("block {} stands where {} should", u32_at(&header, 12), self.blocks)));
        }
        self.hasher.update(&header);
        self.hasher.update(&body);
        let mut unpacked = AlignedVec::<16>::with_capacity(raw);
        unpacked.resize(raw, 0);
        let length = decompress(&body, unpacked.as_mut_slice())
            .map_err(|error| self.damaged(format!("the block cannot be unpacked: {error}")))?;
        if length != raw {
            return Err(self.damaged(format!("the block has {length} bytes instead of {raw}")));
        }
        self.blocks += 1;
        let at = std::mem::replace(&mut self.at, behind);
        Ok(Some(Raw { bytes: unpacked, entries: u32_at(&header, 8) as usize, at }))
    }

    /// The next block of entries; `None` at the end, when the whole part was found to be as it was written.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>, SnapshotError> {
        let Some(raw) = self.next_raw()? else { return Ok(None) };
        let at = raw.at;
        let checked = Block::check(raw.bytes, raw.entries).and_then(|block| self.account(&block).map(|()| block));
        checked.map(Some).map_err(|what| SnapshotError::damaged(&self.part.object, self.part.offset + at, what))
    }

    /// The next piece of a system part's blob; `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Result<Option<AlignedVec<16>>, SnapshotError> {
        let Some(raw) = self.next_raw()? else { return Ok(None) };
        self.raw_bytes += raw.bytes.len() as u64;
        Ok(Some(raw.bytes))
    }

    /// Reads to the end, for the checks alone.
    pub(crate) fn check(mut self) -> Result<(), SnapshotError> {
        if self.part.kind == PartKind::System {
            while self.next_piece()?.is_some() {}
        } else {
            while self.next_block()?.is_some() {}
        }
        Ok(())
    }

    /// Counts a block's entries, which continue the order of those before.
    fn account(&mut self, block: &Block) -> Result<(), String> {
        let mut last = self.last.as_ref().map(|(operator, key)| (*operator, key.as_slice()));
        for entry in block.entries() {
            let this = (entry.operator, entry.key);
            if last.is_some_and(|last| last >= this) {
                return Err("its entries are out of order".into());
            }
            last = Some(this);
            self.entries += 1;
            self.deletes += u64::from(entry.value.is_none());
            self.raw_bytes += (entry.key.len() + entry.value.map_or(0, <[u8]>::len)) as u64;
        }
        if self.part.kind == PartKind::Base && self.deletes > 0 {
            return Err("a base holds a deletion".into());
        }
        self.last = last.map(|(operator, key)| (operator, key.to_vec()));
        Ok(())
    }

    fn footer(&mut self) -> Result<(), SnapshotError> {
        let footer = self.fetch.take(self.at, FOOTER)?;
        let (fields, sum) = footer.split_at(FOOTER - CHECKSUM);
        self.hasher.update(fields);
        if &fields[..8] != FOOTER_MAGIC || self.hasher.digest128().to_le_bytes() != sum {
            return Err(self.damaged("the checksum of the whole part does not fit"));
        }
        if sum != self.part.checksum.to_le_bytes() {
            return Err(self.damaged("it is whole, but not the part that the manifest means"));
        }
        let counts = (u32_at(fields, 8), u64_at(fields, 16), u64_at(fields, 24), u64_at(fields, 32));
        if counts != (self.blocks, self.entries, self.deletes, self.raw_bytes)
            || (self.entries, self.deletes, self.raw_bytes)
                != (self.part.entries, self.part.deletes, self.part.raw_bytes)
        {
            return Err(self.damaged(format!("it holds other counts than it says: {counts:?}")));
        }
        self.done = true;
        Ok(())
    }
}
