//! The main job, end to end: two apps in two languages, a real server that is killed in the
//! middle, clients that notice nothing but a pause, and a proof that nothing is lost or doubled.

mod clients;
mod proof;
mod workload;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use clients::{Address, Progress};
use workload::Workload;

use crate::server::ServerProcess;

/// How the demonstration runs.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the example apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
    /// Calls to make
    #[arg(long, default_value_t = 20_000)]
    calls: usize,
    /// How often to kill the server meanwhile
    #[arg(long, default_value_t = 1)]
    kills: usize,
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

/// Runs the demonstration; an error means that a promise was broken.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(demonstrate(options))
}

async fn demonstrate(options: &Options) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    step("starting the server", directory.path().display().to_string());
    let flags = ["--determinism-check".to_string(), options.determinism_check.clone()];
    let mut server = ServerProcess::start(&options.styx, directory.path(), None, &flags).await?;
    for app in ["travel", "cart"] {
        let started = Instant::now();
        server.deploy(&options.guests.join(app)).with_context(|| format!("deploying {app}"))?;
        step(&format!("deployed {app}"), format!("{:.1} s", started.elapsed().as_secs_f64()));
    }

    let workload = Workload::generate(options.calls, options.seed);
    let address = Address::new(server.ingress());
    clients::setup(server.ingress(), &workload).await.context("creating hotels, flights, items and users")?;
    step(
        "created",
        format!(
            "{} hotels, {} flights, {} items (Rust), {} users",
            workload.hotels, workload.flights, workload.items, workload.users
        ),
    );

    let bar = ProgressBar::new(workload.calls.len() as u64);
    bar.set_style(ProgressStyle::with_template("  {bar:40.cyan/blue} {pos}/{len} calls  {per_sec}  {msg}")?);
    let progress = Progress::new();
    let load = tokio::spawn(clients::drive(
        workload.calls.clone(),
        address.clone(),
        progress.clone(),
        options.connections,
        options.window,
    ));

    let mut recoveries = Vec::new();
    let started = Instant::now();
    while progress.answered.load(Ordering::Relaxed) < workload.calls.len() {
        anyhow::ensure!(started.elapsed() < Duration::from_secs(300), "the calls did not end within five minutes");
        if load.is_finished() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        let answered = progress.answered.load(Ordering::Relaxed);
        bar.set_position(answered as u64);
        let next_kill = workload.calls.len() * (recoveries.len() + 1) / (options.kills + 1);
        if recoveries.len() < options.kills && answered >= next_kill {
            let killed = Instant::now();
            address.down();
            server.kill().await?;
            bar.println(format!(
                "  ✗ kill -9 after {answered} answers, with {} calls in flight",
                progress.in_flight.load(Ordering::Relaxed)
            ));
            server = ServerProcess::start(&options.styx, directory.path(), Some(&server), &flags).await?;
            address.up(server.ingress());
            recoveries.push((killed.duration_since(progress.started), killed.elapsed(), server.epochs_replayed()));
            bar.println(format!(
                "  ✓ recovered in {:.0} ms: {} epochs replayed",
                killed.elapsed().as_secs_f64() * 1e3,
                server.epochs_replayed()
            ));
        }
    }
    let outcomes = load.await??;
    bar.finish_and_clear();
    let elapsed = progress.started.elapsed();
    let pause: Duration = recoveries.iter().map(|(_, pause, _)| *pause).sum();
    let serving = elapsed.saturating_sub(pause);

    println!("{}", progress.timeline(elapsed, &recoveries));
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["", ""]);
    let tps = workload.calls.len() as f64 / serving.as_secs_f64();
    let (p50, p99) = progress.latency();
    table.add_row([
        "calls",
        &format!(
            "{} on {} connections, {} in flight",
            workload.calls.len(),
            options.connections,
            options.connections * options.window
        ),
    ]);
    table.add_row([
        "throughput",
        &format!("{tps:.0} transactions/s (the pause of {:.0} ms left out)", pause.as_secs_f64() * 1e3),
    ]);
    table.add_row(["latency", &format!("p50 {:.1} ms, p99 {:.1} ms (calls that met the kill included)", p50, p99)]);
    for (reason, count) in outcomes.reasons() {
        table.add_row([reason, count.to_string()]);
    }
    println!("{table}");

    let proofs = proof::check(server.ingress(), &workload, &outcomes).await?;
    let repeated = clients::repeat(server.ingress(), &workload, &outcomes).await?;
    for proof in proofs.iter().chain(std::iter::once(&repeated)) {
        println!("  {} {}", if proof.holds { "✓" } else { "✗" }, proof.claim);
    }
    let holds = proofs.iter().chain(std::iter::once(&repeated)).all(|proof| proof.holds);
    server.stop().await?;
    println!(
        "{}",
        json!({
            "demo": "travel+cart", "calls": workload.calls.len(), "committed": outcomes.committed(), "aborted": outcomes.aborted(),
            "kills": recoveries.len(), "tps": tps.round(), "p50_ms": p50, "p99_ms": p99, "recovery_ms": pause.as_millis() as u64, "consistent": holds,
        })
    );
    anyhow::ensure!(holds, "a promise was broken: see the lines above");
    Ok(())
}

fn step(what: &str, detail: String) {
    println!("  ✓ {what}  {detail}");
}
