//! Orders to the log: appends that have come by then share one fsync; everything else is done one by one.

use std::sync::Arc;

use styx_planted::{Bug, planted};
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::record::{EpochRecord, Record};
use styx_storage::log::{Log, LogError};

use super::{append, replay};

/// Something that a log is to do.
pub enum LogOrder {
    /// Append a record, and make it durable.
    Append(Arc<EpochRecord>),
    /// Make durable that lower generations than this one append nothing more.
    Raise(Generation),
    /// Forget what stands before a position.
    Trim(LogPosition),
    Read {
        /// The first position that is read.
        from: LogPosition,
        /// The records of later epochs than this one.
        after: Epoch,
        /// Takes them, in order; false if nobody reads any more.
        records: Box<dyn FnMut(Arc<EpochRecord>) -> bool + Send>,
    },
}

/// What has become of an order.
#[derive(Debug)]
pub enum LogReport {
    /// The records of a generation up to an epoch's are durable, and stand before a position.
    Synced {
        generation: Generation,
        epoch: Epoch,
        /// The end of the log.
        position: LogPosition,
    },
    /// Lower generations than this one append nothing more: all of theirs stands before a position.
    Raised {
        generation: Generation,
        /// The end of the log.
        position: LogPosition,
    },
}

/// Does what is ordered and tells what has become of it. While appends of one generation are the `next` orders, they
/// share its fsync. What came after them is returned: it is to be served next.
///
/// # Errors
/// After a failed fsync nobody knows what is on the disk, and a log that cannot be read cannot be recovered from: the
/// process must end.
pub fn serve(
    log: &mut dyn Log,
    order: LogOrder,
    next: &mut dyn FnMut() -> Option<LogOrder>,
    tell: &mut dyn FnMut(LogReport),
) -> Result<Option<LogOrder>, LogError> {
    match order {
        LogOrder::Append(record) => {
            let (generation, mut epoch) = (record.generation, record.epoch);
            append(log, &Record::Epoch(record))?;
            let after = loop {
                match next() {
                    Some(LogOrder::Append(record)) if record.generation == generation => {
                        epoch = record.epoch;
                        append(log, &Record::Epoch(record))?;
                    }
                    other => break other,
                }
            };
            if !planted(Bug::AppendedNotSynced) {
                log.sync()?;
            }
            tell(LogReport::Synced { generation, epoch, position: LogPosition(log.next()) });
            return Ok(after);
        }
        LogOrder::Raise(generation) => {
            append(log, &Record::Generation(generation))?;
            log.sync()?;
            tell(LogReport::Raised { generation, position: LogPosition(log.next()) });
        }
        LogOrder::Trim(until) => log.trim(until.0)?,
        LogOrder::Read { from, after, mut records } => {
            replay(log, from, after, &mut |_, record| Ok(records(record)))?;
        }
    }
    Ok(None)
}
