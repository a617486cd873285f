//! Handshakes: bad greetings, other builds, wrong addresses, and two nodes that both dial.

use std::time::Duration;

use styx_transport::frame::{Kind, encode};
use styx_transport::{Hello, Incoming, Network, NodeId, Options, Reason, Refusal};
use tokio::net::TcpListener;

use crate::support::{Node, PATIENCE, Raw, eventually, hello, options, pair, refusal};

/// First bytes are refused with this reason, once, and the connection ends.
async fn check(reason: Reason, node: Node, make: impl Fn(&Raw) -> Vec<u8>) -> String {
    let mut raw = Raw::connect(&node, 9).await;
    let bytes = make(&raw);
    raw.write(&bytes).await;
    let told = raw.refusals(PATIENCE).await;
    assert_eq!(told.iter().map(|told| told.0.as_str()).collect::<Vec<_>>(), [reason.name()], "{told:?}");
    assert_eq!(node.network.counters().refused(reason), 1);
    assert_eq!(node.inbox.try_iter().count(), 0, "nothing has happened");
    told.into_iter().next().unwrap().1
}

fn greeting(raw: &Raw, change: impl FnOnce(&mut Hello)) -> Vec<u8> {
    let mut hello = hello(raw.id.0);
    change(&mut hello);
    raw.frame(Kind::Hello, 0, 0, 0, &serde_json::to_vec(&hello).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_greetings() {
    let start = || Node::start(1);
    check(Reason::NotGreeted, start().await, |raw| raw.frame(Kind::Data, 0, 1, 0, b"x")).await;
    check(Reason::BadHello, start().await, |raw| raw.frame(Kind::Hello, 0, 0, 0, b"{\"node\":")).await;
    check(Reason::BadMagic, start().await, |_| b"SSH-2.0-OpenSSH\r\n".to_vec()).await;
    let short = Options { hello_timeout: Duration::from_millis(50), ..options() };
    check(Reason::HelloTimeout, Node::with(hello(1), short).await, |_| Vec::new()).await;
    let twin = Node::with(hello(9), options()).await;
    let message = check(Reason::WrongNode, twin, |raw| greeting(raw, |_| ())).await;
    assert!(message.contains("mine 9, yours 9"), "{message}");
    let newer = |raw: &Raw| greeting(raw, |hello| hello.versions.messages += 1);
    let message = check(Reason::UnknownVersion, start().await, newer).await;
    let mine = styx_transport::Versions::MINE.messages;
    let yours = mine + 1;
    assert_eq!(message, format!("version of messages: mine {mine}, yours {yours}; run the same release on all nodes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_builds_are_refused_naming_both() {
    let deployed = |digest: &str| Hello { deployment: Some(digest.into()), ..hello(1) };
    let engine =
        check(Reason::OtherEngine, Node::start(1).await, |raw| greeting(raw, |hello| hello.engine = 0xe2)).await;
    assert!(engine.contains("mine 00000000000000e1, yours 00000000000000e2"), "{engine}");

    let other = |raw: &Raw| greeting(raw, |hello| hello.deployment = Some("bbbb".into()));
    let node = Node::with(deployed("aaaa"), options()).await;
    let message = check(Reason::OtherDeployment, node, other).await;
    assert!(message.contains("mine aaaa, yours bbbb"), "{message}");

    // The deployment of the moment counts.
    let node = Node::with(deployed("aaaa"), options()).await;
    node.network.set_deployment(Some("cccc".into()));
    assert!(check(Reason::OtherDeployment, node, other).await.contains("mine cccc, yours bbbb"));
}

/// The node that dials hears why, and is connected as soon as the reason is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_node_dials_on() {
    let a = Node::with(Hello { deployment: Some("aaaa".into()), ..hello(1) }, options()).await;
    let b = Node::with(Hello { deployment: Some("bbbb".into()), ..hello(2) }, options()).await;
    b.dial(&a);
    let (reason, message) = b.refused().await;
    assert_eq!(reason, "other_deployment");
    assert!(message.contains("mine aaaa, yours bbbb"), "{message}");
    b.network.set_deployment(Some("aaaa".into()));
    b.connected().await;
    a.connected().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_itself_decides() {
    let admit = |_: &Hello, yours: &Hello| match yours.name.as_str() {
        "node-9" => Err(Refusal::new(Reason::NotAdmitted, format!("{} is not in this cluster", yours.name))),
        _ => Ok(()),
    };
    let network = Network::start(hello(1), options(), admit, |_| ()).await.unwrap();
    let (_, inbox) = crossbeam_channel::unbounded();
    let node = Node { id: NodeId(1), network, inbox };
    let mut welcome = Raw::connect(&node, 8).await;
    assert_eq!(welcome.greet().await.node, NodeId(1));
    let message = check(Reason::NotAdmitted, node, |raw| greeting(raw, |_| ())).await;
    assert_eq!(message, "node-9 is not in this cluster");
}

/// A node that finds another one at an address says so to it, and does not take it for its peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrong_node_answers() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    b.network.connect(NodeId(7), a.address());
    let (reason, message) = a.refused().await;
    assert_eq!(reason, "wrong_node");
    assert!(message.contains("dialed 7, answered 1"), "{message}");
    assert!(b.network.counters().refused(Reason::WrongNode) > 0);
    assert!(!b.inbox.try_iter().any(|incoming| matches!(incoming, Incoming::Connected { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthenticated_connections_are_bounded() {
    let node = Node::with(hello(1), Options { unauthenticated_max: 2, ..options() }).await;
    let mut silent = [Raw::connect(&node, 7).await, Raw::connect(&node, 8).await];
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut third = Raw::connect(&node, 9).await;
    assert_eq!(refusal(&third.until(Kind::Refused).await).0, "too_many_connections");
    assert_eq!(third.read().await, None);
    // A greeting makes room.
    silent[0].greet().await;
    let mut fourth = Raw::connect(&node, 9).await;
    fourth.greet().await;
}

/// One machine has no more than its connections, though each of them greets as somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_one_address_are_bounded() {
    let node = Node::with(hello(1), Options { connections_per_address: 3, ..options() }).await;
    let mut open = Vec::new();
    for id in 7..10 {
        let mut raw = Raw::connect(&node, id).await;
        raw.greet().await;
        open.push(raw);
    }
    let mut fourth = Raw::connect(&node, 10).await;
    assert_eq!(refusal(&fourth.until(Kind::Refused).await).0, "too_many_connections");
    assert_eq!(fourth.read().await, None);
    // Who goes makes room.
    open.pop();
    eventually("counted", || node.inbox.try_iter().any(|incoming| matches!(incoming, Incoming::Lost { .. }))).await;
    let mut fifth = Raw::connect(&node, 11).await;
    fifth.greet().await;
}

/// Whoever greets and goes, by one id after the other, leaves nothing behind for ever; who is connected stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_greets_is_forgotten() {
    let node = Node::with(hello(1), Options { connections_per_address: 4, peers_max: 50, ..options() }).await;
    let stays = Raw::greeted(&node, 2, 0).await;
    let mut most = 0;
    for id in 10..80 {
        Raw::connect(&node, id).await.greet().await;
        eventually("it is seen to be gone", || node.inbox.try_iter().any(|it| matches!(it, Incoming::Lost { .. })))
            .await;
        most = most.max(node.network.peers());
    }
    assert_eq!(most, 50);
    assert!(node.network.peers() < 40, "they were forgotten: {}", node.network.peers());
    assert!(node.network.send_control_now(stays.id, vec![1]).is_ok(), "who is there is not");
}

/// Both dial at the same moment, many times: one connection stays, and it is the same for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_dial() {
    for _ in 0..20 {
        let (a, b) = (Node::start(1).await, Node::start(2).await);
        a.network.set_generation(1);
        b.network.set_generation(1);
        a.dial(&b);
        b.dial(&a);
        for number in 0..100u8 {
            eventually("known", || a.network.send(b.id, vec![number]).is_ok()).await;
            eventually("known", || b.network.send(a.id, vec![number]).is_ok()).await;
        }
        for number in 0..100u8 {
            assert_eq!(a.message().await.as_ref(), [number]);
            assert_eq!(b.message().await.as_ref(), [number]);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let connections =
            || [&a, &b].map(|node| node.network.counters().connections.load(std::sync::atomic::Ordering::Relaxed));
        let before = connections();
        assert!(before.iter().all(|count| (1..=2).contains(count)), "{before:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(connections(), before, "the connections do not take turns");
    }
}

/// Of two connections the one that the higher id has dialed stays, whichever came first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_higher_id_dials() {
    for id in [3, 7] {
        let node = Node::start(5).await;
        node.network.set_generation(1);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        node.network.connect(NodeId(id), listener.local_addr().unwrap().to_string());
        let mut dialed = Raw::on(listener.accept().await.unwrap().0, id);
        dialed.greet().await;
        node.connected().await;
        let mut dialing = Raw::connect(&node, id).await;
        dialing.greet().await;
        let (mut stays, mut goes) = if id == 3 { (dialed, dialing) } else { (dialing, dialed) };
        let told = goes.refusals(PATIENCE).await;
        let reasons: Vec<&str> = told.iter().map(|told| told.0.as_str()).collect();
        assert_eq!(reasons, if id == 3 { vec!["duplicate_connection"] } else { vec![] });
        stays.write(&stays.frame(Kind::Data, 1, 1, 0, b"here")).await;
        assert_eq!(node.message().await, "here");
    }
}

/// A node at a new address is found there; a peer that was forgotten may come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_move_and_are_forgotten() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    a.network.connect(b.id, nowhere.to_string());
    tokio::time::sleep(Duration::from_millis(50)).await;
    pair(&a, &b).await;
    a.network.send(b.id, "before").unwrap();
    assert_eq!(b.message().await, "before");

    a.network.forget(b.id);
    a.lost().await;
    b.lost().await;
    assert!(a.network.send(b.id, "nobody").unwrap_err().to_string().contains("node 2 is not known"));
    a.dial(&b);
    assert!(!a.connected().await, "a has never heard of b");
    assert!(b.connected().await, "a has forgotten what was under way");
}

/// A frame of a greeting in many pieces is one frame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_greeting_is_read() {
    let node = Node::start(1).await;
    let mut raw = Raw::connect(&node, 9).await;
    for byte in greeting(&raw, |_| ()) {
        raw.write(&[byte]).await;
    }
    let hello: Hello = serde_json::from_slice(&raw.until(Kind::Hello).await.body).unwrap();
    assert_eq!(hello.node, NodeId(1));
    node.connected().await;
    let header = styx_transport::frame::Header { kind: Kind::Control, flags: 0, generation: 3, number: 1, ack: 0 };
    raw.write(&encode(&header, b"piece by piece")).await;
    node.until("control message", |incoming| {
        matches!(incoming, Incoming::Control { generation: 3, body, .. } if body == "piece by piece").then_some(())
    })
    .await;
}

/// The greeting of a node that speaks version 1, as such a node wrote it; and what it must be able to read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_version_1_is_told_both_versions() {
    use tokio::io::AsyncReadExt;
    // 56 bytes of header, with checksums of the body and of the header; id 9, which stands in both.
    let frame = |kind: u8, body: &[u8]| {
        let mut header = [0; 56];
        header[..6].copy_from_slice(&[b'S', b'T', b'Y', b'X', 1, kind]);
        header[16] = 9;
        header[40..44].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[44..52].copy_from_slice(&xxhash_rust::xxh3::xxh3_64(body).to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&header[..52]) as u32;
        header[52..].copy_from_slice(&sum.to_le_bytes());
        [&header, body].concat()
    };
    let node = Node::start(1).await;
    let mut raw = Raw::connect(&node, 9).await;
    let greeting = br#"{"version":1,"kind":"worker","node":9,"name":"w","address":null,"engine":225,"deployment":null,"generation":0,"session":7}"#;
    raw.write(&frame(1, greeting)).await;
    let mut answer = Vec::new();
    raw.stream.read_to_end(&mut answer).await.unwrap();
    let message = "protocol version: mine 2, yours 1; run the same release on all nodes";
    let body = serde_json::to_vec(&serde_json::json!({ "reason": "unknown_version", "message": message })).unwrap();
    let told: serde_json::Value = serde_json::from_slice(&answer[56..]).unwrap();
    assert_eq!(told, serde_json::from_slice::<serde_json::Value>(&body).unwrap());
    let mut expected = frame(2, &answer[56..]);
    expected[16] = 0;
    let sum = xxhash_rust::xxh3::xxh3_64(&expected[..52]) as u32;
    expected[52..56].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(answer, expected, "in a frame that it reads");
    assert_eq!(node.network.counters().refused(Reason::UnknownVersion), 1);
}
