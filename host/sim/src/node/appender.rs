//! The appender: writes records to the log, many at once, and tells when they are durable.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::record::EpochRecord;

use super::{Life, NodeEvent, Outside};
use crate::disk::End;

/// What a process knows of its writes.
#[derive(Debug, Default)]
pub(super) struct Appender {
    /// Records that it has not yet taken.
    unwritten: VecDeque<Arc<EpochRecord>>,
    /// The end of what is written and not being synced.
    written: Option<End>,
    syncing: bool,
    /// The disk is so many times slower than usual.
    pub slow: u64,
}

impl Appender {
    pub(super) fn new() -> Self {
        Appender { slow: 1, ..Appender::default() }
    }

    /// Whether everything is durable.
    pub(super) fn is_quiet(&self) -> bool {
        !self.syncing && self.unwritten.is_empty() && self.written.is_none()
    }

    /// Takes a record.
    pub(super) fn append(&mut self, record: Arc<EpochRecord>, life: Life, outside: &mut Outside) {
        self.unwritten.push_back(record);
        if !self.syncing {
            self.write(life, outside);
        }
    }

    /// An fsync is done.
    pub(super) fn synced(&mut self, end: End, life: Life, outside: &mut Outside) {
        self.syncing = false;
        outside.disk.sync(end);
        self.write(life, outside);
    }

    /// Writes all records that it has got, and syncs them together.
    fn write(&mut self, life: Life, outside: &mut Outside) {
        self.flush(outside);
        let Some(end) = self.written.take() else { return };
        self.syncing = true;
        let delay = self.sync_time(outside);
        let works = outside.calm || !outside.random.chance(outside.plan.sync_failures);
        outside.later(life, delay, NodeEvent::Synced(end, works));
    }

    /// Writes all records without waiting for them to be durable.
    fn flush(&mut self, outside: &mut Outside) {
        for record in self.unwritten.drain(..) {
            // What is refused is of a coordinator that was replaced and does not know it yet.
            if let Some(end) = outside.disk.append(record) {
                self.written = Some(end);
            }
        }
    }

    /// How long the disk takes.
    pub(super) fn sync_time(&self, outside: &mut Outside) -> u64 {
        outside.delay(outside.plan.sync) * self.slow
    }

    /// Writes what is left of a generation that is over.
    pub(super) fn close(&mut self, life: Life, outside: &mut Outside) {
        self.flush(outside);
        if !self.syncing {
            self.write(life, outside);
        }
    }
}
