//! A client that speaks plain Kafka: calls as records, replies as records. Each record must have
//! exactly one reply, whatever is killed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};

use super::ledger::{Append, Way};
use super::load::{Mode, Shared};

const INGRESS: &str = "styx-ingress";
const EGRESS: &str = "styx-egress";

const PAUSE: Duration = Duration::from_millis(10);

/// How long a second reply is waited for.
const LINGER: Duration = Duration::from_millis(500);

/// How long a reply may take.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A record of the ingress topic: partition and offset.
type Position = (i32, i64);

/// Which request stands where; or why one could not be sent.
#[derive(Default)]
struct Positions(Mutex<Vec<Result<(u64, Position), String>>>);

#[derive(Clone, Default)]
struct Delivered(Arc<Positions>);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = Box<u64>;

    fn delivery(&self, result: &DeliveryResult<'_>, number: Box<u64>) {
        let placed = match result {
            Ok(message) => Ok((*number, (message.partition(), message.offset()))),
            Err((error, _)) => Err(format!("record {number} cannot be sent: {error}")),
        };
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(placed);
    }
}

pub(super) struct Records {
    open: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Records {
    /// Asks by records when the other clients ask.
    pub(super) fn start(brokers: &str, shared: Arc<Shared>) -> anyhow::Result<Records> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", "styx-chaos").set("enable.auto.commit", "false");
        config.set("enable.idempotence", "true").set("reconnect.backoff.max.ms", "500").set("linger.ms", "1");
        let delivered = Delivered::default();
        let producer: BaseProducer<Delivered> = config.create_with_context(delivered.clone())?;
        let consumer: BaseConsumer = config.create()?;
        let metadata = consumer.fetch_metadata(Some(EGRESS), Duration::from_secs(30))?;
        let topic = metadata.topics().first().context("the reply topic is there")?;
        let mut assignment = TopicPartitionList::new();
        for partition in topic.partitions() {
            assignment.add_partition_offset(EGRESS, partition.id(), Offset::Beginning)?;
        }
        consumer.assign(&assignment)?;
        let (open, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let client = Client {
            producer,
            consumer,
            delivered,
            shared,
            open: open.clone(),
            asked: HashMap::new(),
            numbers: HashMap::new(),
            early: HashMap::new(),
        };
        let flag = stop.clone();
        let thread = std::thread::Builder::new().name("records".into()).spawn(move || client.run(&flag))?;
        Ok(Records { open, stop, thread: Some(thread) })
    }

    /// Waits until all records have their reply; they must be asked no more.
    pub(super) async fn answered(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        while self.open.load(Ordering::SeqCst) > 0 {
            ensure!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "the Kafka client has ended");
            if started.elapsed() > ANSWER_MAX {
                // They stay in the ledger without an answer, and are found there.
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(LINGER).await;
        Ok(())
    }

    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => anyhow::bail!("the Kafka client broke"),
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

struct Client {
    producer: BaseProducer<Delivered>,
    consumer: BaseConsumer,
    delivered: Delivered,
    shared: Arc<Shared>,
    open: Arc<AtomicUsize>,
    asked: HashMap<u64, Append>,
    /// Requests by where they stand.
    numbers: HashMap<Position, u64>,
    /// Replies to records of which it is not yet known where they stand.
    early: HashMap<Position, serde_json::Value>,
}

impl Client {
    fn run(mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut next = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            if Instant::now() >= next {
                // Counted before it is looked whether to ask, so that nobody who waits misses it.
                self.open.fetch_add(1, Ordering::SeqCst);
                match self.shared.mode() {
                    Mode::Ask => self.send()?,
                    _ => {
                        self.open.fetch_sub(1, Ordering::SeqCst);
                    }
                }
                next = Instant::now() + PAUSE;
            }
            self.producer.poll(Duration::ZERO);
            self.learn_positions()?;
            if let Some(Ok(message)) = self.consumer.poll(Duration::from_millis(2)) {
                let detached = message.detach();
                self.take(&detached)?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> anyhow::Result<()> {
        let append = self.shared.ledger().append(Way::Record, self.shared.now_us());
        let [entity, _] = append.names();
        let (id, value) = (append.id(), append.arguments().to_string());
        let mut headers = OwnedHeaders::new();
        let mut all = vec![("styx-app", "testkit"), ("styx-operator", "a"), ("styx-function", "append_all")];
        if append.is_named() {
            all.push(("styx-request-id", &id));
        }
        for (key, value) in all {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let record = BaseRecord::with_opaque_to(INGRESS, Box::new(append.number));
        let record = record.key(&entity).payload(&value).headers(headers);
        self.producer.send(record).map_err(|(error, _)| error).context("sending a record")?;
        self.shared.ledger().appends.insert(append.number, append.clone());
        self.asked.insert(append.number, append);
        Ok(())
    }

    fn learn_positions(&mut self) -> anyhow::Result<()> {
        let placed = std::mem::take(&mut *self.delivered.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        for placed in placed {
            let (number, place) = placed.map_err(anyhow::Error::msg)?;
            self.numbers.insert(place, number);
            if let Some(reply) = self.early.remove(&place) {
                self.answer(number, &reply);
            }
        }
        Ok(())
    }

    fn take(&mut self, message: &impl Message) -> anyhow::Result<()> {
        let header = |name: &str| {
            let headers = message.headers()?;
            let found = headers.iter().find(|header| header.key == name)?;
            std::str::from_utf8(found.value?).ok().map(str::to_owned)
        };
        let number = |name: &str| header(name).and_then(|text| text.parse::<i64>().ok());
        let place = number("styx-ingress-partition").zip(number("styx-ingress-offset"));
        let (partition, offset) = place.context("a reply says which record it answers")?;
        let place = (i32::try_from(partition)?, offset);
        let reply: serde_json::Value = serde_json::from_slice(message.payload().unwrap_or_default())?;
        match self.numbers.get(&place) {
            Some(number) => self.answer(*number, &reply),
            None => {
                if self.early.insert(place, reply).is_some() {
                    self.twice(&format!("at {place:?}"));
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, number: u64, reply: &serde_json::Value) {
        match self.asked.remove(&number) {
            Some(append) => {
                self.shared.appended(append, reply);
                self.open.fetch_sub(1, Ordering::SeqCst);
            }
            None => self.twice(&number.to_string()),
        }
    }

    fn twice(&self, which: &str) {
        self.shared.ledger().odd.push(format!("doubled: record {which} has two replies"));
    }
}
