//! A file system in memory that knows what a crash may take: bytes that were not synced, names whose directory was not.
//!
//! It decides nothing itself. What remains of the unsynced is chosen by whoever lets it crash, and a hook is called
//! before every operation, which may let it fail, or take its time. The same calls with the same choices leave the same
//! files.
//!
//! What is assumed of the disk is what the log assumes:
//! - A sector that is written over has its old bytes or its new ones.
//! - Space that was reserved, and synced, and never written, may hold anything where the last write was going on.
//! - Names change in the order of the calls.

mod contents;
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::contents::Contents;
use self::file::MemoryFile;
use super::{FileSystem, Opening, RandomAccessFile};

/// A file system in memory. Clones are the same one.
#[derive(Clone)]
pub struct MemoryFileSystem {
    state: Arc<Mutex<State>>,
    before: Arc<Hook>,
}

/// Called before an operation, with nothing locked. With its error the operation fails, and has done nothing.
type Hook = dyn Fn(&Operation<'_>) -> io::Result<()> + Send + Sync;

/// An operation that is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    pub kind: OperationKind,
    /// The file or directory; of a rename, the old name.
    pub path: &'a Path,
    /// Bytes to be read or written, or the length that is reserved.
    pub bytes: u64,
}

/// What an [`Operation`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationKind {
    CreateDirectory,
    Names,
    Open,
    Rename,
    Remove,
    SyncDirectory,
    Length,
    Read,
    Write,
    Reserve,
    Sync,
    Lock,
}

type File = Arc<Mutex<Contents>>;

struct State {
    directories: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, File>,
    /// The names that a crash would leave if it took all of `changes`.
    durable: BTreeMap<PathBuf, File>,
    /// Changes of names since their directory was synced, oldest first.
    changes: Vec<Change>,
    /// The most that all files may have, bytes.
    capacity: u64,
    crashes: u64,
    /// Files opened so far: each has a number of its own.
    opened: u64,
}

enum Change {
    Create(PathBuf, File),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Change {
    fn directory(&self) -> Option<&Path> {
        let (Self::Create(path, _) | Self::Rename(path, _) | Self::Remove(path)) = self;
        path.parent()
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, File>) {
        match self {
            Self::Create(path, file) => {
                names.insert(path.clone(), file.clone());
            }
            Self::Rename(from, to) => {
                let file = names.remove(from).expect("changes are applied in their order");
                names.insert(to.clone(), file);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

impl State {
    /// Changes the names, not yet durably.
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| lock(file).length()).sum()
    }
}

impl Default for MemoryFileSystem {
    /// An empty one without bounds, on which nothing fails.
    fn default() -> Self {
        Self::new(|_| Ok(()))
    }
}

impl MemoryFileSystem {
    /// An empty one without bounds that calls `before` before each operation. That is called when files are dropped as
    /// well, by a log that syncs what it closes; there it must return, and its error is of no consequence.
    pub fn new(before: impl Fn(&Operation<'_>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let state = State {
            directories: BTreeSet::new(),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            changes: Vec::new(),
            capacity: u64::MAX,
            crashes: 0,
            opened: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), before: Arc::new(before) }
    }

    /// From now on there is room for so many bytes more, in all files together: reserved space counts.
    pub fn set_free(&self, bytes: u64) {
        let mut state = self.state();
        state.capacity = state.used().saturating_add(bytes);
    }

    /// For how many bytes more there is room.
    pub fn free(&self) -> u64 {
        let state = self.state();
        state.capacity.saturating_sub(state.used())
    }

    /// Loses what was not synced, but for what `choose` keeps, and whatever is open. `choose` is asked for numbers
    /// below its argument: how many of the changes of names have become durable, and of each file how long it is and
    /// which of the sectors that were written are. With zeros, the least is kept.
    pub fn crash(&self, choose: &mut dyn FnMut(u64) -> u64) {
        let mut state = self.state();
        let kept = choose(state.changes.len() as u64 + 1) as usize;
        let mut names = std::mem::take(&mut state.durable);
        for change in state.changes.drain(..).take(kept) {
            change.apply(&mut names);
        }
        for file in names.values() {
            lock(file).crash(choose);
        }
        (state.names, state.durable) = (names.clone(), names);
        state.crashes += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn before(&self, kind: OperationKind, path: &Path, bytes: u64) -> io::Result<()> {
        (self.before)(&Operation { kind, path, bytes })
    }
}

impl FileSystem for MemoryFileSystem {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.before(OperationKind::CreateDirectory, path, 0)?;
        self.state().directories.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.before(OperationKind::Names, directory, 0)?;
        let state = self.state();
        if !state.directories.contains(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let within = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(within.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn RandomAccessFile>> {
        self.before(OperationKind::Open, path, 0)?;
        let mut state = self.state();
        let file = match state.names.get(path) {
            Some(file) => file.clone(),
            None => {
                let there = path.parent().is_some_and(|directory| state.directories.contains(directory));
                if opening == Opening::Existing || !there {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let file = File::default();
                state.change(Change::Create(path.to_owned(), file.clone()));
                file
            }
        };
        if opening == Opening::Empty {
            lock(&file).empty();
        }
        state.opened += 1;
        Ok(Box::new(MemoryFile::new(self.clone(), path.to_owned(), file, state.crashes, state.opened)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(OperationKind::Rename, from, 0)?;
        let mut state = self.state();
        if from.parent() != to.parent() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.before(OperationKind::Remove, path, 0)?;
        let mut state = self.state();
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.before(OperationKind::SyncDirectory, path, 0)?;
        let state = &mut *self.state();
        let (synced, rest) =
            std::mem::take(&mut state.changes).into_iter().partition(|change| change.directory() == Some(path));
        state.changes = rest;
        Vec::into_iter(synced).for_each(|change| change.apply(&mut state.durable));
        Ok(())
    }
}

/// Locks what no panic leaves half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::TryLockError;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A file system with a directory, and a path in it.
    fn files() -> (MemoryFileSystem, PathBuf) {
        let files = MemoryFileSystem::default();
        files.create_directory(Path::new("/log")).unwrap();
        (files, PathBuf::from("/log/file"))
    }

    fn written(files: &MemoryFileSystem, path: &Path, bytes: &[u8]) -> Box<dyn RandomAccessFile> {
        let file = files.open(path, Opening::OrCreate).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    const LEAST: fn(u64) -> u64 = |_| 0;
    const MOST: fn(u64) -> u64 = |limit| limit - 1;

    #[test]
    fn bytes_last_when_they_are_synced_and_names_when_their_directory_is() {
        for (sync, sync_directory) in [(false, false), (false, true), (true, false), (true, true)] {
            let (files, path) = files();
            let file = written(&files, &path, b"bytes");
            if sync {
                file.sync_data().unwrap();
            }
            if sync_directory {
                files.sync_directory(Path::new("/log")).unwrap();
            }
            files.crash(&mut { LEAST });
            let expected: Option<&[u8]> = sync_directory.then_some(if sync { b"bytes" } else { b"" });
            assert_eq!(files.read(&path).ok().as_deref(), expected);
        }
        let (files, path) = files();
        written(&files, &path, b"bytes");
        files.crash(&mut { MOST });
        assert_eq!(files.read(&path).unwrap(), b"bytes", "more may be kept than was synced");
    }

    #[test]
    fn a_crash_keeps_the_first_changes_of_names() {
        let expected: [&[&str]; 5] = [&[], &["file"], &["renamed"], &["file", "renamed"], &["file"]];
        for (kept, expected) in expected.into_iter().enumerate() {
            let (files, path) = files();
            drop(written(&files, &path, b"bytes"));
            files.rename(&path, Path::new("/log/renamed")).unwrap();
            drop(written(&files, &path, b"other"));
            files.remove(Path::new("/log/renamed")).unwrap();
            let mut first = Some(kept as u64);
            files.crash(&mut |limit| first.take().unwrap_or(limit - 1));
            assert_eq!(files.names(Path::new("/log")).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_there_is_neither_renamed_nor_removed_and_nothing_goes_to_another_directory() {
        let (files, path) = files();
        let (none, elsewhere) = (Path::new("/log/none"), Path::new("/other/file"));
        files.create_directory(Path::new("/other")).unwrap();
        drop(written(&files, &path, b"bytes"));
        for (refused, kind) in [
            (files.rename(none, &path), io::ErrorKind::NotFound),
            (files.remove(none), io::ErrorKind::NotFound),
            (files.rename(&path, elsewhere), io::ErrorKind::CrossesDevices),
        ] {
            assert_eq!(refused.unwrap_err().kind(), kind);
        }
        // Nor is it after a crash.
        files.sync_directory(Path::new("/log")).unwrap();
        files.crash(&mut { MOST });
        assert_eq!(files.names(Path::new("/log")).unwrap(), ["file"]);
        assert_eq!(files.read(&path).unwrap(), b"bytes");
        assert!(files.names(Path::new("/other")).unwrap().is_empty());
    }

    #[test]
    fn a_crash_closes_what_is_open_and_frees_its_lock() {
        let (files, path) = files();
        let file = written(&files, &path, b"bytes");
        file.try_lock().unwrap();
        let other = files.open(&path, Opening::Existing).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        files.crash(&mut { MOST });
        assert!(file.write_all_at(b"late", 0).is_err() && file.sync_data().is_err());
        let again = files.open(&path, Opening::Existing).unwrap();
        again.try_lock().unwrap();
        // By one that does not have it any more.
        drop(file);
        let other = files.open(&path, Opening::Existing).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(again);
        other.try_lock().unwrap();
        assert_eq!(files.read(&path).unwrap(), b"bytes");
    }

    #[test]
    fn a_full_one_takes_no_more_and_a_removal_makes_room() {
        let (files, path) = files();
        files.set_free(100);
        let file = written(&files, &path, &[1; 60]);
        let other = files.open(Path::new("/log/other"), Opening::Empty).unwrap();
        other.reserve(40).unwrap();
        assert_eq!(files.free(), 0);
        for full in [file.write_all_at(&[2; 2], 59), other.reserve(41)] {
            assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
        file.write_all_at(&[2; 60], 0).unwrap();
        files.remove(&path).unwrap();
        other.reserve(100).unwrap();
    }

    #[test]
    fn an_operation_that_is_to_fail_does_nothing() {
        let failing = Arc::new(AtomicBool::new(false));
        let fail = failing.clone();
        let files = MemoryFileSystem::new(move |operation| {
            let fails = fail.load(Ordering::Relaxed) && operation.kind != OperationKind::Read;
            if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        });
        let (directory, path) = (Path::new("/log"), Path::new("/log/file"));
        files.create_directory(directory).unwrap();
        let file = written(&files, path, b"bytes");
        failing.store(true, Ordering::Relaxed);
        assert!(file.write_all_at(b"other", 0).is_err() && file.sync_all().is_err() && file.reserve(9).is_err());
        assert!(files.remove(path).is_err() && files.sync_directory(directory).is_err());
        assert!(files.create_directory(Path::new("/other")).is_err());
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"bytes");
        failing.store(false, Ordering::Relaxed);
        files.crash(&mut { LEAST });
        assert!(files.names(directory).unwrap().is_empty() && files.names(Path::new("/other")).is_err());
    }
}
