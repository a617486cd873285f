//! The frames between nodes: a header of 56 bytes, then a body.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic, `STYX` |
//! | 4 | version of the protocol |
//! | 5 | kind, [`Kind`] |
//! | 6 | flags: 1 = the body is compressed with zstd |
//! | 7 | 0 |
//! | 8..16 | generation |
//! | 16..24 | id of the sender |
//! | 24..32 | number of the payload on its link; 0 for none |
//! | 32..40 | acknowledgement: what has arrived on the link |
//! | 40..44 | bytes of the body that follow |
//! | 44..52 | checksum of these bytes, XXH3 |
//! | 52..56 | checksum of the header before it, the low half of XXH3 |
//!
//! Numbers are little-endian. Later versions keep this layout, so that a frame of another version
//! can be skipped.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::NodeId;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 56;
/// The version that this program speaks.
pub const VERSION: u8 = 1;
/// The flag of a compressed body.
pub const COMPRESSED: u8 = 1;

const MAGIC: [u8; 4] = *b"STYX";

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The greeting, first in each direction. Body: [`super::Hello`] as JSON.
    Hello = 1,
    /// Something was refused. Body: reason and message, as JSON.
    Refused = 2,
    /// The sender is now in this generation, and what has arrived of its payloads. No body.
    Resume = 3,
    /// A payload of a generation; without a number and a body, an acknowledgement.
    Data = 4,
    /// A payload outside generations; without a number and a body, an acknowledgement.
    Control = 5,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Hello, Kind::Refused, Kind::Resume, Kind::Data, Kind::Control]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// A header, without what follows from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// See the table.
    pub flags: u8,
    /// The generation of the sender, or of the link.
    pub generation: u64,
    /// The sender.
    pub sender: NodeId,
    /// Number of the payload.
    pub number: u64,
    /// What has arrived.
    pub ack: u64,
}

impl Header {
    /// The bytes of the header, for a body of this length and checksum.
    pub fn encode(&self, length: u32, checksum: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..7].copy_from_slice(&[VERSION, self.kind as u8, self.flags]);
        bytes[8..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sender.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.ack.to_le_bytes());
        bytes[40..44].copy_from_slice(&length.to_le_bytes());
        bytes[44..52].copy_from_slice(&checksum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }
}

/// A header and its body as one piece. For few and small frames; payloads go without a copy.
pub fn encode(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&header.encode(body.len() as u32, checksum(body)));
    bytes.extend_from_slice(body);
    bytes
}

/// The checksum of a body.
pub fn checksum(body: &[u8]) -> u64 {
    xxh3_64(body)
}

/// Writes the header's checksum, for tests too that have damaged a header on purpose.
pub fn seal(header: &mut [u8; HEADER_BYTES]) {
    let sum = xxh3_64(&header[..52]) as u32;
    header[52..].copy_from_slice(&sum.to_le_bytes());
}

/// A header as it was read, nothing of it believed but its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a>(pub(super) &'a [u8; HEADER_BYTES]);

impl Raw<'_> {
    pub(super) fn has_magic(self) -> bool {
        self.0[0..4] == MAGIC
    }

    pub(super) fn is_intact(self) -> bool {
        xxh3_64(&self.0[..52]) as u32 == self.u32(52)
    }

    pub(super) fn version(self) -> u8 {
        self.0[4]
    }

    pub(super) fn kind_byte(self) -> u8 {
        self.0[5]
    }

    pub(super) fn kind(self) -> Option<Kind> {
        Kind::from_byte(self.kind_byte())
    }

    pub(super) fn flags(self) -> u8 {
        self.0[6]
    }

    pub(super) fn reserved(self) -> u8 {
        self.0[7]
    }

    pub(super) fn length(self) -> u32 {
        self.u32(40)
    }

    pub(super) fn checksum(self) -> u64 {
        self.u64(44)
    }

    pub(super) fn header(self, kind: Kind) -> Header {
        Header {
            kind,
            flags: self.flags(),
            generation: self.u64(8),
            sender: NodeId(self.u64(16)),
            number: self.u64(24),
            ack: self.u64(32),
        }
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }
}

/// A frame as it was read: checked and decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The header.
    pub header: Header,
    /// The body.
    pub body: Bytes,
}
