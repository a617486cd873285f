//! The thread that makes records durable: as many as have come, with one fsync.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use styx_protocol::ids::Epoch;
use styx_protocol::record::{EpochRecord, Record};
use styx_storage::log::Log;

use super::Event;
use crate::fatal::{fatal, fatal_on_panic};
use crate::log::{append, sync};
use crate::stats::Stats;

/// An order to the thread.
pub(super) enum ToLog {
    /// Append a record.
    Append(Arc<EpochRecord>),
    /// Forget what is before this position.
    Trim(u64),
}

/// Starts the thread; it ends when all senders are dropped.
pub(super) fn start(
    mut log: Box<dyn Log>,
    done: Sender<Event>,
    stats: Arc<Stats>,
) -> std::io::Result<(Sender<ToLog>, JoinHandle<()>)> {
    let (records, inbox) = unbounded::<ToLog>();
    let thread = std::thread::Builder::new().name("styx-log".into()).spawn(move || {
        fatal_on_panic("log", move || {
            let take = |log: &mut dyn Log, told: ToLog| -> Option<Epoch> {
                let record = match told {
                    ToLog::Append(record) => record,
                    ToLog::Trim(until) => {
                        if let Err(error) = log.trim(until) {
                            fatal(&error.to_string());
                        }
                        return None;
                    }
                };
                let epoch = record.epoch;
                append(log, &Record::Epoch(record), &stats);
                Some(epoch)
            };
            while let Ok(told) = inbox.recv() {
                let mut last = take(log.as_mut(), told);
                while let Ok(told) = inbox.try_recv() {
                    last = take(log.as_mut(), told).or(last);
                }
                let Some(epoch) = last else { continue };
                sync(log.as_mut(), &stats);
                stats.durable.store(epoch.0, Ordering::Relaxed);
                let _ = done.send(Event::Synced(epoch, log.next()));
            }
        });
    })?;
    Ok((records, thread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::broken::{BrokenLog, Fault, every_fault_ends_the_process, record};

    #[test]
    fn a_log_that_fails_ends_the_process_and_loses_nothing_that_was_acknowledged() {
        let faults = [Fault::Append, Fault::SyncLost, Fault::SyncKept, Fault::Full, Fault::Trim];
        every_fault_ends_the_process("single::appender::tests::child", &faults);
    }

    #[test]
    #[ignore = "the child process of the test above"]
    fn child() {
        let Some(log) = BrokenLog::of_parent(20) else { return };
        let (done, synced) = unbounded();
        let (records, thread) = start(Box::new(log), done, Arc::default()).unwrap();
        for epoch in 1..1000 {
            records.send(ToLog::Append(record(epoch))).unwrap();
            let Ok(Event::Synced(synced, position)) = synced.recv() else { break };
            assert_eq!((synced, position), (Epoch(epoch), epoch));
            println!("durable {position} ");
            records.send(ToLog::Trim(position / 2)).unwrap();
        }
        // The process ends before this does.
        drop(records);
        thread.join().unwrap();
    }
}
