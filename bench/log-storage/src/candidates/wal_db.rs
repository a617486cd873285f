//! wal-db: a multi-writer log of segment files, opened under its strict policy.

use std::path::Path;

use anyhow::Result;
use wal_db::{OpenPolicy, SegmentedStore, Wal, WalConfig};

pub struct WalDb(Wal<SegmentedStore>);

impl WalDb {
    pub fn open(dir: &Path) -> Result<Self> {
        let config = WalConfig::new().with_open_policy(OpenPolicy::Strict);
        Ok(Self(Wal::open_segmented_with(dir, 64 << 20, config)?))
    }
}

impl super::Store for WalDb {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        let _position = self.0.append(record)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        for record in self.0.iter()? {
            f(record?.data());
        }
        Ok(())
    }
}
