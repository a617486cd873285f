//! The log on Kafka against real brokers. Where none can be started the tests say so and pass.

pub(crate) mod broker;
mod exclusive;
mod fencing;
mod login;
mod measure;
mod outages;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::*;
use crate::log::Log;
use crate::log::contract::{self, Storage, records};
use crate::log::shared::Broker as _;
use broker::Broker;

pub(crate) const CLUSTER: u128 = 0xC0FFEE;

/// Options for a topic of its own.
fn options(broker: &Broker) -> KafkaOptions {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    let topic = format!("log-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
    KafkaOptions { open_wait: Duration::from_secs(30), ..KafkaOptions::new(&broker.address, topic, CLUSTER) }
}

/// Writes anything at all into a log's topic, as its only message.
fn write(options: &KafkaOptions, headers: OwnedHeaders, value: &[u8]) {
    let producer: BaseProducer = options.producer().create().unwrap();
    let message = BaseRecord::<(), [u8]>::to(&options.topic).partition(0).payload(value).headers(headers);
    producer.send(message).map_err(|(error, _)| error).unwrap();
    producer.flush(Duration::from_secs(30)).unwrap();
}

/// Opens the log and returns its records.
fn reopened(options: &KafkaOptions) -> Vec<Vec<u8>> {
    records(&mut KafkaLog::open(options.clone()).unwrap())
}

/// Waits until the topic begins at an offset.
fn wait_for_low(log: &mut KafkaLog, low: i64) {
    let started = Instant::now();
    while log.broker.bounds().unwrap().0 != low {
        assert!(started.elapsed() < Duration::from_secs(20), "the brokers delete what they are told to");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Topics(KafkaOptions);

impl Storage for Topics {
    fn open(&self) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::open(self.0.clone())?))
    }

    fn is_served(&self) -> bool {
        true
    }
}

#[test]
fn keeps_the_contract() {
    let Some(broker) = broker::shared() else { return };
    contract::check(&|| Topics(options(broker)));
}

#[test]
fn a_record_above_the_limit_is_refused_and_others_go_on() {
    let Some(broker) = broker::shared() else { return };
    let options = KafkaOptions { record_bytes_max: 3 << 20, ..options(broker) };
    let mut log = KafkaLog::open(options.clone()).unwrap();
    let largest = vec![7; 3 << 20];
    assert!(
        matches!(log.append(&vec![7; (3 << 20) + 1]), Err(LogError::TooLarge { bytes, limit }) if bytes == limit + 1)
    );
    log.append(&largest).unwrap();
    log.sync().unwrap();
    assert_eq!(records(&mut log), [largest]);
}

#[test]
fn a_topic_that_takes_short_messages_makes_the_limit_lower() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut short = log_topic(&options);
    short.settings.retain(|(setting, _)| *setting != "max.message.bytes");
    short.settings.push(("max.message.bytes", "200000".into()));
    short.ensure(&options.client(), options.open_wait).unwrap();
    let mut log = KafkaLog::open(options).unwrap();
    assert!(matches!(log.append(&[7; 200_000]), Err(LogError::TooLarge { limit: 134_464, .. })));
    log.append(&[7; 134_464]).unwrap();
    log.sync().unwrap();
    assert_eq!(records(&mut log), [[7; 134_464]]);
}

/// A topic made by hand has the brokers' defaults: it forgets what is a week old, and one broker confirms unsynced.
#[test]
fn a_topic_whose_settings_can_lose_records_is_refused_before_anything_is_written() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut topic = log_topic(&options);
    for setting in ["retention.ms", "flush.messages"] {
        topic = Topic { name: format!("{}-{setting}", options.topic), ..topic };
        let removed: Vec<_> = topic.settings.extract_if(.., |(name, _)| *name == setting).collect();
        topic.ensure(&options.client(), options.open_wait).unwrap();
        topic.settings.extend(removed);
        let options = KafkaOptions { topic: topic.name.clone(), ..options.clone() };
        let refused = KafkaLog::open(options.clone()).err().expect("it can lose records").to_string();
        let named = if setting == "retention.ms" { "retention.ms=604800000" } else { "min.insync.replicas=1" };
        assert!(refused.contains(named) && !refused.contains('\n'), "{refused}");
        let (reader, stall) = (Reader::new(&options).unwrap(), Stall::default());
        assert_eq!(reader.bounds(&mut BrokerWait::new(&stall, &options, options.open_wait)).unwrap(), (0, 0));
    }
}

#[test]
fn what_is_trimmed_is_deleted_at_the_brokers() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut log = KafkaLog::open(options.clone()).unwrap();
    (0..10_u8).for_each(|n| assert_eq!(log.append(&[n; 100]).unwrap(), u64::from(n)));
    log.trim(7).unwrap();
    let low = log.offset(7).unwrap();
    wait_for_low(&mut log, low);
    assert_eq!(records(&mut log), [[7; 100], [8; 100], [9; 100]]);
    log.trim(10).unwrap();
    // All but the two messages that say so.
    let low = log.seen.end - 2;
    wait_for_low(&mut log, low);
    drop(log);
    let log = KafkaLog::open(options).unwrap();
    assert_eq!((log.first(), log.next()), (10, 10));
}

#[test]
fn a_topic_that_is_created_again_has_another_id() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let admin: AdminClient<_> = options.client().create().unwrap();
    let id = || topic_id(&options.client(), &options.topic, Duration::from_secs(2));
    assert!(id().is_err(), "it does not exist");
    let created = || {
        log_topic(&options).ensure(&options.client(), options.open_wait).unwrap();
        id().unwrap()
    };
    let first = created();
    assert_eq!((first != 0, id().unwrap()), (true, first));
    pollster::block_on(admin.delete_topics(&[&options.topic], &AdminOptions::new())).unwrap()[0].as_ref().unwrap();
    while id().is_ok() {}
    assert_ne!(created(), first);
}

#[test]
fn another_number_of_partitions_is_refused_before_anything_is_written() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let admin: AdminClient<_> = options.client().create().unwrap();
    let topic = NewTopic::new(&options.topic, 3, TopicReplication::Fixed(1));
    pollster::block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap()[0].as_ref().unwrap();
    let Err(error) = KafkaLog::open(options.clone()) else { panic!("three partitions are no sequence") };
    assert_eq!(
        error.to_string(),
        format!(
            "topic {} has 3 partitions, but a log is one sequence and needs exactly 1; name another topic",
            options.topic
        )
    );
    let (reader, stall) = (Reader::new(&options).unwrap(), Stall::default());
    assert_eq!(reader.bounds(&mut BrokerWait::new(&stall, &options, options.open_wait)).unwrap(), (0, 0));
}

#[test]
fn another_clusters_topic_is_refused_and_left_as_it_was() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut log = KafkaLog::open(options.clone()).unwrap();
    log.append(b"mine").unwrap();
    log.sync().unwrap();
    for trimmed in [false, true] {
        if trimmed {
            log.trim(1).unwrap();
        }
        let Err(error) = KafkaLog::open(KafkaOptions { cluster: 0xBEEF, ..options.clone() }) else {
            panic!("it is not theirs")
        };
        let said = error.to_string();
        assert!(!said.contains('\n') && said.contains("00c0ffee") && said.contains("0000beef"), "{said}");
        log.append(b"still mine").unwrap();
        log.sync().unwrap();
    }
}

#[test]
fn a_wrong_address_is_told_within_seconds() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let options = KafkaOptions { open_wait: Duration::from_secs(2), ..KafkaOptions::new(nobody.to_string(), "log", 1) };
    let Err(error) = KafkaLog::open(options) else { panic!("nobody is there") };
    let said = error.to_string();
    assert!(!said.contains('\n') && said.contains(&nobody.to_string()), "{said}");
    assert!(matches!(error, LogError::Kafka(KafkaProblem::Unreachable { .. })));
    assert!(started.elapsed() < Duration::from_secs(6));
}

#[test]
fn a_topic_emptied_from_outside_is_noticed() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut log = KafkaLog::open(options.clone()).unwrap();
    log.append(b"precious").unwrap();
    log.sync().unwrap();
    let end = log.seen.end;
    log.broker.delete_below(end);
    wait_for_low(&mut log, end);
    assert!(matches!(log.replay(0, &mut |_, _| Ok(())), Err(LogError::Kafka(KafkaProblem::Lost { .. }))));
    drop(log);
    assert!(matches!(KafkaLog::open(options).err(), Some(LogError::Kafka(KafkaProblem::Lost { .. }))));
}

#[test]
fn what_is_not_of_the_log_is_passed_over() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut log = KafkaLog::open(options.clone()).unwrap();
    log.append(b"first").unwrap();
    log.sync().unwrap();
    write(&options, OwnedHeaders::new(), b"somebody tried the console producer");
    log.append(b"second").unwrap();
    log.sync().unwrap();
    assert_eq!((log.durable(), log.skipped()), (2, 1));
    assert_eq!(records(&mut log), [&b"first"[..], b"second"]);
    assert_eq!(reopened(&options), [&b"first"[..], b"second"]);
}
