//! A file of a [`MemoryFileSystem`] that is open.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{File, MemoryFileSystem, OperationKind, lock};
use crate::files::RandomAccessFile;

pub(super) struct MemoryFile {
    files: MemoryFileSystem,
    path: PathBuf,
    file: File,
    /// Crashes before it was opened: the next one closes it.
    crashes: u64,
    /// Tells it from all others that were ever opened.
    number: u64,
}

impl MemoryFile {
    pub(super) fn new(files: MemoryFileSystem, path: PathBuf, file: File, crashes: u64, number: u64) -> Self {
        Self { files, path, file, crashes, number }
    }

    fn before(&self, kind: OperationKind, bytes: u64) -> io::Result<()> {
        self.files.before(kind, &self.path, bytes)?;
        if self.files.state().crashes == self.crashes {
            Ok(())
        } else {
            Err(io::Error::other("there was a crash since it was opened"))
        }
    }

    /// Fails if there is no space for a file of `bytes`.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let state = self.files.state();
        let more = bytes.saturating_sub(lock(&self.file).length());
        if more > 0 && state.used().saturating_add(more) > state.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.before(OperationKind::Sync, 0)?;
        lock(&self.file).sync();
        Ok(())
    }
}

impl RandomAccessFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        self.before(OperationKind::Length, 0)?;
        Ok(lock(&self.file).length())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.before(OperationKind::Read, buffer.len() as u64)?;
        Ok(lock(&self.file).read(buffer, offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.before(OperationKind::Write, bytes.len() as u64)?;
        self.make_room(offset + bytes.len() as u64)?;
        lock(&self.file).write(bytes, offset);
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.before(OperationKind::Reserve, bytes)?;
        self.make_room(bytes)?;
        lock(&self.file).reserve(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.state().names.get(path).is_some_and(|named| Arc::ptr_eq(named, &self.file)))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.before(OperationKind::Lock, 0).map_err(TryLockError::Error)?;
        if *lock(&self.file).holder.get_or_insert(self.number) == self.number {
            Ok(())
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    fn unlock(&self) -> io::Result<()> {
        lock(&self.file).holder.take_if(|holder| *holder == self.number);
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}
