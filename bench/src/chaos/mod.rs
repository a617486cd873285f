//! Chaos: the real processes under load, killed, paused and started again by a seed, and a look
//! whether every promise was kept. What the simulator cannot have: real disks, sockets, signals,
//! brokers and servers.

mod ask;
mod check;
mod fault;
mod history;
mod inspection;
mod ledger;
mod load;
mod operation;
mod records;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;

use styx_client::Client;
use styx_harness::{self as harness, Cluster};

use ask::{Told, insist};
use fault::{Deck, ms};
use inspection::Inspection;
use ledger::Ledger;
use load::Load;
use operation::Places;
use records::Records;
use report::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogKind {
    /// In the coordinator's directory
    Embedded,
    /// On a Kafka broker of its own, which also takes calls as records
    Kafka,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StoreKind {
    /// In the coordinator's directory
    Dir,
    /// On an S3 server of its own
    S3,
    /// Nowhere: every recovery replays the whole log
    None,
}

#[derive(Debug, clap::Args)]
pub struct Options {
    /// How often something is done to the processes
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Says what is done, and when
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the log is
    #[arg(long, value_enum, default_value = "embedded")]
    log: LogKind,
    /// Where snapshots are
    #[arg(long, value_enum, default_value = "dir")]
    store: StoreKind,
    /// Worker processes
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients over HTTP, each with one call at a time
    #[arg(long, default_value_t = 24)]
    clients: usize,
    /// Rounds between two looks at everything; there is always one at the end
    #[arg(long, default_value_t = 10)]
    check_every: u32,
    /// Time between snapshots
    #[arg(long, default_value = "200ms")]
    snapshot_interval: String,
    /// Partitions migrate, too, while other things happen
    #[arg(long)]
    migrations: bool,
    /// Keep what the processes wrote in this new directory, whatever comes of it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the example apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
    /// Directory of the scripts that start a broker or an S3 server
    #[arg(long, default_value = "scripts/servers")]
    scripts: PathBuf,
}

/// Runs it; an error means that a promise was broken.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let directory = match &options.keep {
        None => tempfile::Builder::new().prefix("styx-chaos-").tempdir()?.keep(),
        Some(path) => {
            std::fs::create_dir(path).with_context(|| format!("{}: --keep wants a new directory", path.display()))?;
            path.canonicalize()?
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut report, started) = (Report::default(), Instant::now());
    let ended = runtime.block_on(torment(options, &directory, &mut report));
    // All processes have ended with it. A last look at what the clients' threads hold is not needed.
    runtime.shutdown_background();
    if let Err(error) = &ended {
        report.findings.other(format!("{error:#}"));
    }
    for line in &report.findings.lines {
        println!("  {line}");
    }
    println!("{}\n{}", report.table(), report.json(options, started.elapsed()));
    if report.findings.anomalies == 0 {
        if options.keep.is_none() {
            std::fs::remove_dir_all(&directory)?;
        }
        return Ok(());
    }
    let (count, first) = (report.findings.anomalies, report.findings.lines.first().cloned().unwrap_or_default());
    bail!("{count} anomalies, the first: {first}; what the processes wrote is in {}", directory.display())
}

async fn torment(options: &Options, directory: &Path, report: &mut Report) -> anyhow::Result<()> {
    let scripts = options.scripts.canonicalize().with_context(|| format!("{}", options.scripts.display()))?;
    let styx = options.styx.canonicalize();
    let styx = styx.with_context(|| format!("{}: build it with `just build`", options.styx.display()))?;
    anyhow::ensure!(options.workers > 0, "a cluster has at least one worker: give --workers 1 or more");
    let words = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let processes = harness::Options {
        directory: Some(directory.to_owned()),
        workers: options.workers,
        log: match options.log {
            LogKind::Embedded => harness::Log::Embedded,
            LogKind::Kafka => harness::Log::Kafka,
        },
        store: match options.store {
            StoreKind::Dir => harness::Store::Directory,
            StoreKind::S3 => harness::Store::S3,
            StoreKind::None => harness::Store::None,
        },
        standby: (options.log, options.store) == (LogKind::Kafka, StoreKind::S3),
        worker_flags: words(&["--determinism-check", "100", "--threads", "2"]),
        log_flags: words(&["--determinism-check", "100", "--snapshot-interval", &options.snapshot_interval]),
        scripts,
        ..harness::Options::new(styx)
    };
    let mut cluster = Cluster::start(processes).await?;
    for app in ["ycsb", "testkit", "deathstar-travel"] {
        cluster.deploy(&options.guests.join(app), None, true).await?;
    }
    // Longer than a gateway holds a request.
    let client = Client::builder(cluster.ingress()).timeout(Duration::from_secs(60)).build()?;
    for call in Places::opening() {
        let what = format!("{call:?}");
        let opened = insist(&client, call, Duration::from_secs(30)).await;
        anyhow::ensure!(opened == Told::Done(json!(null)), "{what} fails: {opened:?}");
    }
    let load = Load::new(client, Ledger::new(options.seed), options.clients);
    let records = match cluster.brokers() {
        None => None,
        Some(brokers) => Some(Records::start(brokers, load.shared.clone())?),
    };
    let mut deck = Deck::new(StdRng::seed_from_u64(options.seed), options.migrations);
    let mut inspection = Inspection::new(StdRng::seed_from_u64(!options.seed));
    let ended = rounds(options, report, &mut cluster, &load, records.as_ref(), &mut deck, &mut inspection).await;
    (report.answers, report.asked_again, report.judged) = (load.answers(), inspection.asked_again, inspection.judged);
    {
        let ledger = load.shared.ledger();
        (report.requests, report.doubtful, report.happened) =
            (ledger.requests(), ledger.doubtful(), inspection.happened);
    }
    report.replaced = cluster.replaced;
    ended?;
    if let Some(records) = records {
        records.stop()?;
    }
    load.stop().await
}

async fn rounds(
    options: &Options,
    report: &mut Report,
    cluster: &mut Cluster,
    load: &Load,
    records: Option<&Records>,
    deck: &mut Deck,
    inspection: &mut Inspection,
) -> anyhow::Result<()> {
    load.ask();
    load.goes_on(3).await?;
    for round in 1..=options.rounds {
        tokio::time::sleep(deck.quiet()).await;
        let fault = deck.draw(cluster);
        load.reset();
        let (started, before) = (Instant::now(), load.answers());
        let done = fault.inflict(cluster).await.with_context(|| format!("round {round}, {}", fault.kind))?;
        // Whoever asks from now on is answered, and in the end all are there again.
        let whole = async {
            load.goes_on(3).await?;
            cluster.settle().await?;
            load.goes_on(2).await
        };
        whole.await.with_context(|| format!("round {round}, {done}"))?;
        cluster.check().await.with_context(|| format!("round {round}, {done}"))?;
        let (stall, took) = (load.stall(), started.elapsed());
        report.round(fault.kind, stall);
        let rate = (load.answers() - before) as f64 / took.as_secs_f64();
        println!(
            "  round {round:>3}  {done:<58} stall {:>7}  whole after {:>7}  {rate:>5.0} answers/s",
            ms(stall),
            ms(took)
        );
        if round % options.check_every == 0 || round == options.rounds {
            load.wait().await?;
            if let Some(records) = records {
                records.answered().await?;
            }
            let looked = Instant::now();
            let line = inspection.inspect(cluster, load, &mut report.findings).await?;
            println!("  looked at everything in {}: {line}", ms(looked.elapsed()));
            if report.findings.anomalies > 0 {
                return Ok(());
            }
            load.ask();
        }
    }
    load.wait().await
}
