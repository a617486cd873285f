//! Parts: the entries of a partition, or a blob, in checked and compressed blocks; and [packs](pack) of them.
//!
//! ```text
//! header  magic "STYXPART" | version u16 | length of the header u16 | kind u8 | 0 u8 | partition u16
//!         | epoch u64 | generation u64 | name of a system part | xxh3-128 of the header so far
//! blocks  stored bytes u32 | bytes u32 | entries u32 | number of the block u32
//!         | xxh3-128 of these 16 and the stored bytes | stored bytes: zstd of a block
//! footer  magic "STYXPEND" | blocks u32 | 0 u32 | entries u64 | deletions u64 | raw bytes u64
//!         | xxh3-128 of the part so far
//! ```
//!
//! Numbers are little-endian. A block of entries is rkyv (see [`block`]), bytechecked on read; a block of a
//! system part is the blob's next megabyte. Entries are strictly ascending by operator and key over the whole
//! part, so that parts merge in one pass and in bounded memory, and so that a key is said once.
//!
//! *Every byte is verified by a checksum before it is used*: lengths before anything is allocated by them, blocks
//! before they are decompressed. The last checksum covers the whole part and is what the manifest remembers,
//! so that a part cannot stand in for another; a part that stops early has no footer. The header's length and
//! its checksum's place are the same in every version to come, so a flipped bit never looks like a newer format.

pub(crate) mod block;
mod compression;
pub(crate) mod fetch;
pub(crate) mod pack;
pub(crate) mod pieces;
pub(crate) mod reader;
pub(crate) mod writer;

use super::envelope;
use super::error::SnapshotError;
use super::manifest::PartKind;

pub(crate) const FOLDER: &str = "parts";

/// The version of the format of parts that is written.
pub const PART_VERSION: u16 = 1;
const HEADER_MAGIC: &[u8; 8] = b"STYXPART";
const FOOTER_MAGIC: &[u8; 8] = b"STYXPEND";
const CHECKSUM: usize = 16;
/// Magic, version and length, by which the rest of a header is found.
const HEADER_START: usize = 12;
const HEADER_FIXED: usize = 32;
const BLOCK_HEADER: usize = 16 + CHECKSUM;
const FOOTER: usize = 40 + CHECKSUM;

/// A block is closed when it has this many bytes, before compression: stays in the caches, and compresses well.
const BLOCK_BYTES: usize = 1 << 20;
/// No block has more bytes; a single entry may be that large.
pub const ENTRY_BYTES_MAX: usize = 512 << 20;
const NAME_BYTES_MAX: usize = 255;

/// Header of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: PartKind,
    pub(crate) partition: u16,
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    pub(crate) name: String,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let length = HEADER_FIXED + self.name.len() + CHECKSUM;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(HEADER_MAGIC);
        bytes.extend_from_slice(&PART_VERSION.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(length).expect("names are short").to_le_bytes());
        bytes.push(match self.kind {
            PartKind::Base => 0,
            PartKind::Delta => 1,
            PartKind::System => 2,
        });
        bytes.push(0);
        bytes.extend_from_slice(&self.partition.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        let sum = xxhash_rust::xxh3::xxh3_128(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The length of the header that begins with `start`, at `offset` in the object, if it can be one.
    fn length(object: &str, offset: u64, start: &[u8]) -> Result<usize, SnapshotError> {
        if start.len() < HEADER_START || &start[..8] != HEADER_MAGIC {
            return Err(SnapshotError::damaged(object, offset, "it does not begin like a part"));
        }
        let length = usize::from(u16_at(start, 10));
        if length < HEADER_START + CHECKSUM {
            return Err(SnapshotError::damaged(object, offset + 10, "its header is too short"));
        }
        Ok(length)
    }

    fn decode(object: &str, offset: u64, bytes: &[u8]) -> Result<Self, SnapshotError> {
        let (header, sum) = bytes.split_at(bytes.len() - CHECKSUM);
        if xxhash_rust::xxh3::xxh3_128(header).to_le_bytes() != sum {
            return Err(SnapshotError::damaged(object, offset, "the header's checksum does not fit"));
        }
        let version = u16_at(header, 8);
        if version > PART_VERSION {
            return Err(SnapshotError::NewerFormat { object: object.to_owned(), found: version, known: PART_VERSION });
        }
        if header.len() < HEADER_FIXED {
            return Err(SnapshotError::damaged(object, offset + 10, "its header is too short"));
        }
        let kind = match header[12] {
            0 => PartKind::Base,
            1 => PartKind::Delta,
            2 => PartKind::System,
            other => return Err(SnapshotError::damaged(object, offset + 12, format!("there is no kind {other}"))),
        };
        let name = std::str::from_utf8(&header[HEADER_FIXED..])
            .map_err(|_| SnapshotError::damaged(object, offset + HEADER_FIXED as u64, "its name is not text"))?;
        Ok(Self {
            kind,
            partition: u16_at(header, 14),
            epoch: u64_at(header, 16),
            generation: u64_at(header, 24),
            name: name.to_owned(),
        })
    }
}

/// The name of a pack. `nonce` makes it unique: a fenced writer, or a retry, never overwrites.
pub(crate) fn object_name(epoch: u64, generation: u64, nonce: u128) -> String {
    format!("{FOLDER}/e{epoch:016x}-g{generation:08x}-{nonce:032x}")
}

/// The generation in a pack's name; `None` for what is none.
pub(crate) fn generation_of(object: &str) -> Option<u64> {
    let generation = object.strip_prefix(FOLDER)?.strip_prefix("/e")?.split('-').nth(1)?;
    u64::from_str_radix(generation.strip_prefix('g')?, 16).ok()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The checksum of a block: of its header's fields and what is stored.
fn block_checksum(fields: &[u8], stored: &[u8]) -> u128 {
    envelope::checksum(fields, stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: PartKind) -> Header {
        let name = if kind == PartKind::System { "replies".to_owned() } else { String::new() };
        Header { kind, partition: 7, epoch: 0x1f, generation: 0x2a, name }
    }

    /// A header that its checksum fits, with other bytes at a place.
    fn changed(kind: PartKind, at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut header = header(kind).encode();
        let end = header.len() - CHECKSUM;
        header[at..at + bytes.len()].copy_from_slice(bytes);
        let sum = xxhash_rust::xxh3::xxh3_128(&header[..end]).to_le_bytes();
        header[end..].copy_from_slice(&sum);
        header
    }

    #[test]
    fn a_header_that_cannot_be_is_damage_at_its_place() {
        for kind in [PartKind::Base, PartKind::Delta, PartKind::System] {
            let bytes = header(kind).encode();
            assert_eq!(Header::length("o", 100, &bytes).unwrap(), bytes.len());
            assert_eq!(Header::decode("o", 100, &bytes).unwrap(), header(kind));
        }
        let at = |result: Result<Header, SnapshotError>| match result {
            Err(SnapshotError::Damaged { object, offset, .. }) if object == "o" => Some(offset),
            _ => None,
        };
        assert_eq!(at(Header::decode("o", 100, &changed(PartKind::Base, 12, &[3]))), Some(112));
        assert_eq!(at(Header::decode("o", 100, &changed(PartKind::System, HEADER_FIXED, &[0xff]))), Some(132));
        let mut flipped = header(PartKind::Base).encode();
        flipped[20] ^= 1;
        assert_eq!(at(Header::decode("o", 100, &flipped)), Some(100));
        let short = &changed(PartKind::Base, 0, b"")[..HEADER_FIXED - 1];
        let sum = xxhash_rust::xxh3::xxh3_128(short).to_le_bytes();
        assert_eq!(at(Header::decode("o", 100, &[short, &sum].concat())), Some(110));
        let newer = Header::decode("o", 100, &changed(PartKind::Base, 8, &2u16.to_le_bytes()));
        assert!(matches!(newer, Err(SnapshotError::NewerFormat { found: 2, known: 1, .. })));
        let length = |bytes: &[u8]| match Header::length("o", 100, bytes) {
            Err(SnapshotError::Damaged { offset, .. }) => Err(offset),
            length => Ok(length.unwrap()),
        };
        assert_eq!(length(&changed(PartKind::Base, 10, &28u16.to_le_bytes())), Ok(28));
        assert_eq!(length(&changed(PartKind::Base, 10, &27u16.to_le_bytes())), Err(110));
        assert_eq!(length(b"STYXPART123"), Err(100));
        assert_eq!(length(b"STYXPARX1234"), Err(100));
    }

    #[test]
    fn a_packs_name_says_whose_it_is() {
        let name = object_name(0x1f, 0x2a, 5);
        assert_eq!(name, "parts/e000000000000001f-g0000002a-00000000000000000000000000000005");
        // Version 1 said in it what the part was.
        for known in [name.as_str(), "parts/e000000000000001f-g0000002a-p00007-delta-05"] {
            assert_eq!(generation_of(known), Some(0x2a));
        }
        for other in ["parts/e1", "parts/x1-g2-a", "other/e1-g2-a", "parts/e1-h2-a", "parts/e1-gx-a"] {
            assert_eq!(generation_of(other), None, "{other}");
        }
    }
}
