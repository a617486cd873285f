//! A client that speaks plain Kafka.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};
use serde_json::Value;

/// A record of the ingress topic: partition and offset.
pub type Place = (i32, i64);

/// Where records came to stand, in the order of sending.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Vec<(usize, Place)>>>);

impl ClientContext for Places {}

impl ProducerContext for Places {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let message = result.as_ref().map_err(|(error, _)| error.clone()).expect("it is delivered");
        self.0.lock().unwrap().push((number, (message.partition(), message.offset())));
    }
}

pub struct Client {
    config: ClientConfig,
    producer: BaseProducer<Places>,
    places: Places,
    sent: Mutex<usize>,
}

/// A record as it was read.
#[derive(Debug)]
pub struct Reply {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or_else(|| panic!("no {name}: {self:?}"), |(_, value)| value)
    }

    pub fn number(&self, name: &str) -> i64 {
        self.header(name).parse().unwrap()
    }

    pub fn status(&self) -> &str {
        self.header("styx-status")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.value).unwrap()
    }

    /// The record that it answers.
    pub fn place(&self) -> Place {
        (self.number("styx-ingress-partition") as i32, self.number("styx-ingress-offset"))
    }
}

impl Client {
    pub fn new(brokers: &str) -> Client {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", "a client").set("enable.auto.commit", "false");
        config
            .set("enable.partition.eof", "false")
            .set("enable.idempotence", "true")
            .set("reconnect.backoff.max.ms", "500");
        let places = Places::default();
        let producer = config.create_with_context(places.clone()).unwrap();
        Client { config, producer, places, sent: Mutex::new(0) }
    }

    /// A call of a function of the test app.
    pub fn ask(&self, key: &str, function: &str, id: Option<&str>, value: &[u8]) {
        let mut headers = vec![("styx-app", "testkit"), ("styx-operator", "a"), ("styx-function", function)];
        headers.extend(id.map(|id| ("styx-request-id", id)));
        self.send(Some(key), &headers, value);
    }

    pub fn send(&self, key: Option<&str>, headers: &[(&str, &str)], value: &[u8]) {
        let mut sent = self.sent.lock().unwrap();
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(*value) }));
        let mut record = BaseRecord::with_opaque_to("styx-ingress", *sent).payload(value).headers(headers);
        if let Some(key) = key {
            record = record.key(key);
        }
        self.producer.send(record).map_err(|(error, _)| error).unwrap();
        *sent += 1;
    }

    pub fn flush(&self) {
        self.producer.flush(Duration::from_secs(60)).unwrap();
    }

    /// Where the records stand.
    pub fn asked(&self) -> BTreeSet<Place> {
        self.places.0.lock().unwrap().iter().map(|(_, place)| *place).collect()
    }

    /// Where the record stands that was sent as the `number`th, from 0.
    pub fn place(&self, number: usize) -> Place {
        self.places.0.lock().unwrap().iter().find(|(sent, _)| *sent == number).unwrap().1
    }

    /// All replies: `count`, and a second later no more.
    pub fn replies(&self, count: usize, wait: Duration) -> Vec<Reply> {
        let all = self.read("styx-egress", count, wait, Duration::from_secs(1));
        assert_eq!(all.len(), count, "replies");
        all
    }

    /// Waits until there are at least so many replies.
    pub fn replies_begun(&self, count: usize, wait: Duration) {
        assert!(self.read("styx-egress", count, wait, Duration::ZERO).len() >= count);
    }

    pub fn dead_letters(&self, count: usize, wait: Duration) -> Vec<Reply> {
        let all = self.read("styx-dead-letter", count, wait, Duration::from_secs(1));
        assert_eq!(all.len(), count, "dead letters");
        all
    }

    /// Reads a topic from its beginning until there are `count` records, and for a while longer.
    fn read(&self, topic: &str, count: usize, wait: Duration, longer: Duration) -> Vec<Reply> {
        let consumer: BaseConsumer = self.config.create().unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(30)).unwrap();
        let mut assignment = TopicPartitionList::new();
        for partition in metadata.topics()[0].partitions() {
            assignment.add_partition_offset(topic, partition.id(), Offset::Beginning).unwrap();
        }
        consumer.assign(&assignment).unwrap();
        let (mut all, mut until) = (Vec::new(), Instant::now() + wait);
        let mut enough = false;
        while Instant::now() < until {
            if let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) {
                let headers = message.headers().map(|headers| headers.detach()).unwrap_or_default();
                let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
                all.push(Reply {
                    key: message.key().unwrap_or_default().to_vec(),
                    value: message.payload().unwrap_or_default().to_vec(),
                    headers: headers.iter().map(|header| (header.key.to_owned(), text(header.value))).collect(),
                });
            }
            if all.len() >= count && !enough {
                (enough, until) = (true, Instant::now() + longer);
            }
        }
        all
    }
}
