//! okaywal: every commit of an entry syncs, so a group is one entry with a
//! chunk per record. Checkpoints are off: nothing may be recycled while unread.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use okaywal::{Configuration, Entry, LogManager, SegmentReader, WriteAheadLog};

#[derive(Debug, Clone, Default)]
struct Recovered(Arc<Mutex<Vec<Vec<u8>>>>);

impl LogManager for Recovered {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        if let Some(chunks) = entry.read_all_chunks()? {
            self.0.lock().expect("not poisoned").extend(chunks);
        }
        Ok(())
    }

    fn checkpoint_to(&mut self, _: okaywal::EntryId, _: &mut SegmentReader, _: &WriteAheadLog) -> io::Result<()> {
        Ok(())
    }
}

pub struct OkayWal {
    log: WriteAheadLog,
    recovered: Recovered,
    pending: Vec<Vec<u8>>,
}

impl OkayWal {
    pub fn open(dir: &Path) -> Result<Self> {
        let recovered = Recovered::default();
        let log = Configuration::default_for(dir)
            .preallocate_bytes(64 << 20)
            .checkpoint_after_bytes(u64::MAX)
            .open(recovered.clone())?;
        Ok(Self { log, recovered, pending: Vec::new() })
    }
}

impl super::Store for OkayWal {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.pending.push(record.to_vec());
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut entry = self.log.begin_entry()?;
        for record in self.pending.drain(..) {
            entry.write_chunk(&record)?;
        }
        entry.commit()?;
        Ok(())
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.recovered.0.lock().expect("not poisoned").drain(..).for_each(|record| f(&record));
        Ok(())
    }
}
