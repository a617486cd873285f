//! Generations: what is sent in one is not received in another, and nobody waits for a timeout.

use std::time::{Duration, Instant};

use styx_transport::frame::Kind;
use styx_transport::{Incoming, NodeId, Options, Reason, SendError};

use crate::support::{Node, Raw, eventually, hello, options, pair};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_wait_for_a_peer_that_is_not_there_yet() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    pair(&a, &b).await;
    a.network.set_generation(2);
    a.network.send(b.id, "of two").unwrap();
    a.network.send_control(b.id, "two begins").unwrap();
    let generation = b
        .until("control message", |incoming| match incoming {
            Incoming::Control { generation, body, .. } => (body == "two begins").then_some(generation),
            other => panic!("nothing else can come: {other:?}"),
        })
        .await;
    assert_eq!(generation, 2);
    assert_eq!(b.network.counters().refused(Reason::FutureGeneration), 0, "it was not even sent");
    b.network.set_generation(2);
    let since = Instant::now();
    let incoming = b.until("message", Some).await;
    assert!(matches!(&incoming, Incoming::Message { generation: 2, body, .. } if body == "of two"), "{incoming:?}");
    assert!(since.elapsed() < Duration::from_millis(500), "no timeout was waited for: {:?}", since.elapsed());
    assert_eq!((a.network.generation(), b.network.generation()), (2, 2));
}

/// What could not leave, or was not acknowledged when a connection ended, leaves with the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_begins_with_what_waits() {
    let node = Node::start(1).await;
    node.network.set_generation(1);
    let peer = NodeId(9);
    node.network.connect(peer, "127.0.0.1:1");
    node.network.send_control(peer, "control").unwrap();
    node.network.send(peer, "data").unwrap();
    for _ in 0..2 {
        let since = Instant::now();
        let mut raw = Raw::greeted(&node, 9, 1).await;
        let mut bodies = Vec::new();
        while bodies.len() < 2 {
            let frame = raw.read().await.unwrap();
            if frame.header.number == 1 {
                bodies.push((frame.header.kind, frame.body));
            }
        }
        assert_eq!(bodies, [(Kind::Control, "control".into()), (Kind::Data, "data".into())]);
        assert!(since.elapsed() < Duration::from_millis(700), "no timeout was waited for: {:?}", since.elapsed());
        node.connected().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_ends_with_its_generation() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    // Not connected: all of this waits in the link.
    a.network.set_generation(1);
    b.network.set_generation(1);
    a.network.connect(b.id, "127.0.0.1:1");
    for number in 0..100u8 {
        a.network.send(b.id, vec![number; 1000]).unwrap();
    }
    assert_eq!(a.network.outstanding_bytes(b.id), 100 * 1064);
    a.network.set_generation(2);
    a.network.send(b.id, "of two").unwrap();
    eventually("released", || a.network.outstanding_bytes(b.id) == 70).await;
    b.network.set_generation(2);
    a.dial(&b);
    assert_eq!(b.message().await, "of two", "and nothing before it");
    a.network.set_generation(1);
    assert_eq!(a.network.generation(), 2, "generations do not go back");
}

/// Both switch again and again while they send: of each generation a prefix arrives, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_follow_each_other_under_load() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    pair(&a, &b).await;
    for generation in 2..40u64 {
        a.network.set_generation(generation);
        for number in 0..200u64 {
            a.network.send(b.id, [generation.to_le_bytes(), number.to_le_bytes()].concat()).unwrap();
            if number == 100 {
                b.network.set_generation(generation);
            }
        }
    }
    let mut counts = [0u64; 40];
    while counts[39] < 200 {
        let (generation, body) = b
            .until("message", |incoming| match incoming {
                Incoming::Message { generation, body, .. } => Some((generation, body)),
                _ => None,
            })
            .await;
        let expected = [generation.to_le_bytes(), counts[generation as usize].to_le_bytes()].concat();
        assert_eq!(body, expected);
        counts[generation as usize] += 1;
    }
    eventually("acknowledged", || a.network.outstanding_bytes(b.id) == 0).await;
}

/// A process that starts anew has lost its half of the links: nothing is delivered around the gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_starts_anew_breaks_the_generation() {
    let a = Node::start(1).await;
    let b = Node::start(2).await;
    let address = b.network.address();
    pair(&a, &b).await;
    a.network.send(b.id, "before").unwrap();
    assert_eq!(b.message().await, "before");
    let id = b.id;
    b.network.stop().await;
    a.lost().await;
    a.network.send(id, "lost").unwrap();
    a.network.send_control(id, "lost too").unwrap();

    let b = Node::with(hello(2), Options { listen: address, ..options() }).await;
    b.network.set_generation(1);
    let broken = |incoming| match incoming {
        Incoming::Broken { peer, generation, why } => Some((peer, generation, why)),
        _ => None,
    };
    assert_eq!(a.until("breakage", broken).await, (id, 1, "the peer has started anew".into()));
    assert!(a.connected().await, "as restarted");
    assert_eq!(a.network.send(id, "x"), Err(SendError::Broken { peer: id, generation: 1 }));
    assert_eq!(a.network.outstanding_bytes(id), 0);
    assert!(!b.connected().await);
    b.network.send(a.id, "into the gap").unwrap();
    assert_eq!(b.refused().await.0, "restarted");

    a.network.set_generation(2);
    b.network.set_generation(2);
    for (from, to) in [(&a, &b), (&b, &a)] {
        from.network.send(to.id, "after").unwrap();
        assert_eq!(to.message().await, "after");
    }
    a.network.send_control(id, "control").unwrap();
    let control = |incoming| match incoming {
        Incoming::Control { body, .. } => Some(body),
        _ => None,
    };
    assert_eq!(b.until("control message", control).await, "control");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_acknowledge_is_bounded() {
    let node = Node::with(hello(1), Options { outstanding_bytes_max: 1 << 20, ..options() }).await;
    node.network.set_generation(1);
    let mut raw = Raw::greeted(&node, 9, 1).await;
    let body = vec![1; 100_000];
    let taken = (0..100).take_while(|_| node.network.send(raw.id, body.clone()).is_ok()).count();
    assert_eq!(taken, (1 << 20) / 100_064);
    let broken = |incoming| match incoming {
        Incoming::Broken { generation, why, .. } => Some((generation, why)),
        _ => None,
    };
    let (generation, why) = node.until("breakage", broken).await;
    assert!(generation == 1 && why.contains("1000640 bytes wait"), "{why}");
    // Not even a small one: it would arrive after one that was refused.
    assert_eq!(node.network.send(raw.id, "x"), Err(SendError::Broken { peer: raw.id, generation: 1 }));
    assert_eq!(
        node.inbox.try_iter().filter(|incoming| matches!(incoming, Incoming::Broken { .. })).count(),
        0,
        "told once"
    );

    node.network.set_generation(2);
    eventually("released", || node.network.outstanding_bytes(raw.id) == 0).await;
    node.network.send(raw.id, "of two").unwrap();
    raw.write(&raw.frame(Kind::Resume, 2, 0, 0, b"")).await;
    loop {
        let frame = raw.until(Kind::Data).await;
        if frame.header.generation == 2 && frame.header.number == 1 {
            assert_eq!(frame.body, "of two");
            break;
        }
    }
    let long = vec![0; (1 << 20) + 1];
    assert_eq!(node.network.send(raw.id, long), Err(SendError::TooLarge { bytes: (1 << 20) + 1, most: 1 << 20 }));
}

/// One that runs on a copy of its data directory, say, and where nothing tells the two apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_a_process_that_lives_is_nobody_elses() {
    let patient = Options { takeover_after: Duration::from_secs(60), ..options() };
    let (a, b) = (Node::start(1).await, Node::with(hello(2), patient).await);
    pair(&a, &b).await;
    let other = Node::start(1).await;
    other.dial(&b);
    let (reason, message) = other.refused().await;
    assert_eq!(reason, "node_taken");
    assert!(message.contains("another process with your id is connected, and lives"), "{message}");
    a.network.send(b.id, "still there").unwrap();
    assert_eq!(b.message().await, "still there");
    // Its successor has the id as soon as it is gone.
    a.network.stop().await;
    assert!(b.connected().await, "another process");
}

/// Somebody else has connected under the name of a node: the links of the pair fit no more, and both begin with new ones
/// instead of refusing each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_whose_links_do_not_fit_begins_anew() {
    let credulous = Options { takeover_after: Duration::ZERO, ..options() };
    let (a, b) = (Node::start(1).await, Node::with(hello(2), credulous).await);
    pair(&a, &b).await;
    for number in 0..3u8 {
        a.network.send(b.id, vec![number]).unwrap();
        assert_eq!(b.message().await, vec![number]);
        b.network.send(a.id, vec![number]).unwrap();
        assert_eq!(a.message().await, vec![number]);
    }
    let clone = Node::start(1).await;
    clone.network.set_generation(1);
    clone.dial(&b);
    assert!(b.connected().await, "another process");
    clone.network.stop().await;

    // The first one comes again by itself. It is refused once, and then the pair is connected anew.
    while !a.connected().await {}
    while !b.connected().await {}
    let refused = |node: &Node| node.network.counters().refused(Reason::ImpossibleAck);
    assert!(refused(&a) + refused(&b) > 0);
    for node in [&a, &b] {
        node.network.set_generation(2);
    }
    a.network.send(b.id, "there").unwrap();
    assert_eq!(b.message().await, "there");
    b.network.send(a.id, "and back").unwrap();
    assert_eq!(a.message().await, "and back");
    a.network.send_control(b.id, "control").unwrap();
    let control = |incoming| matches!(incoming, Incoming::Control { body, .. } if body == "control").then_some(());
    b.until("control message", control).await;
}
