//! Which replies must be remembered, worked out from the log: a model of the reply table.

use std::collections::{BTreeMap, VecDeque};

use styx_protocol::ids::{RequestId, Timestamp};
use styx_protocol::replies::Retention;

/// Bytes that a reply counts for besides its result.
const ENTRY_BYTES: u64 = 128;

/// Requests with a key, from their sequencing until the bounds allow to forget them.
#[derive(Debug)]
pub struct Remembered {
    retention: Retention,
    /// Bytes of the reply once it has ended.
    known: BTreeMap<RequestId, Option<u64>>,
    ended: VecDeque<(Timestamp, RequestId)>,
    bytes: u64,
}

impl Remembered {
    /// Nothing.
    pub fn new(retention: Retention) -> Self {
        Remembered { retention, known: BTreeMap::new(), ended: VecDeque::new(), bytes: 0 }
    }

    /// An epoch starts: the oldest ended ones go while a bound is exceeded.
    pub fn trim(&mut self, now: Timestamp) {
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

    /// A request is sequenced; false if it was, and is remembered.
    pub fn begin(&mut self, id: RequestId) -> bool {
        self.known.insert(id, None).is_none()
    }

    /// It has ended.
    pub fn end(&mut self, id: RequestId, now: Timestamp, bytes: usize) {
        let bytes = ENTRY_BYTES + bytes as u64;
        self.known.insert(id, Some(bytes));
        self.bytes += bytes;
        self.ended.push_back((now, id));
    }

    /// Whether a request must be known.
    pub fn contains(&self, id: RequestId) -> bool {
        self.known.contains_key(&id)
    }

    /// How many must be known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}
