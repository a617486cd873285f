//! redb: a copy-on-write B-tree; one write transaction per sync.

use std::path::Path;

use anyhow::Result;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

pub struct Redb {
    database: Database,
    pending: Vec<Vec<u8>>,
    next: u64,
}

impl Redb {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::create(dir.join("log.redb"))?;
        let write = database.begin_write()?;
        let next = write.open_table(RECORDS)?.last()?.map_or(0, |(key, _)| key.value() + 1);
        write.commit()?;
        Ok(Self { database, pending: Vec::new(), next })
    }
}

impl super::Store for Redb {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.pending.push(record.to_vec());
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(RECORDS)?;
            for record in self.pending.drain(..) {
                table.insert(self.next, record.as_slice())?;
                self.next += 1;
            }
        }
        write.commit()?;
        Ok(())
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        for entry in self.database.begin_read()?.open_table(RECORDS)?.iter()? {
            f(entry?.1.value());
        }
        Ok(())
    }
}
