//! Log thread: carries out orders to the log, one after the other. A log that refuses ends the process.

#[cfg(test)]
mod broken;
mod measured;

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use styx_durability::log::{LogOrder, LogReport, serve};
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::record::EpochRecord;
use styx_storage::log::{Log, LogError};

use self::measured::MeasuredLog;
use crate::fatal::{fatal, fatal_on_panic, without_log};
use crate::stats::Stats;

/// The thread. It ends when this is dropped.
pub(crate) struct LogThread {
    orders: Option<Sender<LogOrder>>,
    thread: Option<JoinHandle<()>>,
}

/// Records read ahead of the replay.
const READ_AHEAD: usize = 64;

impl LogThread {
    /// Starts the thread, which tells what has become of its orders.
    pub(crate) fn start(
        log: Box<dyn Log>,
        stats: Arc<Stats>,
        mut tell: impl FnMut(LogReport) + Send + 'static,
    ) -> std::io::Result<LogThread> {
        let (orders, inbox) = unbounded::<LogOrder>();
        let mut log = MeasuredLog { log, stats };
        log.measure();
        let thread = std::thread::Builder::new().name("styx-log".into()).spawn(move || {
            fatal_on_panic("log", move || {
                while let Ok(order) = inbox.recv() {
                    let mut next = Some(order);
                    while let Some(order) = next.take() {
                        next =
                            serve(&mut log, order, &mut || inbox.try_recv().ok(), &mut tell).unwrap_or_else(|error| {
                                match error {
                                    LogError::Removed(_) => without_log(&error),
                                    error => fatal(&error.to_string()),
                                }
                            });
                    }
                }
            });
        })?;
        Ok(LogThread { orders: Some(orders), thread: Some(thread) })
    }

    fn order(&self, order: LogOrder) {
        let orders = self.orders.as_ref().expect("it is open until it is dropped");
        orders.send(order).expect("the thread lives as long as its orders");
    }

    pub(crate) fn append(&self, record: Arc<EpochRecord>) {
        self.order(LogOrder::Append(record));
    }

    /// Makes durable that lower generations append nothing more.
    pub(crate) fn raise(&self, generation: Generation) {
        self.order(LogOrder::Raise(generation));
    }

    /// Reads from a position on the records of epochs later than `after`, until the receiver is dropped.
    pub(crate) fn read(&self, from: LogPosition, after: Epoch) -> Receiver<Arc<EpochRecord>> {
        let (records, reader) = bounded(READ_AHEAD);
        let records = Box::new(move |record| records.send(record).is_ok());
        self.order(LogOrder::Read { from, after, records });
        reader
    }

    /// Has the log forget what stands before a position.
    pub(crate) fn trim(&self, until: LogPosition) {
        self.order(LogOrder::Trim(until));
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic has ended the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::broken::{BrokenLog, Fault, every_fault_ends_the_process, record};

    #[test]
    fn a_log_that_fails_ends_the_process_and_loses_nothing_that_was_acknowledged() {
        let faults = [Fault::Append, Fault::SyncLost, Fault::SyncKept, Fault::Full, Fault::Trim];
        every_fault_ends_the_process("log::tests::child", &faults);
    }

    #[test]
    #[ignore = "the child process of the test above"]
    fn child() {
        let Some(log) = BrokenLog::of_parent(20) else { return };
        let (done, news) = unbounded();
        // The process ends before its main thread reads all.
        let log = LogThread::start(Box::new(log), Arc::default(), move |report| {
            let _ = done.send(report);
        });
        let log = log.unwrap();
        for number in 1..1000 {
            // A generation's number is durable before its members hear of it, and then its epochs are.
            match number % 5 {
                0 => log.raise(Generation(number)),
                _ => log.append(record(number)),
            }
            let position = match news.recv() {
                Ok(LogReport::Synced { generation: Generation(1), epoch: Epoch(epoch), position })
                    if epoch == number =>
                {
                    position
                }
                Ok(LogReport::Raised { generation, position }) if generation.0 == number => position,
                _ => break,
            };
            assert_eq!(position, LogPosition(number));
            println!("durable {position} ");
            log.trim(LogPosition(position.0 / 2));
        }
    }
}
