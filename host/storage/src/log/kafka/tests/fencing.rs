//! Two processes that both believe to be the writer: at each moment only one can be told that
//! something is durable.

use super::*;
use crate::log::shared::Opening;

/// A log with one record, and its options.
fn begun(broker: &Broker) -> (KafkaLog, KafkaOptions) {
    let options = options(broker);
    let mut log = KafkaLog::open(options.clone()).unwrap();
    log.append(b"0").unwrap();
    log.sync().unwrap();
    (log, options)
}

/// A log that was read, and whose writer it is not yet.
fn opening(options: &KafkaOptions) -> Result<Opening<KafkaBroker>, LogError> {
    Opening::read(KafkaBroker::find(options.clone())?, options.cluster, options.generation)
}

fn assert_fenced(result: Result<(), LogError>, generations: (u64, u64)) {
    match result {
        Err(LogError::Fenced { ours, theirs }) => assert_eq!((ours, theirs), generations),
        other => panic!("expected to be told of generation {}, not {other:?}", generations.1),
    }
}

#[test]
fn a_record_between_reading_and_the_fence_is_kept() {
    let Some(broker) = broker::shared() else { return };
    let (mut old, options) = begun(broker);
    let opening = opening(&options).unwrap();
    old.append(b"1").unwrap();
    old.sync().unwrap();
    let mut new = opening.fence().unwrap();
    assert_eq!((new.next(), new.generation()), (2, 2));
    assert_eq!(new.append(b"2").unwrap(), 2);
    new.sync().unwrap();
    old.append(b"two").unwrap();
    assert_fenced(old.sync(), (1, 2));
    assert!(matches!(old.sync(), Err(LogError::Failed)));
    assert_eq!(records(&mut new), [b"0", b"1", b"2"]);
    assert_eq!(reopened(&options), [b"0", b"1", b"2"]);
}

#[test]
fn a_record_appended_before_the_fence_and_synced_after_it_counts_for_its_successor_alone() {
    let Some(broker) = broker::shared() else { return };
    let (mut old, options) = begun(broker);
    old.append(b"1").unwrap();
    // Sent, confirmed by the broker, and not yet looked after.
    let started = Instant::now();
    while old.broker.bounds().unwrap().1 < 3 {
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    let mut new = KafkaLog::open(options.clone()).unwrap();
    assert_eq!(records(&mut new), [b"0", b"1"]);
    // It is the last message before the fence: it may be taken for durable, and is.
    old.sync().unwrap();
    old.append(b"2").unwrap();
    assert_fenced(old.sync(), (1, 2));
    new.append(b"2 of the new").unwrap();
    new.sync().unwrap();
    assert_eq!(reopened(&options), [&b"0"[..], b"1", b"2 of the new"]);
}

#[test]
fn late_records_of_many_are_not_told_to_be_durable() {
    let Some(broker) = broker::shared() else { return };
    let (mut old, options) = begun(broker);
    let mut new = KafkaLog::open(options.clone()).unwrap();
    for n in 1..50_u8 {
        old.append(&[n; 3000]).unwrap();
    }
    new.append(b"1").unwrap();
    new.sync().unwrap();
    assert_fenced(old.sync(), (1, 2));
    assert_eq!(old.durable(), 1);
    drop(old);
    new.append(b"2").unwrap();
    new.sync().unwrap();
    assert_eq!(reopened(&options), [b"0", b"1", b"2"]);
}

#[test]
fn of_two_that_fence_under_one_generation_the_first_has_it() {
    let Some(broker) = broker::shared() else { return };
    let (_, options) = begun(broker);
    let options = KafkaOptions { generation: Some(7), ..options };
    let (one, other) = (opening(&options).unwrap(), opening(&options).unwrap());
    let mut leader = one.fence().unwrap();
    assert_fenced(other.fence().map(drop), (7, 7));
    leader.append(b"1").unwrap();
    leader.sync().unwrap();
    assert_fenced(KafkaLog::open(options.clone()).map(drop), (7, 7));
    assert_fenced(KafkaLog::open(KafkaOptions { generation: Some(3), ..options.clone() }).map(drop), (3, 7));
    leader.append(b"2").unwrap();
    leader.sync().unwrap();
    assert_eq!(reopened(&KafkaOptions { generation: None, ..options }), [b"0", b"1", b"2"]);
}

#[test]
fn a_lower_fence_that_arrives_later_changes_nothing() {
    let Some(broker) = broker::shared() else { return };
    let (_, options) = begun(broker);
    let late = opening(&KafkaOptions { generation: Some(5), ..options.clone() }).unwrap();
    let mut leader = KafkaLog::open(KafkaOptions { generation: Some(6), ..options.clone() }).unwrap();
    assert_fenced(late.fence().map(drop), (5, 6));
    leader.append(b"1").unwrap();
    leader.sync().unwrap();
    assert_eq!(reopened(&options), [b"0", b"1"]);
}

#[test]
fn who_was_replaced_cannot_trim() {
    let Some(broker) = broker::shared() else { return };
    let (mut old, options) = begun(broker);
    old.append(b"1").unwrap();
    old.sync().unwrap();
    let mut new = KafkaLog::open(options.clone()).unwrap();
    assert_fenced(old.trim(1), (1, 2));
    assert_eq!(records(&mut new), [b"0", b"1"]);
    drop(new);
    assert_eq!(reopened(&options), [b"0", b"1"]);
}

/// Somebody takes over again and again while the last one goes on writing.
#[test]
fn takeovers_under_load_lose_nothing_acknowledged() {
    let Some(broker) = broker::shared() else { return };
    let options = options(broker);
    let mut acknowledged: Vec<Vec<u8>> = Vec::new();
    let mut writers = Vec::new();
    for generation in 1..=6_u8 {
        let mut log = KafkaLog::open(options.clone()).unwrap();
        writers.push(std::thread::spawn(move || {
            let mut told = Vec::new();
            for n in 0..=u16::MAX {
                let record = [vec![generation], n.to_be_bytes().to_vec(), vec![0; 500]].concat();
                let sequence = log.append(&record).unwrap();
                match log.sync() {
                    Ok(()) => told.push((sequence, record)),
                    Err(LogError::Fenced { .. }) => return told,
                    Err(error) => panic!("{error}"),
                }
            }
            panic!("never replaced");
        }));
        std::thread::sleep(Duration::from_millis(150));
    }
    let mut last = KafkaLog::open(options.clone()).unwrap();
    for writer in writers {
        for (sequence, record) in writer.join().unwrap() {
            assert!(sequence as usize >= acknowledged.len(), "two were told of number {sequence}");
            acknowledged.resize(sequence as usize, Vec::new());
            acknowledged.push(record);
        }
    }
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    let log = records(&mut last);
    for (at, record) in acknowledged.iter().enumerate().filter(|(_, record)| !record.is_empty()) {
        assert_eq!(log[at], *record, "record {at}");
    }
}
