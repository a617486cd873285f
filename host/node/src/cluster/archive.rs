//! The thread that owns the coordinator's log: appends what a generation cuts, with one fsync for as
//! many records as have come, and reads everything for the next one.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use styx_protocol::ids::Epoch;
use styx_protocol::record::{EpochRecord, Record};

use crate::worker::{fatal, fatal_on_panic};
use styx_storage::log::Log;

/// What has become of the log.
pub(super) enum Archived {
    /// The records of this generation up to an epoch's are durable.
    Synced(u64, Epoch),
    /// Lower generations than this one append nothing more.
    Raised(u64),
}

enum Order {
    Append(u64, Arc<EpochRecord>),
    Raise(u64),
    Read(Sender<Arc<EpochRecord>>),
}

/// See the module.
pub(super) struct Archive {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// Records read ahead of the replay.
const READ_AHEAD: usize = 64;

impl Archive {
    /// Starts the thread; `done` hears of what is durable.
    pub(super) fn start(mut log: Box<dyn Log>, done: impl Fn(Archived) + Send + 'static) -> std::io::Result<Archive> {
        let (orders, inbox) = unbounded::<Order>();
        let thread = std::thread::Builder::new().name("styx-log".into()).spawn(move || {
            fatal_on_panic("log", move || {
                while let Ok(order) = inbox.recv() {
                    let mut next = Some(order);
                    while let Some(order) = next.take() {
                        next = serve(log.as_mut(), order, &inbox, &done);
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

    /// Reads all epochs from the first, until the receiver is dropped.
    pub(super) fn read(&self) -> Receiver<Arc<EpochRecord>> {
        let (records, reader) = bounded(READ_AHEAD);
        self.order(Order::Read(records));
        reader
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
fn serve(log: &mut dyn Log, order: Order, inbox: &Receiver<Order>, done: &impl Fn(Archived)) -> Option<Order> {
    match order {
        Order::Append(generation, record) => {
            let (mut last, mut generation) = (record.epoch, generation);
            append(log, &Record::Epoch(record));
            let mut next = None;
            while let Ok(order) = inbox.try_recv() {
                match order {
                    Order::Append(of, record) if of == generation => {
                        (last, generation) = (record.epoch, of);
                        append(log, &Record::Epoch(record));
                    }
                    other => {
                        next = Some(other);
                        break;
                    }
                }
            }
            sync(log);
            done(Archived::Synced(generation, last));
            next
        }
        Order::Raise(generation) => {
            append(log, &Record::Generation(generation));
            sync(log);
            done(Archived::Raised(generation));
            None
        }
        Order::Read(records) => {
            let mut unread = false;
            let read = log.replay(1, &mut |_, bytes| {
                let record =
                    Record::decode(bytes).map_err(|error| anyhow::anyhow!("not a record of this version: {error}"))?;
                if let Record::Epoch(record) = record {
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

fn append(log: &mut dyn Log, record: &Record) {
    if let Err(error) = log.append(&record.encode()) {
        fatal(&error.to_string());
    }
}

fn sync(log: &mut dyn Log) {
    // After a failed fsync nobody knows what is on the disk.
    if let Err(error) = log.sync() {
        fatal(&error.to_string());
    }
}

/// The highest generation that the log knows of.
pub(super) fn generation(log: &mut dyn Log) -> anyhow::Result<u64> {
    let mut highest = 0;
    log.replay(0, &mut |_, bytes| {
        let record = Record::decode(bytes).map_err(|error| anyhow::anyhow!("not a record of this version: {error}"))?;
        match record {
            Record::Epoch(record) => highest = highest.max(record.generation),
            Record::Generation(generation) => highest = highest.max(generation),
            Record::Genesis(_) => {}
        }
        Ok(())
    })?;
    Ok(highest)
}
