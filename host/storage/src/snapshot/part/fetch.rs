//! The bytes of an object from its beginning to its end, read ahead by one window.

use bytes::{Bytes, BytesMut};

use super::super::error::SnapshotError;
use super::super::objects::{Objects, Pending};

/// Bytes per request: few requests with S3, little memory with many readers.
const WINDOW_BYTES: u64 = 4 << 20;

pub(crate) struct Fetch {
    objects: Objects,
    object: String,
    /// Expected size of the object, bytes.
    size: u64,
    /// Bytes requested so far, from the start.
    asked: u64,
    window: Bytes,
    ahead: Option<Pending<Result<(Bytes, u64), SnapshotError>>>,
}

impl Fetch {
    pub(crate) fn new(objects: Objects, object: String, size: u64) -> Self {
        let mut fetch = Self { objects, object, size, asked: 0, window: Bytes::new(), ahead: None };
        fetch.ask();
        fetch
    }

    fn ask(&mut self) {
        if self.asked < self.size {
            let end = self.size.min(self.asked + WINDOW_BYTES);
            self.ahead = Some(self.objects.get_range(&self.object, self.asked..end));
            self.asked = end;
        }
    }

    /// The next `length` bytes, of which there must be as many: `at` is where they begin, for errors.
    pub(crate) fn take(&mut self, at: u64, length: usize) -> Result<Bytes, SnapshotError> {
        if length as u64 > self.size.saturating_sub(at) {
            return Err(SnapshotError::damaged(&self.object, at, format!("{length} more bytes do not fit into it")));
        }
        if self.window.len() < length {
            let mut joined = BytesMut::with_capacity(length);
            joined.extend_from_slice(&self.window);
            while joined.len() < length {
                self.next_window()?;
                let missing = length - joined.len();
                joined.extend_from_slice(&self.window.split_to(missing.min(self.window.len())));
            }
            return Ok(joined.freeze());
        }
        Ok(self.window.split_to(length))
    }

    fn next_window(&mut self) -> Result<(), SnapshotError> {
        let from = self.asked;
        let ahead = self.ahead.take().ok_or_else(|| SnapshotError::damaged(&self.object, from, "it ends there"))?;
        let (bytes, whole) = ahead.wait()?;
        if whole != self.size {
            let what = format!("it has {whole} bytes instead of {}", self.size);
            return Err(SnapshotError::damaged(&self.object, whole.min(self.size), what));
        }
        self.window = bytes;
        if self.window.is_empty() {
            return Err(SnapshotError::damaged(&self.object, from, "the store returned nothing"));
        }
        self.ask();
        Ok(())
    }
}
