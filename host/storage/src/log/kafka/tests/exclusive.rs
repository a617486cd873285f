//! Two writers under one name: what the first one sends after the second has the name is nowhere.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::*;

const TOPIC: &str = "exclusive";

fn outgoing(value: &[u8]) -> Outgoing {
    let (key, headers) = (None, OwnedHeaders::new());
    Outgoing { topic: TOPIC, partition: Some(0), key, headers, value: value.to_vec() }
}

/// What is committed.
fn read(options: &KafkaOptions) -> Vec<Vec<u8>> {
    let mut config = options.client();
    config.set("group.id", "reader").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(TOPIC, 0, Offset::Beginning).unwrap();
    consumer.assign(&assignment).unwrap();
    let mut all = Vec::new();
    loop {
        match consumer.poll(Duration::from_secs(20)).expect("an end at least") {
            Ok(message) => all.push(message.payload().unwrap().to_vec()),
            Err(KafkaError::PartitionEOF(_)) => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn who_lost_the_name_writes_nothing_any_more_and_a_batch_is_there_whole_or_not() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let settings = vec![("max.message.bytes", "2000".to_owned())];
    let topic = Topic { name: TOPIC.into(), partitions: 1, replication: 1, settings };
    topic.ensure(&options.client(), options.open_wait).unwrap();
    let limit = topic.message_bytes_max(&options.client()).unwrap();
    let take = || ExclusiveWriter::take(options.client(), "name", limit).unwrap();
    let old = take();
    old.append(vec![outgoing(b"1"), outgoing(b"2")]).unwrap();
    let refused = old.append(vec![outgoing(b"3"), outgoing(&[7; 5000])]);
    assert!(matches!(&refused, Err(AppendProblem::TooLarge(1))), "{refused:?}");
    old.append(vec![outgoing(b"3")]).unwrap();
    // More than the topic takes at once.
    old.append(vec![outgoing(&[7; 1500]); 20]).unwrap();
    // Amid a batch.
    old.begin(vec![outgoing(b"lost")]).unwrap();
    let new = take();
    new.append(vec![outgoing(b"4")]).unwrap();
    assert!(old.end().is_err(), "the name is another's");
    assert!(matches!(old.append(vec![outgoing(b"late")]), Err(AppendProblem::Failed(_))));
    new.append(vec![outgoing(b"5")]).unwrap();
    let short: Vec<_> = read(&options).into_iter().filter(|value| value.len() == 1).collect();
    assert_eq!(short, [b"1", b"2", b"3", b"4", b"5"]);
}

#[test]
fn a_batch_takes_as_long_as_brokers_do_and_no_longer() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let topic = Topic { name: "exclusive-times".into(), partitions: 1, replication: 1, settings: vec![] };
    topic.ensure(&options.client(), options.open_wait).unwrap();
    let writer = ExclusiveWriter::take(options.client(), "times", 1 << 20).unwrap();
    let batch = || vec![Outgoing { topic: "exclusive-times", ..outgoing(b"1") }];
    let took = |_| {
        let started = Instant::now();
        writer.append(batch()).unwrap();
        started.elapsed()
    };
    // The shortest, whatever else the machine does: a pause that is always there is in it.
    let shortest = (0..20).map(took).min().unwrap();
    assert!(shortest < Duration::from_millis(50), "{shortest:?}");
}
