//! fjall: an LSM tree; the records are the values of big-endian keys.

use std::path::Path;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

pub struct Fjall {
    database: Database,
    records: Keyspace,
    next: u64,
}

impl Fjall {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::builder(dir).open()?;
        let records = database.keyspace("log", KeyspaceCreateOptions::default)?;
        let next = match records.last_key_value() {
            Some(last) => u64::from_be_bytes(last.key()?[..].try_into()?) + 1,
            None => 0,
        };
        Ok(Self { database, records, next })
    }
}

impl super::Store for Fjall {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.records.insert(self.next.to_be_bytes(), record)?;
        self.next += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        for entry in self.records.iter() {
            f(&entry.value()?);
        }
        Ok(())
    }
}
