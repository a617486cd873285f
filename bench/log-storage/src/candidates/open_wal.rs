//! open-wal: a single-writer log of preallocated segment files.

use std::path::Path;

use anyhow::Result;
use open_wal::{Lsn, Wal, WalConfig};

pub struct OpenWal(Wal);

impl OpenWal {
    pub fn open(dir: &Path) -> Result<Self> {
        let config = WalConfig { segment_size: 64 << 20, max_record_size: 16 << 20 };
        Ok(Self(Wal::open(dir, config)?.0))
    }
}

impl super::Store for OpenWal {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.0.append(record)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.0.commit()?;
        Ok(())
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut reader = self.0.reader_from(Lsn(0))?;
        while let Some(record) = reader.next() {
            f(record?.1);
        }
        Ok(())
    }
}
