//! The commit mark: the position up to which the log is known to be durable.
//!
//! `log.mark` has two places for a mark of 64 bytes, a sector apart, which are written in turn after every commit and, except
//! when the log is opened, trimmed or closed, not synced: that would double the cost of a commit. So neither says more than
//! is true, and the newer one counts; where one is damaged, the other does. It is exact after the end of the process,
//! however abrupt; after a power failure it may lag by what the kernel had not written back, and where the newer one was
//! damaged by one commit. Within that lag damage to the very last frame looks like a torn tail.
//!
//! It also carries the format's version and the log's id, and its lock keeps other processes out.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};

use super::super::LogError;
use super::directory::Directory;
use super::format::{self, FORMAT, HEADER, HeaderError};
use crate::files::{Opening, RandomAccessFile};

pub(super) const NAME: &str = "log.mark";
/// Where a mark may stand: what damages one sector seldom meets two.
pub(super) const PLACES: [u64; 2] = [0, 512];

/// Contents of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Random number that tells the files of this log from those of others.
    pub(super) log_id: u32,
    /// Position below which every record was durable.
    pub(super) committed: u64,
    /// First position that has not been trimmed.
    pub(super) first: u64,
}

/// The open and locked file.
pub(super) struct MarkFile {
    path: PathBuf,
    file: Box<dyn RandomAccessFile>,
    mark: Mark,
    /// Which of [`PLACES`] the next mark is written to.
    place: usize,
}

impl MarkFile {
    /// Opens, locks and reads the mark; in a directory without a log creates that of the log `log_id`.
    pub(super) fn open(directory: &Directory, log_id: u32) -> Result<Self, LogError> {
        let path = directory.path().join(NAME);
        let failed = |error| LogError::io(&path, error);
        let file = directory.files.open(&path, Opening::OrCreate).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => LogError::Locked(directory.path().to_owned()),
            TryLockError::Error(error) => failed(error),
        })?;

        let mut found = Vec::new();
        for (place, at) in PLACES.into_iter().enumerate() {
            let mut bytes = [0; HEADER];
            match file.read_exact_at(&mut bytes, at) {
                // After a power failure a file may be as long as it was written, and zeros.
                Ok(()) if bytes != [0; HEADER] => found.push((place, decode(&path, &bytes))),
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
        }
        let mut marks: Vec<(usize, Mark)> = Vec::new();
        let mut problem = None;
        for (place, mark) in found {
            match mark {
                Ok(mark) => marks.push((place, mark)),
                Err(error @ LogError::Corrupt { .. }) => problem = Some(error),
                // Another version's.
                Err(error) => return Err(error),
            }
        }
        if let Some((place, mark)) = marks.into_iter().max_by_key(|(_, mark)| (mark.committed, mark.first)) {
            if let Some(problem) = problem {
                tracing::warn!(%problem, "one of two marks of the log is damaged, the other counts");
            }
            let mut this = Self { path, file, mark, place: 1 - place };
            if directory.segments()?.is_empty() {
                // Of a process that was killed before it had synced it.
                this.sync()?;
                directory.sync()?;
            }
            return Ok(this);
        }
        if let Some(problem) = problem {
            return Err(problem);
        }
        if !directory.segments()?.is_empty() {
            return Err(LogError::corrupt(&path, 0, "without a mark"));
        }
        let mut this = Self { path, file, mark: Mark { log_id, committed: 0, first: 0 }, place: 0 };
        // Durable before the first segment is: without it a log is taken for damaged.
        this.write(this.mark)?;
        this.sync()?;
        directory.sync()?;
        Ok(this)
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Rewrites the file. The next process sees it; the next power failure may not.
    pub(super) fn write(&mut self, mark: Mark) -> Result<(), LogError> {
        assert!(mark.first <= mark.committed, "only durable records are trimmed");
        assert!(mark.committed >= self.mark.committed, "what is durable stays so");
        assert_eq!(mark.log_id, self.mark.log_id, "a log keeps its id");
        let (file, at) = (&self.file, PLACES[self.place]);
        file.write_all_at(&encode(mark), at).map_err(|error| LogError::io(&self.path, error))?;
        self.mark = mark;
        self.place = 1 - self.place;
        Ok(())
    }

    /// Makes the last mark durable, in both places.
    pub(super) fn sync(&mut self) -> Result<(), LogError> {
        self.write(self.mark)?;
        self.file.sync_data().map_err(|error| LogError::io(&self.path, error))
    }
}

impl Drop for MarkFile {
    fn drop(&mut self) {
        // Spares the next start the doubt about the last frame; a mark that lags is still true.
        let _ = self.sync();
        // Closing alone would leave the lock to a child process that is just being started.
        let _ = self.file.unlock();
    }
}

fn encode(mark: Mark) -> [u8; HEADER] {
    format::header(format::MARK, mark.log_id, [mark.committed, mark.first])
}

fn decode(path: &Path, bytes: &[u8; HEADER]) -> Result<Mark, LogError> {
    match format::decode_header(format::MARK, bytes) {
        Ok((log_id, [committed, first])) if first <= committed => Ok(Mark { log_id, committed, first }),
        Ok(_) => Err(LogError::corrupt(path, 16, "a commit mark that was never written by this program")),
        Err(HeaderError::Damaged) => Err(LogError::corrupt(path, 0, "not a commit mark, or a damaged one")),
        Err(HeaderError::Version(found)) if found < FORMAT => {
            Err(LogError::OlderFormat { file: path.to_owned(), found, supported: FORMAT })
        }
        Err(HeaderError::Version(found)) => {
            Err(LogError::NewerFormat { file: path.to_owned(), found, supported: FORMAT })
        }
    }
}
