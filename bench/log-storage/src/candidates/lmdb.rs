//! LMDB through heed: a copy-on-write B-tree in a memory map; one write
//! transaction per sync, appending at the end of the tree.

use std::path::Path;

use anyhow::{Result, bail};
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, PutFlags};

pub struct Lmdb {
    // Borrows from `env`, which outlives it: see `drop`.
    records: Database<'static, U64<BigEndian>, Bytes>,
    env: &'static Env,
    pending: Vec<Vec<u8>>,
    next: u64,
}

impl Lmdb {
    pub fn open(dir: &Path) -> Result<Self> {
        // SAFETY: the directory was made for this run; nothing else maps the file.
        let env = unsafe { EnvOpenOptions::new().map_size(4 << 30).open(dir)? };
        let env: &'static Env = Box::leak(Box::new(env));
        let opened = env.create_databases_and_commit(env.write_txn()?, |opener, write| {
            opener.create_database(write, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        let CommitOrAbort::Commit(records) = opened else { bail!("not committed") };
        let mut this = Self { records, env, pending: Vec::new(), next: 0 };
        let read = env.read_txn()?;
        this.next = this.records.last(&read)?.map_or(0, |(key, _)| key + 1);
        drop(read);
        Ok(this)
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // SAFETY: `env` came from `Box::leak`, and `records` does not touch it when dropped.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.env).cast_mut()) });
    }
}

impl super::Store for Lmdb {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.pending.push(record.to_vec());
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut write = self.env.write_txn()?;
        for record in self.pending.drain(..) {
            self.records.put_with_flags(&mut write, PutFlags::APPEND, &self.next, &record)?;
            self.next += 1;
        }
        Ok(write.commit()?)
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let read = self.env.read_txn()?;
        for entry in self.records.iter(&read)? {
            f(entry?.1);
        }
        Ok(())
    }
}
