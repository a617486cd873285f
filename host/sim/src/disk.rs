//! A disk with one file, the log. What is synced stays; of the rest, a crash leaves any part of the
//! beginning, the last record torn. Whoever has written a generation keeps lower ones from appending.
//! Its oldest records go when snapshots hold what came of them.

use std::sync::Arc;

use styx_protocol::ids::{Epoch, Generation};
use styx_protocol::membership::Fence;
use styx_protocol::record::{EpochRecord, Record};
use xxhash_rust::xxh3::xxh3_64;

use crate::random::Random;

/// The log file: frames of length, checksum and record.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Vec<u8>,
    /// Bytes that were before, and are trimmed; the last epoch in them, and the fence behind them.
    before: usize,
    trimmed: (Epoch, Fence),
    /// Counted from the very first byte.
    synced: usize,
    /// The last epoch whose record is synced.
    durable: Epoch,
    /// Fence: the generation that may append.
    fence: Fence,
    /// The node that raised it last.
    owner: Option<usize>,
    /// Power failures so far.
    failures: u32,
}

const HEAD: usize = 12;

/// An end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    len: usize,
    /// The last epoch before it.
    pub epoch: Epoch,
    failures: u32,
}

impl Disk {
    /// Appends the record of an epoch, which is not yet durable. Returns the file's end; none if
    /// the record is of a generation that may append no more.
    pub fn append(&mut self, record: Arc<EpochRecord>) -> Option<End> {
        if !self.fence.admits(record.generation) {
            return None;
        }
        let epoch = record.epoch;
        Some(self.write(&Record::Epoch(record), epoch))
    }

    fn write(&mut self, record: &Record, epoch: Epoch) -> End {
        let record = record.encode();
        self.bytes.extend((record.len() as u32).to_le_bytes());
        self.bytes.extend(xxh3_64(&record).to_le_bytes());
        self.bytes.extend(record);
        End { len: self.before + self.bytes.len(), epoch, failures: self.failures }
    }

    /// Everything up to there is durable.
    pub fn sync(&mut self, end: End) {
        if end.failures == self.failures {
            self.synced = self.synced.max(end.len);
            self.durable = self.durable.max(end.epoch);
        }
    }

    /// The last epoch that no crash can take away.
    pub fn durable(&self) -> Epoch {
        self.durable
    }

    /// Fence: the generation that may append.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Raises the fence, which is not yet durable, unless another one has raised it as far.
    pub fn raise(&mut self, owner: usize, generation: u64) -> Option<End> {
        if !self.fence.raise(Generation(generation)) {
            return None;
        }
        self.owner = Some(owner);
        // Whoever led before may have died in the middle of a record.
        self.recover();
        let _ = self.fence.raise(Generation(generation));
        Some(self.write(&Record::Generation(Generation(generation)), Epoch(0)))
    }

    /// The node that writes.
    pub fn owner(&self) -> Option<usize> {
        self.owner
    }

    /// The power fails.
    pub fn crash(&mut self, random: &mut Random) {
        self.failures += 1;
        let synced = self.synced - self.before;
        let unsynced = (self.bytes.len() - synced) as u64;
        let survives = match random.below(3) {
            0 => 0,
            1 => unsynced,
            _ => random.below(unsynced + 1),
        };
        self.bytes.truncate(synced + survives as usize);
        // The last sector may hold anything.
        if survives > 0 && random.chance(300) {
            let at = synced + random.below(survives) as usize;
            let garbage = random.number() as u8;
            self.bytes[at..].fill(garbage);
        }
    }

    /// Records up to the first that is not whole; the rest of the file is cut off.
    pub fn recover(&mut self) -> Vec<Record> {
        let mut at = 0;
        let records = self.frames(&mut at);
        assert!(self.before + at >= self.synced, "what is synced survives");
        self.bytes.truncate(at);
        self.synced = self.before + at;
        (self.durable, self.fence) = self.trimmed;
        for record in &records {
            match record {
                Record::Epoch(record) => self.durable = record.epoch,
                Record::Generation(generation) => {
                    let _ = self.fence.raise(*generation);
                }
                Record::Genesis(_) => {}
            }
        }
        records
    }

    /// The last epoch whose record is no longer there.
    pub fn trimmed(&self) -> Epoch {
        self.trimmed.0
    }

    /// Forgets the records of epochs up to this one. Who may append is not forgotten.
    pub fn trim(&mut self, epoch: Epoch) {
        let mut at = 0;
        while let Some((record, len)) = frame(&self.bytes[at..]) {
            if self.before + at + len > self.synced {
                break;
            }
            match &record {
                Record::Epoch(record) if record.epoch > epoch => break,
                Record::Epoch(record) => self.trimmed.0 = record.epoch,
                Record::Generation(generation) => {
                    let _ = self.trimmed.1.raise(*generation);
                }
                Record::Genesis(_) => {}
            }
            at += len;
        }
        self.bytes.drain(..at);
        self.before += at;
    }

    /// All records in the file, durable or not yet.
    pub fn read(&self) -> Vec<Record> {
        let mut at = 0;
        let records = self.frames(&mut at);
        assert_eq!(at, self.bytes.len(), "who runs has written whole records");
        records
    }

    fn frames(&self, at: &mut usize) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some((record, len)) = frame(&self.bytes[*at..]) {
            records.push(record);
            *at += len;
        }
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
