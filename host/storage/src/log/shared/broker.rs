//! Brokers: they keep the messages of a topic, in order, for whoever asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{KafkaProblem, Stamp};
use crate::log::LogError;

/// Takes messages: offset, stamp and record.
pub type Visitor<'a> = dyn FnMut(i64, Option<Stamp>, &[u8]) -> Result<(), LogError> + 'a;

/// The way to the one topic of a log, for one process. Every call waits for brokers that do not answer: for a while
/// before the log is open, and much longer afterwards.
pub trait Broker: Send {
    fn topic(&self) -> &str;

    /// The longest record, in bytes.
    fn record_bytes_max(&self) -> usize;

    /// A number that tells this process from all others.
    fn nonce(&mut self) -> u64;

    /// Flag that is set while the brokers do not answer.
    fn stall(&self) -> Stall;

    /// The log is open.
    fn opened(&mut self);

    /// The offsets of the first message and after the last that is durable.
    fn bounds(&mut self) -> Result<(i64, i64), KafkaProblem>;

    /// Calls `visit` for each message whose offset lies in `from..until`, which have all been written. Stops at the
    /// first error of `visit`.
    ///
    /// # Errors
    /// That one; or the messages are not there any more, or the brokers do not answer.
    fn read(&mut self, from: i64, until: i64, visit: &mut Visitor<'_>) -> Result<(), LogError>;

    /// Sends a message, after those before it; waits only while there is no room in memory.
    fn send(&mut self, stamp: &Stamp, record: &[u8]) -> Result<(), KafkaProblem>;

    /// Waits until `count` messages more are durable and returns their offsets; negative where the broker knows only
    /// that it has the message.
    ///
    /// # Errors
    /// The brokers do not answer, or one cannot become durable.
    fn confirmed(&mut self, count: usize) -> Result<Vec<i64>, KafkaProblem>;

    /// Has the brokers delete what lies below an offset, some time: nothing depends on it but space.
    fn delete_below(&mut self, offset: i64);
}

/// True while a log waits for brokers that do not answer, for callers who would rather refuse than
/// wait. Cheap to clone and to read.
#[derive(Debug, Clone, Default)]
pub struct Stall(Arc<AtomicBool>);

impl Stall {
    /// True if it waits for longer than is usual.
    pub fn is_stalled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says whether it does, and gives what was said before.
    pub fn set(&self, stalled: bool) -> bool {
        self.0.swap(stalled, Ordering::Relaxed)
    }
}
