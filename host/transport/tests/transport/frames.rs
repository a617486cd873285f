//! Every bad frame: refused, counted under its reason, told once. A connection goes on only after a frame that was good
//! at another time; after any other a new one begins with what has not arrived.

use std::time::Duration;

use styx_transport::Reason;
use styx_transport::frame::{COMPRESSED, HEADER_BYTES, Kind, seal};
use tokio::io::AsyncWriteExt;

use crate::support::{Node, Raw, refusal};

const GENERATION: u64 = 5;

/// A good frame, spoiled in its header; the checksum is right again.
fn spoiled(mut bytes: Vec<u8>, spoil: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let (header, body) = bytes.split_first_chunk_mut::<HEADER_BYTES>().unwrap();
    spoil(header);
    seal(header, body);
    bytes
}

/// Sends what `make` makes twice, then a good frame.
async fn check(reason: Reason, make: impl Fn(&Raw) -> Vec<u8>) {
    let node = Node::start(1).await;
    node.network.set_generation(GENERATION);
    let mut raw = Raw::greeted(&node, 9, GENERATION).await;
    let bad = make(&raw);
    raw.write(&bad).await;
    // One after the other, so that a closed connection is not written to.
    let told = refusal(&raw.until(Kind::Refused).await);
    assert_eq!(told.0, reason.name(), "{}", told.1);
    assert!(!told.1.is_empty() && !told.1.contains('\n'), "one line: {told:?}");
    assert_eq!(node.network.counters().refused(reason), 1, "{reason:?}");
    if !reason.goes_on() {
        assert_eq!(raw.read().await, None, "{reason:?} closes the connection");
        node.lost().await;
        return;
    }
    raw.write(&bad).await;
    raw.write(&raw.frame(Kind::Data, GENERATION, 1, 0, b"still here")).await;
    assert_eq!(node.message().await, "still here", "after {reason:?}");
    assert_eq!(node.network.counters().refused(reason), 2, "{reason:?} is counted each time");
    assert_eq!(raw.refusals(Duration::from_millis(30)).await, [], "{reason:?} is told once");
    let others = Reason::ALL.iter().filter(|other| **other != reason);
    assert_eq!(others.map(|other| node.network.counters().refused(*other)).sum::<u64>(), 0, "{reason:?} only");
}

fn data(raw: &Raw, body: &[u8]) -> Vec<u8> {
    raw.frame(Kind::Data, GENERATION, 1, 0, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_frames() {
    check(Reason::BadMagic, |_| b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec()).await;
    check(Reason::UnknownVersion, |raw| spoiled(data(raw, b"x"), |header| header[4] = 9)).await;
    check(Reason::UnknownKind, |raw| spoiled(data(raw, b"x"), |header| header[5] = 77)).await;
    check(Reason::UnknownKind, |raw| spoiled(data(raw, b"x"), |header| header[5] = 0)).await;
    check(Reason::UnknownFlags, |raw| spoiled(data(raw, b"x"), |header| header[6] = 0x80)).await;
    check(Reason::UnknownFlags, |raw| spoiled(data(raw, b"x"), |header| header[7] = 1)).await;
    check(Reason::UnknownFlags, |raw| {
        spoiled(raw.frame(Kind::Resume, GENERATION, 0, 0, b""), |header| header[6] = COMPRESSED)
    })
    .await;
    check(Reason::TooLong, |raw| data(raw, &vec![1; (1 << 20) + 1])).await;
    check(Reason::TooLong, |raw| raw.frame(Kind::Refused, 0, 0, 0, &vec![b' '; (64 << 10) + 1])).await;
    check(Reason::BadLength, |raw| raw.frame(Kind::Data, GENERATION, 0, 0, b"x")).await;
    check(Reason::BadLength, |raw| raw.frame(Kind::Resume, GENERATION, 0, 0, b"x")).await;
    for at in [9, 13, 21, HEADER_BYTES - 1, HEADER_BYTES + 2] {
        check(Reason::BadChecksum, |raw| {
            let mut bytes = data(raw, b"a body");
            bytes[at] ^= 1;
            // For a length that has become longer.
            bytes.resize(HEADER_BYTES + (6 | 1 << 8), 0);
            bytes
        })
        .await;
    }
    check(Reason::BadCompression, |raw| spoiled(data(raw, b"not zstd"), |header| header[6] = COMPRESSED)).await;
    check(Reason::InflatesTooFar, |raw| {
        let bomb = zstd::bulk::compress(&vec![0; (1 << 20) + 1], 1).unwrap();
        spoiled(data(raw, &bomb), |header| header[6] = COMPRESSED)
    })
    .await;
    check(Reason::UnexpectedHello, |raw| raw.frame(Kind::Hello, 0, 0, 0, b"{}")).await;
    check(Reason::OldGeneration, |raw| raw.frame(Kind::Data, GENERATION - 1, 1, 0, b"x")).await;
    check(Reason::FutureGeneration, |raw| raw.frame(Kind::Data, GENERATION + 1, 1, 0, b"x")).await;
    check(Reason::ImpossibleAck, |raw| raw.frame(Kind::Data, GENERATION, 0, 1000, b"")).await;
    check(Reason::ImpossibleAck, |raw| raw.frame(Kind::Resume, GENERATION, 0, 1000, b"")).await;
    check(Reason::Gap, |raw| raw.frame(Kind::Data, GENERATION, 2, 0, b"x")).await;
    check(Reason::Gap, |raw| raw.frame(Kind::Control, 0, 1 << 40, 0, b"x")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_cut_short_is_told() {
    for keep in [1, 3, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 5] {
        let node = Node::start(1).await;
        node.network.set_generation(GENERATION);
        let mut raw = Raw::greeted(&node, 9, GENERATION).await;
        let bytes = data(&raw, b"a body");
        raw.write(&bytes[..keep]).await;
        raw.stream.shutdown().await.unwrap();
        let told = refusal(&raw.until(Kind::Refused).await);
        assert_eq!(told.0, "truncated", "{keep} bytes: {}", told.1);
        assert_eq!(raw.read().await, None);
        assert_eq!(node.network.counters().refused(Reason::Truncated), 1);
        node.lost().await;
    }
}

/// Whoever is still writing when it is refused can read why: the connection is not torn down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_words_arrive_whatever_is_under_way() {
    let node = Node::start(1).await;
    let mut raw = Raw::greeted(&node, 9, 0).await;
    raw.write(&vec![b'?'; 2 << 20]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(refusal(&raw.until(Kind::Refused).await).0, "bad_magic");
    let mut unknown = Raw::connect(&node, 8).await;
    unknown.write(&vec![b'?'; 2 << 20]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(refusal(&unknown.until(Kind::Refused).await).0, "bad_magic");
}

/// A duplicate is what a reconnection brings: counted, and nobody is bothered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_is_counted_and_not_told() {
    let node = Node::start(1).await;
    node.network.set_generation(GENERATION);
    let mut raw = Raw::greeted(&node, 9, GENERATION).await;
    let bytes = data(&raw, b"once");
    raw.write(&[bytes.clone(), bytes, raw.frame(Kind::Data, GENERATION, 2, 0, b"end")].concat()).await;
    assert_eq!(node.message().await, "once");
    assert_eq!(node.message().await, "end");
    assert_eq!(node.network.counters().refused(Reason::Duplicate), 1);
    assert_eq!(raw.refusals(Duration::from_millis(30)).await, []);
}

/// What a connection took away with it comes on the next one, and nothing comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_comes_with_the_next_connection() {
    let node = Node::start(1).await;
    node.network.set_generation(GENERATION);
    let mut raw = Raw::greeted(&node, 9, GENERATION).await;
    raw.write(&raw.frame(Kind::Data, GENERATION, 1, 0, &[1])).await;
    raw.write(&raw.frame(Kind::Data, GENERATION, 3, 0, &[3])).await;
    assert_eq!(refusal(&raw.until(Kind::Refused).await).0, "gap");
    assert_eq!(raw.read().await, None);
    let mut raw = Raw::connect(&node, 9).await;
    raw.greet().await;
    let resume = raw.until(Kind::Resume).await;
    assert_eq!((resume.header.generation, resume.header.ack), (GENERATION, 1), "it says what it has");
    raw.write(&raw.frame(Kind::Resume, GENERATION, 0, 0, b"")).await;
    for number in 1..5 {
        raw.write(&raw.frame(Kind::Data, GENERATION, number, 0, &[number as u8])).await;
    }
    for number in 1..5 {
        assert_eq!(node.message().await.as_ref(), [number]);
    }
    assert_eq!(raw.until(Kind::Data).await.header.ack, 4);
}

/// What was not acknowledged is sent again when there is a new connection, and only then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_acknowledged_is_sent_again() {
    let node = Node::start(1).await;
    node.network.set_generation(GENERATION);
    let mut raw = Raw::greeted(&node, 9, GENERATION).await;
    let long = vec![b'z'; 100_000];
    node.network.send(raw.id, long.clone()).unwrap();
    node.network.send(raw.id, "short").unwrap();
    let before = [raw.until(Kind::Data).await, raw.until(Kind::Data).await];
    assert_eq!(before[0].body, long);
    assert!(tokio::time::timeout(Duration::from_millis(300), raw.until(Kind::Data)).await.is_err(), "no timer runs");

    let mut raw = Raw::greeted(&node, 9, GENERATION).await;
    assert_eq!([raw.until(Kind::Data).await, raw.until(Kind::Data).await], before);
    let mut raw = Raw::connect(&node, 9).await;
    raw.greet().await;
    raw.write(&raw.frame(Kind::Resume, GENERATION, 0, 1, b"")).await;
    assert_eq!(raw.until(Kind::Data).await, before[1], "the first one has arrived");
    raw.write(&raw.frame(Kind::Data, GENERATION, 0, 2, b"")).await;
    crate::support::eventually("acknowledged", || node.network.outstanding_bytes(raw.id) == 0).await;
}
