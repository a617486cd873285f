//! The bytes of a part from its beginning to its end: out of a piece that was read for several, or read ahead by one window.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::super::error::SnapshotError;
use super::super::manifest::PartRef;
use super::super::objects::{Objects, Pending};
use super::pieces::{Piece, Pieces};

/// Bytes per request: few requests with S3, little memory with many readers.
const WINDOW_BYTES: u64 = 4 << 20;

pub(crate) struct Fetch {
    objects: Objects,
    object: String,
    /// Expected size of the object, bytes.
    size: u64,
    /// Where in it the part is.
    range: Range<u64>,
    /// Offset up to which bytes were requested.
    asked: u64,
    window: Bytes,
    ahead: Option<Pending<Result<(Bytes, u64), SnapshotError>>>,
    /// What it is read with.
    piece: Option<Arc<Piece>>,
}

impl Fetch {
    /// The bytes of a part by itself.
    pub(crate) fn new(objects: Objects, part: &PartRef) -> Self {
        Self::by_itself(objects, &part.object, part.object_bytes, part.range())
    }

    /// The bytes of a whole object of this size.
    pub(crate) fn whole(objects: Objects, object: &str, size: u64) -> Self {
        Self::by_itself(objects, object, size, 0..size)
    }

    /// The bytes of one of several parts.
    pub(crate) fn among(pieces: &Pieces, part: &PartRef) -> Self {
        match pieces.ask(part) {
            Some(piece) => {
                let objects = pieces.objects().clone();
                Self::with(objects, &part.object, part.object_bytes, part.range(), Some(piece))
            }
            None => Self::new(pieces.objects().clone(), part),
        }
    }

    fn by_itself(objects: Objects, object: &str, size: u64, range: Range<u64>) -> Self {
        let mut fetch = Self::with(objects, object, size, range, None);
        fetch.ask();
        fetch
    }

    fn with(objects: Objects, object: &str, size: u64, range: Range<u64>, piece: Option<Arc<Piece>>) -> Self {
        let (object, asked) = (object.to_owned(), range.start);
        Self { objects, object, size, range, asked, window: Bytes::new(), ahead: None, piece }
    }

    fn ask(&mut self) {
        if self.asked < self.range.end {
            let end = self.range.end.min(self.asked + WINDOW_BYTES);
            self.ahead = Some(self.objects.get_range(&self.object, self.asked..end));
            self.asked = end;
        }
    }

    /// The next `length` bytes, of which there must be as many: `at` is where in the part they begin, for errors.
    pub(crate) fn take(&mut self, at: u64, length: usize) -> Result<Bytes, SnapshotError> {
        let at = self.range.start + at;
        if length as u64 > self.range.end.saturating_sub(at) {
            return Err(SnapshotError::damaged(&self.object, at, format!("{length} more bytes do not fit into it")));
        }
        if self.window.len() < length {
            let mut joined = BytesMut::with_capacity(length);
            joined.extend_from_slice(&self.window);
            while joined.len() < length {
                self.next_window(at + joined.len() as u64)?;
                let missing = length - joined.len();
                joined.extend_from_slice(&self.window.split_to(missing.min(self.window.len())));
            }
            return Ok(joined.freeze());
        }
        Ok(self.window.split_to(length))
    }

    /// The bytes that follow those before `from`, where in the object they begin.
    fn next_window(&mut self, from: u64) -> Result<(), SnapshotError> {
        if let Some(piece) = self.piece.as_ref().filter(|_| self.asked < self.range.end) {
            self.window = piece.read(&self.objects, self.range.clone())?;
            self.asked = self.range.end;
            return Ok(());
        }
        let ahead = self
            .ahead
            .take()
            .ok_or_else(|| SnapshotError::damaged(&self.object, from, "the store returned nothing more"))?;
        let (bytes, whole) = ahead.wait()?;
        SnapshotError::check_size(&self.object, whole, self.size)?;
        self.window = bytes;
        self.ask();
        Ok(())
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if let Some(piece) = &self.piece {
            piece.is_read();
        }
    }
}
