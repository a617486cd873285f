//! The main job, end to end: one transaction through five languages; two apps in two languages, a real server (or a cluster of them) that is killed in the
//! middle, clients that notice nothing but a pause, and a proof that nothing is lost or doubled.

mod calls;
mod journey;
mod picture;
mod workload;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use styx_client::{Client, Retry};
use styx_harness::{self as harness, Cluster, Role};

use calls::Progress;
use workload::{Proof, Workload};

/// The whole way on one machine: deploy, call, kill, recover, prove
#[derive(Debug, Parser)]
#[command(name = "styx-demo", version)]
struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the example apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
    /// Where compiled apps are kept, so that they are compiled once
    #[arg(long, default_value = "target/compiled-apps")]
    cache_dir: PathBuf,
    /// Calls to make
    #[arg(long, default_value_t = 20_000)]
    calls: usize,
    /// Run a cluster of so many worker processes, with a coordinator and a gateway, instead of one server
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    workers: Option<u64>,
    /// How often to kill the server meanwhile, or processes of the cluster [default: 1, or 3 for a cluster]
    #[arg(long)]
    kills: Option<usize>,
    /// Pipelined connections
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Calls in flight on each
    #[arg(long, default_value_t = 128)]
    window: usize,
    /// How often the server runs a transaction again in fresh instances: off, all, or one in so many
    #[arg(long, default_value = "1000")]
    determinism_check: String,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How long the calls may take in all.
const CALLS_MAX: Duration = Duration::from_secs(300);

/// An error means that a promise was broken.
fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(demonstrate(&options))
}

async fn demonstrate(options: &Options) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let what = match options.workers {
        None => "starting the server".to_owned(),
        Some(workers) => format!("starting a coordinator, a gateway and {workers} workers"),
    };
    step(&what, directory.path().display().to_string());
    let mut cluster = start(options, directory.path()).await?;
    let (legs, mut proofs) = journey::show(&cluster, &options.styx, &options.guests).await?;
    for app in ["travel", "cart"] {
        let started = Instant::now();
        cluster.deploy(&options.guests.join(app), None, true).await?;
        step(&format!("deployed {app}"), format!("{:.1} s", started.elapsed().as_secs_f64()));
    }
    // Whoever lost the server looks for it all the time, so that the pause is the server's.
    let patient = Retry::default().patience(CALLS_MAX).pauses(Duration::from_millis(5), Duration::from_millis(20));
    let client = Client::builder(cluster.ingress()).retry(patient.impatient()).build()?;
    let workload = Workload::generate(options.calls, options.seed);
    for call in workload.opening() {
        client.request(call).await.context("creating hotels, flights, items and users")?;
    }
    step("created", "8 hotels, 6 flights, 10 items (Rust), 20 users".to_owned());

    let requests = Arc::new(workload.requests());
    let total = requests.len();
    let bar = ProgressBar::new(total as u64);
    bar.set_style(ProgressStyle::with_template("  {bar:40.cyan/blue} {pos}/{len} calls  {per_sec}  {msg}")?);
    let progress = Progress::new();
    let drive = calls::drive(client.clone(), requests.clone(), progress.clone(), options.connections, options.window);
    let load = tokio::spawn(drive);

    let kills = options.kills.unwrap_or(if options.workers.is_some() { 3 } else { 1 });
    let (mut killed_at, mut pause) = (Vec::new(), Duration::ZERO);
    while progress.answered.load(Ordering::Relaxed) < total && !load.is_finished() {
        ensure!(progress.started.elapsed() < CALLS_MAX, "the calls did not end within five minutes");
        tokio::time::sleep(Duration::from_millis(5)).await;
        let answered = progress.answered.load(Ordering::Relaxed);
        bar.set_position(answered as u64);
        if killed_at.len() < kills && answered >= total * (killed_at.len() + 1) / (kills + 1) {
            let in_flight = progress.in_flight.load(Ordering::Relaxed);
            bar.println(format!("  ✗ kill -9 after {answered} answers, with {in_flight} calls in flight"));
            let killed = Instant::now();
            killed_at.push(progress.started.elapsed());
            let healed = kill(&mut cluster, killed_at.len() - 1).await?;
            pause += killed.elapsed();
            let ms = killed.elapsed().as_secs_f64() * 1e3;
            bar.println(format!("  ✓ serves again after {ms:.0} ms: {healed}"));
        }
    }
    let outcomes = load.await??;
    bar.finish_and_clear();
    let elapsed = progress.started.elapsed();
    let tps = total as f64 / elapsed.saturating_sub(pause).as_secs_f64();
    let (p50, p99) = progress.latency();

    println!("{}", progress.timeline(elapsed, &killed_at));
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["", ""]);
    let (connections, pause_ms) = (options.connections, pause.as_secs_f64() * 1e3);
    let in_flight = connections * options.window;
    table.add_row(["calls", &format!("{total} on {connections} connections, {in_flight} in flight")]);
    table.add_row(["throughput", &format!("{tps:.0} transactions/s (the pause of {pause_ms:.0} ms left out)")]);
    table.add_row(["latency", &format!("p50 {p50:.1} ms, p99 {p99:.1} ms (calls that met the kill included)")]);
    for (reason, count) in outcomes.reasons() {
        table.add_row([reason, count.to_string()]);
    }
    println!("{table}");

    proofs.extend(workload.check(&client, &outcomes).await?);
    let again = calls::drive(client, requests, Progress::new(), 2, 256).await?.same(&outcomes);
    proofs.push(Proof {
        claim: format!("asked again under the same idempotency keys, {again} of {total} calls give the same answer"),
        holds: again == total,
    });
    proofs.extend(replays_on_fewer(&mut cluster).await?);
    for proof in &proofs {
        println!("  {} {}", if proof.holds { "✓" } else { "✗" }, proof.claim);
    }
    let holds = proofs.iter().all(|proof| proof.holds);
    cluster.stop().await?;
    println!(
        "{}",
        json!({
            "demo": "journey+travel+cart", "languages": legs.len(), "calls": total, "committed": outcomes.committed(), "aborted": outcomes.aborted(),
            "workers": options.workers, "kills": killed_at.len(), "tps": tps.round(), "p50_ms": p50, "p99_ms": p99,
            "recovery_ms": pause.as_millis() as u64, "consistent": holds,
        })
    );
    ensure!(holds, "a promise was broken: see the lines above");
    Ok(())
}

async fn start(options: &Options, directory: &std::path::Path) -> anyhow::Result<Cluster> {
    let mut worker_flags = vec!["--determinism-check".to_owned(), options.determinism_check.clone()];
    let mut log_flags = Vec::new();
    if options.workers.is_some() {
        log_flags.clone_from(&worker_flags);
        worker_flags.extend(["--threads", "2"].map(str::to_owned));
    }
    let options = harness::Options {
        directory: Some(directory.to_owned()),
        workers: options.workers.unwrap_or(0) as usize,
        cache_dir: Some(options.cache_dir.clone()),
        worker_flags,
        log_flags,
        log_level: std::env::var("STYX_LOG").unwrap_or_else(|_| "error".into()),
        ..harness::Options::new(&options.styx)
    };
    Cluster::start(options).await
}

/// The script of kills. One server: it comes back. A cluster, in turn: a worker that comes back at once, the
/// coordinator, a worker that stays away for a while. Returns how it went on.
async fn kill(cluster: &mut Cluster, number: usize) -> anyhow::Result<String> {
    let all = cluster.workers();
    if all == 0 {
        cluster.kill(&[Role::Server]).await?;
        cluster.start_again(&[Role::Server]).await?;
        let replayed = cluster.process(Role::Server).number("epochs_replayed");
        return Ok(format!("the server came back: {replayed} epochs replayed"));
    }
    let (generation, worker) = (cluster.generation().await?, number % all);
    let (role, healed) = match number % 3 {
        1 => (Role::Coordinator, "the coordinator came back".to_owned()),
        0 => (Role::Worker(worker), format!("worker {} came back", worker + 1)),
        _ if all == 1 => (Role::Worker(worker), "the only worker came back".to_owned()),
        _ => (Role::Worker(worker), format!("the others took over from worker {}", worker + 1)),
    };
    cluster.kill(&[role]).await?;
    if number % 3 == 2 && all > 1 {
        cluster.settle_with(all - 1, generation).await?;
        // It joins while the others serve.
        cluster.start_again(&[role]).await?;
    } else {
        cluster.start_again(&[role]).await?;
        cluster.settle_with(all, generation).await?;
    }
    Ok(healed)
}

/// The whole log again, on one worker fewer: the state must be the same.
async fn replays_on_fewer(cluster: &mut Cluster) -> anyhow::Result<Option<Proof>> {
    let all = cluster.workers();
    if all < 2 {
        return Ok(None);
    }
    let before = cluster.position().await?;
    let generation = cluster.generation().await?;
    cluster.kill(&[Role::Worker(all - 1)]).await?;
    let seen = cluster.settle_with(all - 1, generation).await?;
    let after = (seen["epoch"].as_u64().unwrap_or(0), seen["chain"].as_str().unwrap_or_default().to_owned());
    let claim = format!("replayed on {} of {all} workers, epoch {} has the same state hash", all - 1, before.0);
    Ok(Some(Proof { claim, holds: before == after }))
}

fn step(what: &str, detail: String) {
    println!("  ✓ {what}  {detail}");
}
