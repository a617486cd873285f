//! What the transport costs between two nodes of this machine: round trips, small and large
//! messages. Ends with one JSON line.
//!
//! `cargo bench -p styx-transport --bench transport`; run as a test it does the same with few messages.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, unbounded};
use styx_transport::{Hello, Incoming, Network, NodeId, NodeKind, Options, same_build};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

struct Pair {
    a: Arc<Network>,
    b: Arc<Network>,
    at_a: Receiver<Incoming>,
    at_b: Receiver<Incoming>,
}

async fn node(id: NodeId, compress_above_bytes: usize) -> (Arc<Network>, Receiver<Incoming>) {
    let listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let options = Options { listen, compress_above_bytes, outstanding_bytes_max: usize::MAX, ..Options::default() };
    let (sender, receiver) = unbounded();
    let deliver = move |incoming| {
        let _ = sender.send(incoming);
    };
    let network = Network::start(Hello::new(NodeKind::Worker, id, "bench", 0), options, same_build, deliver).await;
    (Arc::new(network.expect("a port is free")), receiver)
}

async fn pair(compress_above_bytes: usize) -> Pair {
    let ((a, at_a), (b, at_b)) = (node(A, compress_above_bytes).await, node(B, compress_above_bytes).await);
    a.set_generation(1);
    b.set_generation(1);
    a.connect(B, b.address().expect("it listens").to_string());
    for (network, peer, messages) in [(&a, B, &at_b), (&b, A, &at_a)] {
        while network.send(peer, Bytes::from_static(b"warm")).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        message(messages);
    }
    Pair { a, b, at_a, at_b }
}

fn message(messages: &Receiver<Incoming>) -> Bytes {
    loop {
        if let Incoming::Message { body, .. } = messages.recv_timeout(Duration::from_secs(30)).expect("messages arrive")
        {
            return body;
        }
    }
}

/// Median, 99th percentile and least, µs, from one driver thread to another and back.
fn round_trips(pair: &Pair, count: usize) -> [f64; 3] {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                pair.b.send(A, message(&pair.at_b)).expect("sent");
            }
        });
        let mut times: Vec<Duration> = (0..count)
            .map(|_| {
                let start = Instant::now();
                pair.a.send(B, vec![7; 32]).expect("sent");
                message(&pair.at_a);
                start.elapsed()
            })
            .collect();
        times.sort();
        [times[count / 2], times[count * 99 / 100], times[0]].map(|time| time.as_secs_f64() * 1e6)
    })
}

/// Messages per second, processor µs per message (both ends), messages per write.
fn stream(pair: &Pair, count: usize, body: &Bytes) -> [f64; 3] {
    let writes = pair.a.counters().writes.load(Ordering::Relaxed);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                pair.a.send(B, Bytes::copy_from_slice(body)).expect("sent");
                if body.len() > 100_000 {
                    while pair.a.outstanding_bytes(B) > 64 << 20 {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            }
        });
        for _ in 0..count {
            assert_eq!(message(&pair.at_b).len(), body.len());
        }
    });
    let rate = count as f64 / start.elapsed().as_secs_f64();
    let writes = pair.a.counters().writes.load(Ordering::Relaxed) - writes;
    [rate, (cpu_seconds() - cpu) * 1e6 / count as f64, count as f64 / writes as f64]
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, into a local that outlives it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let scale = if std::env::args().any(|argument| argument == "--bench") { 1000 } else { 1 };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let plain = runtime.block_on(pair(usize::MAX));
    let [median, tail, least] = round_trips(&plain, 20 * scale);
    let [small, small_cpu, per_write] = stream(&plain, 2_000 * scale, &Bytes::from(vec![7; 64]));
    let [large, large_cpu, _] = stream(&plain, 4 * scale, &Bytes::from(vec![7; 1 << 20]));
    let squeezed = runtime.block_on(pair(4 << 10));
    let text: Vec<u8> = (0..64 << 10).map(|i: u32| b"transactional"[(i % 13) as usize] ^ (i / 977) as u8).collect();
    let [text_rate, text_cpu, _] = stream(&squeezed, 20 * scale, &text.clone().into());
    println!(
        "{}",
        serde_json::json!({
            "round_trip_us": { "median": median, "p99": tail, "least": least },
            "small_64_bytes": { "per_second": small, "cpu_us": small_cpu, "per_write": per_write },
            "large_1_mib": { "mb_per_second": large * (1 << 20) as f64 / 1e6, "cpu_us": large_cpu },
            "compressed_64_kib": { "mb_per_second": text_rate * text.len() as f64 / 1e6, "cpu_us": text_cpu },
        })
    );
}
