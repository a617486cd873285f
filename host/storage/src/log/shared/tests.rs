//! The log on a topic in memory, whose messages come from others and go, too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use super::*;
use crate::log::contract::{self, Storage, records};

const CLUSTER: u128 = 0xC0FFEE;

/// Records are short here.
const RECORD_BYTES_MAX: usize = 100_000;

/// A topic; clones are the same one.
#[derive(Clone, Default)]
struct Topic(Arc<Mutex<Messages>>);

#[derive(Default)]
struct Messages {
    /// Offset of the first message that is not deleted.
    low: i64,
    /// By offset; `None` for those that are lost.
    all: Vec<Option<(Option<Stamp>, Vec<u8>)>>,
    clients: u64,
    /// The next message is confirmed, and lost.
    loses_next: bool,
    /// Where messages are is not said with their confirmation.
    is_vague: bool,
    /// What somebody else writes behind each message.
    intruder: Option<Option<Stamp>>,
}

impl Topic {
    fn messages(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap()
    }

    fn client(&self) -> Client {
        Client { topic: self.clone(), sent: VecDeque::new(), stall: Stall::default(), is_open: false }
    }

    fn open(&self) -> Result<SharedLog<Client>, LogError> {
        SharedLog::on(self.client(), CLUSTER, None)
    }

    fn write(&self, stamp: Option<Stamp>, record: &[u8]) {
        self.messages().all.push(Some((stamp, record.to_vec())));
    }

    fn fence(&self, cluster: u128, generation: u64) {
        self.write(Some(Stamp { cluster, generation, writer: 99, kind: Kind::Fence }), b"");
    }

    fn length(&self) -> usize {
        self.messages().all.len()
    }
}

impl Storage for Topic {
    fn open(&self) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(Topic::open(self)?))
    }

    fn is_served(&self) -> bool {
        true
    }
}

/// The way of one process to a topic.
struct Client {
    topic: Topic,
    /// Offsets of the messages that are not confirmed yet.
    sent: VecDeque<i64>,
    stall: Stall,
    is_open: bool,
}

impl Broker for Client {
    fn topic(&self) -> &str {
        "log"
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }

    fn nonce(&mut self) -> u64 {
        let mut messages = self.topic.messages();
        messages.clients += 1;
        messages.clients
    }

    fn stall(&self) -> Stall {
        self.stall.clone()
    }

    fn opened(&mut self) {
        self.is_open = true;
    }

    fn bounds(&mut self) -> Result<(i64, i64), KafkaProblem> {
        let messages = self.topic.messages();
        Ok((messages.low, messages.all.len() as i64))
    }

    fn read(&mut self, from: i64, until: i64, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        let messages = self.topic.messages();
        for offset in from.max(messages.low)..until {
            if let Some((stamp, record)) = &messages.all[offset as usize] {
                visit(offset, *stamp, record)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, stamp: &Stamp, record: &[u8]) -> Result<(), KafkaProblem> {
        let mut messages = self.topic.messages();
        self.sent.push_back(if messages.is_vague { -1 } else { messages.all.len() as i64 });
        let kept = !std::mem::take(&mut messages.loses_next);
        messages.all.push(kept.then(|| (Some(*stamp), record.to_vec())));
        let behind = messages.intruder.map(|stamp| Some((stamp, b"intruder".to_vec())));
        messages.all.extend(behind);
        Ok(())
    }

    fn confirmed(&mut self, count: usize) -> Result<Vec<i64>, KafkaProblem> {
        Ok(self.sent.drain(..count).collect())
    }

    fn delete_below(&mut self, offset: i64) {
        let mut messages = self.topic.messages();
        messages.low = messages.low.max(offset);
    }
}

/// What the topic is said to have lost.
fn lost<T>(result: Result<T, LogError>) -> String {
    match result.err() {
        Some(LogError::Kafka(KafkaProblem::Lost { topic, detail })) if topic == "log" => detail,
        other => panic!("{other:?}"),
    }
}

/// The generations of this process and of the one that has replaced it.
fn fenced<T>(result: Result<T, LogError>) -> (u64, u64) {
    match result.err() {
        Some(LogError::Fenced { ours, theirs }) => (ours, theirs),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keeps_the_contract() {
    contract::check(&Topic::default);
    contract::check(&|| {
        let topic = Topic::default();
        topic.messages().is_vague = true;
        topic
    });
}

#[test]
fn a_generation_that_is_not_above_all_others_writes_nothing() {
    let topic = Topic::default();
    assert_eq!(topic.open().unwrap().generation(), 1);
    topic.fence(CLUSTER, 7);
    let length = topic.length();
    for ours in [1, 7] {
        assert_eq!(fenced(SharedLog::on(topic.client(), CLUSTER, Some(ours))), (ours, 7));
        assert_eq!(topic.length(), length);
    }
    assert_eq!(SharedLog::on(topic.client(), CLUSTER, Some(9)).unwrap().generation(), 9);
    let log = topic.open().unwrap();
    assert_eq!((log.generation(), log.broker.is_open), (10, true));
}

#[test]
fn who_is_overtaken_between_reading_and_its_fence_does_not_open_the_log() {
    for (theirs, is_late) in [(2, false), (1, false), (1, true)] {
        let topic = Topic::default();
        let opening = Opening::read(topic.client(), CLUSTER, None).unwrap();
        assert!(!opening.broker.is_open);
        topic.fence(CLUSTER, theirs);
        if is_late {
            topic.write(None, b"foreign");
        }
        assert_eq!(fenced(opening.fence()), (1, theirs));
    }
    let topic = Topic::default();
    let opening = Opening::read(topic.client(), CLUSTER, None).unwrap();
    topic.fence(2, 1);
    let other = opening.fence().err();
    assert!(matches!(other, Some(LogError::Kafka(KafkaProblem::OtherCluster { theirs: 2, .. }))), "{other:?}");
}

#[test]
fn what_was_confirmed_and_is_not_there_is_said_to_be_lost() {
    let topic = Topic::default();
    topic.messages().loses_next = true;
    assert_eq!(lost(topic.open()), "the fence at offset 0 was confirmed and is not there");

    let topic = Topic::default();
    let mut log = topic.open().unwrap();
    topic.messages().is_vague = true;
    log.append(b"0").unwrap();
    topic.messages().loses_next = true;
    log.append(b"1").unwrap();
    log.append(b"2").unwrap();
    assert_eq!(lost(log.sync()), "Record { sequence: 1 } was confirmed and is not there");
    assert!(matches!(log.append(b"3"), Err(LogError::Failed)));

    let topic = Topic::default();
    let mut log = topic.open().unwrap();
    for record in [b"0", b"1", b"2"] {
        log.append(record).unwrap();
    }
    log.sync().unwrap();
    // Offset 0 is the fence's.
    topic.messages().all[3] = None;
    let mut seen = Vec::new();
    let replayed = log.replay(1, &mut |sequence, _| {
        seen.push(sequence);
        Ok(())
    });
    assert_eq!(lost(replayed), "record 2 of 3 is not there any more");
    assert_eq!(seen, [1]);
    assert!(matches!(log.sync(), Err(LogError::Failed)));
}

#[test]
fn a_topic_whose_beginning_is_gone_is_another_clusters_or_was_not_trimmed() {
    let trimmed = |others: bool| {
        let topic = Topic::default();
        if others {
            topic.fence(2, 1);
            topic.fence(2, 2);
        } else {
            topic.open().unwrap();
        }
        topic.fence(CLUSTER, 3);
        topic.messages().low = 1;
        topic.open().err()
    };
    let other = trimmed(true);
    assert!(
        matches!(other, Some(LogError::Kafka(KafkaProblem::OtherCluster { ours: CLUSTER, theirs: 2, .. }))),
        "{other:?}"
    );
    let untrimmed = lost(trimmed(false).map_or(Ok(()), Err));
    assert_eq!(untrimmed, "it begins at offset 1, and no trim of this log says so");
}

#[test]
fn another_clusters_topic_is_refused_before_anything_is_written() {
    let topic = Topic::default();
    topic.fence(2, 1);
    let other = topic.open().err();
    assert!(matches!(other, Some(LogError::Kafka(KafkaProblem::OtherCluster { theirs: 2, .. }))), "{other:?}");
    assert_eq!(topic.length(), 1);
}

#[test]
fn messages_of_which_only_some_are_said_to_be_where_they_are_are_all_found() {
    let topic = Topic::default();
    let mut log = topic.open().unwrap();
    for (record, is_vague) in [(b"0", false), (b"1", true)] {
        topic.messages().is_vague = is_vague;
        log.append(record).unwrap();
    }
    log.sync().unwrap();
    assert_eq!((log.durable(), records(&mut log).len()), (2, 2));
}

#[test]
fn what_was_trimmed_is_deleted_and_not_trimmed_again() {
    let topic = Topic::default();
    let mut log = topic.open().unwrap();
    for record in [b"0", b"1", b"2"] {
        log.append(record).unwrap();
    }
    log.trim(2).unwrap();
    // The fence is before the records.
    assert_eq!(topic.messages().low, 3);
    let length = topic.length();
    log.trim(2).unwrap();
    assert_eq!(topic.length(), length);
    log.trim(3).unwrap();
    assert!(topic.messages().low > 3);
}

#[test]
fn a_log_that_was_trimmed_of_everything_begins_with_its_own_message_whatever_others_write_behind_it() {
    let late = Stamp { cluster: CLUSTER, generation: 1, writer: 99, kind: Kind::Record { sequence: 1 } };
    for (intruder, is_vague) in [(None, false), (None, true), (Some(late), false), (Some(late), true)] {
        let topic = Topic::default();
        drop(topic.open().unwrap());
        let mut log = topic.open().unwrap();
        topic.messages().is_vague = is_vague;
        topic.messages().intruder = Some(intruder);
        log.append(b"0").unwrap();
        log.append(b"1").unwrap();
        log.trim(2).unwrap();
        log.append(b"2").unwrap();
        log.sync().unwrap();
        let mut again = topic.open().unwrap();
        assert_eq!((again.generation(), again.first(), again.next()), (3, 2, 3), "{intruder:?}, {is_vague}");
        assert_eq!(records(&mut again), [b"2"]);
    }
}

#[test]
fn a_record_above_the_limit_is_refused_and_others_go_on() {
    let topic = Topic::default();
    let mut log = topic.open().unwrap();
    let long = vec![7; RECORD_BYTES_MAX + 1];
    let refused = log.append(&long);
    assert!(matches!(refused, Err(LogError::TooLarge { bytes, limit }) if (bytes, limit) == (100_001, 100_000)));
    assert_eq!(topic.length(), 1, "nothing but the fence");
    log.append(&long[1..]).unwrap();
    log.sync().unwrap();
    assert_eq!(records(&mut log), [&long[1..]]);
}

#[test]
fn messages_of_others_are_passed_over_and_counted() {
    let topic = Topic::default();
    let mut log = topic.open().unwrap();
    log.append(b"0").unwrap();
    topic.write(None, b"no message of Styx");
    log.append(b"1").unwrap();
    log.sync().unwrap();
    assert_eq!((log.durable(), log.skipped()), (2, 1));
    assert_eq!(records(&mut log), [b"0", b"1"]);
    let mut again = topic.open().unwrap();
    assert_eq!((records(&mut again).len(), again.skipped()), (2, 1));
}

#[test]
fn that_brokers_do_not_answer_is_seen_by_all_who_look() {
    let log = Topic::default().open().unwrap();
    let (seen, set) = (log.stall(), log.broker.stall.clone());
    assert!(!seen.is_stalled());
    assert!(!set.set(true), "it was not stalled before");
    assert!(seen.is_stalled());
    assert!(set.set(false), "it was");
    assert!(!seen.is_stalled() && !set.set(false));
}
