//! The commit mark: up to where the log is known to be durable.
//!
//! `log.mark` is 64 bytes, rewritten in place after every commit and, except
//! when the log is trimmed or closed, not synced: that would double the cost of
//! a commit. So it never says more than is true. It is exact after the end of
//! the process, however abrupt; after a power failure it may lag by what the
//! kernel had not written back, and within that lag damage to the very last
//! group looks like a torn tail.
//!
//! It also carries the format version and the sizes that the segments need to
//! be read with, and its lock keeps other processes out.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use open_wal::crc32c;

use super::super::LogError;
use super::{EmbeddedOptions, segment};

const NAME: &str = "log.mark";
const MAGIC: [u8; 8] = *b"STYXLOG\n";
/// Version of everything in the directory: mark, groups, and the storage's segments.
pub(super) const FORMAT: u32 = 1;
const LENGTH: usize = 64;
const CHECKSUM_AT: usize = LENGTH - 4;

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Sequence number below which every record was durable.
    pub(super) committed: u64,
    /// The storage's number of the last group of those, 0 for none.
    pub(super) lsn: u64,
    /// First sequence number that has not been trimmed.
    pub(super) first: u64,
    /// The largest [`EmbeddedOptions`] that the log was ever opened with: with
    /// smaller ones the storage would not see all of what is there.
    pub(super) segment_bytes: u64,
    /// See `segment_bytes`.
    pub(super) group_bytes_max: u32,
}

/// The open and locked file.
pub(super) struct MarkFile {
    path: PathBuf,
    file: File,
    mark: Mark,
}

impl MarkFile {
    /// Opens, locks and reads the mark; creates it in a directory without a log.
    pub(super) fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, LogError> {
        let path = directory.join(NAME);
        let failed = |error| LogError::io(&path, error);
        let mut opening = OpenOptions::new();
        let file = opening.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => LogError::Locked(directory.to_owned()),
            TryLockError::Error(error) => failed(error),
        })?;

        let mut bytes = [0; LENGTH];
        let complete = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(failed(error)),
        };
        if !complete && !segment::bases(directory)?.is_empty() {
            return Err(LogError::corrupt(&path, 0, "shorter than a mark"));
        }
        let mark = if complete { decode(&path, &bytes)? } else { Mark::default() };
        let grown = Mark {
            segment_bytes: mark.segment_bytes.max(options.segment_bytes),
            group_bytes_max: mark.group_bytes_max.max(options.group_bytes_max),
            ..mark
        };
        let mut this = Self { path, file, mark };
        if grown != mark {
            // Durable before the first segment is: without it a log is taken for damaged.
            this.write(grown)?;
            this.sync()?;
            File::open(directory).and_then(|file| file.sync_all()).map_err(|error| LogError::io(directory, error))?;
        }
        Ok(this)
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Rewrites the file. The next process sees it; the next power failure may not.
    pub(super) fn write(&mut self, mark: Mark) -> Result<(), LogError> {
        assert!(mark.first <= mark.committed, "only durable records are trimmed");
        assert!(mark.committed >= self.mark.committed, "what is durable stays so");
        self.file.write_all_at(&encode(mark), 0).map_err(|error| LogError::io(&self.path, error))?;
        self.mark = mark;
        Ok(())
    }

    /// Makes the last write durable.
    pub(super) fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|error| LogError::io(&self.path, error))
    }
}

impl Drop for MarkFile {
    fn drop(&mut self) {
        // A courtesy: the log itself is durable, and a mark that lags is still true.
        let _ = self.sync();
        // Closing alone would leave the lock to a child process that is just being started.
        let _ = self.file.unlock();
    }
}

fn encode(mark: Mark) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..24].copy_from_slice(&mark.committed.to_le_bytes());
    bytes[24..32].copy_from_slice(&mark.lsn.to_le_bytes());
    bytes[32..40].copy_from_slice(&mark.first.to_le_bytes());
    bytes[40..48].copy_from_slice(&mark.segment_bytes.to_le_bytes());
    bytes[48..52].copy_from_slice(&mark.group_bytes_max.to_le_bytes());
    let checksum = crc32c(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode(path: &Path, bytes: &[u8; LENGTH]) -> Result<Mark, LogError> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if crc32c(&bytes[..CHECKSUM_AT]) != short(CHECKSUM_AT) || bytes[..8] != MAGIC {
        return Err(LogError::corrupt(path, 0, "not a commit mark, or a damaged one"));
    }
    // The checksum lies where it does in every version, so that a newer one is known from a damaged one.
    let found = short(8);
    if found > FORMAT {
        return Err(LogError::NewerFormat { file: path.to_owned(), found, supported: FORMAT });
    }
    let mark = Mark {
        committed: number(16),
        lsn: number(24),
        first: number(32),
        segment_bytes: number(40),
        group_bytes_max: short(48),
    };
    if found == 0 || mark.first > mark.committed {
        return Err(LogError::corrupt(path, 8, "a commit mark that was never written by this program"));
    }
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { committed: 7, lsn: 3, first: 2, segment_bytes: 64 << 20, group_bytes_max: 32 << 20 };

    /// Written by format 1. A change that breaks this needs a new format number.
    const FIXTURE: &[u8; LENGTH] = b"STYXLOG\n\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
        \x02\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x13\xE59\x92";

    #[test]
    fn format_1_is_still_read() {
        assert_eq!(&encode(MARK), FIXTURE);
        assert_eq!(decode(Path::new("mark"), FIXTURE).unwrap(), MARK);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..LENGTH * 8 {
            let mut bytes = encode(MARK);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode(Path::new("mark"), &bytes), Err(LogError::Corrupt { .. })), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut bytes = encode(MARK);
        bytes[8] = 9;
        let checksum = crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        let error = decode(Path::new("mark"), &bytes).unwrap_err();
        assert!(matches!(error, LogError::NewerFormat { found: 9, supported: FORMAT, .. }));
    }
}
