//! Log thread: appends what a generation of the coordinator cuts, with one fsync for as many records as have come,
//! and reads everything for the next one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use styx_protocol::catalog::{Control, Digest};
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::record::{EpochRecord, Record};

use crate::fatal::{fatal, fatal_on_panic};
use crate::log::{append, read_record, sync};
use crate::stats::Stats;
use styx_storage::log::Log;

/// What has become of an order.
#[derive(Debug)]
pub(super) enum LogReport {
    /// The records of a generation up to an epoch's are durable, and stand before a position.
    Synced {
        /// The generation.
        generation: Generation,
        /// The epoch.
        epoch: Epoch,
        /// The end of the log.
        position: LogPosition,
    },
    /// Lower generations than this one append nothing more: all of theirs stands before a position.
    Raised {
        /// The generation.
        generation: Generation,
        /// The end of the log.
        position: LogPosition,
    },
}

enum Order {
    Append(Generation, Arc<EpochRecord>),
    Raise(Generation),
    Read { from: LogPosition, after: Epoch, records: Sender<Arc<EpochRecord>> },
    Trim(LogPosition),
}

/// The thread. It ends when this is dropped.
pub(super) struct LogThread {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// Records read ahead of the replay.
const READ_AHEAD: usize = 64;

impl LogThread {
    /// Starts the thread, which tells what has become of its orders.
    pub(super) fn start(
        mut log: Box<dyn Log>,
        stats: Arc<Stats>,
        tell: impl Fn(LogReport) + Send + 'static,
    ) -> std::io::Result<LogThread> {
        let (orders, inbox) = unbounded::<Order>();
        let thread = std::thread::Builder::new().name("styx-log".into()).spawn(move || {
            fatal_on_panic("log", move || {
                while let Ok(order) = inbox.recv() {
                    let mut next = Some(order);
                    while let Some(order) = next.take() {
                        next = serve(log.as_mut(), order, &inbox, &tell, &stats);
                    }
                }
            });
        })?;
        Ok(LogThread { orders: Some(orders), thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        let orders = self.orders.as_ref().expect("it is open until it is dropped");
        orders.send(order).expect("the thread lives as long as its orders");
    }

    /// Appends a record of a generation.
    pub(super) fn append(&self, generation: Generation, record: Arc<EpochRecord>) {
        self.order(Order::Append(generation, record));
    }

    /// Makes durable that lower generations append nothing more.
    pub(super) fn raise(&self, generation: Generation) {
        self.order(Order::Raise(generation));
    }

    /// Reads from a position on the records of epochs later than `after`, until the receiver is dropped.
    pub(super) fn read(&self, from: LogPosition, after: Epoch) -> Receiver<Arc<EpochRecord>> {
        let (records, reader) = bounded(READ_AHEAD);
        self.order(Order::Read { from, after, records });
        reader
    }

    /// Has the log forget what stands before a position.
    pub(super) fn trim(&self, until: LogPosition) {
        self.order(Order::Trim(until));
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

/// Does what is ordered; appends that have come meanwhile share the fsync. What came after them is next.
fn serve(
    log: &mut dyn Log,
    order: Order,
    inbox: &Receiver<Order>,
    tell: &impl Fn(LogReport),
    stats: &Stats,
) -> Option<Order> {
    match order {
        Order::Append(generation, record) => {
            let (mut last, mut generation) = (record.epoch, generation);
            append(log, &Record::Epoch(record), stats);
            let mut next = None;
            while let Ok(order) = inbox.try_recv() {
                match order {
                    Order::Append(of, record) if of == generation => {
                        (last, generation) = (record.epoch, of);
                        append(log, &Record::Epoch(record), stats);
                    }
                    other => {
                        next = Some(other);
                        break;
                    }
                }
            }
            sync(log, stats);
            tell(LogReport::Synced { generation, epoch: last, position: LogPosition(log.next()) });
            next
        }
        Order::Raise(generation) => {
            append(log, &Record::Generation(generation), stats);
            sync(log, stats);
            tell(LogReport::Raised { generation, position: LogPosition(log.next()) });
            None
        }
        Order::Trim(until) => {
            if let Err(error) = log.trim(until.0) {
                fatal(&error.to_string());
            }
            None
        }
        Order::Read { from, after, records } => {
            let mut unread = false;
            let read = log.replay(from.0.max(1), &mut |_, bytes| {
                if let Record::Epoch(record) = read_record(bytes)?
                    && record.epoch > after
                {
                    unread = records.send(record).is_err();
                    anyhow::ensure!(!unread, "nobody reads any more");
                }
                Ok(())
            });
            if let Err(error) = read
                && !unread
            {
                fatal(&error.to_string());
            }
            None
        }
    }
}

/// What a coordinator must know of the log before it leads.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The highest generation.
    pub generation: Generation,
    /// Components of deployments, of which no snapshot needs to know yet.
    pub components: BTreeSet<Digest>,
}

/// Looks through the log from a position on.
pub(super) fn survey(log: &mut dyn Log, from: u64) -> anyhow::Result<Survey> {
    let mut survey = Survey::default();
    log.replay(from, &mut |_, bytes| {
        match read_record(bytes)? {
            Record::Epoch(record) => {
                survey.generation = survey.generation.max(record.generation);
                for control in &record.controls {
                    if let Control::Deploy(deployment) = control {
                        survey.components.extend(deployment.components.iter().map(|component| component.digest));
                    }
                }
            }
            Record::Generation(generation) => survey.generation = survey.generation.max(generation),
            Record::Genesis(_) => {}
        }
        Ok(())
    })?;
    Ok(survey)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::broken::{BrokenLog, Fault, every_fault_ends_the_process, record};

    #[test]
    fn a_log_that_fails_ends_the_process_and_loses_nothing_that_was_acknowledged() {
        let faults = [Fault::Append, Fault::SyncLost, Fault::SyncKept, Fault::Full, Fault::Trim];
        every_fault_ends_the_process("cluster::log_thread::tests::child", &faults);
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
                _ => log.append(Generation(1), record(number)),
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
