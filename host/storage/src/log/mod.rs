//! The log of accepted requests: in order, and durable.
//!
//! A [`Log`] is a sequence of opaque records with contiguous sequence numbers
//! from 0. One thread appends; [`Log::sync`] makes everything appended durable
//! at once, so that many requests share one fdatasync. Recovery replays it from
//! a snapshot's position, and what lies behind a snapshot is trimmed.
//!
//! Three implementations live here: [`EmbeddedLog`], the default, on local files;
//! [`KafkaLog`](kafka::KafkaLog), on a topic, for those who run brokers anyway;
//! and [`MemoryLog`], for tests and simulation. `contract.rs` holds the one
//! suite that every implementation passes.
//!
//! Nothing here knows what a record means.

mod embedded;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(not(feature = "kafka"))]
#[path = "kafka/absent.rs"]
pub mod kafka;
mod memory;
pub mod shared;

#[cfg(test)]
mod contract;

pub use embedded::{EmbeddedLog, EmbeddedOptions};
pub use memory::{MemoryDisk, MemoryLog};
pub use shared::Stall;

use std::io;
use std::path::{Path, PathBuf};

/// A durable sequence of records.
///
/// After any error except [`LogError::TooLarge`], [`LogError::OutOfRange`] and
/// [`LogError::Consumer`] the log is unusable and answers [`LogError::Failed`]:
/// after a failed fsync nobody knows what is on the disk, so the process must
/// end and recover from it.
pub trait Log: Send {
    /// Appends one record and returns its sequence number. It is durable only
    /// after the next [`Log::sync`], and lost in a crash before.
    fn append(&mut self, record: &[u8]) -> Result<u64, LogError>;

    /// Length of the longest record that it takes.
    fn record_bytes_max(&self) -> usize;

    /// Makes everything appended durable, all of it or (in a crash) a prefix.
    fn sync(&mut self) -> Result<(), LogError>;

    /// First sequence number that is retained; equal to [`Log::next`] when nothing is.
    fn first(&self) -> u64;

    /// Sequence number below which every record is durable.
    fn durable(&self) -> u64;

    /// Sequence number that the next append gets.
    fn next(&self) -> u64;

    /// Calls `consumer` for each record from `from` on, in order. Syncs first,
    /// so that nothing is ever shown that a crash could take back.
    ///
    /// `from` lies in `first()..=next()`: a caller outside of it, such as a
    /// snapshot that is newer than the log, would miss records silently.
    fn replay(&mut self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError>;

    /// Flag that is set while the log waits for servers that do not answer; only a log on servers ever sets it.
    fn stall(&self) -> Stall {
        Stall::default()
    }

    /// Forgets the records below `until`, durably, and gives back disk space in
    /// units of the implementation. Syncs first; `until` is at most `next()`.
    fn trim(&mut self, until: u64) -> Result<(), LogError>;
}

/// Takes the records of a replay: sequence number and bytes.
pub type Consumer<'a> = dyn FnMut(u64, &[u8]) -> anyhow::Result<()> + 'a;

/// Why the log could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process, or another instance in this one, has the log open.
    #[error("the log {} is open in another process; stop it, or choose another data directory", .0.display())]
    Locked(PathBuf),

    /// The bytes on the disk are not those that were written.
    #[error("{}: damaged at offset {offset}: {detail}; restore this directory from a copy", .file.display())]
    Corrupt {
        /// The damaged file, or the directory when a file is missing.
        file: PathBuf,
        /// Offset of the damaged record or header, in bytes.
        offset: u64,
        detail: String,
    },

    /// Written by an older version of this program, in a format that this one does not read.
    #[error(
        "{}: log format {found} of an older version, this one has format {supported}; start it with the version that \
         wrote it, or begin with an empty data directory", .file.display()
    )]
    OlderFormat {
        /// The file that says so.
        file: PathBuf,
        /// Its format version.
        found: u32,
        /// The only one that this program reads.
        supported: u32,
    },

    /// Written by a newer version of this program.
    #[error("{}: log format {found} is newer than this program's {supported}; upgrade it", .file.display())]
    NewerFormat {
        /// The file that says so.
        file: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest that this program reads.
        supported: u32,
    },

    /// No space, or no quota, left.
    #[error("no space left for the log in {}; free some and restart", .0.display())]
    FullDisk(PathBuf),

    /// Somebody has removed, renamed or replaced a file of the log while it was in use.
    #[error(
        "{}: removed, renamed or replaced while this process uses the log; put it back before the next start, or restore \
         a snapshot", .0.display()
    )]
    Removed(PathBuf),

    /// A record above the limit; nothing was appended.
    #[error("a log record of {bytes} bytes is above the limit of {limit}; make epochs smaller")]
    TooLarge {
        /// Length of the record.
        bytes: usize,
        /// Longest record that this log takes.
        limit: usize,
    },

    /// A replay or trim of records that are not in the log.
    #[error("log position {asked} is outside of {first}..={next}; the snapshot and the log do not belong together")]
    OutOfRange {
        /// The position asked for.
        asked: u64,
        /// First retained.
        first: u64,
        /// Next to be written.
        next: u64,
    },

    /// The consumer of a replay refused a record.
    #[error("log record {sequence} cannot be replayed: {source:#}")]
    Consumer {
        /// The record that was refused.
        sequence: u64,
        /// The consumer's error.
        source: anyhow::Error,
    },

    /// Another process has become the log's writer. What this one appended since its last sync
    /// may or may not be in the log; it must acknowledge nothing more.
    #[error(
        "this process (generation {ours}) has been replaced as the log's writer by generation {theirs}; \
         let it end, and start it again only if the other is gone"
    )]
    Fenced {
        /// Generation of this process.
        ours: u64,
        /// Generation of the writer.
        theirs: u64,
    },

    /// An error of a log on Kafka.
    #[error(transparent)]
    Kafka(#[from] shared::KafkaProblem),

    /// An earlier error left the log in an unknown state.
    #[error("the log failed earlier and takes nothing more; restart to recover")]
    Failed,

    /// Anything else that the operating system reports.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl LogError {
    /// Tells a full disk, and a file that somebody has removed, from other errors of the operating system.
    fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::FullDisk(path.to_owned()),
            io::ErrorKind::NotFound => Self::Removed(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    fn corrupt(file: &Path, offset: u64, detail: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_owned(), offset, detail: detail.into() }
    }

    /// True if the log can go on after this error.
    fn is_harmless(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::OutOfRange { .. } | Self::Consumer { .. })
    }
}

/// A log that takes nothing more once it has failed.
trait Guarded: Sized {
    fn failed(&mut self) -> &mut bool;

    /// Runs `operation` unless the log has failed, and remembers if it does now.
    fn guarded<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T, LogError>) -> Result<T, LogError> {
        if *self.failed() {
            return Err(LogError::Failed);
        }
        let result = operation(self);
        *self.failed() = matches!(&result, Err(error) if !error.is_harmless());
        result
    }
}

/// `Ok` if `asked` lies in `first..=next`.
fn check_range(asked: u64, first: u64, next: u64) -> Result<(), LogError> {
    if (first..=next).contains(&asked) { Ok(()) } else { Err(LogError::OutOfRange { asked, first, next }) }
}
