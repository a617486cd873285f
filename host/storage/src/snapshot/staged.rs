//! A large object on its way into a directory, as a file beside its place.
//!
//! The disk has taken every piece before the next is written. It takes what it is given in turn: were the whole object
//! written first and synchronised then, each sync of a log on the same disk would wait meanwhile, for as long as 64 MiB
//! take.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::location::make_directory;
use crate::files::{FileSystem, LocalFileSystem};

/// Bytes in a piece: what a sync of somebody else's may have to wait for.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// See the module. Dropping it abandons the object.
pub(crate) struct StagedFile {
    file: File,
    /// Where it is now; nowhere, once it is in its place.
    staged: Option<PathBuf>,
    place: PathBuf,
    /// Bytes that the disk has taken.
    taken: u64,
    /// Bytes behind them that are written.
    written: usize,
}

impl StagedFile {
    /// A file without bytes for `place`, which may be taken: whoever finishes last has it. `nonce` makes the name unique.
    pub fn create(place: PathBuf, nonce: u128) -> io::Result<Self> {
        make_directory(folder(&place))?;
        // No name of an object contains `#`, and what is named so is no object (`Objects::delete_staged`).
        let mut staged = place.clone().into_os_string();
        staged.push(format!("#{nonce:032x}"));
        let staged = PathBuf::from(staged);
        let file = File::options().write(true).create_new(true).open(&staged)?;
        Ok(StagedFile { file, staged: Some(staged), place, taken: 0, written: 0 })
    }

    /// Writes bytes behind those that are there.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.written));
            self.file.write_all(piece)?;
            self.written += piece.len();
            if self.written == PIECE_BYTES {
                await_disk(&self.file, self.taken, self.written)?;
                (self.taken, self.written) = (self.taken + self.written as u64, 0);
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Puts it in its place, for good.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(self.staged.as_ref().expect("it is finished once"), &self.place)?;
        self.staged = None;
        LocalFileSystem.sync_directory(folder(&self.place))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(staged) = &self.staged {
            // What cannot be deleted now is tidied up later.
            let _ = fs::remove_file(staged);
        }
    }
}

/// Waits until the disk has taken a part of a file, if perhaps not for good: a sync of each piece would have the file system
/// bring its journal up to date each time, and everybody's syncs wait for that, too.
#[cfg(target_os = "linux")]
fn await_disk(file: &File, at: u64, bytes: usize) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    const WRITE_AND_WAIT: u32 =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: a system call on a file that is open, with plain numbers.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), at as i64, bytes as i64, WRITE_AND_WAIT) };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        error if error.kind() == io::ErrorKind::Unsupported => file.sync_data(),
        error => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn await_disk(file: &File, _at: u64, _bytes: usize) -> io::Result<()> {
    file.sync_data()
}

fn folder(place: &Path) -> &Path {
    place.parent().expect("an object is in the directory of its store")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn it_is_in_its_place_when_it_is_finished_and_nowhere_when_it_is_dropped() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("some/where");
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES + 7).map(|at| (at / 1000) as u8).collect();
        for (nonce, step) in [5 << 10, PIECE_BYTES, PIECE_BYTES + 1, bytes.len()].into_iter().enumerate() {
            let mut file = StagedFile::create(directory.join("pack"), nonce as u128).unwrap();
            for part in bytes.chunks(step) {
                file.write(part).unwrap();
                assert!(file.written < PIECE_BYTES, "nothing longer waits for the disk");
            }
            assert_eq!(names(&directory).len(), if nonce == 0 { 1 } else { 2 }, "what is there stays until then");
            file.finish().unwrap();
            assert_eq!(names(&directory), ["pack"]);
            assert!(fs::read(directory.join("pack")).unwrap() == bytes, "in steps of {step}");
        }
        let mut file = StagedFile::create(directory.join("other"), 9).unwrap();
        file.write(&bytes).unwrap();
        assert!(StagedFile::create(directory.join("other"), 9).is_err(), "nobody writes into another's file");
        drop(file);
        assert_eq!(names(&directory), ["pack"]);
    }
}
