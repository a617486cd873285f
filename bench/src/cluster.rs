//! YCSB-T on several worker processes: the load is made inside each, so that protocol, engine and
//! the network between workers are measured, and nothing at the door.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;
use styx_driver::wire::{AdminQuery, Response};
use styx_engine::{Cluster, Compiler, Determinism, Engine, EngineOptions};
use styx_protocol::catalog::Control;
use styx_protocol::replies::Retention;
use styx_server::cluster::coordinator::{CoordinatorNode, CoordinatorNodeOptions, PATIENCE};
use styx_server::cluster::worker::{WorkerNode, WorkerNodeOptions};
use styx_server::components::ComponentStore;
use styx_server::handle::Handle;
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, MemoryDisk};
use styx_transport::{NodeId, Options as NetworkOptions};

use crate::burst::{Numbered, deployment, drive};
use crate::guest;
use crate::plan;
use crate::system::own_cpu;

/// How the benchmark runs.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Source directory of the guest
    #[arg(long, default_value = "guests/ycsb")]
    guest: PathBuf,
    /// Worker processes
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Threads of each
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Accounts, over all workers
    #[arg(long, default_value_t = 10_000)]
    accounts: u64,
    /// Transfers, over all workers
    #[arg(long, default_value_t = 400_000)]
    transactions: usize,
    /// Transfers in flight, over all workers
    #[arg(long, default_value_t = 8_000)]
    window: usize,
    /// Most transactions of an epoch, per worker; two of them have as large epochs as one process
    #[arg(long, default_value_t = 1000)]
    epoch: usize,
    /// Transfers to an account of another worker, in a hundred
    #[arg(long, default_value_t = 0)]
    multi_partition: u32,
    /// The function: `transfer` calls the other account and waits, `transfer_async` does not wait
    #[arg(long, default_value = "transfer_async")]
    function: String,
    /// `memory`, or `embedded` with fsync
    #[arg(long, default_value = "memory")]
    log: String,
    /// Which parts of the protocol are on: aria, reordering, fallback or caching
    #[arg(long, default_value = "caching")]
    modes: String,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One worker process of the benchmark; started by the benchmark itself.
#[derive(Debug, clap::Args)]
pub struct Member {
    /// Where the coordinator is
    #[arg(long)]
    coordinator: String,
    /// Its node id
    #[arg(long)]
    node: u64,
    /// Its directory
    #[arg(long)]
    directory: PathBuf,
    /// Its part of the load, as JSON
    #[arg(long)]
    load: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Load {
    threads: usize,
    accounts: u64,
    transactions: usize,
    window: usize,
    epoch: usize,
    multi_partition: u32,
    modes: String,
    function: String,
    seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Result {
    transactions: usize,
    seconds: f64,
    cpu_seconds: f64,
    p50_ms: f64,
    p99_ms: f64,
    aborted: usize,
    epochs: u64,
    fell_back: u64,
    rescheduled: u64,
}

/// Runs the benchmark and prints one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let guest = guest::load(&options.guest, directory.path(), 1)?;
    let components = ComponentStore::open(directory.path().join("components"))?;
    components.put(&guest.bytes)?;
    let log: Box<dyn Log> = match options.log.as_str() {
        "memory" => Box::new(MemoryDisk::default().open()?),
        _ => Box::new(EmbeddedLog::open(&directory.path().join("log"), EmbeddedOptions::default())?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let coordinator = runtime.block_on(CoordinatorNode::start(
        CoordinatorNodeOptions {
            name: "coordinator".into(),
            network: NetworkOptions { listen: Some(([127, 0, 0, 1], 0).into()), ..NetworkOptions::default() },
            workers: options.workers,
            partitions: Some(64),
            epoch_max_wait: Duration::from_millis(1),
            backlog_max: 100,
            patience: PATIENCE,
            retention: Retention::default(),
            snapshots: None,
            admin: None,
        },
        log,
        guest.engine.clone(),
        components,
    ))?;
    let address = coordinator.address().context("the coordinator listens")?.to_string();
    let load = Load {
        threads: options.threads,
        accounts: options.accounts,
        transactions: options.transactions / options.workers,
        window: options.window / options.workers,
        epoch: options.epoch,
        multi_partition: if options.workers > 1 { options.multi_partition } else { 0 },
        modes: options.modes.clone(),
        function: options.function.clone(),
        seed: options.seed,
    };
    let mut members = Vec::new();
    for worker in 0..options.workers {
        let load = Load { seed: load.seed * 1000 + worker as u64, ..load.clone() };
        members.push(Process::start(&address, worker, directory.path(), &load)?);
    }
    runtime.block_on(coordinator.handle().control(Control::Deploy(deployment(guest.digest))))?;
    for step in ["insert", "transfer"] {
        members.iter_mut().try_for_each(|member| member.say(step))?;
        if step == "insert" {
            for member in &mut members {
                member.hear()?;
            }
        }
    }
    let cpu = own_cpu();
    let results = members.iter_mut().map(|member| Ok(serde_json::from_str(&member.hear()?)?));
    let results: Vec<Result> = results.collect::<anyhow::Result<_>>()?;
    let coordinating = own_cpu() - cpu;
    let total: usize = results.iter().map(|result| result.transactions).sum();
    let seconds = results.iter().map(|result| result.seconds).fold(0.0, f64::max);
    let busy = results.iter().map(|result| result.cpu_seconds).sum::<f64>() + coordinating.as_secs_f64();
    let sum = |of: fn(&Result) -> u64| results.iter().map(of).sum::<u64>();
    let most = |of: fn(&Result) -> f64| results.iter().map(of).fold(0.0, f64::max);
    println!(
        "{}",
        json!({
            "workload": "ycsb-t", "guest": options.guest, "driver": "cluster", "log": options.log, "workers": options.workers,
            "threads": options.threads, "multi_partition": options.multi_partition, "modes": options.modes, "function": options.function,
            "transactions": total, "tps": (total as f64 / seconds).round(),
            "cpu_us_per_transaction": (busy * 1e6 / total as f64 * 100.0).round() / 100.0,
            "coordinator_cpu_us_per_transaction": (coordinating.as_secs_f64() * 1e6 / total as f64 * 100.0).round() / 100.0,
            "p50_ms": most(|result| result.p50_ms), "p99_ms": most(|result| result.p99_ms),
            "aborted": sum(|result| result.aborted as u64), "epochs": results.first().map_or(0, |result| result.epochs),
            "fell_back": sum(|result| result.fell_back), "rescheduled": sum(|result| result.rescheduled),
        })
    );
    drop(members);
    coordinator.stop();
    Ok(())
}

/// A worker process; ends with this value.
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Process {
    fn start(coordinator: &str, worker: usize, directory: &std::path::Path, load: &Load) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["cluster-member", "--coordinator", coordinator, "--node", &(100 + worker).to_string()])
            .arg("--directory")
            .arg(directory.join(format!("worker-{worker}")))
            .args(["--load", &serde_json::to_string(load)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = child.stdin.take().context("piped")?;
        let from = BufReader::new(child.stdout.take().context("piped")?);
        Ok(Process { child, to, from })
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.to, "{line}")?;
        Ok(self.to.flush()?)
    }

    fn hear(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        anyhow::ensure!(self.from.read_line(&mut line)? > 0, "a worker process has ended");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs one worker process of the benchmark.
pub fn run_member(member: &Member) -> anyhow::Result<()> {
    let load: Load = serde_json::from_str(&member.load)?;
    let (_, modes) = plan::modes(&load.modes).map_err(|message| anyhow::anyhow!(message))?;
    let engine = Engine::new(EngineOptions {
        cache_dir: member.directory.join("cache"),
        determinism: Determinism::Off,
        executors: load.threads + 1,
        compiler: Compiler::InProcess,
        cluster: Some(Cluster { suspended: 1024, workers: 16 }),
    })?;
    let components = ComponentStore::open(member.directory.join("components"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let node = runtime.block_on(WorkerNode::start(
        WorkerNodeOptions {
            node: NodeId(member.node),
            name: format!("worker-{}", member.node),
            network: NetworkOptions { listen: Some(([127, 0, 0, 1], 0).into()), ..NetworkOptions::default() },
            coordinators: vec![member.coordinator.clone()],
            threads: load.threads,
            modes,
            epoch_size_max: load.epoch,
            backlog_max: load.window * 2,
            suspended_max: 1024,
        },
        engine,
        components,
    ))?;
    let handle = node.handle().clone();
    let mut lines = std::io::stdin().lock().lines();
    let mut wait = || lines.next().transpose()?.context("the benchmark has ended");

    wait()?;
    let (own, others) = runtime.block_on(accounts(&handle, load.accounts))?;
    let mut numbered = Numbered::after(u128::from(member.node) << 64);
    let (insert, transfer): (Arc<str>, Arc<str>) = ("insert".into(), load.function.as_str().into());
    let inserts = own.iter().map(|key| numbered.request(&insert, key, "[1000000]")).collect();
    drive(&handle, inserts, load.window)?;
    println!("inserted");

    wait()?;
    let mut random = StdRng::seed_from_u64(load.seed);
    let requests: Vec<_> = (0..load.transactions)
        .map(|_| {
            let from = random.random_range(0..own.len());
            let to = match random.random_range(0..100) < load.multi_partition {
                true => &others[random.random_range(0..others.len())],
                false => &own[(from + random.random_range(1..own.len())) % own.len()],
            };
            numbered.request(&transfer, &own[from], &format!("[\"{to}\"]"))
        })
        .collect();
    let before = own_cpu();
    let run = drive(&handle, requests, load.window)?;
    let stats = handle.stats();
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    let result = Result {
        transactions: load.transactions,
        seconds: run.elapsed.as_secs_f64(),
        cpu_seconds: (own_cpu() - before).as_secs_f64(),
        p50_ms: run.latency_us.value_at_quantile(0.5) as f64 / 1e3,
        p99_ms: run.latency_us.value_at_quantile(0.99) as f64 / 1e3,
        aborted: run.aborted,
        epochs: of(&stats.epochs),
        fell_back: of(&stats.fell_back),
        rescheduled: of(&stats.rescheduled),
    };
    println!("{}", serde_json::to_string(&result)?);
    // Others may not be done: stay until the benchmark ends.
    drop(wait());
    node.stop();
    Ok(())
}

/// Accounts of this worker, and of the others, once the app is deployed here.
async fn accounts(handle: &Handle, total: u64) -> anyhow::Result<(Vec<Arc<str>>, Vec<Arc<str>>)> {
    while handle.catalog().version() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let Some(Response::Partitions(partitions)) = handle.read(AdminQuery::Partitions).await else {
        anyhow::bail!("the worker does not say what it holds");
    };
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for account in 0..total {
        let key: Arc<str> = account.to_string().into();
        let Some(Response::Value { partition, .. }) =
            handle.read(AdminQuery::Get { operator: 0, key: key.to_string() }).await
        else {
            anyhow::bail!("the worker does not say where an account belongs");
        };
        match partitions.iter().any(|holding| holding.partition == partition) {
            true => own.push(key),
            false => others.push(key),
        }
    }
    Ok((own, others))
}
