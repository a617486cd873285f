//! The log in memory, for tests and simulation.
//!
//! [`MemoryDisk`] stands for what survives a crash: dropping a [`MemoryLog`]
//! loses what was not synced, and opening the disk again finds the rest. It
//! can be made to fail like a disk.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Consumer, Log, LogError, check_range};

/// Contents that survive a crash of the process that writes a [`MemoryLog`]. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    first: u64,
    records: VecDeque<Vec<u8>>,
    open: bool,
    fail_next_sync: bool,
}

impl MemoryDisk {
    /// Opens the log on this disk, or refuses if it is open already.
    pub fn open(&self) -> Result<MemoryLog, LogError> {
        let mut contents = self.contents();
        if contents.open {
            return Err(LogError::Locked(PathBuf::from("(memory)")));
        }
        contents.open = true;
        Ok(MemoryLog { disk: self.clone(), unsynced: Vec::new(), failed: false })
    }

    /// Makes the next sync that has something to write fail, and lose it.
    pub fn fail_next_sync(&self) {
        self.contents().fail_next_sync = true;
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // A panic while it is held leaves the records as they were: no update can panic halfway.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A [`Log`] whose disk is a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryLog {
    disk: MemoryDisk,
    unsynced: Vec<Vec<u8>>,
    failed: bool,
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        self.disk.contents().open = false;
    }
}

impl Log for MemoryLog {
    fn append(&mut self, record: &[u8]) -> Result<u64, LogError> {
        if self.failed {
            return Err(LogError::Failed);
        }
        self.unsynced.push(record.to_vec());
        Ok(self.next() - 1)
    }

    fn record_bytes_max(&self) -> usize {
        usize::MAX
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if self.failed {
            return Err(LogError::Failed);
        }
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let mut contents = self.disk.contents();
        if std::mem::take(&mut contents.fail_next_sync) {
            self.failed = true;
            let source = io::Error::other("planted failure of a sync");
            return Err(LogError::Io { path: PathBuf::from("(memory)"), source });
        }
        contents.records.extend(self.unsynced.drain(..));
        Ok(())
    }

    fn first(&self) -> u64 {
        self.disk.contents().first
    }

    fn durable(&self) -> u64 {
        let contents = self.disk.contents();
        contents.first + contents.records.len() as u64
    }

    fn next(&self) -> u64 {
        self.durable() + self.unsynced.len() as u64
    }

    fn replay(&mut self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError> {
        self.sync()?;
        let (first, next) = (self.first(), self.next());
        check_range(from, first, next)?;
        for sequence in from..next {
            // Copied, so that the consumer may look at the disk without a deadlock.
            let record = self.disk.contents().records[(sequence - first) as usize].clone();
            consumer(sequence, &record).map_err(|source| LogError::Consumer { sequence, source })?;
        }
        Ok(())
    }

    fn trim(&mut self, until: u64) -> Result<(), LogError> {
        self.sync()?;
        if until <= self.first() {
            return Ok(());
        }
        check_range(until, self.first(), self.next())?;
        let mut contents = self.disk.contents();
        let count = (until - contents.first) as usize;
        contents.records.drain(..count);
        contents.first = until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{self, Storage};
    use super::*;

    impl Storage for MemoryDisk {
        fn open(&self) -> Result<Box<dyn Log>, LogError> {
            Ok(Box::new(MemoryDisk::open(self)?))
        }
    }

    #[test]
    fn keeps_the_contract() {
        contract::check(&MemoryDisk::default);
    }

    #[test]
    fn a_failed_sync_is_final_and_loses_only_the_unsynced() {
        let disk = MemoryDisk::default();
        let mut log = disk.open().unwrap();
        log.append(b"kept").unwrap();
        log.sync().unwrap();
        disk.fail_next_sync();
        log.sync().expect("there is nothing to write");
        log.append(b"lost").unwrap();
        assert!(matches!(log.sync(), Err(LogError::Io { .. })));
        assert!(matches!(log.append(b"more"), Err(LogError::Failed)));
        assert!(matches!(log.sync(), Err(LogError::Failed)));
        drop(log);
        assert_eq!(contract::records(&mut disk.open().unwrap()), [b"kept".to_vec()]);
    }

    #[test]
    fn it_is_open_once_and_trims_forwards_only() {
        let disk = MemoryDisk::default();
        let mut log = disk.open().unwrap();
        assert!(matches!(disk.open(), Err(LogError::Locked(_))));
        for record in [b"0", b"1", b"2"] {
            log.append(record).unwrap();
        }
        log.trim(2).unwrap();
        for until in [0, 1, 2] {
            log.trim(until).unwrap();
            assert_eq!((log.first(), log.next()), (2, 3), "{until}");
        }
        assert!(matches!(log.trim(4), Err(LogError::OutOfRange { asked: 4, first: 2, next: 3 })));
        drop(log);
        assert_eq!(contract::records(&mut disk.open().unwrap()), [b"2".to_vec()]);
    }
}
