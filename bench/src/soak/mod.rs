//! Soak: the real processes under a steady load of every kind, sampled once a second, for minutes or hours. Whatever
//! they hold must stay as much as it is: memory, descriptors, threads, files.

mod load;
mod report;
mod sample;
mod trend;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use styx_harness::{self as harness, Cluster};

use crate::progress::Progress;
use load::Load;
use report::{Report, Run};
use sample::{Figure, take};
use trend::{SAMPLES_MIN, Tolerance};

/// No more of a run is warm-up.
const WARM_UP_MAX: Duration = Duration::from_secs(180);

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Worker processes of a cluster; 0 for one server that is everything
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// How many times as much as otherwise everything may grow: a short run sees what is filled once
    #[arg(long, default_value_t = 1.0)]
    tolerance: f64,
    /// Seconds between deployments
    #[arg(long, default_value_t = 5.0)]
    deployments: f64,
    /// Further flags for the server, or what has the log in a cluster
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    server: Vec<String>,
    /// Where soak.json and soak.html go
    #[arg(short, long, default_value = "target/soak")]
    output: PathBuf,
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the example apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
}

/// Runs it; an error means that something grows, or that a call failed.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(soak(options))
}

async fn soak(options: &Options) -> anyhow::Result<()> {
    ensure!(options.minutes * 60.0 >= 2.0 * SAMPLES_MIN as f64, "--minutes 0.3 or more: fewer samples say nothing");
    ensure!(
        options.tolerance > 0.0 && options.deployments > 0.0,
        "--tolerance and --deployments are more than nothing"
    );
    let progress = Progress::new("soak");
    progress.stage("starting");
    let styx = options.styx.canonicalize();
    let styx = styx.with_context(|| format!("{}: build it with `just build`", options.styx.display()))?;
    let place = tempfile::Builder::new().prefix("styx-soak-").tempdir()?;
    // What is kept for a while is kept for seconds here, so that it is full when the warm-up is over. A snapshot merges the
    // deltas of few partitions: with many, it takes many until there are no more of them than merged ones.
    let kept =
        [["--snapshot-interval", "2s"], ["--snapshot-grace", "5s"], ["--reply-max", "2000"], ["--partitions", "64"]];
    let kept = kept.concat().into_iter().map(str::to_owned);
    let processes = harness::Options {
        directory: Some(place.path().to_owned()),
        workers: options.workers,
        log_flags: kept.chain(options.server.iter().cloned()).collect(),
        log_level: std::env::var("STYX_LOG").unwrap_or_else(|_| "warn".into()),
        ..harness::Options::new(styx)
    };
    let mut cluster = Cluster::start(processes).await?;
    let app = bundle(&options.guests.join("testkit")).await?;
    let client = styx_client::Client::builder(cluster.ingress()).admin_url(cluster.admin()).build()?;
    client.deploy(load::APP, app.clone()).await?;
    let deployments = Duration::from_secs_f64(options.deployments);
    let mut load = Load::start(cluster.ingress(), cluster.admin(), app, deployments)?;
    let (time, begun) = (Duration::from_secs_f64(options.minutes * 60.0), Instant::now());
    let warm_up = (time / 3).min(WARM_UP_MAX);
    let mut report = Report::default();
    progress.stage("soaking");
    let watched = watch(&mut cluster, &mut load, begun, time, &mut report, &progress).await;
    let (seconds, calls, interrupted) = (begun.elapsed().as_secs_f64(), load.calls(), load.interrupted());
    let watched = watched.and_then(|()| {
        ensure!(interrupted * 100 <= calls, "nobody knows what became of {interrupted} of {calls} calls");
        Ok(())
    });
    let ended = match watched {
        Ok(()) => load.stop().await,
        failed => failed,
    };
    // Nobody stops well what has failed.
    let ended = match ended {
        Ok(()) => cluster.stop().await,
        failed => failed,
    };
    progress.stage("done");
    let mut growing = report.judge(warm_up.as_secs_f64(), options.tolerance);
    let failure = ended.err().map(|error| format!("{error:#}"));
    println!("{}", report.table());
    let run = Run { workers: options.workers, seconds, warm_up: warm_up.as_secs_f64(), calls, failure };
    let page = report.write(&run, &options.output)?;
    println!("  {calls} calls in {seconds:.0} s, {interrupted} interrupted; {}", page.display());
    growing.splice(0..0, run.failure);
    for line in &growing {
        println!("  {line}");
    }
    match growing.first() {
        None => Ok(()),
        Some(first) => bail!("SOAK: {} wrong, the first: {first}", growing.len()),
    }
}

/// Samples once a second until the time is over, or something fails.
async fn watch(
    cluster: &mut Cluster,
    load: &mut Load,
    begun: Instant,
    time: Duration,
    report: &mut Report,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (mut ticks, mut before) = (tokio::time::interval(Duration::from_secs(1)), 0);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while begun.elapsed() < time {
        ticks.tick().await;
        cluster.check().await?;
        load.check().await?;
        let second = begun.elapsed().as_secs_f64();
        for figure in take(cluster)? {
            report.add(second, figure);
        }
        if let Some(value) = load.p99_ms() {
            let tolerance = Tolerance { absolute: 100.0, share: 1.0 };
            report.add(second, Figure { name: "p99".into(), unit: "ms", tolerance, value });
        }
        let calls = load.calls();
        progress.rate((calls - before) as f64);
        before = calls;
    }
    Ok(())
}

/// The bundle of an app's sources.
async fn bundle(source: &Path) -> anyhow::Result<Vec<u8>> {
    let source = source.to_owned();
    let build = move || {
        let directory = tempfile::tempdir()?;
        let bundle = directory.path().join("bundle.zip");
        styx_build::build(&source, &bundle, &styx_build::Silent).map_err(|error| anyhow::anyhow!("{error}"))?;
        anyhow::Ok(std::fs::read(&bundle)?)
    };
    tokio::task::spawn_blocking(build).await?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A short run of the server beside this test, which leaks something.
    fn soaked(leak: &str) -> anyhow::Result<()> {
        let place = tempfile::tempdir()?;
        let beside =
            std::env::current_exe()?.ancestors().nth(2).context("the tests are in a directory of it")?.join("styx");
        ensure!(beside.is_file(), "{}: build it with `cargo test`, of all packages", beside.display());
        let styx = place.path().join("styx");
        std::fs::write(&styx, format!("#!/bin/sh\nSTYX_TEST_LEAK={leak} exec {} \"$@\"\n", beside.display()))?;
        std::fs::set_permissions(&styx, std::fs::Permissions::from_mode(0o755))?;
        run(&Options {
            minutes: 0.3,
            workers: 0,
            tolerance: 1.0,
            deployments: 5.0,
            server: Vec::new(),
            output: place.path().to_owned(),
            styx,
            guests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests"),
        })
    }

    #[test]
    fn descriptors_that_leak_are_found() {
        let told = soaked("descriptors").expect_err("they leak").to_string();
        assert!(told.contains("descriptors, server grows"), "{told}");
    }

    #[test]
    fn memory_that_leaks_is_found() {
        let told = soaked("memory").expect_err("it leaks").to_string();
        assert!(told.contains("memory, server grows"), "{told}");
    }
}
