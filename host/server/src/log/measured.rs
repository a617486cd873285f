//! A log whose records, bytes and syncs are counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use styx_storage::log::{Consumer, Log, LogError, Stall};

use crate::stats::Stats;

pub(super) struct MeasuredLog {
    pub(super) log: Box<dyn Log>,
    pub(super) stats: Arc<Stats>,
}

impl MeasuredLog {
    /// Shows which records the log has.
    pub(super) fn measure(&self) {
        self.stats.log_first.store(self.log.first(), Ordering::Relaxed);
        self.stats.log_next.store(self.log.next(), Ordering::Relaxed);
    }
}

impl Log for MeasuredLog {
    fn append(&mut self, record: &[u8]) -> Result<u64, LogError> {
        let position = self.log.append(record)?;
        self.stats.appended(record.len());
        self.stats.log_next.store(self.log.next(), Ordering::Relaxed);
        Ok(position)
    }

    fn record_bytes_max(&self) -> usize {
        self.log.record_bytes_max()
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let started = Instant::now();
        self.log.sync()?;
        self.stats.synced(started);
        Ok(())
    }

    fn first(&self) -> u64 {
        self.log.first()
    }

    fn durable(&self) -> u64 {
        self.log.durable()
    }

    fn next(&self) -> u64 {
        self.log.next()
    }

    fn replay(&mut self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError> {
        self.log.replay(from, consumer)
    }

    fn stall(&self) -> Stall {
        self.log.stall()
    }

    fn trim(&mut self, until: u64) -> Result<(), LogError> {
        self.log.trim(until)?;
        self.measure();
        Ok(())
    }
}
