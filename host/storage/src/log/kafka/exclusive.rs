//! Exclusive writers: each has a name, and who takes a name makes whoever had it before harmless, whether it knows or not.
//!
//! A batch is a transaction of Kafka's: it is there whole or not at all, for those who read what is committed. When a name
//! is taken, the transaction that was open under it is aborted, and brokers refuse what is sent under it from before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

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

/// One producer with a name of its own, for one transaction at a time.
struct Named(BaseProducer<TracedContext>);

impl Named {
    fn take(config: &ClientConfig, name: &str) -> KafkaResult<Self> {
        let mut config = config.clone();
        config.set("transactional.id", name);
        let producer = BaseProducer::from_config_and_context(&config, TracedContext)?;
        patiently(|| producer.init_transactions(PATIENCE))?;
        Ok(Named(producer))
    }

    fn begin(&self, batch: Vec<Outgoing>) -> KafkaResult<()> {
        self.0.begin_transaction()?;
        for Outgoing { topic, partition, key, headers, value } in batch {
            let mut record = BaseRecord::to(topic).payload(&value).headers(headers);
            record.partition = partition;
            record.key = key.as_ref();
            while let Err((error, again)) = self.0.send(record) {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(error);
                }
                self.0.poll(PAUSE);
                record = again;
            }
        }
        Ok(())
    }

    fn end(&self) -> KafkaResult<()> {
        // The library's own way to wait for what was sent looks every tenth of a second. What brokers have not taken after
        // so long, the end of the transaction says.
        let started = Instant::now();
        while self.0.in_flight_count() > 0 && started.elapsed() < PATIENCE {
            thread::sleep(GLANCE);
            self.0.poll(Duration::ZERO);
        }
        patiently(|| self.0.commit_transaction(PATIENCE))
    }
}

/// Producers that take turns: a broker that has ended a transaction makes the next one of the same name wait until that is
/// written everywhere, and the library asks again after 20 ms only.
const TURNS: usize = 2;

pub struct ExclusiveWriter {
    named: [Named; TURNS],
    turn: AtomicUsize,
    message_bytes_max: usize,
}

/// How long brokers may take.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
const GLANCE: Duration = Duration::from_micros(100);
/// How long messages of a batch wait for the others, in milliseconds: they are given one right after the other, a thousand in
/// a few of them.
const LINGER: &str = "1";

impl ExclusiveWriter {
    /// Takes a name, for messages of limited length. Whatever was written under it before is there or never will be. Blocks.
    pub fn take(mut config: ClientConfig, name: &str, message_bytes_max: usize) -> KafkaResult<Self> {
        config
            .set("transaction.timeout.ms", PATIENCE.as_millis().to_string())
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("linger.ms", LINGER)
            // Nor are batches longer, which are what brokers measure: one that is refused ends the writer.
            .set("message.max.bytes", message_bytes_max.to_string());
        let named = [Named::take(&config, name)?, Named::take(&config, &format!("{name}:1"))?];
        Ok(ExclusiveWriter { named, turn: AtomicUsize::new(0), message_bytes_max })
    }

    /// Writes a batch. Blocks until it is there, on all replicas.
    pub fn append(&self, batch: Vec<Outgoing>) -> Result<(), AppendProblem> {
        if let Some(index) = batch.iter().position(|message| message.weight() > self.message_bytes_max) {
            return Err(AppendProblem::TooLarge(index));
        }
        self.begin(batch).and_then(|()| self.end()).map_err(|error| {
            // Who cannot is over all the same.
            let _ = patiently(|| self.now().0.abort_transaction(PATIENCE));
            AppendProblem::Failed(error)
        })
    }

    fn now(&self) -> &Named {
        &self.named[self.turn.load(Ordering::Relaxed) % TURNS]
    }

    pub(super) fn begin(&self, batch: Vec<Outgoing>) -> KafkaResult<()> {
        self.now().begin(batch)
    }

    pub(super) fn end(&self) -> KafkaResult<()> {
        self.now().end()?;
        self.turn.fetch_add(1, Ordering::Relaxed);
        Ok(())
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
