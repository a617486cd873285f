//! The thread that makes records durable: as many as have come, with one fsync.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};
use styx_protocol::record::{EpochRecord, Record};

use super::{Message, Stats, fatal, fatal_on_panic};
use styx_storage::log::Log;

/// Starts the thread; it ends when the sender is dropped.
pub(super) fn start(
    mut log: Box<dyn Log>,
    done: Sender<Message>,
    stats: Arc<Stats>,
) -> std::io::Result<(Sender<Arc<EpochRecord>>, JoinHandle<()>)> {
    let (records, inbox) = unbounded::<Arc<EpochRecord>>();
    let thread = std::thread::Builder::new().name("styx-log".into()).spawn(move || {
        fatal_on_panic("log", move || {
            let append = |log: &mut dyn Log, record: Arc<EpochRecord>| {
                let epoch = record.epoch;
                let bytes = Record::Epoch(record).encode();
                if let Err(error) = log.append(&bytes) {
                    fatal(&error.to_string());
                }
                stats.log_records.fetch_add(1, Ordering::Relaxed);
                stats.log_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                epoch
            };
            while let Ok(record) = inbox.recv() {
                let mut epoch = append(log.as_mut(), record);
                while let Ok(record) = inbox.try_recv() {
                    epoch = append(log.as_mut(), record);
                }
                let started = Instant::now();
                // After a failed fsync nobody knows what is on the disk.
                if let Err(error) = log.sync() {
                    fatal(&error.to_string());
                }
                stats.log_syncs.fetch_add(1, Ordering::Relaxed);
                stats.log_sync_us.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
                drop(done.send(Message::Synced(epoch)));
            }
        });
    })?;
    Ok((records, thread))
}
