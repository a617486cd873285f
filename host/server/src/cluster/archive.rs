//! The thread that owns the coordinator's log: appends what a generation cuts, with one fsync for as
//! many records as have come, and reads everything for the next one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use styx_protocol::catalog::{Control, Digest};
use styx_protocol::ids::{Epoch, Generation};
use styx_protocol::record::{EpochRecord, Record};

use crate::fatal::{fatal, fatal_on_panic};
use crate::log::{append, read_record, sync};
use crate::snapshots::Found;
use crate::stats::Stats;
use styx_storage::log::Log;

/// What has become of the log.
pub(super) enum Archived {
    /// The records of this generation up to an epoch's are durable, and stand before this position.
    Synced(u64, Epoch, u64),
    /// Lower generations than this one append nothing more: all of theirs stands before this
    /// position. The snapshot that it may begin with.
    Raised(u64, u64, Option<Box<Found>>),
}

enum Order {
    Append(u64, Arc<EpochRecord>),
    Raise(u64),
    Read(Beginning, Sender<Arc<EpochRecord>>),
    Trim(u64),
}

/// From where the log is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// The first record that may be wanted.
    pub position: u64,
    /// Epochs up to this one are not wanted.
    pub after: Epoch,
}

/// Finds the snapshot that a generation may begin with, and takes the store over for it.
pub(super) type Look = Box<dyn FnMut(u64) -> Option<Box<Found>> + Send>;

/// See the module.
pub(super) struct Archive {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// Records read ahead of the replay.
const READ_AHEAD: usize = 64;

impl Archive {
    /// Starts the thread; `done` hears of what is durable.
    pub(super) fn start(
        mut log: Box<dyn Log>,
        mut look: Look,
        stats: Arc<Stats>,
        done: impl Fn(Archived) + Send + 'static,
    ) -> std::io::Result<Archive> {
        let (orders, inbox) = unbounded::<Order>();
        let thread = std::thread::Builder::new().name("styx-log".into()).spawn(move || {
            fatal_on_panic("log", move || {
                while let Ok(order) = inbox.recv() {
                    let mut next = Some(order);
                    while let Some(order) = next.take() {
                        next = serve(log.as_mut(), order, &inbox, &mut look, &done, &stats);
                    }
                }
            });
        })?;
        Ok(Archive { orders: Some(orders), thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        let orders = self.orders.as_ref().expect("the thread lives as long as the archive");
        orders.send(order).expect("the thread lives as long as the archive");
    }

    /// Appends a record of a generation.
    pub(super) fn append(&self, generation: u64, record: Arc<EpochRecord>) {
        self.order(Order::Append(generation, record));
    }

    /// Makes durable that lower generations append nothing more.
    pub(super) fn raise(&self, generation: u64) {
        self.order(Order::Raise(generation));
    }

    /// Reads all epochs from a position, until the receiver is dropped.
    pub(super) fn read(&self, from: Beginning) -> Receiver<Arc<EpochRecord>> {
        let (records, reader) = bounded(READ_AHEAD);
        self.order(Order::Read(from, records));
        reader
    }

    /// What has the log forget what is before a position. The archive ends when nobody has it any more.
    pub(super) fn trimmer(&self) -> impl Fn(u64) + Send + 'static {
        let orders = self.orders.clone().expect("the thread lives as long as the archive");
        move |until| drop(orders.send(Order::Trim(until)))
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Does what is ordered; appends that have come meanwhile share the fsync. What came after them is next.
fn serve(
    log: &mut dyn Log,
    order: Order,
    inbox: &Receiver<Order>,
    look: &mut Look,
    done: &impl Fn(Archived),
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
            done(Archived::Synced(generation, last, log.next()));
            next
        }
        Order::Raise(generation) => {
            append(log, &Record::Generation(Generation(generation)), stats);
            sync(log, stats);
            done(Archived::Raised(generation, log.next(), look(generation)));
            None
        }
        Order::Trim(until) => {
            if let Err(error) = log.trim(until) {
                fatal(&error.to_string());
            }
            None
        }
        Order::Read(from, records) => {
            let mut unread = false;
            let read = log.replay(from.position.max(1), &mut |_, bytes| {
                if let Record::Epoch(record) = read_record(bytes)?
                    && record.epoch > from.after
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
    pub generation: u64,
    /// Components of deployments, of which no snapshot needs to know yet.
    pub components: BTreeSet<Digest>,
}

/// Looks through the log from a position on.
pub(super) fn survey(log: &mut dyn Log, from: u64) -> anyhow::Result<Survey> {
    let mut survey = Survey::default();
    log.replay(from, &mut |_, bytes| {
        match read_record(bytes)? {
            Record::Epoch(record) => {
                survey.generation = survey.generation.max(record.generation.0);
                for control in &record.controls {
                    if let Control::Deploy(deployment) = control {
                        survey.components.extend(deployment.components.iter().map(|component| component.digest));
                    }
                }
            }
            Record::Generation(generation) => survey.generation = survey.generation.max(generation.0),
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
        every_fault_ends_the_process("cluster::archive::tests::child", &faults);
    }

    #[test]
    #[ignore = "the child process of the test above"]
    fn child() {
        let Some(log) = BrokenLog::of_parent(20) else { return };
        let (done, news) = unbounded();
        let archive = Archive::start(Box::new(log), Box::new(|_| None), Arc::default(), move |archived| {
            drop(done.send(archived))
        });
        let archive = archive.unwrap();
        let trim = archive.trimmer();
        for number in 1..1000 {
            // A generation's number is durable before its members hear of it, and then its epochs are.
            match number % 5 {
                0 => archive.raise(number),
                _ => archive.append(1, record(number)),
            }
            let position = match news.recv() {
                Ok(Archived::Synced(1, epoch, position)) if epoch == Epoch(number) => position,
                Ok(Archived::Raised(generation, position, None)) if generation == number => position,
                _ => break,
            };
            assert_eq!(position, number);
            println!("durable {position} ");
            trim(position / 2);
        }
    }
}
