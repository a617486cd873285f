//! The operating system's files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::FallocateFlags;

use super::{FileSystem, Opening, RandomAccessFile, closing};

/// The file system of this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalFileSystem;

impl FileSystem for LocalFileSystem {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(path)?;
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_directory(parent),
            _ => self.sync_directory(Path::new(".")),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(directory)?
            .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
            .collect()
    }

    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn RandomAccessFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.create(opening != Opening::Existing).truncate(opening == Opening::Empty);
        Ok(Box::new(LocalFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let file = File::open(path);
        fs::remove_file(path)?;
        if let Ok(file) = file {
            closing::close(file);
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// A file of this machine that is open.
pub(crate) struct LocalFile(pub(crate) File);

impl LocalFile {
    /// Makes it at least that long, with no space reserved.
    fn lengthen(&self, bytes: u64) -> io::Result<()> {
        if self.length()? < bytes {
            self.0.set_len(bytes)?;
        }
        Ok(())
    }
}

impl RandomAccessFile for LocalFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            // Some file systems reserve nothing; then a sync takes a little longer.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.lengthen(bytes),
            result => Ok(result?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let open = self.0.metadata()?;
        match fs::metadata(path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.0.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_at_its_name_until_that_is_anothers() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("a"), root.path().join("b"));
        let file = LocalFileSystem.open(&path, Opening::OrCreate).unwrap();
        assert!(file.is_at(&path).unwrap());
        assert!(!file.is_at(&other).unwrap(), "there is none");
        assert!(!file.is_at(&path.join("below")).unwrap(), "nor a directory");
        LocalFileSystem.rename(&path, &other).unwrap();
        LocalFileSystem.open(&path, Opening::OrCreate).unwrap();
        assert_eq!((file.is_at(&path).unwrap(), file.is_at(&other).unwrap()), (false, true));
        LocalFileSystem.remove(&path).unwrap();
        let mut names = LocalFileSystem.names(root.path()).unwrap();
        names.sort();
        assert_eq!(names, ["b"]);
        assert!(LocalFileSystem.remove(&path).is_err());
    }

    #[test]
    fn where_no_space_can_be_reserved_a_file_is_as_long_as_it_was_or_longer() {
        let file = LocalFile(tempfile::tempfile().unwrap());
        file.write_all_at(b"0123456789", 0).unwrap();
        for (bytes, length) in [(4, 10), (10, 10), (16, 16), (12, 16)] {
            file.lengthen(bytes).unwrap();
            assert_eq!(file.length().unwrap(), length);
        }
        let mut bytes = [1; 16];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"0123456789\0\0\0\0\0\0");
    }

    #[test]
    fn a_file_is_read_to_its_end_and_reserved_as_long_as_it_was_or_longer() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let file = LocalFileSystem.open(&path, Opening::Empty).unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        assert_eq!(LocalFileSystem.read(&path).unwrap(), b"0123456789");
        for (bytes, length) in [(4, 10), (10, 10), (16, 16)] {
            file.reserve(bytes).unwrap();
            assert_eq!(file.length().unwrap(), length);
        }
        assert_eq!(LocalFileSystem.read(&path).unwrap(), b"0123456789\0\0\0\0\0\0");
        LocalFileSystem.open(&path, Opening::Existing).unwrap();
        assert_eq!(file.length().unwrap(), 16, "one that is there stays as it is");
        assert!(LocalFileSystem.open(&root.path().join("none"), Opening::Existing).is_err());
        LocalFileSystem.open(&path, Opening::Empty).unwrap();
        assert_eq!(file.length().unwrap(), 0);
    }
}
