//! YCSB-T over pipelined WebSockets against a server process on this machine, closed or open loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::{FutureExt, SinkExt, StreamExt};
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::server::ServerProcess;

/// How the benchmark runs.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Source directory of the guest
    #[arg(long, default_value = "guests/ycsb")]
    guest: PathBuf,
    /// Accounts
    #[arg(long, default_value_t = 10_000)]
    accounts: u64,
    /// Seconds to measure, after a quarter of it to warm up
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Connections
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Calls in flight on each connection, closed loop
    #[arg(long, default_value_t = 1000)]
    window: usize,
    /// Calls per second in all, open loop: latency counts from when a call was due
    #[arg(long)]
    rate: Option<f64>,
    /// Further flags for the server
    #[arg(long, value_delimiter = ' ')]
    server: Vec<String>,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the benchmark and prints one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure(options))
}

async fn measure(options: &Options) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let server = ServerProcess::start(&options.styx, directory.path(), None, &options.server).await?;
    server.deploy(&options.guest)?;
    let app = server.apps().await?.into_iter().next().context("an app is deployed")?;
    let idle = server.usage()?;
    let accounts = options.accounts;
    let insert = (0..accounts).map(|at| call(at, &app, at, "insert", "1000000"));
    pipeline(server.ingress(), insert.collect()).await?;

    let running = Arc::new(Shared { answered: AtomicU64::new(0), aborted: AtomicU64::new(0) });
    let warm_up = Duration::from_secs_f64(options.seconds / 4.0);
    let until = Instant::now() + warm_up + Duration::from_secs_f64(options.seconds);
    let measured_from = Instant::now() + warm_up;
    let mut tasks = Vec::new();
    for connection in 0..options.connections {
        let client = Client {
            options: options.clone(),
            app: app.clone(),
            random: StdRng::seed_from_u64(options.seed + connection as u64),
            shared: running.clone(),
            measured_from,
            until,
        };
        let ingress = server.ingress().to_string();
        tasks.push(tokio::spawn(async move {
            match client.options.rate {
                Some(rate) => client.open_loop(&ingress, rate).await,
                None => client.closed_loop(&ingress).await,
            }
        }));
    }
    tokio::time::sleep_until(measured_from.into()).await;
    let (answered, cpu) = (running.answered.load(Ordering::Relaxed), server.usage()?.cpu);
    let mut latency_us = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)?;
    for task in tasks {
        latency_us.add(task.await??)?;
    }
    let elapsed = measured_from.elapsed().as_secs_f64();
    let done = running.answered.load(Ordering::Relaxed) - answered;
    let usage = server.usage()?;
    let sum = sum(&server, &app).await?;
    let consistent = sum == accounts * 1_000_000;
    println!(
        "{}",
        json!({
            "workload": "ycsb-t", "guest": options.guest, "driver": "websocket", "log": "embedded", "rate": options.rate,
            "connections": options.connections, "window": options.window, "tps": (done as f64 / elapsed).round(),
            "p50_ms": latency_us.value_at_quantile(0.5) as f64 / 1e3, "p99_ms": latency_us.value_at_quantile(0.99) as f64 / 1e3,
            "aborted": running.aborted.load(Ordering::Relaxed), "consistent": consistent,
            "server_cpu_us_per_transaction": ((usage.cpu - cpu).as_secs_f64() * 1e6 / done as f64 * 100.0).round() / 100.0,
            "server_rss_mb": usage.rss_mb, "server_idle_rss_mb": idle.rss_mb,
        })
    );
    server.stop().await?;
    ensure!(consistent, "the sum of all balances changed from {} to {sum}", accounts * 1_000_000);
    Ok(())
}

struct Shared {
    answered: AtomicU64,
    aborted: AtomicU64,
}

struct Client {
    options: Options,
    app: String,
    random: StdRng,
    shared: Arc<Shared>,
    measured_from: Instant,
    until: Instant,
}

impl Client {
    fn transfer(&mut self, id: u64) -> Message {
        let accounts = self.options.accounts;
        let from = self.random.random_range(0..accounts);
        let to = (from + self.random.random_range(1..accounts)) % accounts;
        call(id, &self.app, from, "transfer", &format!("\"{to}\""))
    }

    fn answered(&self, text: &str, due: &[Instant], latency_us: &mut Histogram<u64>) -> anyhow::Result<()> {
        let due = due[id_of(text)? as usize];
        if due >= self.measured_from {
            latency_us.saturating_record(due.elapsed().as_micros() as u64);
        }
        self.shared.answered.fetch_add(1, Ordering::Relaxed);
        if !text.contains("\"ok\":") {
            self.shared.aborted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As many calls in flight as the window allows, always.
    async fn closed_loop(mut self, ingress: &str) -> anyhow::Result<Histogram<u64>> {
        let (mut sink, mut stream) = connect_async(format!("ws://{ingress}/v1/ws")).await?.0.split();
        let mut latency_us = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        let mut due = Vec::new();
        let mut in_flight = 0;
        loop {
            let open = Instant::now() < self.until;
            while open && in_flight < self.options.window {
                let message = self.transfer(due.len() as u64);
                due.push(Instant::now());
                sink.feed(message).await?;
                in_flight += 1;
            }
            sink.flush().await?;
            if in_flight == 0 {
                return Ok(latency_us);
            }
            // One wait, then everything that has come.
            let mut next = Some(stream.next().await);
            while let Some(message) = next {
                if let Message::Text(text) = message.context("the connection was closed")?? {
                    self.answered(&text, &due, &mut latency_us)?;
                    in_flight -= 1;
                }
                next = stream.next().now_or_never();
            }
        }
    }

    /// Calls at given times, whatever the answers do.
    async fn open_loop(mut self, ingress: &str, rate: f64) -> anyhow::Result<Histogram<u64>> {
        let (mut sink, mut stream) = connect_async(format!("ws://{ingress}/v1/ws")).await?.0.split();
        let mut latency_us = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        let gap = Duration::from_secs_f64(self.options.connections as f64 / rate);
        let mut due: Vec<Instant> = Vec::new();
        let mut next = Instant::now() + gap.mul_f64(self.random.random_range(0.0..1.0));
        let mut answered = 0;
        loop {
            let open = next < self.until;
            if !open && answered == due.len() {
                return Ok(latency_us);
            }
            tokio::select! {
                biased;
                message = stream.next() => {
                    if let Message::Text(text) = message.context("the connection was closed")?? {
                        self.answered(&text, &due, &mut latency_us)?;
                        answered += 1;
                    }
                }
                () = tokio::time::sleep_until(next.into()), if open => {
                    while next <= Instant::now() && next < self.until {
                        let message = self.transfer(due.len() as u64);
                        due.push(next);
                        next += gap;
                        sink.feed(message).await?;
                    }
                    sink.flush().await?;
                }
            }
        }
    }
}

fn call(id: u64, app: &str, key: u64, function: &str, args: &str) -> Message {
    Message::text(format!(
        r#"{{"id":{id},"app":"{app}","operator":"account","key":"{key}","function":"{function}","args":[{args}]}}"#
    ))
}

/// The id of an answer to a call of [`call`], without parsing the rest.
fn id_of(text: &str) -> anyhow::Result<u64> {
    let digits = text.split_once("\"id\":").map(|(_, rest)| rest.trim_start());
    let end = digits.map(|digits| digits.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(digits.len()));
    digits
        .zip(end)
        .and_then(|(digits, end)| digits[..end].parse().ok())
        .with_context(|| format!("an answer without id: {text}"))
}

/// Sends all and waits for all.
async fn pipeline(ingress: &str, messages: Vec<Message>) -> anyhow::Result<()> {
    let (mut sink, mut stream) = connect_async(format!("ws://{ingress}/v1/ws")).await?.0.split();
    for chunk in messages.chunks(1000) {
        for message in chunk {
            sink.feed(message.clone()).await?;
        }
        sink.flush().await?;
        for _ in chunk {
            let message = stream.next().await.context("the connection was closed")??;
            ensure!(message.to_text()?.contains("\"ok\""), "{message}");
        }
    }
    Ok(())
}

/// Sum of all balances, as the server's state shows them.
async fn sum(server: &ServerProcess, app: &str) -> anyhow::Result<u64> {
    let mut sum = 0;
    let mut after = String::new();
    loop {
        let body: Value = server.admin_get(&format!("/v1/state/{app}/account?limit=1000&after={after}")).await?;
        for entry in body["entries"].as_array().context("entries")? {
            sum += balance(entry)?;
        }
        match body["next"].as_str() {
            Some(next) => after = next.to_string(),
            None => return Ok(sum),
        }
    }
}

/// Guests store balances as JSON numbers or as eight little-endian bytes.
fn balance(entry: &Value) -> anyhow::Result<u64> {
    use base64::Engine as _;
    if let Some(balance) = entry["value"].as_u64() {
        return Ok(balance);
    }
    let text = entry["value"].as_str().context("a balance")?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text)?;
    Ok(u64::from_le_bytes(bytes.as_slice().try_into()?))
}
