//! The main job, end to end: two apps in two languages, a real server (or a cluster of them) that
//! is killed in the middle, clients that notice nothing but a pause, and a proof that nothing is lost or doubled.

mod clients;
mod proof;
mod site;
mod workload;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use clients::{Address, Progress};
use site::{Plan, Site};
use workload::Workload;

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
    /// Run a cluster of so many worker processes, with a coordinator and a gateway, instead of one server
    #[arg(long)]
    workers: Option<usize>,
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

/// Runs the demonstration; an error means that a promise was broken.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(demonstrate(options))
}

async fn demonstrate(options: &Options) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let what = match options.workers {
        None => "starting the server".to_owned(),
        Some(workers) => format!("starting a coordinator, a gateway and {workers} workers"),
    };
    step(&what, directory.path().display().to_string());
    let plan = Plan {
        styx: &options.styx,
        directory: directory.path(),
        workers: options.workers,
        determinism_check: &options.determinism_check,
    };
    let mut site = Site::start(&plan).await?;
    let kills = options.kills.unwrap_or(site.kills());
    for app in ["travel", "cart"] {
        let started = Instant::now();
        site.deploy(&options.guests.join(app)).with_context(|| format!("deploying {app}"))?;
        step(&format!("deployed {app}"), format!("{:.1} s", started.elapsed().as_secs_f64()));
    }

    let workload = Workload::generate(options.calls, options.seed);
    let address = Address::new(site.ingress());
    clients::setup(site.ingress(), &workload).await.context("creating hotels, flights, items and users")?;
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
        let next_kill = workload.calls.len() * (recoveries.len() + 1) / (kills + 1);
        if recoveries.len() < kills && answered >= next_kill {
            let killed = Instant::now();
            if site.goes_down() {
                address.down();
            }
            bar.println(format!(
                "  ✗ kill -9 after {answered} answers, with {} calls in flight",
                progress.in_flight.load(Ordering::Relaxed)
            ));
            let healed = site.kill(recoveries.len()).await?;
            address.up(site.ingress());
            recoveries.push((killed.duration_since(progress.started), killed.elapsed()));
            bar.println(format!(
                "  ✓ serves again after {:.0} ms: {}",
                killed.elapsed().as_secs_f64() * 1e3,
                healed.what
            ));
        }
    }
    let outcomes = load.await??;
    bar.finish_and_clear();
    let elapsed = progress.started.elapsed();
    let pause: Duration = recoveries.iter().map(|(_, pause)| *pause).sum();
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

    let mut proofs = proof::check(site.ingress(), &workload, &outcomes).await?;
    proofs.push(clients::repeat(site.ingress(), &workload, &outcomes).await?);
    proofs.extend(site.proofs().await?);
    for proof in &proofs {
        println!("  {} {}", if proof.holds { "✓" } else { "✗" }, proof.claim);
    }
    let holds = proofs.iter().all(|proof| proof.holds);
    site.stop().await?;
    println!(
        "{}",
        json!({
            "demo": "travel+cart", "calls": workload.calls.len(), "committed": outcomes.committed(), "aborted": outcomes.aborted(),
            "workers": options.workers, "kills": recoveries.len(), "tps": tps.round(), "p50_ms": p50, "p99_ms": p99, "recovery_ms": pause.as_millis() as u64, "consistent": holds,
        })
    );
    anyhow::ensure!(holds, "a promise was broken: see the lines above");
    Ok(())
}

fn step(what: &str, detail: String) {
    println!("  ✓ {what}  {detail}");
}
