//! The thread of a process's log: the product's, on a simulated disk.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use styx_durability::log::{LogOrder, LogReport, serve};
use styx_protocol::ids::{Epoch, Generation, LogPosition};
use styx_protocol::record::EpochRecord;
use styx_storage::log::Log;

use super::around::Around;
use crate::event::ThreadId;
use crate::thread::{Wait, wait};

/// Records read ahead of the replay.
const READ_AHEAD: usize = 64;

/// Orders to a log, and the thread that serves them.
#[derive(Clone)]
pub struct LogThread {
    orders: Rc<RefCell<VecDeque<LogOrder>>>,
    thread: ThreadId,
    reports: Rc<RefCell<VecDeque<LogReport>>>,
    failure: Rc<RefCell<Option<String>>>,
    reading: Option<Reading>,
}

impl std::fmt::Debug for LogThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogThread").finish_non_exhaustive()
    }
}

/// Records on their way from the log.
type Reading = Arc<Mutex<Read>>;

#[derive(Debug, Default)]
struct Read {
    records: VecDeque<Arc<EpochRecord>>,
    /// There are no more.
    has_ended: bool,
    /// Nobody reads any more.
    is_over: bool,
}

fn lock(reading: &Reading) -> std::sync::MutexGuard<'_, Read> {
    reading.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogThread {
    /// Starts it for a log that is open.
    pub fn start(mut log: Box<dyn Log>, around: &mut Around<'_>) -> Self {
        let orders: Rc<RefCell<VecDeque<LogOrder>>> = Rc::default();
        let reports: Rc<RefCell<VecDeque<LogReport>>> = Rc::default();
        let failure: Rc<RefCell<Option<String>>> = Rc::default();
        let (inbox, told, failed) = (orders.clone(), reports.clone(), failure.clone());
        let thread = around.spawn(move || {
            let mut tell = |report| told.borrow_mut().push_back(report);
            let take = || inbox.borrow_mut().pop_front();
            loop {
                let mut next = take();
                if next.is_none() {
                    wait(Wait::Order);
                    continue;
                }
                while let Some(order) = next.take() {
                    match serve(log.as_mut(), order, &mut { take }, &mut tell) {
                        Ok(order) => next = order,
                        Err(error) => {
                            *failed.borrow_mut() = Some(error.to_string());
                            return;
                        }
                    }
                }
            }
        });
        LogThread { orders, thread, reports, failure, reading: None }
    }

    fn order(&self, order: LogOrder, around: &mut Around<'_>) {
        self.orders.borrow_mut().push_back(order);
        around.wake(self.thread);
    }

    pub fn append(&self, record: Arc<EpochRecord>, around: &mut Around<'_>) {
        self.order(LogOrder::Append(record), around);
    }

    /// Makes durable that lower generations append nothing more.
    pub fn raise(&self, generation: Generation, around: &mut Around<'_>) {
        self.order(LogOrder::Raise(generation), around);
    }

    /// Has the log forget what stands before a position.
    pub fn trim(&self, until: LogPosition, around: &mut Around<'_>) {
        self.order(LogOrder::Trim(until), around);
    }

    /// Reads records of later epochs than `after` from a position on.
    pub fn read(&mut self, from: LogPosition, after: Epoch, around: &mut Around<'_>) {
        self.stop_reading(around);
        let reading = Reading::default();
        self.reading = Some(reading.clone());
        // Dropped when all is read, or nobody reads any more.
        let end = End(reading.clone());
        let records = Box::new(move |record| {
            let _ = &end;
            while lock(&reading).records.len() >= READ_AHEAD && !lock(&reading).is_over {
                wait(Wait::Order);
            }
            let mut read = lock(&reading);
            read.records.push_back(record);
            !read.is_over
        });
        self.order(LogOrder::Read { from, after, records }, around);
    }

    /// Whether the next record has come, or that there is none.
    pub fn has_record(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| {
            let read = lock(reading);
            read.has_ended || !read.records.is_empty()
        })
    }

    /// The next record, if it has come; `Some(None)` after the last.
    pub fn next_record(&self, around: &mut Around<'_>) -> Option<Option<Arc<EpochRecord>>> {
        let mut read = lock(self.reading.as_ref()?);
        match read.records.pop_front() {
            Some(record) => {
                around.wake(self.thread);
                Some(Some(record))
            }
            None => read.has_ended.then_some(None),
        }
    }

    /// Nobody reads any more.
    pub fn stop_reading(&mut self, around: &mut Around<'_>) {
        if let Some(reading) = self.reading.take() {
            lock(&reading).is_over = true;
            around.wake(self.thread);
        }
    }

    /// What the thread has said.
    pub fn report(&self) -> Option<LogReport> {
        self.reports.borrow_mut().pop_front()
    }

    /// Why it has ended, if it has.
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}

struct End(Reading);

impl Drop for End {
    fn drop(&mut self) {
        lock(&self.0).has_ended = true;
    }
}
