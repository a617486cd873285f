//! The frames between nodes, and their codec: a header of 44 bytes, then a body.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic, `STYX` |
//! | 4 | version of the protocol |
//! | 5 | kind, [`Kind`] |
//! | 6 | flags: 1 = the body is compressed with zstd |
//! | 7 | 0 |
//! | 8..12 | bytes of the body |
//! | 12..20 | generation |
//! | 20..28 | number of the message on its link; 0 for none |
//! | 28..36 | acknowledgement: the highest number received on the link |
//! | 36..44 | checksum of everything else, XXH3 of the body with that of the header as its seed |
//!
//! Numbers are little-endian. Magic and version stay where they are in every version. A connection ends with the first
//! frame that cannot be read: everything after it is sent again on the next one.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::compression::{Decompressor, InflateError};
use super::reason::{Counters, Reason, Refusal, add};

pub const HEADER_BYTES: usize = 44;
/// The version that this program speaks.
pub const VERSION: u8 = 2;
/// The flag of a compressed body.
pub const COMPRESSED: u8 = 1;
/// Longest body of a greeting or a refusal.
pub const NOTICE_BYTES_MAX: usize = 64 << 10;

const MAGIC: [u8; 4] = *b"STYX";
const CHECKSUM_AT: usize = 36;
/// Bytes that are read at once, at least.
const READ_BYTES: usize = 64 << 10;
/// Shorter bodies are copied, so that they do not keep what was read with them.
const COPIED_BYTES: usize = 32 << 10;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The greeting, first in each direction. Body: [`super::Hello`] as JSON.
    Hello = 1,
    /// A refusal. Body: reason and message, as JSON.
    Refused = 2,
    /// The sender is now in this generation, and has received these messages of it. No body.
    Resume = 3,
    /// A message of a generation; without a number and a body, an acknowledgement.
    Data = 4,
    /// A message outside generations; without a number and a body, an acknowledgement.
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
    /// The generation of the sender when it sent this.
    pub generation: u64,
    /// Number of the message.
    pub number: u64,
    /// Highest number received.
    pub ack: u64,
}

impl Header {
    /// The bytes of the header of a frame with this body.
    pub fn encode(&self, body: &[u8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..7].copy_from_slice(&[VERSION, self.kind as u8, self.flags]);
        bytes[8..12].copy_from_slice(&u32::try_from(body.len()).expect("bodies are bounded").to_le_bytes());
        bytes[12..20].copy_from_slice(&self.generation.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.ack.to_le_bytes());
        seal(&mut bytes, body);
        bytes
    }
}

/// A header and its body as one piece. For few and small frames; messages go without a copy.
pub fn encode(header: &Header, body: &[u8]) -> Vec<u8> {
    [&header.encode(body), body].concat()
}

/// Writes the checksum of a frame into its header, for tests too that have changed a header on purpose.
pub fn seal(header: &mut [u8; HEADER_BYTES], body: &[u8]) {
    let sum = checksum(header, body);
    header[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(header: &[u8; HEADER_BYTES], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64(&header[..CHECKSUM_AT]))
}

/// A refusal in the layout of version 1, which names another version only if it can check the frame.
pub(super) fn refusal_in_version_1(body: &[u8]) -> Vec<u8> {
    let mut header = [0; 56];
    header[0..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&[1, Kind::Refused as u8]);
    header[40..44].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[44..52].copy_from_slice(&xxh3_64(body).to_le_bytes());
    let sum = xxh3_64(&header[..52]) as u32;
    header[52..].copy_from_slice(&sum.to_le_bytes());
    [&header, body].concat()
}

/// A frame as it was read: checked and decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub header: Header,
    pub body: Bytes,
}

/// Why nothing more is read from a connection.
#[derive(Debug)]
pub enum ReadError {
    /// The connection broke.
    Io(io::Error),
    Refused(Refusal),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        ReadError::Refused(refusal)
    }
}

/// Reads frames from the bytes of one connection. Memory is taken for bytes that have come, never for a length that was
/// announced.
#[derive(Debug)]
pub struct FrameDecoder {
    body_bytes_max: usize,
    decompressor: Decompressor,
    counters: Arc<Counters>,
    /// Bytes have come since this was last cleared.
    pub(super) heard: bool,
    /// The other side speaks this version.
    pub(super) version: u8,
}

impl FrameDecoder {
    /// A decoder at the beginning of a connection. No body may have more bytes than this, as it travels or
    /// decompressed.
    pub fn new(body_bytes_max: usize, counters: Arc<Counters>) -> Self {
        FrameDecoder { body_bytes_max, decompressor: Decompressor::default(), counters, heard: false, version: VERSION }
    }

    /// Kind and length of the frame that begins with `bytes`, if its header is complete.
    fn header(&mut self, bytes: &[u8]) -> Result<Option<(Kind, usize)>, Refusal> {
        let refuse = |reason, message: String| Err(Refusal::new(reason, message));
        // Something that is not a frame may be shorter than a header.
        let prefix = bytes.len().min(MAGIC.len());
        if bytes[..prefix] != MAGIC[..prefix] {
            let message = "these are not frames of Styx nodes; does the address belong to something else?";
            return refuse(Reason::BadMagic, message.into());
        }
        if let Some(version) = bytes.get(4).filter(|version| **version != VERSION) {
            self.version = *version;
            let message =
                format!("protocol version: mine {VERSION}, yours {version}; run the same release on all nodes");
            return refuse(Reason::UnknownVersion, message);
        }
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        let (flags, length) = (bytes[6], u32_at(bytes, 8) as usize);
        let Some(kind) = Kind::from_byte(bytes[5]) else {
            return refuse(Reason::UnknownKind, format!("there is no kind {} of frames", bytes[5]));
        };
        let message = matches!(kind, Kind::Data | Kind::Control);
        if flags & !(if message { COMPRESSED } else { 0 }) != 0 || bytes[7] != 0 {
            return refuse(Reason::UnknownFlags, format!("{kind:?} frames have no flags {flags:#x}, {:#x}", bytes[7]));
        }
        let most = if message { self.body_bytes_max } else { NOTICE_BYTES_MAX };
        if length > most {
            return refuse(Reason::TooLong, format!("a body of {length} bytes; {kind:?} frames have at most {most}"));
        }
        let bare = kind == Kind::Resume || message && u64_at(bytes, 20) == 0;
        if bare && (length > 0 || flags != 0) {
            let message = format!("{kind:?} frames without a message have no body, not {length} bytes");
            return refuse(Reason::BadLength, message);
        }
        Ok(Some((kind, length)))
    }

    fn decompressed(&mut self, body: &[u8]) -> Result<Bytes, Refusal> {
        let most = self.body_bytes_max;
        self.decompressor.decompress(body, most).map(Bytes::from).map_err(|error| match error {
            InflateError::TooFar => {
                Refusal::new(Reason::InflatesTooFar, format!("a body decompresses to more than {most} bytes"))
            }
            InflateError::Broken(what) => {
                Refusal::new(Reason::BadCompression, format!("a body cannot be decompressed: {what}"))
            }
        })
    }
}

impl Decoder for FrameDecoder {
    type Item = Frame;
    type Error = ReadError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, ReadError> {
        self.heard = true;
        let Some((kind, length)) = self.header(bytes)? else {
            bytes.reserve(READ_BYTES);
            return Ok(None);
        };
        let whole = HEADER_BYTES + length;
        if bytes.len() < whole {
            bytes.reserve((whole - bytes.len()).min(bytes.len().max(READ_BYTES)));
            return Ok(None);
        }
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().expect("it is complete");
        if checksum(header, &bytes[HEADER_BYTES..whole]) != u64_at(header, CHECKSUM_AT) {
            return Err(Refusal::new(Reason::BadChecksum, "a frame is damaged; connect again").into());
        }
        let (flags, generation) = (header[6], u64_at(header, 12));
        let header = Header { kind, flags: 0, generation, number: u64_at(header, 20), ack: u64_at(header, 28) };
        let body = if flags & COMPRESSED != 0 {
            let body = self.decompressed(&bytes[HEADER_BYTES..whole])?;
            bytes.advance(whole);
            body
        } else if length < COPIED_BYTES {
            let body = Bytes::copy_from_slice(&bytes[HEADER_BYTES..whole]);
            bytes.advance(whole);
            body
        } else {
            bytes.split_to(whole).freeze().slice(HEADER_BYTES..)
        };
        add(&self.counters.frames_received, 1);
        add(&self.counters.bytes_received, whole as u64);
        Ok(Some(Frame { header, body }))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, ReadError> {
        match self.decode(bytes)? {
            None if !bytes.is_empty() => {
                let message = format!("the connection ended inside a frame, after {} bytes of it", bytes.len());
                Err(Refusal::new(Reason::Truncated, message).into())
            }
            frame => Ok(frame),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
