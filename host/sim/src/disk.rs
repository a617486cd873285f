//! A disk with one file: the log. What is synced stays; of the rest, a crash leaves any part of the
//! beginning, the last record torn.

use styx_protocol::record::Record;
use xxhash_rust::xxh3::xxh3_64;

use crate::random::Random;

/// The log file: frames of length, checksum and record.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Vec<u8>,
    synced: usize,
}

const HEAD: usize = 12;

impl Disk {
    /// Appends a record, which is not yet durable. Returns the file's length.
    pub fn append(&mut self, record: &Record) -> usize {
        let record = record.encode();
        self.bytes.extend((record.len() as u32).to_le_bytes());
        self.bytes.extend(xxh3_64(&record).to_le_bytes());
        self.bytes.extend(record);
        self.bytes.len()
    }

    /// Everything up to a length is durable.
    pub fn sync(&mut self, len: usize) {
        self.synced = self.synced.max(len);
    }

    /// The power fails.
    pub fn crash(&mut self, random: &mut Random) {
        let unsynced = (self.bytes.len() - self.synced) as u64;
        let survives = match random.below(3) {
            0 => 0,
            1 => unsynced,
            _ => random.below(unsynced + 1),
        };
        self.bytes.truncate(self.synced + survives as usize);
        // The last sector may hold anything.
        if survives > 0 && random.chance(300) {
            let at = self.synced + random.below(survives) as usize;
            let garbage = random.number() as u8;
            self.bytes[at..].fill(garbage);
        }
    }

    /// Records up to the first that is not whole; the rest of the file is cut off.
    pub fn recover(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        let mut at = 0;
        while let Some((record, len)) = frame(&self.bytes[at..]) {
            records.push(record);
            at += len;
        }
        assert!(at >= self.synced, "what is synced survives");
        self.bytes.truncate(at);
        self.synced = at;
        records
    }
}

/// The frame at the start of some bytes, and its length.
fn frame(bytes: &[u8]) -> Option<(Record, usize)> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let len = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let record = rest.get(..len)?;
    if u64::from_le_bytes(head[4..].try_into().ok()?) != xxh3_64(record) {
        return None;
    }
    Some((Record::decode(record).ok()?, HEAD + len))
}
