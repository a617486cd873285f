//! Connections that are cut, damaged, silent or stalled: nothing is lost, doubled or held up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use styx_transport::{Incoming, NodeId, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Node, PATIENCE, Raw, hello, options, pair};

/// What a proxy does to the bytes that pass, until it is told to behave.
#[derive(Clone, Copy)]
enum Harm {
    /// Cuts the connection after some bytes, in the middle of whatever.
    Cut,
    /// Changes a bit.
    Flip,
}

struct Proxy {
    address: SocketAddr,
    harmed: Arc<AtomicU64>,
    behaves: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(to: SocketAddr, harm: Harm, seed: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (harmed, behaves) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let proxy = Proxy { address, harmed: harmed.clone(), behaves: behaves.clone() };
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(to).await else { continue };
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                let mut pass = |from, to| {
                    let random = StdRng::seed_from_u64(random.random());
                    passing(from, to, harm, random, harmed.clone(), behaves.clone())
                };
                let (there, back) = (pass(near_in, far_out), pass(far_in, near_out));
                // When one direction ends, both connections end with all that is under way.
                tokio::spawn(async move {
                    tokio::select! {
                        () = there => {}
                        () = back => {}
                    }
                });
            }
        });
        proxy
    }
}

async fn passing(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    harm: Harm,
    mut random: StdRng,
    harmed: Arc<AtomicU64>,
    behaves: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 16 << 10];
    let mut next = random.random_range(0..200_000usize);
    loop {
        let Ok(bytes @ 1..) = from.read(&mut buffer).await else { return };
        let mut piece = buffer[..bytes].to_vec();
        if next < bytes && !behaves.load(Ordering::Relaxed) {
            harmed.fetch_add(1, Ordering::Relaxed);
            match harm {
                Harm::Cut => {
                    drop(to.write_all(&piece[..next]).await);
                    return;
                }
                Harm::Flip => piece[next] ^= 1 << random.random_range(0..8),
            }
            next = random.random_range(0..400_000);
        } else {
            next = next.saturating_sub(bytes);
        }
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}

/// The body of a message: known from its number, of any size, some of it worth compressing.
fn body(number: u32) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(number.into());
    let size = match number % 50 {
        0 => random.random_range(0..100_000),
        1..5 => random.random_range(0..10_000),
        _ => random.random_range(0..100),
    };
    let mut body = number.to_le_bytes().to_vec();
    match number % 2 {
        0 => body.resize(4 + size, number as u8),
        _ => body.extend((0..size).map(|_| random.random::<u8>())),
    }
    body
}

const MESSAGES: u32 = 6000;

/// Sends both ways through a proxy that does harm, on both links at once.
async fn survives(harm: Harm, seed: u64, harms_min: u64) {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    let proxy = Proxy::start(b.network.address().unwrap(), harm, seed).await;
    a.network.set_generation(1);
    b.network.set_generation(1);
    a.network.connect(b.id, proxy.address.to_string());
    b.connected().await;
    let mut expected = [[0u32; 2]; 2];
    let mut sent = 0;
    let deadline = Instant::now() + 4 * PATIENCE;
    while expected.iter().flatten().any(|count| *count < MESSAGES) {
        assert!(
            Instant::now() < deadline,
            "seed {seed}: {expected:?} after {} harms",
            proxy.harmed.load(Ordering::Relaxed)
        );
        for _ in 0..100.min(MESSAGES - sent) {
            for (from, to) in [(&a, &b), (&b, &a)] {
                from.network.send(to.id, body(sent)).unwrap();
                from.network.send_control(to.id, body(sent)).unwrap();
            }
            sent += 1;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        for (node, expected) in [&a, &b].into_iter().zip(&mut expected) {
            for incoming in node.inbox.try_iter() {
                let (lane, received) = match incoming {
                    Incoming::Message { body, .. } => (0, body),
                    Incoming::Control { body, .. } => (1, body),
                    Incoming::Connected { restarted, .. } => {
                        assert!(!restarted);
                        continue;
                    }
                    Incoming::Lost { .. } | Incoming::Unreached { .. } | Incoming::Refused { .. } => continue,
                    Incoming::Broken { why, .. } => panic!("seed {seed}: {why}"),
                };
                assert!(received == body(expected[lane]), "seed {seed}: {} on link {lane}", expected[lane]);
                expected[lane] += 1;
            }
        }
        if proxy.harmed.load(Ordering::Relaxed) >= 4 * harms_min {
            proxy.behaves.store(true, Ordering::Relaxed);
        }
    }
    let harms = proxy.harmed.load(Ordering::Relaxed);
    assert!(harms >= harms_min, "seed {seed}: only {harms} times");
    for (from, to) in [(&a, &b), (&b, &a)] {
        crate::support::eventually("acknowledged", || from.network.outstanding_bytes(to.id) == 0).await;
        assert_eq!(
            to.inbox
                .try_iter()
                .filter(|incoming| matches!(incoming, Incoming::Message { .. } | Incoming::Control { .. }))
                .count(),
            0,
            "seed {seed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_and_double_nothing() {
    for seed in 0..3 {
        survives(Harm::Cut, seed, 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_bytes_lose_and_double_nothing() {
    for seed in 0..2 {
        survives(Harm::Flip, seed, 10).await;
    }
}

/// One peer reads nothing at all; messages to another one are as quick as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_peer_holds_up_nobody() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    pair(&a, &b).await;
    let stalled = Raw::greeted(&a, 9, 1).await;
    let full = Instant::now();
    for _ in 0..200 {
        a.network.send(stalled.id, vec![1; 1 << 20]).unwrap();
    }
    assert!(full.elapsed() < Duration::from_secs(5), "sending does not wait: {:?}", full.elapsed());
    let mut slowest = Duration::ZERO;
    for number in 0..200u8 {
        let start = Instant::now();
        a.network.send(b.id, vec![number]).unwrap();
        assert_eq!(b.message().await.as_ref(), [number]);
        slowest = slowest.max(start.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(a.network.outstanding_bytes(stalled.id) >= 200 << 20);
    drop(stalled);
}

/// A peer that has died without a word is noticed when something should have come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_noticed() {
    let node = Node::with(hello(1), Options { silence_max: Duration::from_millis(100), ..options() }).await;
    node.network.set_generation(1);
    let raw = Raw::greeted(&node, 9, 1).await;
    node.connected().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(node.inbox.try_iter().count(), 0, "nothing was due");
    node.network.send(raw.id, "hello?").unwrap();
    let why = node.lost().await;
    assert!(why.contains("nothing has come"), "{why}");
    // The message waits for whoever comes back.
    let mut raw = Raw::greeted(&node, 9, 1).await;
    assert_eq!(raw.until(styx_transport::frame::Kind::Data).await.body, "hello?");
}

/// Dropping the network ends everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_network_is_gone() {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    pair(&a, &b).await;
    let address = b.address();
    drop(b);
    a.lost().await;
    let start = Instant::now();
    while TcpStream::connect(&address).await.is_ok() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_peer_that_only_its_system_answers_for_is_replaced_at_another_address() {
    let node = Node::start(5).await;
    // Greets like the peer, and then says and reads nothing: a process that was paused.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    node.network.connect(NodeId(1), listener.local_addr().unwrap().to_string());
    let mut paused = Raw::on(listener.accept().await.unwrap().0, 1);
    paused.greet().await;
    assert!(!node.connected().await);
    node.network.send_control(NodeId(1), "to whom it may concern").unwrap();

    let next = Node::start(1).await;
    let started = Instant::now();
    node.network.redirect(NodeId(1), next.address());
    assert!(!node.connected().await, "to the one that this node knows nothing of");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    for word in ["one", "two", "three"] {
        node.network.send_control(NodeId(1), word).unwrap();
        let came = next.until("what was said since", |incoming| match incoming {
            Incoming::Control { body, .. } => Some(body),
            _ => None,
        });
        assert_eq!(came.await, word);
    }
    while paused.read().await.is_some() {}

    // One that is gone is told of.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    node.network.redirect(NodeId(1), gone.clone());
    let told = node.until("that nobody is there", |incoming| match incoming {
        Incoming::Unreached { peer: NodeId(1), why, .. } => Some(why),
        _ => None,
    });
    assert!(told.await.contains(&gone));
}
