//! Records in a log: the first one, reading one, and appending with an end of the process where a log
//! refuses. Shared by the single process and the coordinator.

#[cfg(test)]
pub(crate) mod broken;

use std::time::Instant;

use styx_protocol::entity::Layout;
use styx_protocol::record::{Genesis, Record};
use styx_storage::log::Log;

use crate::clock::now;
use crate::fatal::fatal;
use crate::stats::Stats;

/// Partitions of new data, if nobody says how many.
///
/// Many more than workers, so that they can be spread evenly and moved one by one.
const PARTITIONS: u32 = Layout::PARTITIONS_DEFAULT;

/// Reads the log's first record, or writes it.
pub(crate) fn genesis(log: &mut dyn Log, partitions: Option<u32>) -> anyhow::Result<Genesis> {
    if log.next() == 0 {
        let seed = uuid::Uuid::now_v7().as_u64_pair().1;
        let layout = Layout { seed, partitions: partitions.unwrap_or(PARTITIONS) };
        let genesis = Genesis { layout, created: now() };
        log.append(&Record::Genesis(genesis).encode())?;
        log.sync()?;
        return Ok(genesis);
    }
    let mut found = None;
    let first = log.first();
    anyhow::ensure!(
        first == 0,
        "the log starts at record {first}: its beginning is missing, and there is no snapshot to start from"
    );
    let read = log.replay(0, &mut |_, bytes| {
        found = Some(read_record(bytes)?);
        anyhow::bail!("the first record is enough")
    });
    match (found, read) {
        (Some(Record::Genesis(genesis)), _) => Ok(genesis),
        (None, Err(error)) => Err(error.into()),
        _ => anyhow::bail!(
            "the log does not start with the record that every log starts with; is this another program's directory?"
        ),
    }
}

/// Reads a record of the log.
///
/// # Errors
/// It is not one, or not one of this version.
pub(crate) fn read_record(bytes: &[u8]) -> anyhow::Result<Record> {
    Ok(Record::decode(bytes)?)
}

/// Appends a record. A log that refuses ends the process.
pub(crate) fn append(log: &mut dyn Log, record: &Record, stats: &Stats) {
    let bytes = record.encode();
    if let Err(error) = log.append(&bytes) {
        fatal(&error.to_string());
    }
    stats.appended(bytes.len());
}

/// Makes durable what was appended. After a failed fsync nobody knows what is on the disk: the process ends.
pub(crate) fn sync(log: &mut dyn Log, stats: &Stats) {
    let started = Instant::now();
    if let Err(error) = log.sync() {
        fatal(&error.to_string());
    }
    stats.synced(started);
}
