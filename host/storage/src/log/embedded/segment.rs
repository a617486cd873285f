//! Segment files: created with their space reserved, and read frame by frame.

use std::io;
use std::path::{Path, PathBuf};

use styx_planted::{Bug, planted};

use super::super::LogError;
use super::directory::Directory;
use super::format::{self, ALIGNMENT, FORMAT, FRAME_HEADER, Frame, HEADER, HeaderError};
use crate::files::{Opening, RandomAccessFile};

/// Suffix of a file that is being made.
pub(super) const UNFINISHED: &str = ".new";

/// Bytes read at a time; a longer frame is read whole.
const READ_BYTES: usize = 512 << 10;

/// The file whose first record has the position `base`.
pub(super) fn path(directory: &Path, base: u64) -> PathBuf {
    directory.join(format!("{base:020}.log"))
}

/// Creates, durably and with a space of `bytes`, the segment of the log `log_id` that begins with the position `base`
/// and holds `frames`. A file of this name is replaced.
pub(super) fn create(
    directory: &Directory,
    base: u64,
    log_id: u32,
    frames: &[u8],
    bytes: u64,
) -> Result<Box<dyn RandomAccessFile>, LogError> {
    let path = directory.segment(base);
    let unfinished = with_suffix(&path, UNFINISHED);
    let failed = |error| LogError::io(&unfinished, error);
    let file = directory.files.open(&unfinished, Opening::Empty).map_err(failed)?;
    file.write_all_at(&format::header(format::SEGMENT, log_id, [base, 0]), 0).map_err(failed)?;
    file.write_all_at(frames, HEADER as u64).map_err(failed)?;
    file.reserve(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    // Under its name only when it is whole: a segment without a header is damaged.
    directory.files.rename(&unfinished, &path).map_err(|error| LogError::io(&path, error))?;
    if !planted(Bug::NameNotSynced) {
        directory.sync()?;
    }
    Ok(file)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Reads a segment from its beginning, frame by frame.
pub(super) struct Reader {
    path: PathBuf,
    file: Box<dyn RandomAccessFile>,
    log_id: u32,
    /// Length of the file.
    length: u64,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read and not yet used, and the offset of the first of them.
    unused: std::ops::Range<usize>,
    at: u64,
    /// Position of the next record.
    position: u64,
}

impl Reader {
    /// Opens the segment whose first record has the position `base`.
    pub(super) fn open(directory: &Directory, base: u64, log_id: u32) -> Result<Self, LogError> {
        let path = directory.segment(base);
        let failed = |error| LogError::io(&path, error);
        let file = directory.files.open(&path, Opening::Existing).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let buffer = vec![0; READ_BYTES];
        Ok(Self { path, file, log_id, length, buffer, unused: 0..0, at: HEADER as u64, position: base })
    }

    pub(super) fn check_header(&self) -> Result<(), LogError> {
        let mut bytes = [0; HEADER];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(LogError::corrupt(&self.path, 0, "shorter than a header"));
            }
            Err(error) => return Err(self.failed(error)),
        }
        let (file, supported) = (self.path.clone(), FORMAT);
        match format::decode_header(format::SEGMENT, &bytes) {
            Err(HeaderError::Damaged) => Err(LogError::corrupt(&self.path, 0, "the header is damaged")),
            Err(HeaderError::Version(found)) if found < FORMAT => Err(LogError::OlderFormat { file, found, supported }),
            Err(HeaderError::Version(found)) => Err(LogError::NewerFormat { file, found, supported }),
            Ok((log_id, _)) if log_id != self.log_id => {
                Err(LogError::corrupt(&self.path, 12, "the segment file is one of another log"))
            }
            Ok((_, [base, _])) if base != self.position => {
                Err(LogError::corrupt(&self.path, 16, "the segment file has the name of another"))
            }
            Ok(_) => Ok(()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of the next frame.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Position of the next record.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    fn failed(&self, error: io::Error) -> LogError {
        LogError::io(&self.path, error)
    }

    /// The next frame, verified; `None` if the next bytes are none, which is for the caller to judge.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, LogError> {
        if !self.fill(FRAME_HEADER)? {
            return Ok(None);
        }
        let header = self.buffer[self.unused.clone()].first_chunk().expect("a header was read");
        let Some(bytes) = format::frame_bytes(header, self.position..=self.position) else { return Ok(None) };
        if !self.fill(bytes)? {
            return Ok(None);
        }
        let start = self.unused.start;
        let Some(frame) = format::decode_frame(&self.buffer[start..start + bytes], self.log_id) else {
            return Ok(None);
        };
        self.unused.start += bytes;
        self.at += bytes as u64;
        self.position = frame.end();
        Ok(Some(frame))
    }

    /// Has at least so many bytes in the buffer; false if the file ends before.
    fn fill(&mut self, bytes: usize) -> Result<bool, LogError> {
        if self.unused.len() >= bytes {
            return Ok(true);
        }
        if self.length.saturating_sub(self.at) < bytes as u64 {
            return Ok(false);
        }
        self.buffer.copy_within(self.unused.clone(), 0);
        self.unused = 0..self.unused.len();
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.unused.len() < bytes {
            let offset = self.at + self.unused.len() as u64;
            let read = self.file.read_at(&mut self.buffer[self.unused.end..], offset);
            match read.map_err(|error| LogError::io(&self.path, error))? {
                0 => return Ok(false),
                read => self.unused.end += read,
            }
        }
        Ok(true)
    }

    /// Cuts an unfinished write off the end, behind the last frame that could be read, and returns the file with its
    /// space, of at least `bytes`.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if frames follow, so that this one is damaged: the next is only written when it is
    /// durable. Nothing was changed then.
    pub(super) fn cut(mut self, bytes: u64) -> Result<(Box<dyn RandomAccessFile>, u64), LogError> {
        if let Some(torn) = self.rest()? {
            let first = self.position;
            if format::find_frame(&torn, ALIGNMENT, first, self.log_id).is_some() {
                let detail = format!("record {first} is unreadable, and others follow");
                return Err(LogError::corrupt(&self.path, self.at, detail));
            }
            tracing::info!(file = %self.path.display(), offset = self.at, "cut an unfinished write off the end of the log");
            let used = torn.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            self.file.write_all_at(&vec![0; used], self.at).map_err(|error| self.failed(error))?;
        }
        if self.length < bytes {
            self.file.reserve(bytes).map_err(|error| self.failed(error))?;
        }
        if !planted(Bug::FoundNotSynced) {
            self.file.sync_all().map_err(|error| self.failed(error))?;
        }
        Ok((self.file, self.length.max(bytes)))
    }

    /// The bytes from the next frame's offset to the end of the file, unless all are zero.
    fn rest(&mut self) -> Result<Option<Vec<u8>>, LogError> {
        self.unused = 0..0;
        let mut offset = self.at;
        loop {
            let read = self.file.read_at(&mut self.buffer, offset).map_err(|error| self.failed(error))?;
            if read == 0 {
                return Ok(None);
            }
            // Without an early end this is a few instructions per cache line.
            if self.buffer[..read].iter().fold(0, |all, byte| all | byte) != 0 {
                break;
            }
            offset += read as u64;
        }
        let mut rest = vec![0; usize::try_from(self.length - self.at).expect("a segment fits into memory")];
        self.file.read_exact_at(&mut rest, self.at).map_err(|error| self.failed(error))?;
        Ok(Some(rest))
    }
}
