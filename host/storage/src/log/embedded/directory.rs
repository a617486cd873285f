//! The log's directory: the names in it, and the files by them.

use std::path::{Path, PathBuf};

use super::super::LogError;
use super::segment;
use crate::files::FileSystem;

/// The directory of a log, on the file system that it is on.
pub(super) struct Directory {
    pub(super) files: Box<dyn FileSystem>,
    path: PathBuf,
}

impl Directory {
    /// The directory at `path`, which is created if it is not there.
    pub(super) fn open(files: impl FileSystem + 'static, path: &Path) -> Result<Self, LogError> {
        files.create_directory(path).map_err(|error| LogError::io(path, error))?;
        Ok(Self { files: Box::new(files), path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all files.
    pub(super) fn names(&self) -> Result<Vec<String>, LogError> {
        self.files.names(&self.path).map_err(|error| LogError::io(&self.path, error))
    }

    /// The segment file whose first record has the position `base`.
    pub(super) fn segment(&self, base: u64) -> PathBuf {
        segment::path(&self.path, base)
    }

    /// Positions of the first records of the segment files, ascending.
    pub(super) fn segments(&self) -> Result<Vec<u64>, LogError> {
        let names = self.names()?;
        let digits = names.iter().filter_map(|name| name.strip_suffix(".log")).filter(|digits| digits.len() == 20);
        let mut bases: Vec<_> = digits.filter_map(|digits| digits.parse::<u64>().ok()).collect();
        bases.sort_unstable();
        Ok(bases)
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> Result<(), LogError> {
        self.files.sync_directory(&self.path).map_err(|error| LogError::io(&self.path, error))
    }
}
