//! Writing: many messages under way at once, confirmed in order by all replicas.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientContext, Message};

use super::client::trace;
use super::reader::PARTITION;
use super::stall::BrokerWait;
use super::topic::cause;
use super::{KafkaOptions, KafkaProblem, Stamp, stamp};

/// Confirmations of the brokers.
#[derive(Default)]
struct Confirmed {
    /// Offsets of the messages confirmed since last asked; negative where the broker knows only
    /// that it has the message.
    offsets: Vec<i64>,
    failed: Option<String>,
}

/// Hands confirmations over from the library's thread.
#[derive(Clone, Default)]
struct Confirmations(Arc<(Mutex<Confirmed>, Condvar)>);

impl Confirmations {
    fn lock(&self) -> MutexGuard<'_, Confirmed> {
        // A panic while it is held leaves it as it was: no update can panic halfway.
        self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'a>(&'a self, confirmed: MutexGuard<'a, Confirmed>) -> MutexGuard<'a, Confirmed> {
        let waited = self.0.1.wait_timeout(confirmed, Duration::from_millis(100));
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

impl ClientContext for Confirmations {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        trace(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ProducerContext for Confirmations {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut confirmed = self.lock();
        match result {
            Ok(message) => confirmed.offsets.push(message.offset()),
            Err((error, _)) => {
                confirmed.failed.get_or_insert_with(|| cause(error));
            }
        }
        self.0.1.notify_all();
    }
}

pub(super) struct Writer {
    producer: ThreadedProducer<Confirmations>,
    confirmations: Confirmations,
    topic: String,
}

impl Writer {
    pub fn new(options: &KafkaOptions) -> Result<Self, KafkaProblem> {
        let confirmations = Confirmations::default();
        let topic = options.topic.clone();
        let producer = ThreadedProducer::from_config_and_context(&options.producer(), confirmations.clone())
            .map_err(|error| KafkaProblem::Client { topic: topic.clone(), detail: cause(&error) })?;
        Ok(Writer { producer, confirmations, topic })
    }

    /// Sends a message; waits only while there is no room in memory.
    pub fn send(&self, stamp: &Stamp, record: &[u8], wait: &mut BrokerWait<'_>) -> Result<(), KafkaProblem> {
        let headers = stamp::headers(stamp);
        let mut message =
            BaseRecord::<(), [u8], ()>::to(&self.topic).partition(PARTITION).payload(record).headers(headers);
        loop {
            message = match self.producer.send(message) {
                Ok(()) => return Ok(()),
                Err((error, message)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) => message,
                Err((error, _)) => return Err(self.client(cause(&error))),
            };
            let confirmed = self.confirmations.lock();
            let had = confirmed.offsets.len();
            let confirmed = self.confirmations.wait(confirmed);
            if confirmed.offsets.len() > had {
                wait.progress();
            } else {
                wait.no_progress()?;
            }
        }
    }

    /// Waits until `count` messages are confirmed and returns their offsets; see [`Confirmed`].
    pub fn confirmed(&self, count: usize, wait: &mut BrokerWait<'_>) -> Result<Vec<i64>, KafkaProblem> {
        let mut confirmed = self.confirmations.lock();
        loop {
            if let Some(detail) = &confirmed.failed {
                return Err(self.client(detail.clone()));
            }
            if confirmed.offsets.len() >= count {
                wait.progress();
                let later = confirmed.offsets.split_off(count);
                return Ok(std::mem::replace(&mut confirmed.offsets, later));
            }
            let had = confirmed.offsets.len();
            confirmed = self.confirmations.wait(confirmed);
            if confirmed.offsets.len() > had {
                wait.progress();
            } else {
                wait.no_progress()?;
            }
        }
    }

    fn client(&self, detail: String) -> KafkaProblem {
        KafkaProblem::Client { topic: self.topic.clone(), detail }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What has not been sent must not be sent any more.
        self.producer.purge(PurgeConfig::default().queue().inflight());
    }
}
