//! How long clients wait when a process of a cluster is lost, or leaves: calls at given times from
//! before it to after it, and when each was answered (the papers' figure of recovery).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::process::{self, Process};

/// How the benchmark runs.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Source directory of the guest
    #[arg(long, default_value = "guests/ycsb")]
    guest: PathBuf,
    /// Worker processes
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Accounts
    #[arg(long, default_value_t = 1_000_000)]
    accounts: u64,
    /// Calls per second
    #[arg(long, default_value_t = 3000.0)]
    rate: f64,
    /// How often it happens
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// What happens to workers, one after the other
    #[arg(long, value_enum, default_value_t = Event::Kill)]
    event: Event,
    /// Time between snapshots
    #[arg(long, default_value = "1s")]
    snapshot_interval: String,
    /// Where to write what happened when, as JSON
    #[arg(long)]
    timeline: Option<PathBuf>,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Event {
    /// SIGKILL; it is started again when the others serve
    Kill,
    /// SIGTERM; it is started again when it has ended
    Restart,
}

/// Between an event and the next thing that happens.
const QUIET: Duration = Duration::from_secs(4);

/// A call: when it was due and when it was answered, µs since the start.
type Call = (u64, u64);

/// Runs the benchmark and prints one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure(options))
}

struct Site {
    styx: PathBuf,
    directory: PathBuf,
    coordinator: Process,
    workers: Vec<Option<Process>>,
    gateway: Process,
}

impl Site {
    async fn start(options: &Options, directory: &Path) -> anyhow::Result<Site> {
        let data = directory.join("coordinator").display().to_string();
        let (cache, free) = (directory.join("cache").display().to_string(), "127.0.0.1:0");
        let workers = options.workers.to_string();
        let coordinator = [
            ["--role", "coordinator"],
            ["--cluster-addr", free],
            ["--admin-addr", free],
            ["--workers", &workers],
            ["--data-dir", &data],
            ["--cache-dir", &cache],
            ["--snapshot-interval", &options.snapshot_interval],
        ];
        let coordinator = start(&options.styx, &coordinator).await?;
        let cluster = coordinator.ready("cluster").to_owned();
        let gateway =
            [["--role", "gateway"], ["--coordinator", &cluster], ["--ingress-addr", free], ["--admin-addr", free]];
        let gateway = start(&options.styx, &gateway).await?;
        let workers = (0..options.workers).map(|_| None).collect();
        let mut site = Site { styx: options.styx.clone(), directory: directory.into(), coordinator, workers, gateway };
        for worker in 0..options.workers {
            site.start_worker(worker).await?;
        }
        site.serves(options.workers).await?;
        Ok(site)
    }

    async fn start_worker(&mut self, worker: usize) -> anyhow::Result<()> {
        let data = self.directory.join(format!("worker-{worker}")).display().to_string();
        let cache = self.directory.join("cache").display().to_string();
        let arguments = [
            ["--role", "worker"],
            ["--coordinator", self.coordinator.ready("cluster")],
            ["--threads", "1"],
            ["--data-dir", &data],
            ["--cache-dir", &cache],
        ];
        self.workers[worker] = Some(start(&self.styx, &arguments).await?);
        Ok(())
    }

    /// Waits until so many workers serve.
    async fn serves(&self, workers: usize) -> anyhow::Result<()> {
        process::serves(self.coordinator.ready("admin"), workers).await
    }
}

async fn start(styx: &Path, arguments: &[[&str; 2]]) -> anyhow::Result<Process> {
    let arguments: Vec<String> = arguments.iter().flatten().map(|argument| (*argument).to_owned()).collect();
    Process::start(styx, &arguments).await
}

async fn measure(options: &Options) -> anyhow::Result<()> {
    ensure!(options.workers > 1, "somebody must be left: give --workers 2 or more");
    let directory = tempfile::tempdir()?;
    let mut site = Site::start(options, directory.path()).await?;
    let (admin, ingress) = (site.coordinator.ready("admin").to_owned(), site.gateway.ready("ingress").to_owned());
    process::deploy_as(&options.styx, &admin, &ingress, &options.guest, "ycsb")?;
    fill(&ingress, options.accounts).await?;

    let started = Instant::now();
    let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
    let (stop, failed) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let load = tokio::spawn(load(options.clone(), ingress, started, calls.clone(), stop.clone(), failed.clone()));
    tokio::time::sleep(QUIET).await;
    let mut events = Vec::new();
    for round in 0..options.rounds {
        let worker = round % options.workers;
        let mut victim = site.workers[worker].take().context("it runs")?;
        let mut happens = |what: &'static str| events.push((started.elapsed().as_micros() as u64, what));
        happens("lost");
        match options.event {
            Event::Kill => victim.kill().await?,
            Event::Restart => victim.stop().await?,
        }
        tokio::time::sleep(QUIET).await;
        site.serves(options.workers - 1).await?;
        events.push((started.elapsed().as_micros() as u64, "started"));
        site.start_worker(worker).await?;
        site.serves(options.workers).await?;
        tokio::time::sleep(QUIET).await;
        ensure!(!load.is_finished(), "the load has ended");
    }
    stop.store(true, Ordering::Relaxed);
    load.await??;
    let mut calls = std::mem::take(&mut *calls.lock().await);
    calls.sort_unstable();
    let quiet = QUIET.as_micros() as u64;
    let longest = |what: &str| {
        let of = |at: u64| {
            let near = calls.iter().filter(|(due, _)| (at.saturating_sub(quiet / 2)..at + quiet).contains(due));
            near.map(|(due, answered)| answered - due).max().unwrap_or(0)
        };
        let mut stalls: Vec<f64> =
            events.iter().filter(|(_, event)| *event == what).map(|(at, _)| of(*at) as f64 / 1e3).collect();
        stalls.sort_by(f64::total_cmp);
        stalls
    };
    let (lost, joined) = (longest("lost"), longest("started"));
    let quantile = |stalls: &[f64], q: f64| stalls[((stalls.len() - 1) as f64 * q).round() as usize];
    println!(
        "{}",
        json!({
            "workload": "ycsb-t", "guest": options.guest, "driver": "recovery", "event": format!("{:?}", options.event).to_lowercase(),
            "workers": options.workers, "accounts": options.accounts, "rate": options.rate, "calls": calls.len(),
            "failed": failed.load(Ordering::Relaxed), "rounds": options.rounds,
            "stall_ms": lost, "stall_p50_ms": quantile(&lost, 0.5), "stall_max_ms": quantile(&lost, 1.0),
            "join_stall_ms": joined, "join_stall_p50_ms": quantile(&joined, 0.5), "join_stall_max_ms": quantile(&joined, 1.0),
        })
    );
    if let Some(path) = &options.timeline {
        std::fs::write(path, json!({ "events": events, "calls": calls }).to_string())?;
    }
    Ok(())
}

/// Opens all accounts.
async fn fill(ingress: &str, accounts: u64) -> anyhow::Result<()> {
    let (mut sink, mut stream) = connect_async(format!("ws://{ingress}/v1/ws")).await?.0.split();
    for first in (0..accounts).step_by(4000) {
        let these = first..(first + 4000).min(accounts);
        for account in these.clone() {
            sink.feed(call(account, account, "insert", "1000000", None)).await?;
        }
        sink.flush().await?;
        for _ in these {
            let message = stream.next().await.context("the connection was closed")??;
            ensure!(message.to_text()?.contains("\"ok\""), "{message}");
        }
    }
    Ok(())
}

fn call(id: u64, account: u64, function: &str, argument: &str, idempotency_key: Option<String>) -> Message {
    let key = idempotency_key.map(|key| format!(",\"idempotency_key\":\"{key}\"")).unwrap_or_default();
    Message::text(format!(
        "{{\"id\":{id},\"app\":\"ycsb\",\"operator\":\"account\",\"key\":\"{account}\",\"function\":\"{function}\",\"args\":[{argument}]{key}}}"
    ))
}

/// Transfers at given times, whatever the answers do; under keys, so that each has an answer.
async fn load(
    options: Options,
    ingress: String,
    started: Instant,
    calls: Arc<Mutex<Vec<Call>>>,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let (mut sink, mut stream) = connect_async(format!("ws://{ingress}/v1/ws")).await?.0.split();
    let mut random = StdRng::seed_from_u64(options.seed);
    let gap = Duration::from_secs_f64(1.0 / options.rate);
    let (mut due, mut answered): (Vec<Instant>, usize) = (Vec::new(), 0);
    let mut next = Instant::now();
    loop {
        let open = !stop.load(Ordering::Relaxed);
        if !open && answered == due.len() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(next.into()), if open => {
                while next <= Instant::now() {
                    let from = random.random_range(0..options.accounts);
                    let to = (from + random.random_range(1..options.accounts)) % options.accounts;
                    let id = due.len() as u64;
                    let key = format!("{}-{id}", options.seed);
                    sink.feed(call(id, from, "transfer", &format!("\"{to}\""), Some(key))).await?;
                    due.push(next);
                    next += gap;
                }
                sink.flush().await?;
            }
            message = stream.next() => {
                let Message::Text(text) = message.context("the connection was closed")?? else { continue };
                let body: Value = serde_json::from_str(&text)?;
                let Some(id) = body["id"].as_u64() else { bail!("the server said {text}") };
                if body.get("ok").is_none() {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                answered += 1;
                let due = due[id as usize].duration_since(started).as_micros() as u64;
                calls.lock().await.push((due, started.elapsed().as_micros() as u64));
            }
        }
    }
}
