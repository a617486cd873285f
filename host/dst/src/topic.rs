//! A topic of brokers that all machines reach: messages of whoever sends them, in the order in which they come.
//!
//! The product's shared log runs above. What a process sends may arrive after it is gone, or after another one has
//! taken its place; the answer may be lost, so that nobody can say where a message is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use styx_storage::log::LogError;
use styx_storage::log::shared::{Broker, KafkaProblem, Kind, Stall, Stamp, Visitor};

use crate::event::{Life, ThreadId};
use crate::thread::{Wait, wait};

/// The messages. Clones are the same topic.
#[derive(Clone, Debug, Default)]
pub struct Topic(Arc<Mutex<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    all: Vec<(Stamp, Bytes)>,
    /// Those before are deleted.
    low: usize,
}

impl Topic {
    fn messages(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message, and gives its offset.
    pub fn append(&self, message: &Message) -> i64 {
        let mut messages = self.messages();
        messages.all.push((message.stamp, message.record.clone()));
        messages.all.len() as i64 - 1
    }

    /// Deletes what lies below an offset.
    pub fn delete_below(&self, offset: i64) {
        let mut messages = self.messages();
        messages.low = messages.low.max(offset as usize);
    }
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who has sent it, and what it is.
    pub stamp: Stamp,
    record: Bytes,
    /// What its sender knows.
    pub sender: Sender,
}

impl Message {
    /// Whether another process may write from now on.
    pub fn is_fence(&self) -> bool {
        self.stamp.kind == Kind::Fence
    }
}

/// What a process knows of the messages that it has sent.
#[derive(Clone, Debug, Default)]
pub struct Sender(Arc<Mutex<Sent>>);

/// See [`Sender`].
#[derive(Debug, Default)]
pub struct Sent {
    /// Offsets of messages that arrived, as far as the broker has told.
    pub confirmed: Vec<i64>,
    /// Nothing arrives any more.
    pub has_failed: bool,
    /// When the last message arrives.
    pub arrives: u64,
    /// When the last answer comes.
    pub answered: u64,
    /// The thread that waits for more.
    pub waiting: Option<(Life, ThreadId)>,
}

impl Sender {
    /// What is known now.
    pub fn sent(&self) -> MutexGuard<'_, Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of a process to a topic.
#[derive(Debug)]
pub struct Client {
    topic: Topic,
    sender: Sender,
    nonce: u64,
    record_bytes_max: usize,
    stall: Stall,
}

impl Client {
    /// That of a process, which `nonce` tells from all others.
    pub fn new(topic: Topic, nonce: u64, record_bytes_max: usize) -> Self {
        Client { topic, sender: Sender::default(), nonce, record_bytes_max, stall: Stall::default() }
    }
}

impl Broker for Client {
    fn topic(&self) -> &str {
        "log"
    }

    fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    fn nonce(&mut self) -> u64 {
        self.nonce
    }

    fn stall(&self) -> Stall {
        self.stall.clone()
    }

    fn opened(&mut self) {}

    fn bounds(&mut self) -> Result<(i64, i64), KafkaProblem> {
        wait(Wait::Fetch);
        let messages = self.topic.messages();
        Ok((messages.low as i64, messages.all.len() as i64))
    }

    fn read(&mut self, from: i64, until: i64, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        wait(Wait::Fetch);
        for offset in from..until {
            let (stamp, record) = self.topic.messages().all[offset as usize].clone();
            visit(offset, Some(stamp), &record)?;
        }
        Ok(())
    }

    fn send(&mut self, stamp: &Stamp, record: &[u8]) -> Result<(), KafkaProblem> {
        let record = Bytes::copy_from_slice(record);
        wait(Wait::Append(Message { stamp: *stamp, record, sender: self.sender.clone() }));
        Ok(())
    }

    fn confirmed(&mut self, count: usize) -> Result<Vec<i64>, KafkaProblem> {
        loop {
            let mut sent = self.sender.sent();
            if sent.confirmed.len() >= count {
                let later = sent.confirmed.split_off(count);
                return Ok(std::mem::replace(&mut sent.confirmed, later));
            }
            if sent.has_failed {
                let (topic, detail) = ("log".into(), "the brokers refuse a message".into());
                return Err(KafkaProblem::Client { topic, detail });
            }
            drop(sent);
            wait(Wait::Confirmation(self.sender.clone()));
        }
    }

    fn delete_below(&mut self, offset: i64) {
        wait(Wait::Forget(offset));
    }
}
