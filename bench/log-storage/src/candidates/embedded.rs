//! The product's log as it was built on the choice: open-wal, one record per
//! group, and the commit mark.

use std::path::Path;

use anyhow::Result;
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log};

pub struct Embedded(EmbeddedLog);

impl Embedded {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(EmbeddedLog::open(dir, EmbeddedOptions::default())?))
    }
}

impl super::Store for Embedded {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.0.append(record)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let first = self.0.first();
        self.0.replay(first, &mut |_, record| {
            f(record);
            Ok(())
        })?;
        Ok(())
    }
}
