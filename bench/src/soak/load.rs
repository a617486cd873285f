//! A steady load of every kind: so many calls a second whatever the machine can do, so that what is remembered of them is as
//! much each minute. All of it must succeed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::future::join_all;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use styx_client::{Client, Method, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The app that all calls go to, and the one that comes and goes.
pub(super) const APP: &str = "steady";
const PASSING: &str = "passing";

/// Entities that are written again and again.
const KEYS: u64 = 2000;
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which calls there are: so many clients, each with a pause between the beginnings of two calls.
const PLAIN: (u64, Duration) = (4, Duration::from_millis(10));
const KEYED: (u64, Duration) = (4, Duration::from_millis(10));
const SOCKETS: (u64, Duration) = (2, Duration::from_millis(20));
const AT_ONCE: u64 = 8;
const BATCHES: (u64, Duration) = (1, Duration::from_millis(250));
const BATCH: u64 = 50;
const QUERIES: (u64, Duration) = (2, Duration::from_millis(50));
const STRANGERS: (u64, Duration) = (1, Duration::from_millis(100));
const LOOKS: (u64, Duration) = (1, Duration::from_secs(1));

struct Shared {
    client: Client,
    ingress: String,
    admin: String,
    bundle: Vec<u8>,
    stop: AtomicBool,
    calls: AtomicU64,
    /// Those of which nobody knows the end: a worker was given up, on a machine that is too busy.
    interrupted: AtomicU64,
    latency_us: Mutex<Histogram<u64>>,
}

/// The clients; they end with it.
pub(super) struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<anyhow::Result<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Keyed,
    Socket,
    Batch,
    Query,
    Stranger,
    Look,
    Deployment,
}

impl Load {
    /// Begins. `bundle` is deployed already, and is deployed again and removed every `deployments`.
    pub(super) fn start(ingress: &str, admin: &str, bundle: Vec<u8>, deployments: Duration) -> anyhow::Result<Load> {
        let client = Client::builder(ingress).admin_url(admin).timeout(PATIENCE).build()?;
        let histogram = Histogram::new_with_bounds(1, 60_000_000, 2)?;
        let (ingress, admin) = (ingress.to_owned(), admin.to_owned());
        let (stop, calls, interrupted) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let latency_us = Mutex::new(histogram);
        let shared = Arc::new(Shared { client, ingress, admin, bundle, stop, calls, interrupted, latency_us });
        let mut clients = JoinSet::new();
        let kinds = [
            (Kind::Plain, PLAIN),
            (Kind::Keyed, KEYED),
            (Kind::Socket, SOCKETS),
            (Kind::Batch, BATCHES),
            (Kind::Query, QUERIES),
            (Kind::Stranger, STRANGERS),
            (Kind::Look, LOOKS),
            (Kind::Deployment, (1, deployments)),
        ];
        for (kind, (count, pause)) in kinds {
            for number in 0..count {
                clients.spawn(repeat(shared.clone(), kind, number, pause));
            }
        }
        Ok(Load { shared, clients })
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Those of them whose end nobody knows.
    pub(super) fn interrupted(&self) -> u64 {
        self.shared.interrupted.load(Ordering::Relaxed)
    }

    /// The 99th percentile of the latencies since this was asked last, ms; none if nothing was answered.
    pub(super) fn p99_ms(&self) -> Option<f64> {
        let mut latency = self.shared.latency_us.lock().unwrap_or_else(PoisonError::into_inner);
        let p99 = (!latency.is_empty()).then(|| latency.value_at_quantile(0.99) as f64 / 1e3);
        latency.reset();
        p99
    }

    /// An error if a client has ended.
    pub(super) async fn check(&mut self) -> anyhow::Result<()> {
        match self.clients.try_join_next() {
            None => Ok(()),
            Some(ended) => ended?.and_then(|()| bail!("a client has ended")),
        }
    }

    /// Ends all clients; an error if something failed.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// Does something again and again.
async fn repeat(shared: Arc<Shared>, kind: Kind, number: u64, pause: Duration) -> anyhow::Result<()> {
    let mut ticks = interval(pause);
    // Who was late does not hurry.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let pipeline = shared.client.pipeline();
    for turn in number * 1_000_003.. {
        ticks.tick().await;
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let done = async {
            match kind {
                Kind::Plain => shared.call(call(turn).without_key()).await,
                Kind::Keyed => shared.keyed(number, turn).await,
                Kind::Socket => {
                    let asked = Instant::now();
                    let calls = (0..AT_ONCE).map(|at| pipeline.call(call(turn * AT_ONCE + at).without_key()));
                    for reply in join_all(calls).await {
                        reply?;
                        shared.answered(asked, 1);
                    }
                    Ok(())
                }
                Kind::Batch => {
                    let requests: Vec<Request> = (0..BATCH).map(|at| call(turn * BATCH + at).without_key()).collect();
                    for reply in shared.client.batch(&requests).await? {
                        reply?;
                    }
                    shared.calls.fetch_add(BATCH, Ordering::Relaxed);
                    Ok(())
                }
                Kind::Query => {
                    let (key, prefix) = (turn % KEYS, format!("k{}", turn % 90 + 10));
                    shared.call(Request::new(APP, "a", &format!("k{key}"), "list", json!([])).without_key()).await?;
                    let scan = json!([prefix, null, 20, false]);
                    shared.call(Request::new(APP, "a", "k", "scan", scan).without_key()).await
                }
                Kind::Stranger => shared.stranger(turn).await,
                Kind::Look => shared.look(turn).await,
                Kind::Deployment => shared.deployment().await,
            }
        };
        let done: anyhow::Result<()> = done.await;
        match done {
            Err(error) if error.downcast_ref::<styx_client::Error>().is_some_and(styx_client::Error::is_transient) => {
                shared.interrupted.fetch_add(1, Ordering::Relaxed);
            }
            done => done.with_context(|| format!("{kind:?} number {turn} failed"))?,
        }
    }
    Ok(())
}

/// One of the calls: what they leave behind is as large however many there are.
fn call(turn: u64) -> Request {
    let key = format!("k{}", turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS);
    let list: Vec<u64> = (0..turn % 40).collect();
    match turn % 8 {
        0..4 => Request::new(APP, "a", &key, "put", json!([list])),
        4 => Request::new(APP, "b", &key, "put", json!([list])),
        5 => Request::new(APP, "b", &key, "relay", json!(["a", key, "list"])),
        6 => Request::new(APP, "a", &key, "echo", json!(["x".repeat(turn as usize % 300)])),
        _ => Request::new(APP, "b", &key, "delete", json!([])),
    }
}

impl Shared {
    fn answered(&self, asked: Instant, calls: u64) {
        let mut latency = self.latency_us.lock().unwrap_or_else(PoisonError::into_inner);
        latency.saturating_record(asked.elapsed().as_micros() as u64);
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    async fn call(&self, request: Request) -> anyhow::Result<()> {
        let asked = Instant::now();
        self.client.request(request).await?;
        self.answered(asked, 1);
        Ok(())
    }

    /// A call under a key of its own; every tenth is asked again under it.
    async fn keyed(&self, number: u64, turn: u64) -> anyhow::Result<()> {
        let request = call(turn).idempotency_key(format!("{number}-{turn}"));
        let (asked, again) = (Instant::now(), request.clone());
        let reply = self.client.request(request).reply().await?;
        self.answered(asked, 1);
        if turn.is_multiple_of(10) {
            let second = self.client.request(again).reply().await?;
            ensure!(second.bytes == reply.bytes, "two answers under one key");
        }
        Ok(())
    }

    /// Comes, calls on connections of its own, and goes; or goes in the middle of a request.
    async fn stranger(&self, turn: u64) -> anyhow::Result<()> {
        match turn % 3 {
            0 => {
                let mut stream = TcpStream::connect(&self.ingress).await?;
                let half = format!(
                    "POST /v1/call/{APP}/a/k/put HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90\r\n\r\n[[1,"
                );
                Ok(stream.write_all(half.as_bytes()).await?)
            }
            1 => {
                let client = Client::builder(&self.ingress).timeout(PATIENCE).build()?;
                client.request(call(turn)).await?;
                Ok(())
            }
            _ => {
                let mut connection = styx_client::Connection::open(&self.ingress).await?;
                connection.send(turn, &call(turn).without_key());
                let answer =
                    std::future::poll_fn(|context| connection.poll(context, |_, reply| reply.parse()?.map(drop)));
                Ok(timeout(PATIENCE, answer).await??)
            }
        }
    }

    /// Looks at the system as consoles and monitoring do.
    async fn look(&self, turn: u64) -> anyhow::Result<()> {
        let client = Client::builder(&self.ingress).admin_url(&self.admin).timeout(PATIENCE).build()?;
        client.admin("/v1/cluster").await?;
        client.admin(&format!("/v1/state/{APP}/a?limit={}", turn % 500 + 1)).await?;
        client.admin_request(Method::GET, "/metrics").send().await?.error_for_status()?.bytes().await?;
        let answered = client.call(APP, "a", "answered", "echo", json!(["still there"])).await?;
        ensure!(answered == json!("still there"), "{answered}");
        Ok(())
    }

    /// Deploys an app, calls it, and removes it.
    async fn deployment(&self) -> anyhow::Result<()> {
        let remove = || self.client.admin_request(Method::DELETE, &format!("/v1/apps/{PASSING}")).send();
        // One that was interrupted has left it.
        remove().await?;
        self.client.deploy(PASSING, self.bundle.clone()).await.context("a deployment")?;
        let list: Value = self.client.call(PASSING, "a", "k", "append", json!([1])).await.context("a call of it")?;
        ensure!(list == json!([1]), "an app that was removed has left something: {list}");
        let removed = remove().await?;
        ensure!(removed.status().is_success(), "an app cannot be removed: {}", removed.text().await?);
        Ok(())
    }
}
