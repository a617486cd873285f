//! Exclusive writers: each has a name, and who takes a name makes whoever had it before harmless, whether it knows or not.
//!
//! A batch is a transaction of Kafka's: it is there whole or not at all, for those who read what is committed. When a name
//! is taken, the transaction that was open under it is aborted, and brokers refuse what is sent under it from before.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};

use super::TracedContext;

/// A message that is to be written.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub topic: &'static str,
    /// The topic's partition; any if none.
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub headers: OwnedHeaders,
    pub value: Vec<u8>,
}

/// Why a batch was not written: none of it.
#[derive(Debug)]
pub enum AppendProblem {
    /// This one of its messages is longer than its topic takes.
    TooLarge(usize),
    /// Another one has the name, or the brokers are away: this writer is over.
    Failed(KafkaError),
}

impl Outgoing {
    /// At least as many bytes as it takes.
    fn weight(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len) + 16);
        self.key.as_ref().map_or(0, Vec::len) + self.value.len() + headers.sum::<usize>() + 256
    }
}

pub struct ExclusiveWriter {
    producer: ThreadedProducer<TracedContext>,
    message_bytes_max: usize,
}

/// How long brokers may take.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

impl ExclusiveWriter {
    /// Takes a name, for messages of limited length. Whatever was written under it before is there or never will be. Blocks.
    pub fn take(mut config: ClientConfig, name: &str, message_bytes_max: usize) -> KafkaResult<Self> {
        config
            .set("transactional.id", name)
            .set("transaction.timeout.ms", PATIENCE.as_millis().to_string())
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // Nor are batches longer, which are what brokers measure: one that is refused ends the writer.
            .set("message.max.bytes", message_bytes_max.to_string());
        let producer = ThreadedProducer::from_config_and_context(&config, TracedContext)?;
        patiently(|| producer.init_transactions(PATIENCE))?;
        Ok(ExclusiveWriter { producer, message_bytes_max })
    }

    /// Writes a batch. Blocks until it is there, on all replicas.
    pub fn append(&self, batch: &[Outgoing]) -> Result<(), AppendProblem> {
        if let Some(index) = batch.iter().position(|message| message.weight() > self.message_bytes_max) {
            return Err(AppendProblem::TooLarge(index));
        }
        self.transact(batch).map_err(|error| {
            // Who cannot is over all the same.
            let _ = patiently(|| self.producer.abort_transaction(PATIENCE));
            AppendProblem::Failed(error)
        })
    }

    fn transact(&self, batch: &[Outgoing]) -> KafkaResult<()> {
        self.begin(batch)?;
        self.end()
    }

    pub(super) fn begin(&self, batch: &[Outgoing]) -> KafkaResult<()> {
        self.producer.begin_transaction()?;
        for message in batch {
            let mut record = BaseRecord::to(message.topic).payload(&message.value).headers(message.headers.clone());
            record.partition = message.partition;
            record.key = message.key.as_ref();
            while let Err((error, again)) = self.producer.send(record) {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(error);
                }
                thread::sleep(PAUSE);
                record = again;
            }
        }
        Ok(())
    }

    pub(super) fn end(&self) -> KafkaResult<()> {
        patiently(|| self.producer.commit_transaction(PATIENCE))
    }
}

/// Tries again for a while what may be.
fn patiently(mut attempt: impl FnMut() -> KafkaResult<()>) -> KafkaResult<()> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && started.elapsed() < PATIENCE => {
                thread::sleep(PAUSE);
            }
            ended => return ended,
        }
    }
}
