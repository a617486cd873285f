//! raft-engine: the log store of TiKV. One raft group holds the records; an
//! entry is a protobuf message, and carries its index in its first eight bytes.

use std::path::Path;

use anyhow::Result;
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

const GROUP: u64 = 1;

struct Indexed;

impl MessageExt for Indexed {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        u64::from_le_bytes(entry.get_value()[..8].try_into().expect("eight bytes of index"))
    }
}

pub struct RaftEngine {
    engine: Engine,
    batch: LogBatch,
    next: u64,
}

impl RaftEngine {
    pub fn open(dir: &Path) -> Result<Self> {
        let engine = Engine::open(Config {
            dir: dir.to_str().expect("UTF-8 path").to_owned(),
            batch_compression_threshold: ReadableSize(0),
            ..Config::default()
        })?;
        let next = engine.last_index(GROUP).map_or(1, |last| last + 1);
        Ok(Self { engine, batch: LogBatch::default(), next })
    }
}

impl super::Store for RaftEngine {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        let mut entry = BytesValue::new();
        entry.set_value([&self.next.to_le_bytes(), record].concat());
        self.batch.add_entries::<Indexed>(GROUP, &[entry])?;
        self.next += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.engine.write(&mut self.batch, true)?;
        Ok(())
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (Some(first), Some(last)) = (self.engine.first_index(GROUP), self.engine.last_index(GROUP)) else {
            return Ok(());
        };
        let mut entries = Vec::new();
        for begin in (first..=last).step_by(64) {
            entries.clear();
            self.engine.fetch_entries_to::<Indexed>(GROUP, begin, (begin + 64).min(last + 1), None, &mut entries)?;
            entries.iter().for_each(|entry| f(&entry.get_value()[8..]));
        }
        Ok(())
    }
}
