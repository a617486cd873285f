//! Log of a process: its first record, its records read again, and [orders](serve) to it.

mod orders;
mod survey;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, LogPosition, Timestamp};
use styx_protocol::record::{EpochRecord, Genesis, Record, RecordAssembler};
use styx_storage::log::{Log, LogError};

pub use orders::{LogOrder, LogReport, serve};
pub use survey::{Survey, survey};

/// Reads the log's first record; or writes it, with so many partitions and a seed of their keys.
///
/// # Errors
/// The log is not one that begins with such a record, or it refuses.
pub fn genesis(log: &mut dyn Log, partitions: Option<u32>, now: Timestamp, seed: u64) -> anyhow::Result<Genesis> {
    if log.next() == 0 {
        let genesis = Genesis { seed, partitions: partitions.unwrap_or(Layout::PARTITIONS_DEFAULT), created: now };
        begin(log, genesis)?;
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

/// Writes the first record of a new log.
pub fn begin(log: &mut dyn Log, genesis: Genesis) -> Result<(), LogError> {
    append(log, &Record::Genesis(genesis))?;
    log.sync()
}

/// Appends a record, in parts if it is long; it is durable after the next sync only.
fn append(log: &mut dyn Log, record: &Record) -> Result<(), LogError> {
    for bytes in record.encode_within(log.record_bytes_max()) {
        log.append(&bytes)?;
    }
    Ok(())
}

/// Reads a record of the log.
///
/// # Errors
/// It is not one, or not one of this version.
pub fn read_record(bytes: &[u8]) -> anyhow::Result<Record> {
    Ok(Record::decode(bytes)?)
}

/// Reads the records of epochs later than `after` from a position on, and where they stand, until `take` gives
/// false.
///
/// # Errors
/// They cannot be read, or `take` refuses one.
pub fn replay(
    log: &mut dyn Log,
    from: LogPosition,
    after: Epoch,
    take: &mut dyn FnMut(LogPosition, Arc<EpochRecord>) -> anyhow::Result<bool>,
) -> Result<(), LogError> {
    let (mut is_enough, mut assembler) = (false, RecordAssembler::default());
    // The first record is no epoch's.
    let read = log.replay(from.0.max(1), &mut |position, bytes| {
        match assembler.take(read_record(bytes)?)? {
            Some(Record::Epoch(record)) if record.epoch > after => is_enough = !take(LogPosition(position), record)?,
            None | Some(Record::Epoch(_) | Record::Generation(_)) => {}
            Some(Record::Part(_)) => anyhow::bail!("a part of a part"),
            Some(Record::Genesis(_)) => anyhow::bail!("a second beginning"),
        }
        anyhow::ensure!(!is_enough, "nobody reads any more");
        Ok(())
    });
    if is_enough { Ok(()) } else { read }
}
