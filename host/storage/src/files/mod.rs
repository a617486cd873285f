//! Files, as the embedded log uses them: the few operations on which its durability rests.
//!
//! [`LocalFileSystem`] is the operating system's; [`MemoryFileSystem`] crashes and fails as it is told, for tests and
//! simulation. What a call promises is what POSIX promises: bytes last once they are synced, a name once its directory
//! is.

mod closing;
mod local;
mod memory;

use std::fs::TryLockError;
use std::io;
use std::path::Path;

#[cfg(test)]
pub(crate) use local::LocalFile;
pub use local::LocalFileSystem;
pub use memory::{MemoryFileSystem, Operation, OperationKind};

/// Directories and the names in them.
pub trait FileSystem: Send + Sync {
    /// Creates a directory, and those above it, if it is not there, and makes its name durable.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in any order; without those that are not UTF-8.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn RandomAccessFile>>;

    /// The bytes of a file, all of them.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, Opening::Existing)?;
        let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Gives a file another name in its directory, where it replaces a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name, and the file once nobody has it open.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names there are in a directory.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// What is to be there when a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Existing,
    /// Any: one that is missing is created, empty.
    OrCreate,
    /// An empty file: one that is there is emptied.
    Empty,
}

/// An open file, read and written at any offset. Dropping it closes it and gives up its lock.
pub trait RandomAccessFile: Send {
    /// Length, bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads some bytes at `offset`; none at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Reserves the space of the file up to `bytes`, and makes it that long, so that a sync need not write where its
    /// blocks are. They read as zeros.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Makes the bytes durable, and the length.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes everything about the file durable but its name.
    fn sync_all(&self) -> io::Result<()>;

    /// Whether the file still has this name: nobody has removed, renamed or replaced it or a directory above.
    fn is_at(&self, path: &Path) -> io::Result<bool>;

    /// Takes the lock that only one open file of a name can have.
    fn try_lock(&self) -> Result<(), TryLockError>;

    fn unlock(&self) -> io::Result<()>;

    /// Reads as many bytes as `buffer` has; [`io::ErrorKind::UnexpectedEof`] if there are fewer.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
