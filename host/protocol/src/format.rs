//! Versions of stored formats: a header that says what follows, in which version of it, and how long it is.
//!
//! What is written carries them; what is read is refused unless it carries those of this program,
//! by an error that names both versions. Nothing is half-read.

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::{Archive, Deserialize, Serialize};

use crate::archive;

/// A stored format: its name for people, its tag, and the version that this program writes and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// For people.
    pub name: &'static str,
    /// First bytes of all that is in this format.
    pub tag: [u8; 6],
    /// The version, written after the tag.
    pub version: u16,
}

/// A record of the log. Version 1 had no header; version 2 did not say what an epoch came to; version 3 knew no
/// quarantine; version 4 no codes of apps; version 5 did not name the workers of a placement; version 6 knew no calls
/// between apps.
pub const LOG_RECORD: Format = Format { name: "log record", tag: *b"styx-r", version: 7 };

/// The part of a snapshot besides its partitions. Version 1 had no header.
pub const SNAPSHOT_HEAD: Format = Format { name: "snapshot head", tag: *b"styx-s", version: 7 };

/// Version of [`Message`](crate::wire::message::Message), which nodes compare when they connect: they
/// speak with each other only if it is the same.
pub const MESSAGES: u16 = 10;

/// Version of the messages between nodes besides the protocol's own, compared in the same way.
pub const CONTROL_MESSAGES: u16 = 11;

/// Bytes before what is archived: tag, version, length. A multiple of its alignment.
const HEADER: usize = 16;

/// Bytes that cannot be read as the format that they should be in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// They are in an earlier version of it, or not in it at all.
    #[error(
        "this is a {name} of format version {found}, or none at all; this program reads version {expected}: start it with the release that wrote it, or begin with an empty directory"
    )]
    Older {
        /// The format's name.
        name: &'static str,
        found: u16,
        /// The version of this program.
        expected: u16,
    },
    #[error(
        "this is a {name} of format version {found}; this program reads version {expected}: install the release that wrote it, or a later one"
    )]
    Newer {
        /// The format's name.
        name: &'static str,
        found: u16,
        /// The version of this program.
        expected: u16,
    },
    /// They say the right version, and are not what they say.
    #[error("this is no {name} of format version {version}, though it says so; it is damaged: {why}")]
    Damaged {
        /// The format's name.
        name: &'static str,
        version: u16,
        /// What is wrong.
        why: String,
    },
}

impl Format {
    /// The bytes of a value, with the header before them.
    pub fn encode<T>(&self, value: &T) -> Vec<u8>
    where
        T: for<'a> Serialize<HighSerializer<Vec<u8>, ArenaHandle<'a>, rancor::Error>>,
    {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&self.tag);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.resize(HEADER, 0);
        let mut bytes = rkyv::api::high::to_bytes_in(value, bytes).expect("what is in memory can be written to memory");
        let length = (bytes.len() - HEADER) as u64;
        bytes[8..HEADER].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Reads a value, validating its bytes before they are believed.
    ///
    /// # Errors
    /// They are in another version of the format, or in none.
    pub fn decode<T>(&self, bytes: &[u8]) -> Result<T, FormatError>
    where
        T: Archive,
        T::Archived:
            for<'a> CheckBytes<HighValidator<'a, rancor::Error>> + Deserialize<T, HighDeserializer<rancor::Error>>,
    {
        let (name, expected) = (self.name, self.version);
        // Before there were headers there was version 1.
        let found = match bytes.strip_prefix(&self.tag) {
            Some([low, high, ..]) => u16::from_le_bytes([*low, *high]),
            _ => 1,
        };
        match found.cmp(&expected) {
            std::cmp::Ordering::Less => return Err(FormatError::Older { name, found, expected }),
            std::cmp::Ordering::Greater => return Err(FormatError::Newer { name, found, expected }),
            std::cmp::Ordering::Equal => {}
        }
        let damaged = |why: String| FormatError::Damaged { name, version: expected, why };
        let (header, body) = bytes.split_at_checked(HEADER).ok_or_else(|| damaged("it is cut off".to_owned()))?;
        // What is archived is read from its end: cut elsewhere it might be something else.
        if header[8..] != (body.len() as u64).to_le_bytes() {
            return Err(damaged(format!("{} bytes follow its header, and there were others", body.len())));
        }
        archive::read(body).map_err(|error| damaged(error.to_string()))
    }
}
