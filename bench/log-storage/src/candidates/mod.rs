//! The candidates, each behind the same three operations.
//!
//! Every candidate is used as its documentation recommends for an append-only
//! sequence; none is tuned beyond what its defaults get wrong for that use.

use std::path::Path;

use anyhow::{Result, bail};

#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "okaywal")]
mod okaywal;
#[cfg(feature = "open-wal")]
mod open_wal;
mod plain_file;
#[cfg(feature = "raft-engine")]
mod raft_engine;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "wal-db")]
mod wal_db;

/// The part of a log that is compared.
pub trait Store {
    /// Hands over the record with the next sequence number.
    fn append(&mut self, record: &[u8]) -> Result<()>;
    /// Makes everything appended durable.
    fn sync(&mut self) -> Result<()>;
    /// Calls `f` for every record, in order.
    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Names of the candidates in this build, in the order of the table.
pub const NAMES: &[&str] = &[
    "file",
    "file-zeroed",
    #[cfg(feature = "raft-engine")]
    "raft-engine",
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "redb")]
    "redb",
    #[cfg(feature = "lmdb")]
    "lmdb",
    #[cfg(feature = "okaywal")]
    "okaywal",
    #[cfg(feature = "open-wal")]
    "open-wal",
    #[cfg(feature = "wal-db")]
    "wal-db",
    #[cfg(feature = "embedded")]
    "embedded",
];

/// Opens or creates the candidate `name` in `dir`.
pub fn open(name: &str, dir: &Path) -> Result<Box<dyn Store>> {
    Ok(match name {
        "file" => Box::new(plain_file::PlainFile::open(dir, false)?),
        "file-zeroed" => Box::new(plain_file::PlainFile::open(dir, true)?),
        #[cfg(feature = "raft-engine")]
        "raft-engine" => Box::new(raft_engine::RaftEngine::open(dir)?),
        #[cfg(feature = "fjall")]
        "fjall" => Box::new(fjall::Fjall::open(dir)?),
        #[cfg(feature = "redb")]
        "redb" => Box::new(redb::Redb::open(dir)?),
        #[cfg(feature = "lmdb")]
        "lmdb" => Box::new(lmdb::Lmdb::open(dir)?),
        #[cfg(feature = "okaywal")]
        "okaywal" => Box::new(okaywal::OkayWal::open(dir)?),
        #[cfg(feature = "open-wal")]
        "open-wal" => Box::new(open_wal::OpenWal::open(dir)?),
        #[cfg(feature = "wal-db")]
        "wal-db" => Box::new(wal_db::WalDb::open(dir)?),
        #[cfg(feature = "embedded")]
        "embedded" => Box::new(embedded::Embedded::open(dir)?),
        _ => bail!("no candidate {name}; this build has {NAMES:?}"),
    })
}
