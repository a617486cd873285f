//! The log on local files: the default, with no server to start.
//!
//! ```text
//! log.mark                    format, log id, committed position, first position, lock     (mark)
//! 00000000000000000000.log    frames from position 0 on, in space that is reserved ahead   (segment)
//! 00000000000000041727.log    the newest: the next frame goes there
//! ```
//!
//! - **One sync, one frame.** Everything between two syncs becomes a single frame under one checksum ([`format`]),
//!   written with one call and followed by one fdatasync. A power failure may leave any part of it behind; since the
//!   next frame is only written when this one is durable, an unreadable frame before a readable one is damage.
//! - **A commit mark** ([`mark`]) tells a torn tail, which is cut, from damage to the last committed frame, which
//!   never is.
//! - **One scan.** Opening verifies every frame, once, and cuts a torn tail. A replay reads the segments from the
//!   position asked for, with the same reader ([`segment`]).
//! - **A damaged beginning** ([`quarantine`]) is passed over if nobody needs it.
//!
//! docs/decisions/0010-embedded-log.md says why this format is our own. Not here: retries. An error of the disk is
//! final; see [`Log`].

mod directory;
mod format;
mod mark;
mod quarantine;
mod segment;

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;

use std::path::Path;

use styx_planted::{Bug, planted};

use self::directory::Directory;
use self::format::{HEADER, OVERHEAD, Pending};
use self::mark::{Mark, MarkFile};
use self::segment::Reader;
use super::{Consumer, Guarded, Log, LogError, check_range};
use crate::files::{FileSystem, LocalFileSystem, RandomAccessFile};

/// Sizes of an [`EmbeddedLog`]. A log can be opened with others than it was written with.
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
        self.group_bytes_max as usize - OVERHEAD
    }
}

/// A [`Log`] in a directory of a file system.
pub struct EmbeddedLog {
    directory: Directory,
    options: EmbeddedOptions,
    mark: MarkFile,
    /// Positions of the first records of the segments, ascending; the last one is written to.
    segments: Vec<u64>,
    newest: Newest,
    /// Appended and not yet written.
    pending: Pending,
    failed: bool,
}

/// The segment that frames are written to.
struct Newest {
    file: Box<dyn RandomAccessFile>,
    /// Where the next frame goes.
    at: u64,
    /// Space that is reserved.
    bytes: u64,
}

impl EmbeddedLog {
    /// Opens the log in a local `directory`, or creates it. Cuts a torn tail; reports
    /// any other damage without touching the files.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, LogError> {
        Self::open_from(directory, options, 0)
    }

    /// The same, if of the log only the records from `needed` on are: damage before it is told in a
    /// warning, and the log begins behind it.
    pub fn open_from(directory: &Path, options: EmbeddedOptions, needed: u64) -> Result<Self, LogError> {
        Self::open_on(LocalFileSystem, directory, options, needed, rand::random())
    }

    /// The same on any file system. `log_id` tells the files of a log that is created from those of others.
    pub fn open_on(
        files: impl FileSystem + 'static,
        directory: &Path,
        options: EmbeddedOptions,
        needed: u64,
        log_id: u32,
    ) -> Result<Self, LogError> {
        let directory = Directory::open(files, directory)?;
        let mut mark = MarkFile::open(&directory, log_id)?;
        match verify(&directory, mark.mark(), options) {
            Err(why @ LogError::Corrupt { .. }) => {
                // Nobody needs what was trimmed.
                let needed = needed.max(mark.mark().first);
                if needed == 0 {
                    return Err(why);
                }
                quarantine::quarantine(&directory, &mut mark, options, needed, why)?;
                let found = verify(&directory, mark.mark(), options)?;
                Self::continue_from(directory, options, mark, found)
            }
            found => Self::continue_from(directory, options, mark, found?),
        }
    }

    fn continue_from(
        directory: Directory,
        options: EmbeddedOptions,
        mark: MarkFile,
        found: Found,
    ) -> Result<Self, LogError> {
        let Found { segments, newest, next } = found;
        let mut log = Self { directory, options, mark, segments, newest, pending: Pending::new(next), failed: false };
        // What survived a crash just before its commit was marked counts from here on. So it must be durable, which a
        // process that was killed may not have come to: the newest segment is synced by now, the rest is not.
        if !planted(Bug::FoundNotSynced) {
            log.directory.sync()?;
            log.mark_committed()?;
            log.mark.sync()?;
        }
        Ok(log)
    }

    fn mark_committed(&mut self) -> Result<(), LogError> {
        self.mark.write(Mark { committed: self.pending.first(), ..*self.mark.mark() })
    }

    /// Writes the pending frame and waits for the disk.
    fn commit(&mut self) -> Result<(), LogError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (log_id, first, next) = (self.mark.mark().log_id, self.pending.first(), self.pending.next());
        let frame = self.pending.seal(log_id);
        let end = self.newest.at + frame.len() as u64;
        if end > self.newest.bytes {
            let bytes = self.options.segment_bytes.max((HEADER + frame.len()) as u64);
            // An empty segment has the name of the new one; it grows instead.
            if self.newest.at > HEADER as u64 {
                let file = segment::create(&self.directory, first, log_id, &[], bytes)?;
                self.newest = Newest { file, at: HEADER as u64, bytes };
                self.segments.push(first);
            } else {
                self.newest.file.reserve(bytes).map_err(|error| LogError::io(self.directory.path(), error))?;
                self.newest.bytes = bytes;
            }
        }
        if planted(Bug::MarkBeforeData) {
            self.mark.write(Mark { committed: next, ..*self.mark.mark() })?;
            self.mark.sync()?;
        }
        let Newest { file, at, .. } = &mut self.newest;
        let path = self.directory.segment(*self.segments.last().expect("there is always a segment"));
        let written = file.write_all_at(frame, *at).and_then(|()| file.sync_data()).and_then(|()| file.is_at(&path));
        match written {
            Ok(true) => {}
            // Where the next process looks there is another file, or none.
            Ok(false) => return Err(LogError::Removed(path)),
            Err(error) => return Err(LogError::io(&path, error)),
        }
        *at += frame.len() as u64;
        self.pending.restart(next);
        self.mark_committed()
    }

    /// Calls `consumer` for each record from `from` on; all of them are on disk.
    fn read(&self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError> {
        let begin = self.segments.partition_point(|base| *base <= from).saturating_sub(1);
        for (at, base) in self.segments.iter().enumerate().skip(begin) {
            let end = self.segments.get(at + 1).copied().unwrap_or(self.durable());
            let mut reader = Reader::open(&self.directory, *base, self.mark.mark().log_id)?;
            while reader.position() < end {
                let (offset, position) = (reader.at(), reader.position());
                let Some(frame) = reader.next()? else {
                    let detail = format!("record {position} became unreadable");
                    return Err(LogError::corrupt(reader.path(), offset, detail));
                };
                for (sequence, record) in frame.records().skip_while(|(sequence, _)| *sequence < from) {
                    consumer(sequence, record).map_err(|source| LogError::Consumer { sequence, source })?;
                }
            }
        }
        Ok(())
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
            let limit = log.record_bytes_max();
            if record.len() > limit {
                return Err(LogError::TooLarge { bytes: record.len(), limit });
            }
            if !log.pending.fits(record, log.options.group_bytes_max as usize) {
                log.commit()?;
            }
            Ok(log.pending.push(record))
        })
    }

    fn record_bytes_max(&self) -> usize {
        self.options.record_bytes_max()
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
            log.read(from, consumer)
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
            // A segment goes when the next one begins at or before `until`; the newest stays.
            let count = log.segments.iter().skip(1).take_while(|base| **base <= until).count();
            for base in log.segments.drain(..count) {
                let path = log.directory.segment(base);
                log.directory.files.remove(&path).map_err(|error| LogError::io(&path, error))?;
            }
            quarantine::clear(&log.directory)
        })
    }
}

/// The files of a log that was found whole.
struct Found {
    segments: Vec<u64>,
    newest: Newest,
    /// Position of the next record.
    next: u64,
}

/// Reads every frame once and checks that none is missing, then cuts a torn tail; creates the first segment of a new
/// log. Changes nothing if there is damage.
fn verify(directory: &Directory, mark: &Mark, options: EmbeddedOptions) -> Result<Found, LogError> {
    let mut segments = directory.segments()?;
    let Some(oldest) = segments.first().copied() else {
        if mark.first < mark.committed {
            let detail = format!("records {}..{} are missing, with all segment files", mark.first, mark.committed);
            return Err(LogError::corrupt(directory.path(), 0, detail));
        }
        let (next, bytes) = (mark.committed, options.segment_bytes);
        let file = segment::create(directory, next, mark.log_id, &[], bytes)?;
        segments.push(next);
        return Ok(Found { segments, newest: Newest { file, at: HEADER as u64, bytes }, next });
    };
    if oldest > mark.first {
        let detail = format!("records {}..{oldest} are missing, with their segment file", mark.first);
        return Err(LogError::corrupt(directory.path(), 0, detail));
    }
    let mut last = None;
    for (at, base) in segments.iter().enumerate() {
        let mut reader = Reader::open(directory, *base, mark.log_id)?;
        reader.check_header()?;
        while reader.next()?.is_some() {}
        let (position, offset) = (reader.position(), reader.at());
        match segments.get(at + 1) {
            Some(next) if *next != position => {
                let detail = format!("record {position} is unreadable, and the next file begins with {next}");
                return Err(LogError::corrupt(reader.path(), offset, detail));
            }
            Some(_) => {}
            None => last = Some(reader),
        }
    }
    let reader = last.expect("there is a segment");
    let (next, at) = (reader.position(), reader.at());
    if next < mark.committed {
        let detail = format!("record {next} is unreadable, and {} were committed", mark.committed);
        return Err(LogError::corrupt(reader.path(), at, detail));
    }
    let (file, bytes) = reader.cut(options.segment_bytes)?;
    Ok(Found { segments, newest: Newest { file, at, bytes }, next })
}
