//! Which replies must be remembered, worked out from the log: a model of the reply tables.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use styx_protocol::attempt::Placement;
use styx_protocol::ids::{RequestId, Timestamp};
use styx_protocol::replies::Retention;
use styx_protocol::route::memory_of;

/// Bytes that a reply counts for besides its result.
const ENTRY_BYTES: u64 = 128;

/// Requests with a key, from their sequencing until the bounds allow to forget them, at one worker.
#[derive(Debug)]
struct Table {
    retention: Retention,
    /// Bytes of the reply once it has ended.
    known: BTreeMap<RequestId, Option<u64>>,
    ended: VecDeque<(Timestamp, RequestId)>,
    bytes: u64,
}

impl Table {
    fn new(retention: Retention) -> Self {
        Table { retention, known: BTreeMap::new(), ended: VecDeque::new(), bytes: 0 }
    }

    fn trim(&mut self, now: Timestamp) {
        while let Some(&(ended, id)) = self.ended.front() {
            let within = now.0.saturating_sub(ended.0) <= self.retention.age_us
                && self.ended.len() <= self.retention.count
                && self.bytes <= self.retention.bytes;
            if within {
                return;
            }
            self.ended.pop_front();
            self.bytes -= self.known.remove(&id).flatten().unwrap_or(0);
        }
    }

    fn begin(&mut self, id: RequestId) {
        // Another membership may have forgotten it earlier than this one would have.
        if let Some(Some(bytes)) = self.known.insert(id, None) {
            self.bytes -= bytes;
            self.ended.retain(|(_, ended)| *ended != id);
        }
    }

    fn end(&mut self, id: RequestId, now: Timestamp, bytes: usize) {
        let bytes = ENTRY_BYTES + bytes as u64;
        self.known.insert(id, Some(bytes));
        self.bytes += bytes;
        self.ended.push_back((now, id));
    }
}

/// The tables of all workers.
#[derive(Debug)]
pub struct Remembered {
    placement: Arc<Placement>,
    tables: Vec<Table>,
}

impl Remembered {
    /// Nothing is known to the workers of a placement.
    pub fn new(retention: Retention, placement: Arc<Placement>) -> Self {
        let tables = (0..placement.workers()).map(|_| Table::new(retention)).collect();
        Remembered { placement, tables }
    }

    /// Whose tables these are.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.placement
    }

    fn table(&mut self, id: RequestId) -> &mut Table {
        let worker = memory_of(id, &self.placement);
        &mut self.tables[usize::from(worker.0)]
    }

    /// An epoch starts: the oldest ended ones go while a bound is exceeded.
    pub fn trim(&mut self, now: Timestamp) {
        self.tables.iter_mut().for_each(|table| table.trim(now));
    }

    /// A request is sequenced.
    pub fn begin(&mut self, id: RequestId) {
        self.table(id).begin(id);
    }

    /// It has ended.
    pub fn end(&mut self, id: RequestId, now: Timestamp, bytes: usize) {
        self.table(id).end(id, now, bytes);
    }

    /// Whether a request must be known.
    pub fn contains(&self, id: RequestId) -> bool {
        let worker = memory_of(id, &self.placement);
        self.tables[usize::from(worker.0)].known.contains_key(&id)
    }

    /// How many must be known to each worker.
    pub fn counts(&self) -> Vec<usize> {
        self.tables.iter().map(|table| table.known.len()).collect()
    }
}
