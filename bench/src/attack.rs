//! Attacks of clients, all at once, against a server with its defaults: clients that send by halves, read nothing, ask for
//! too much, never end. What the server may come to hold is bounded, and a neighbour's calls stay quick.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use serde_json::json;
use styx_client::{Client, Retry};
use styx_harness::{self as harness, Cluster, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// How much of each attack: 1 for all of it
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Only attacks with this in their name
    #[arg(long)]
    only: Option<String>,
    /// Most memory that the server may ever have had, MiB
    #[arg(long, default_value_t = 1024)]
    memory_max: u64,
    /// The longest that 99 % of the neighbour's calls may take, ms
    #[arg(long, default_value_t = 100.0)]
    p99_max: f64,
    /// Further flags for the server
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    server: Vec<String>,
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the example apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
}

/// One way to misuse a server.
#[derive(Clone, Copy, Debug)]
struct Attack {
    name: &'static str,
    /// Clients that do it.
    clients: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Sends this much of a body, and waits.
    HalfBody,
    /// Sends a line of a batch that never ends.
    OpenLine,
    /// Sends a message in fragments, and never the last one.
    OpenMessage,
    /// Asks for large results, and reads none.
    UnreadResults,
    /// Pings, and reads nothing.
    Pings,
    /// Sends a request's head byte by byte.
    SlowHead,
    /// Connects, and says nothing.
    Silence,
    /// Sends what is no request; or too much of one.
    Garbage,
    /// Uploads what is no app, without an end.
    Upload,
    /// Calls a function, one after the other.
    Calls(&'static str, &'static str),
    /// Sends a batch of calls that take memory and time.
    Batch(&'static str, &'static str),
}

const ATTACKS: [Attack; 14] = [
    Attack { name: "half bodies", clients: 1000, what: What::HalfBody },
    Attack { name: "open lines", clients: 500, what: What::OpenLine },
    Attack { name: "open messages", clients: 20, what: What::OpenMessage },
    Attack { name: "unread results", clients: 150, what: What::UnreadResults },
    Attack { name: "pings", clients: 10, what: What::Pings },
    Attack { name: "slow heads", clients: 1000, what: What::SlowHead },
    Attack { name: "connections", clients: 3000, what: What::Silence },
    Attack { name: "garbage", clients: 20, what: What::Garbage },
    Attack { name: "uploads", clients: 8, what: What::Upload },
    Attack { name: "endless loops", clients: 30, what: What::Calls("spin", "[]") },
    Attack { name: "hoarding", clients: 200, what: What::Calls("hoard", "[]") },
    Attack { name: "recursion", clients: 20, what: What::Calls("recurse", "[]") },
    Attack { name: "log lines", clients: 5, what: What::Calls("chatter", "[100000]") },
    Attack { name: "large batches", clients: 2, what: What::Batch("allocate", "[100]") },
];

const APP: &str = "target";
const CALM: &str = "calm";

/// Runs it; an error means that a bound did not hold.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(attack(options))
}

async fn attack(options: &Options) -> anyhow::Result<()> {
    ensure!(options.seconds >= 1.0 && options.share > 0.0, "--seconds 1 or more, and some --share of the attacks");
    raise_descriptors();
    let styx = options.styx.canonicalize();
    let styx = styx.with_context(|| format!("{}: build it with `just build`", options.styx.display()))?;
    let processes = harness::Options {
        log_flags: options.server.clone(),
        log_level: std::env::var("STYX_LOG").unwrap_or_else(|_| "error".into()),
        ..harness::Options::new(styx)
    };
    let cluster = Cluster::start(processes).await?;
    let source = options.guests.join("testkit");
    cluster.deploy(&source, Some(APP), false).await?;
    cluster.deploy(&source, Some(CALM), false).await?;
    let server = cluster.process(Role::Server).id()?;
    let stop = Arc::new(AtomicBool::new(false));

    // Alone first: what the machine makes of it without any attack.
    let neighbour = Neighbour::of(&cluster)?;
    let alone = neighbour.call(Duration::from_secs_f64(options.seconds / 5.0)).await?;
    let before = peak_mib(server)?;
    let (ingress, admin): (SocketAddr, SocketAddr) = (cluster.ingress().parse()?, cluster.admin().parse()?);
    let attackers = Attackers::start(options, ingress, admin, &stop)?;
    let beside = neighbour.call(Duration::from_secs_f64(options.seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let done = attackers.end();
    let (peak, log) = (peak_mib(server)?, cluster.process(Role::Server).log().len() >> 20);
    let beside = beside?;
    let after = neighbour.call(Duration::from_secs(2)).await?;
    for (attack, count) in ATTACKS.iter().zip(&done).filter(|(_, count)| **count > 0) {
        println!("  {:<16} {count:>7} times", attack.name);
    }
    println!("  neighbour alone  {alone}\n  beside them      {beside}\n  afterwards       {after}");
    println!("  memory: {before} MiB before, at most {peak} MiB; the server's messages: {log} MiB");
    let figures = json!({
        "alone": alone.json(), "beside": beside.json(), "after": after.json(), "memory_before_mib": before,
        "memory_peak_mib": peak, "messages_mib": log, "seconds": options.seconds, "share": options.share,
    });
    println!("{figures}");
    ensure!(done.iter().sum::<u64>() > 0, "ATTACK: nobody has attacked anything");
    ensure!(peak <= options.memory_max, "ATTACK: the server came to {peak} MiB, and may to {}", options.memory_max);
    ensure!(
        beside.p99_ms <= options.p99_max,
        "ATTACK: 99 % of the neighbour's calls took up to {:.0} ms, and may {:.0}",
        beside.p99_ms,
        options.p99_max
    );
    cluster.stop().await
}

/// The most memory that a process ever had.
fn peak_mib(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a process has memory")?;
    Ok(line.split_whitespace().next().context("so much")?.parse::<u64>()? / 1024)
}

fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write one local that outlives them.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// A client of another app, with one small call after the other.
struct Neighbour {
    client: Client,
}

/// What a neighbour has seen.
struct Seen {
    calls: u64,
    failed: u64,
    p50_ms: f64,
    p99_ms: f64,
    longest_ms: f64,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen { calls, failed, p50_ms, p99_ms, longest_ms } = self;
        write!(
            to,
            "{calls:>6} calls, {failed} failed; p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms, longest {longest_ms:.0} ms"
        )
    }
}

impl Seen {
    fn json(&self) -> serde_json::Value {
        json!({ "calls": self.calls, "failed": self.failed, "p50_ms": self.p50_ms, "p99_ms": self.p99_ms,
                "longest_ms": self.longest_ms })
    }
}

impl Neighbour {
    fn of(cluster: &Cluster) -> anyhow::Result<Neighbour> {
        let client = Client::builder(cluster.ingress()).retry(Retry::never()).timeout(Duration::from_secs(60));
        Ok(Neighbour { client: client.build()? })
    }

    async fn call(&self, time: Duration) -> anyhow::Result<Seen> {
        let (begun, mut failed) = (Instant::now(), 0);
        let mut latency: Histogram<u64> = Histogram::new_with_bounds(1, 120_000_000, 3)?;
        for turn in 0u64.. {
            if begun.elapsed() >= time {
                break;
            }
            let (asked, key) = (Instant::now(), format!("k{}", turn % 100));
            let answer = self.client.call(CALM, "a", &key, "put", json!([[turn]])).await;
            failed += u64::from(answer.is_err());
            latency.saturating_record(asked.elapsed().as_micros() as u64);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        ensure!(!latency.is_empty(), "the neighbour has not called");
        let at = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
        let (p50_ms, p99_ms, longest_ms) = (at(0.5), at(0.99), latency.max() as f64 / 1e3);
        Ok(Seen { calls: latency.len(), failed, p50_ms, p99_ms, longest_ms })
    }
}

/// The clients that attack, on a thread of their own: elsewhere they would use other processors.
struct Attackers {
    thread: std::thread::JoinHandle<()>,
    done: Arc<Vec<AtomicU64>>,
}

impl Attackers {
    fn start(
        options: &Options,
        ingress: SocketAddr,
        admin: SocketAddr,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Attackers> {
        let done: Arc<Vec<AtomicU64>> = Arc::new(ATTACKS.iter().map(|_| AtomicU64::new(0)).collect());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (share, only, stop, counts) = (options.share, options.only.clone(), stop.clone(), done.clone());
        let thread = std::thread::Builder::new().name("attackers".into()).spawn(move || {
            // SAFETY: lowers the priority of this thread, and touches no memory.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
            runtime.block_on(async {
                let mut clients = JoinSet::new();
                for (at, attack) in ATTACKS.iter().enumerate() {
                    if only.as_ref().is_some_and(|only| !attack.name.contains(only.as_str())) {
                        continue;
                    }
                    let count = (attack.clients as f64 * share).ceil() as usize;
                    for number in 0..count {
                        let to = if matches!(attack.what, What::Upload) { admin } else { ingress };
                        clients.spawn(repeat(attack.what, to, at, number, counts.clone(), stop.clone()));
                    }
                }
                while !stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                clients.abort_all();
            });
        })?;
        Ok(Attackers { thread, done })
    }

    /// Ends them; how often each attack was made.
    fn end(self) -> Vec<u64> {
        // A panic of theirs is none of the server's.
        let _ = self.thread.join();
        self.done.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Attacks until told to stop: who is refused begins again.
async fn repeat(
    what: What,
    to: SocketAddr,
    attack: usize,
    number: usize,
    done: Arc<Vec<AtomicU64>>,
    stop: Arc<AtomicBool>,
) {
    while !stop.load(Ordering::Relaxed) {
        done[attack].fetch_add(1, Ordering::Relaxed);
        // Who is refused, or disconnected, has attacked all the same.
        let _ = once(what, to, attack).await;
        tokio::time::sleep(Duration::from_millis(100 + number as u64 % 400)).await;
    }
}

/// A connection from an address of the attack's own: one address has only so many.
async fn connect(to: SocketAddr, attack: usize) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 1, attack as u8 + 1], 0)))?;
    socket.connect(to).await
}

/// How long who waits for nothing waits.
const HELD: Duration = Duration::from_secs(300);

async fn once(what: What, to: SocketAddr, attack: usize) -> anyhow::Result<()> {
    let mut stream = connect(to, attack).await?;
    let head = |path: &str, length: usize| {
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
    };
    let call = |function: &str| format!("/v1/call/{APP}/a/k{}/{function}", rand::random::<u16>());
    match what {
        What::HalfBody => {
            stream.write_all(head(&call("put"), 1_000_000).as_bytes()).await?;
            stream.write_all(" ".repeat(950_000).as_bytes()).await?;
        }
        What::OpenLine => {
            stream.write_all(head("/v1/batch", 60_000_000).as_bytes()).await?;
            stream.write_all(" ".repeat(1_900_000).as_bytes()).await?;
        }
        What::OpenMessage => {
            upgrade(&mut stream).await?;
            for at in 0..60 {
                stream.write_all(&frame(u8::from(at == 0), &" ".repeat(1 << 19))).await?;
            }
        }
        What::UnreadResults => {
            upgrade(&mut stream).await?;
            for id in 0..64 {
                let request = json!({"id": id, "app": APP, "operator": "a", "key": format!("k{id}"),
                                     "function": "giant_result", "args": [900_000]});
                stream.write_all(&frame(0x81, &request.to_string())).await?;
            }
        }
        What::Pings => {
            upgrade(&mut stream).await?;
            let ping = frame(0x89, &"p".repeat(125)).repeat(500);
            loop {
                stream.write_all(&ping).await?;
            }
        }
        What::SlowHead => {
            for byte in head(&call("put"), 9).bytes() {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        What::Silence => {}
        What::Garbage => {
            let mut garbage: Vec<u8> = (0..20_000).map(|_| rand::random()).collect();
            match rand::random::<u8>() % 4 {
                0 => garbage.splice(0..0, *b"GET / HTTP/1.1\r\nx: ").for_each(drop),
                1 => garbage = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2000).into(),
                2 => garbage = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(20_000)).into(),
                _ => {}
            }
            stream.write_all(&garbage).await?;
            let mut answer = Vec::new();
            return Ok(timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await.map(|_| ())?);
        }
        What::Upload => {
            let length = 200 << 20;
            let head = format!(
                "POST /v1/apps/x/deployments HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/zip\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            let zeros = vec![0; 1 << 20];
            for _ in 0..length >> 20 {
                stream.write_all(&zeros).await?;
            }
        }
        What::Calls(function, arguments) => {
            let request = format!("{}{arguments}", head(&call(function), arguments.len()));
            stream.write_all(request.as_bytes()).await?;
            let mut answer = [0; 4096];
            let read = stream.read(&mut answer).await?;
            ensure!(read > 0, "no answer");
            return Ok(());
        }
        What::Batch(function, arguments) => {
            let line = |id: usize| {
                format!(
                    "{{\"id\":{id},\"app\":\"{APP}\",\"operator\":\"a\",\"key\":\"k{id}\",\"function\":\"{function}\",\"args\":{arguments}}}\n"
                )
            };
            let lines: String = (0..300).map(line).collect();
            stream.write_all(format!("{}{lines}", head("/v1/batch", lines.len())).as_bytes()).await?;
            let (mut answers, mut lines) = ([0; 1 << 16], 0);
            while lines < 300 {
                let read = stream.read(&mut answers).await?;
                ensure!(read > 0, "the batch ended early");
                lines += answers[..read].iter().filter(|byte| **byte == b'\n').count();
            }
            return Ok(());
        }
    }
    // Nothing is read; a write shows that the server has had enough.
    tokio::time::sleep(HELD).await;
    Ok(())
}

/// Opens a WebSocket; what the server says is left unread.
async fn upgrade(stream: &mut TcpStream) -> std::io::Result<()> {
    let request = "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await
}

/// A frame of a client, masked with zeros.
fn frame(kind: u8, text: &str) -> Vec<u8> {
    let mut frame = vec![kind];
    match text.len() {
        length @ ..126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}
