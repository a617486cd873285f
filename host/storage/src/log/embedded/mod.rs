//! The log on local files: the default, with no server to start.
//!
//! The storage is the crate open-wal: segment files, a CRC-32C per record, one
//! fdatasync per commit (docs/decisions/0001-log-storage.md compares it with
//! its rivals). What this module adds:
//!
//! - **One group, one record.** Everything between two syncs becomes a single
//!   record of open-wal ([`group`]). A power failure may leave any part of an
//!   unfinished write behind, also a valid record after a torn one, which
//!   open-wal must take for damage; with one record per commit that cannot be.
//! - **A commit mark** ([`mark`]): the small file `log.mark` says up to where
//!   the log was durable, and the format. It tells a torn tail, which is cut,
//!   from damage to the last committed record, which never is.
//! - **A look before opening** ([`segment`]): opening would cut the tail,
//!   whether it had been committed or not, and slowly.
//! - **A damaged beginning** ([`salvage`]) is passed over if nobody needs it.
//!
//! Not here: retries. An error of the disk is final; see [`Log`].

mod group;
mod mark;
mod salvage;
mod segment;

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use open_wal::{Lsn, RecoveryReport, Wal, WalConfig, WalError};

use self::group::Group;
use self::mark::{Mark, MarkFile};
use super::{Consumer, Guarded, Log, LogError, check_range};

/// Sizes of an [`EmbeddedLog`]. A log that exists keeps the largest that it was
/// ever opened with.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedOptions {
    /// Disk space is reserved, and given back, in files of this many bytes.
    pub segment_bytes: u64,
    /// The most that one sync writes; when more is pending, it is synced early.
    /// A single record is at most [`EmbeddedOptions::record_bytes_max`].
    pub group_bytes_max: u32,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, group_bytes_max: 32 << 20 }
    }
}

impl EmbeddedOptions {
    /// The longest record that fits.
    pub fn record_bytes_max(&self) -> usize {
        self.group_bytes_max as usize - group::OVERHEAD_BYTES
    }
}

/// A [`Log`] in a directory of the local file system.
pub struct EmbeddedLog {
    directory: PathBuf,
    options: EmbeddedOptions,
    wal: Wal,
    mark: MarkFile,
    /// Appended and not yet written.
    pending: Group,
    /// First sequence number of each group on disk, from the LSN `oldest` on.
    groups: VecDeque<u64>,
    oldest: u64,
    failed: bool,
}

/// Takes the groups on disk: first sequence number and records.
type Visitor<'a> = dyn FnMut(u64, Vec<&[u8]>) -> Result<(), LogError> + 'a;

impl EmbeddedLog {
    /// Opens the log in `directory`, or creates it. Cuts a torn tail; reports
    /// any other damage without touching the files.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, LogError> {
        Self::open_from(directory, options, 0)
    }

    /// The same, if of the log only the records from `needed` on are: damage before it is told in a
    /// warning, and the log begins behind it.
    pub fn open_from(directory: &Path, options: EmbeddedOptions, needed: u64) -> Result<Self, LogError> {
        match Self::open_whole(directory, options) {
            Err(why @ LogError::Corrupt { .. }) => {
                let mut mark = MarkFile::open(directory, options)?;
                // Nobody needs what was trimmed.
                let needed = needed.max(mark.mark().first);
                if needed == 0 {
                    return Err(why);
                }
                salvage::set_aside(directory, &mut mark, options, needed, why)?;
                drop(mark);
                Self::open_whole(directory, options)
            }
            result => result,
        }
    }

    fn open_whole(directory: &Path, options: EmbeddedOptions) -> Result<Self, LogError> {
        create_directory(directory).map_err(|error| LogError::io(directory, error))?;
        let mark = MarkFile::open(directory, options)?;
        let options =
            EmbeddedOptions { segment_bytes: mark.mark().segment_bytes, group_bytes_max: mark.mark().group_bytes_max };

        segment::prepare(directory, mark.mark().lsn, options)?;

        let config = WalConfig { segment_size: options.segment_bytes, max_record_size: options.group_bytes_max };
        let (wal, report) = open_storage(directory, config)?;
        let mut log = Self {
            directory: directory.to_owned(),
            options,
            wal,
            pending: Group::new(0),
            groups: VecDeque::new(),
            oldest: report.oldest_lsn.0,
            mark,
            failed: false,
        };
        log.index()?;
        Ok(log)
    }

    /// Reads every group once: where it begins, and that none is missing.
    fn index(&mut self) -> Result<(), LogError> {
        let mark = *self.mark.mark();
        let mut groups = VecDeque::new();
        let mut end = None;
        self.read_groups(&mut |first, records| {
            if end.is_some_and(|end| end != first) {
                return Err(LogError::corrupt(&self.directory, 0, format!("records before {first} are missing")));
            }
            groups.push_back(first);
            end = Some(first + records.len() as u64);
            Ok(())
        })?;
        // A log without a group has been trimmed to its end, or is new.
        let end = end.unwrap_or(mark.first);
        let start = groups.front().copied().unwrap_or(mark.first);
        if start > mark.first || end < mark.committed {
            let detail = format!(
                "holds records {start}..{end}, but {}..{} were committed; a segment file is missing",
                mark.first, mark.committed
            );
            return Err(LogError::corrupt(&self.directory, 0, detail));
        }
        self.groups = groups;
        self.pending = Group::new(end);
        // What survived a crash just before its commit was marked counts from here on.
        self.mark_committed(end)
    }

    /// Calls `visit` with the first sequence number and the records of each group on disk.
    fn read_groups(&self, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        let mut reader = self.wal.reader_from(Lsn(0)).map_err(|error| from_wal(&self.directory, error))?;
        let mut read = self.oldest;
        while let Some(next) = reader.next() {
            let (lsn, bytes) = next.map_err(|error| from_wal(&self.directory, error))?;
            let (first, records) = group::decode(bytes)
                .ok_or_else(|| LogError::corrupt(&self.directory, 0, format!("group {lsn} is not one of this log")))?;
            visit(first, records)?;
            read = lsn.0 + 1;
        }
        // The reader takes damage for the end; it was checked when the log was opened.
        let end = self.wal.durable_lsn().0 + 1;
        if read != end {
            return Err(LogError::corrupt(&self.directory, 0, format!("group {read} of {end} became unreadable")));
        }
        Ok(())
    }

    fn mark_committed(&mut self, committed: u64) -> Result<(), LogError> {
        let lsn = self.wal.durable_lsn().0;
        self.mark.write(Mark { committed, lsn, ..*self.mark.mark() })
    }

    /// Writes the pending group and waits for the disk.
    fn commit(&mut self) -> Result<(), LogError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (first, next) = (self.pending.first(), self.pending.next());
        self.wal.append(self.pending.bytes()).map_err(|error| from_wal(&self.directory, error))?;
        let durable = self.wal.commit().map_err(|error| from_wal(&self.directory, error))?;
        assert_eq!(durable, self.wal.last_lsn(), "a commit makes everything durable");
        self.groups.push_back(first);
        self.pending.restart(next);
        self.mark_committed(next)
    }
}

impl Guarded for EmbeddedLog {
    fn failed(&mut self) -> &mut bool {
        &mut self.failed
    }
}

impl Log for EmbeddedLog {
    fn append(&mut self, record: &[u8]) -> Result<u64, LogError> {
        self.guarded(|log| {
            let limit = log.options.record_bytes_max();
            if record.len() > limit {
                return Err(LogError::TooLarge { bytes: record.len(), limit });
            }
            if !log.pending.fits(record, log.options.group_bytes_max as usize) {
                log.commit()?;
            }
            Ok(log.pending.push(record))
        })
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.guarded(Self::commit)
    }

    fn first(&self) -> u64 {
        self.mark.mark().first
    }

    fn durable(&self) -> u64 {
        self.pending.first()
    }

    fn next(&self) -> u64 {
        self.pending.next()
    }

    fn replay(&mut self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError> {
        self.guarded(|log| {
            log.commit()?;
            check_range(from, log.first(), log.next())?;
            log.read_groups(&mut |first, records| {
                let numbered = (first..).zip(records);
                for (sequence, record) in numbered.skip_while(|(sequence, _)| *sequence < from) {
                    consumer(sequence, record).map_err(|source| LogError::Consumer { sequence, source })?;
                }
                Ok(())
            })
        })
    }

    fn trim(&mut self, until: u64) -> Result<(), LogError> {
        self.guarded(|log| {
            log.commit()?;
            if until <= log.first() {
                return Ok(());
            }
            check_range(until, log.first(), log.next())?;
            // Durably marked before anything is deleted: a crash in between leaves too much, never too little.
            log.mark.write(Mark { first: until, ..*log.mark.mark() })?;
            log.mark.sync()?;
            // A group goes when its last record goes: where the one after it begins.
            let ends = log.groups.iter().skip(1).copied().chain([log.pending.first()]);
            let count = ends.take_while(|end| *end <= until).count();
            if count > 0 {
                log.groups.drain(..count);
                log.oldest += count as u64;
                log.wal.checkpoint(Lsn(log.oldest - 1)).map_err(|error| from_wal(&log.directory, error))?;
            }
            salvage::forget(&log.directory)
        })
    }
}

/// Opens the storage under the lock of the mark. Its own lock can then only be
/// held by a child process of the last owner between fork and exec: that passes.
fn open_storage(directory: &Path, config: WalConfig) -> Result<(Wal, RecoveryReport), LogError> {
    let mut attempts = 0;
    loop {
        match Wal::open(directory, config) {
            Err(WalError::Locked) if attempts < 100 => {
                attempts += 1;
                thread::sleep(Duration::from_millis(10));
            }
            result => return result.map_err(|error| from_wal(directory, error)),
        }
    }
}

/// Creates `directory` and makes its name durable.
fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// An error of open-wal in the words of this log.
fn from_wal(directory: &Path, error: WalError) -> LogError {
    let damaged =
        |base: Lsn, offset, detail: &str| LogError::corrupt(&segment::path(directory, base.0), offset, detail);
    match error {
        WalError::Io(source) => LogError::io(directory, source),
        WalError::FsyncFailed => LogError::io(directory, io::Error::other("fdatasync failed; the disk may be failing")),
        WalError::Corruption { segment, offset, detail } => damaged(segment, offset, detail),
        WalError::TornMidLog { segment, offset } => damaged(segment, offset, "a record is damaged, and others follow"),
        WalError::BadSegmentHeader => LogError::corrupt(directory, 0, "a segment header is damaged"),
        WalError::ContiguityViolation => LogError::corrupt(directory, 0, "a segment file is missing"),
        WalError::Locked => LogError::Locked(directory.to_owned()),
        WalError::Poisoned => LogError::Failed,
        other => LogError::io(directory, io::Error::new(io::ErrorKind::InvalidInput, other.to_string())),
    }
}
