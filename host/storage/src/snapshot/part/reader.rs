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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use xxhash_rust::xxh3::xxh3_128;

    use super::super::super::location::{Memory, RetryPolicy, StoreLocation};
    use super::super::super::runtime::{Environment, Runtime};
    use super::super::block::{Columns, Entry};
    use super::super::compression::compress;
    use super::*;

    #[derive(Debug)]
    struct Nowhere;

    impl Environment for Nowhere {
        fn nonce(&self) -> u128 {
            1
        }

        fn pause(&self, _: Duration) {}
    }

    /// Where parts are here; something else is before them.
    const OFFSET: u64 = 1000;

    /// What stands in the first block's header, before its checksum.
    const FIELDS: usize = BLOCK_HEADER - CHECKSUM;

    type Entries = &'static [(u32, &'static str, Option<&'static str>)];

    /// A part as it stands in an object, all of whose checksums fit. What is wrong with it is put in before.
    struct Crafted {
        kind: PartKind,
        partition: u16,
        /// Fields and content of each block.
        blocks: Vec<([u32; 3], Vec<u8>)>,
        magic: &'static [u8; 8],
        /// Blocks, entries, deletions and bytes, as the footer counts them.
        counts: [u64; 4],
    }

    impl Crafted {
        fn of(kind: PartKind, blocks: &[Entries]) -> Self {
            let mut part = Self {
                kind,
                partition: 7,
                blocks: Vec::new(),
                magic: FOOTER_MAGIC,
                counts: [blocks.len() as u64, 0, 0, 0],
            };
            for (number, entries) in blocks.iter().enumerate() {
                let mut columns = Columns::default();
                for (operator, key, value) in *entries {
                    columns.push(Entry { operator: *operator, key: key.as_bytes(), value: value.map(str::as_bytes) });
                    let bytes = key.len() + value.map_or(0, str::len);
                    let counted = [0, 1, u64::from(value.is_none()), bytes as u64];
                    part.counts = std::array::from_fn(|at| part.counts[at] + counted[at]);
                }
                let content = columns.encode().to_vec();
                part.blocks.push(([content.len() as u32, entries.len() as u32, number as u32], content));
            }
            part
        }

        /// The part, where its blocks begin, and where its footer does, each in the object.
        fn bytes(&self) -> (Vec<u8>, Vec<u64>, u64) {
            let header =
                Header { kind: self.kind, partition: self.partition, epoch: 5, generation: 1, name: String::new() };
            let (mut bytes, mut places) = (header.encode(), Vec::new());
            for ([length, entries, number], content) in &self.blocks {
                places.push(OFFSET + bytes.len() as u64);
                let stored = compress(content).unwrap();
                let fields = [stored.len() as u32, *length, *entries, *number].map(u32::to_le_bytes).concat();
                bytes.extend([&fields[..], &block_checksum(&fields, &stored).to_le_bytes(), &stored].concat());
            }
            let footer = OFFSET + bytes.len() as u64;
            let [blocks, counts @ ..] = self.counts;
            bytes.extend(self.magic);
            bytes.extend(blocks.to_le_bytes());
            bytes.extend(counts.map(u64::to_le_bytes).concat());
            let sum = xxh3_128(&bytes).to_le_bytes();
            bytes.extend(sum);
            (bytes, places, footer)
        }

        /// What a manifest says of it that has seen it written.
        fn part(&self, bytes: &[u8]) -> PartRef {
            let [_, entries, deletes, raw_bytes] = self.counts;
            PartRef {
                object: "pack".to_owned(),
                object_bytes: OFFSET + bytes.len() as u64,
                offset: OFFSET,
                kind: self.kind,
                partition: 7,
                name: String::new(),
                epoch: 5,
                bytes: bytes.len() as u64,
                raw_bytes,
                entries,
                deletes,
                checksum: u128::from_le_bytes(bytes[bytes.len() - CHECKSUM..].try_into().unwrap()),
            }
        }

        /// Reads it to its end, like a compaction, which may ask again there.
        fn read(&self) -> Result<u64, SnapshotError> {
            let (bytes, ..) = self.bytes();
            read(&bytes, &self.part(&bytes))
        }
    }

    fn read(bytes: &[u8], part: &PartRef) -> Result<u64, SnapshotError> {
        let location = StoreLocation::in_memory(&Memory::default());
        let objects = Objects::open(&location, RetryPolicy::Opening, Runtime::Inline(Arc::new(Nowhere)))?;
        objects.start_put("pack", [&vec![0; OFFSET as usize], bytes].concat()).wait()?;
        // Who only checks it finds the same.
        PartReader::open(objects.clone(), part)?.check()?;
        let mut reader = PartReader::open(objects, part)?;
        let mut entries = 0;
        while let Some(block) = reader.next_block()? {
            entries += block.entries().count() as u64;
        }
        assert!(reader.next_block()?.is_none() && reader.next_piece()?.is_none(), "it stays at its end");
        Ok(entries)
    }

    /// Where in the object the damage is told to be.
    fn damage(result: Result<u64, SnapshotError>, says: &str) -> u64 {
        match result {
            Err(SnapshotError::Damaged { object, offset, what }) if object == "pack" => {
                assert!(what.contains(says), "{says}: {what}");
                offset
            }
            other => panic!("{says}: {other:?}"),
        }
    }

    const FIRST: Entries = &[(1, "a", Some("one")), (1, "b", Some("")), (2, "a", Some("three"))];
    const SECOND: Entries = &[(2, "b", Some("four")), (3, "", Some("five"))];

    #[test]
    fn a_part_is_read_to_its_end_once() {
        assert_eq!(Crafted::of(PartKind::Base, &[FIRST, SECOND]).read().unwrap(), 5);
        assert_eq!(Crafted::of(PartKind::Base, &[]).read().unwrap(), 0);
        assert_eq!(Crafted::of(PartKind::Delta, &[&[(1, "a", None)], SECOND]).read().unwrap(), 3);
    }

    #[test]
    fn a_block_that_was_never_written_so_is_damage_where_it_begins() {
        type Change = fn(&mut Crafted);
        let cases: [(usize, &str, Change); 6] = [
            (0, "block 1 stands where 0 should", |part| part.blocks.swap(0, 1)),
            (1, "block 2 stands where 1 should", |part| part.blocks[1].0[2] = 2),
            (0, "instead of", |part| part.blocks[0].0[0] += 1),
            (1, "instead of", |part| part.blocks[1].0[0] += 7),
            (1, "cannot be there", |part| part.blocks[1].0[0] = BLOCK_BYTES_MAX as u32 + 1),
            (1, "entries instead of 3", |part| part.blocks[1].0[1] = 3),
        ];
        for (block, says, change) in cases {
            let mut part = Crafted::of(PartKind::Base, &[FIRST, SECOND]);
            change(&mut part);
            assert_eq!(damage(part.read(), says), part.bytes().1[block], "{says}");
        }
        // One that would reach into the footer.
        let part = Crafted::of(PartKind::Base, &[FIRST, SECOND]);
        let (mut bytes, places, _) = part.bytes();
        bytes[(places[1] - OFFSET) as usize] += 1;
        assert_eq!(damage(read(&bytes, &part.part(&bytes)), "cannot be there"), places[1]);
        // What it is unpacked from: its checksum fits, and yet it was not packed so.
        let part = Crafted::of(PartKind::Base, &[FIRST]);
        let (mut bytes, places, footer) = part.bytes();
        let at = (places[0] - OFFSET) as usize;
        let stored = at + BLOCK_HEADER..(footer - OFFSET) as usize;
        bytes[stored.clone()].fill(0);
        let sum = block_checksum(&bytes[at..at + FIELDS], &bytes[stored]).to_le_bytes();
        bytes[at + FIELDS..at + BLOCK_HEADER].copy_from_slice(&sum);
        assert_eq!(damage(read(&bytes, &part.part(&bytes)), "cannot be unpacked"), places[0]);
    }

    #[test]
    fn entries_that_are_out_of_order_are_damage_where_their_block_begins() {
        let cases: [(usize, &[Entries]); 5] = [
            (0, &[&[(1, "b", Some("")), (1, "a", Some(""))], SECOND]),
            (0, &[&[(2, "a", Some("")), (1, "b", Some(""))], SECOND]),
            (1, &[FIRST, &[(2, "b", Some("")), (2, "b", Some(""))]]),
            (1, &[FIRST, &[(2, "a", Some("")), (2, "b", Some(""))]]),
            (1, &[FIRST, &[(1, "z", Some(""))]]),
        ];
        for (block, blocks) in cases {
            let part = Crafted::of(PartKind::Base, blocks);
            assert_eq!(damage(part.read(), "out of order"), part.bytes().1[block], "{blocks:?}");
        }
    }

    #[test]
    fn a_base_that_says_what_was_deleted_is_damage() {
        let deleted: Entries = &[(2, "b", Some("")), (2, "c", None)];
        let part = Crafted::of(PartKind::Base, &[FIRST, deleted]);
        assert_eq!(damage(part.read(), "a base holds a deletion"), part.bytes().1[1]);
        assert_eq!(Crafted::of(PartKind::Delta, &[FIRST, deleted]).read().unwrap(), 5);
    }

    #[test]
    fn a_footer_that_counts_otherwise_is_damage_where_it_begins() {
        for at in 0..4 {
            let mut part = Crafted::of(PartKind::Delta, &[FIRST, &[(2, "c", None)]]);
            part.counts[at] += 1;
            assert_eq!(damage(part.read(), "other counts than it says"), part.bytes().2, "count {at}");
        }
        // The manifest means another one, whatever this one says of itself.
        let part = Crafted::of(PartKind::Delta, &[FIRST, &[(2, "c", None)]]);
        let (bytes, _, footer) = part.bytes();
        let meant = part.part(&bytes);
        assert_eq!(read(&bytes, &meant).unwrap(), 4);
        for other in [
            PartRef { entries: 5, ..meant.clone() },
            PartRef { deletes: 0, ..meant.clone() },
            PartRef { raw_bytes: 1, ..meant.clone() },
        ] {
            assert_eq!(damage(read(&bytes, &other), "other counts than it says"), footer);
        }
        let other = PartRef { checksum: 0, ..meant };
        assert_eq!(damage(read(&bytes, &other), "not the part that the manifest means"), footer);
        let wrong = Crafted { magic: b"STYXPART", ..Crafted::of(PartKind::Base, &[FIRST]) };
        assert_eq!(damage(wrong.read(), "the checksum of the whole part"), wrong.bytes().2);
    }

    #[test]
    fn a_part_that_is_another_than_the_manifests_is_damage_where_it_begins() {
        let part = Crafted::of(PartKind::Delta, &[FIRST]);
        let (bytes, ..) = part.bytes();
        let meant = part.part(&bytes);
        for other in [
            PartRef { kind: PartKind::Base, ..meant.clone() },
            PartRef { partition: 8, ..meant.clone() },
            PartRef { epoch: 6, ..meant.clone() },
            PartRef { name: "s".to_owned(), ..meant },
        ] {
            assert_eq!(damage(read(&bytes, &other), "it is another part than the manifest's"), OFFSET);
        }
    }
}
