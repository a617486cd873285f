//! The appender: writes records to the log, many at once, and tells when they are durable.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::record::EpochRecord;

use crate::disk::End;
use crate::environment::Environment;
use crate::event::{Life, NodeEvent};

/// Appends of one process to the log, and how far they are durable.
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
    pub(super) fn append(&mut self, record: Arc<EpochRecord>, life: Life, environment: &mut Environment) {
        self.unwritten.push_back(record);
        if !self.syncing {
            self.write(life, environment);
        }
    }

    /// An fsync is done.
    pub(super) fn synced(&mut self, end: End, life: Life, environment: &mut Environment) {
        self.syncing = false;
        environment.disk.sync(end);
        self.write(life, environment);
    }

    /// Writes all records that it has got, and syncs them together.
    fn write(&mut self, life: Life, environment: &mut Environment) {
        self.flush(environment);
        let Some(end) = self.written.take() else { return };
        self.syncing = true;
        let delay = self.sync_time(environment);
        let works = environment.calm || !environment.random.chance(environment.plan.sync_failures);
        environment.later(life, delay, NodeEvent::Synced(end, works));
    }

    /// Writes all records without waiting for them to be durable.
    fn flush(&mut self, environment: &mut Environment) {
        for record in self.unwritten.drain(..) {
            // What is refused is of a coordinator that was replaced and does not know it yet.
            if let Some(end) = environment.disk.append(record) {
                self.written = Some(end);
            }
        }
    }

    /// Time that the disk takes.
    pub(super) fn sync_time(&self, environment: &mut Environment) -> u64 {
        environment.delay(environment.plan.sync) * self.slow
    }

    /// Writes what is left of a generation that is over.
    pub(super) fn close(&mut self, life: Life, environment: &mut Environment) {
        self.flush(environment);
        if !self.syncing {
            self.write(life, environment);
        }
    }
}
