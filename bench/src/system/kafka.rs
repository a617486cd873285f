//! A connection over Kafka: calls as records of one topic, answers as records of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};
use tokio::sync::mpsc;

use super::http::Failure;
use crate::load::{Answered, Connection, End};
use crate::workload::Call;

const INGRESS: &str = "styx-ingress";
const EGRESS: &str = "styx-egress";

/// Calls under way; the producer's own queue holds more.
const CAPACITY: usize = 20_000;

/// How long a broker may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(30);

const TAKEN_MAX: usize = 1024;

/// Connections of this process so far: each knows its own answers by it.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Hears what became of the records that were sent.
struct Delivered(mpsc::UnboundedSender<Answered>);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        if let Err((error, _)) = result {
            let end = End::failed("OUTCOME_UNKNOWN", format!("the broker did not say that it has a record: {error}"));
            // The connection may be gone by now.
            let _ = self.0.send(Answered { ticket: ticket as u64, end, retries: 0 });
        }
    }
}

/// A producer of calls and a consumer of answers.
pub struct Records {
    producer: ThreadedProducer<Delivered>,
    app: String,
    connection: String,
    sent: u64,
    answers: mpsc::UnboundedReceiver<Answered>,
    ended: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Records {
    /// Connects; answers are read from what is written from now on. With `prompt`, nothing waits for a batch. Blocks.
    pub fn open(brokers: &str, app: &str, results: bool, prompt: bool) -> anyhow::Result<Records> {
        let (linger, fetched) = if prompt { ("0", "1") } else { ("5", "65536") };
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        let consumer: BaseConsumer = config
            .clone()
            .set("group.id", "styx-bench")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "10")
            .set("fetch.min.bytes", fetched)
            .create()?;
        let metadata = consumer.fetch_metadata(Some(EGRESS), PATIENCE)?;
        let topic = metadata.topics().first().context("the topic of answers exists")?;
        let mut assignment = TopicPartitionList::new();
        for partition in topic.partitions() {
            let (_, end) = consumer.fetch_watermarks(EGRESS, partition.id(), PATIENCE)?;
            assignment.add_partition_offset(EGRESS, partition.id(), Offset::Offset(end))?;
        }
        consumer.assign(&assignment)?;
        let (to, answers) = mpsc::unbounded_channel();
        let producer = config
            .set("enable.idempotence", "true")
            .set("linger.ms", linger)
            .create_with_context(Delivered(to.clone()))?;
        // A client of another process may use the same topics.
        let connection = format!("{}-{}", std::process::id(), CONNECTIONS.fetch_add(1, Ordering::Relaxed));
        let ended = Arc::new(AtomicBool::new(false));
        let (seen, own) = (ended.clone(), connection.clone());
        let reader = std::thread::Builder::new().name("egress".into()).spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else { continue };
                let Some(answered) = answered(&message, &own, results) else { continue };
                if to.send(answered).is_err() {
                    break;
                }
            }
        })?;
        Ok(Records { producer, app: app.to_owned(), connection, sent: 0, answers, ended, reader: Some(reader) })
    }
}

/// The answer that a record is, if it is this connection's.
fn answered(message: &BorrowedMessage<'_>, connection: &str, results: bool) -> Option<Answered> {
    let id = std::str::from_utf8(message.key()?).ok()?;
    let (of, numbers) = id.split_once(':')?;
    if of != connection {
        return None;
    }
    let ticket = numbers.rsplit_once(':')?.1.parse().ok()?;
    let status = message.headers()?.iter().find(|header| header.key == "styx-status")?.value?;
    let value = message.payload().unwrap_or_default();
    let end = match status {
        b"committed" if results => End::Done(Bytes::copy_from_slice(value)),
        b"committed" => End::Done(Bytes::new()),
        _ => match serde_json::from_slice(value) {
            Ok(Failure { code, message }) => End::Failed { code, message },
            Err(_) => End::failed("UNREADABLE", String::from_utf8_lossy(value)),
        },
    };
    Some(Answered { ticket, end, retries: 0 })
}

impl Connection for Records {
    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()> {
        self.sent += 1;
        let id = format!("{}:{}:{ticket}", self.connection, self.sent);
        let headers = [
            ("styx-app", &*self.app),
            ("styx-operator", call.operator),
            ("styx-function", call.function),
            ("styx-request-id", &id),
        ];
        let headers = headers.into_iter().fold(OwnedHeaders::new_with_capacity(4), |all, (key, value)| {
            all.insert(Header { key, value: Some(value) })
        });
        let record = BaseRecord::with_opaque_to(INGRESS, ticket as usize)
            .key(&call.key)
            .payload(&call.arguments)
            .headers(headers);
        self.producer.send(record).map_err(|(error, _)| error).context("the producer takes no more")
    }

    fn poll(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
        match self.answers.poll_recv_many(context, answers, TAKEN_MAX) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(0) => Poll::Ready(Err(anyhow::anyhow!("the reader of answers has ended"))),
            Poll::Ready(_) => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
