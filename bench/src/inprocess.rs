//! YCSB-T inside one process: protocol, engine and log, without network or JSON at the door.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use styx_node::worker::{Answer, Handle, Waiter, Worker, WorkerOptions};
use styx_protocol::catalog::{Component, Control, Deployment, Function, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::{OperatorId, RequestId, Timestamp};
use styx_protocol::modes::Modes;
use styx_protocol::transaction::Request;
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, MemoryDisk};
use tokio::sync::mpsc::unbounded_channel;

use crate::guest;

/// How the benchmark runs.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Source directory of the guest
    #[arg(long, default_value = "guests/ycsb")]
    guest: PathBuf,
    /// Accounts
    #[arg(long, default_value_t = 10_000)]
    accounts: u64,
    /// Transfers
    #[arg(long, default_value_t = 600_000)]
    transactions: usize,
    /// Transfers in flight
    #[arg(long, default_value_t = 8_000)]
    window: usize,
    /// Threads that execute
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Most transactions of an epoch
    #[arg(long, default_value_t = 2000)]
    epoch: usize,
    /// Which parts of the protocol are on: aria, reordering, fallback or caching
    #[arg(long, default_value = "caching", value_parser = modes)]
    modes: Modes,
    /// `memory`, or `embedded` with fsync
    #[arg(long, default_value = "memory")]
    log: String,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A step of the ladder from Aria to everything.
pub(crate) fn modes(name: &str) -> Result<Modes, String> {
    let found = Modes::LADDER.iter().find(|(known, _)| *known == name);
    found.map(|(_, modes)| *modes).ok_or_else(|| "it can be aria, reordering, fallback or caching".into())
}

/// Runs the benchmark and prints one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let guest = guest::load(&options.guest, directory.path(), options.threads + 1)?;
    let log: Box<dyn Log> = match options.log.as_str() {
        "memory" => Box::new(MemoryDisk::default().open()?),
        _ => Box::new(EmbeddedLog::open(&directory.path().join("log"), EmbeddedOptions::default())?),
    };
    let worker_options = WorkerOptions {
        threads: options.threads,
        stack_bytes: styx_engine::EXECUTION_STACK_BYTES,
        epoch_size_max: options.epoch,
        backlog_max: options.window * 2,
        modes: options.modes,
        engine: guest.engine.engine_hash(),
        ..WorkerOptions::default()
    };
    let engine = guest.engine.clone();
    let worker = Worker::start(worker_options, log, || engine.executor(), Box::new(|_| Ok(())), &|_, _| {})?;
    let handle = worker.handle().clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(handle.control(Control::Deploy(deployment(&guest))))?;

    let insert: Arc<str> = "insert".into();
    let transfer: Arc<str> = "transfer".into();
    let accounts: Vec<Arc<str>> = (0..options.accounts).map(|at| Arc::from(at.to_string())).collect();
    let mut numbered = Numbered::after(0);
    let inserts: Vec<_> = accounts.iter().map(|key| numbered.request(&insert, key, "[1000000]")).collect();
    drive(&handle, inserts, options.window)?;

    let mut random = StdRng::seed_from_u64(options.seed);
    let requests: Vec<_> = (0..options.transactions)
        .map(|_| {
            let from = random.random_range(0..options.accounts);
            let to = (from + random.random_range(1..options.accounts)) % options.accounts;
            numbered.request(&transfer, &accounts[from as usize], &format!("[\"{to}\"]"))
        })
        .collect();
    let before = cpu();
    let run = drive(&handle, requests, options.window)?;
    let cpu = cpu() - before;
    let stats = handle.stats();
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    println!(
        "{}",
        json!({
            "workload": "ycsb-t", "guest": options.guest, "driver": "in-process", "log": options.log, "threads": options.threads,
            "transactions": options.transactions, "tps": (options.transactions as f64 / run.elapsed.as_secs_f64()).round(),
            "cpu_us_per_transaction": (cpu.as_secs_f64() * 1e6 / options.transactions as f64 * 100.0).round() / 100.0,
            "p50_ms": run.latency_us.value_at_quantile(0.5) as f64 / 1e3, "p99_ms": run.latency_us.value_at_quantile(0.99) as f64 / 1e3,
            "aborted": run.aborted, "epochs": load(&stats.epochs), "fell_back": load(&stats.fell_back), "rescheduled": load(&stats.rescheduled),
            "log_syncs": load(&stats.log_syncs), "log_bytes": load(&stats.log_bytes),
        })
    );
    worker.stop();
    Ok(())
}

/// What a run came to.
pub(crate) struct Run {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of each request, µs.
    pub latency_us: Histogram<u64>,
    /// Those that ended without effect.
    pub aborted: usize,
}

/// Makes requests, each with an id of its own.
pub(crate) struct Numbered(u128);

impl Numbered {
    /// Ids follow this one.
    pub(crate) fn after(last: u128) -> Self {
        Numbered(last)
    }

    /// A request to an account.
    pub(crate) fn request(&mut self, function: &Arc<str>, key: &Arc<str>, args: &str) -> Arc<Request> {
        self.0 += 1;
        Arc::new(Request {
            id: RequestId(self.0),
            operator: OperatorId(0),
            function: function.clone(),
            key: key.clone(),
            args: args.as_bytes().into(),
            retained: false,
        })
    }
}

/// Submits all requests, a bounded number in flight, and waits for all answers.
///
/// # Errors
/// Not all are answered: the worker has dropped some, since it is gone or its generation is over.
pub(crate) fn drive(handle: &Handle, requests: Vec<Arc<Request>>, window: usize) -> anyhow::Result<Run> {
    let dropped = "the worker has dropped requests: it is gone, or its generation is over";
    // While answers are waited for, only what is under way can send: if all of that is dropped, the
    // channel closes.
    let (to, mut answers) = unbounded_channel();
    let (mut weak, mut to) = (to.downgrade(), Some(to));
    let started = Instant::now();
    let total = requests.len();
    let mut sent = Vec::with_capacity(total);
    let mut latency_us = Histogram::new_with_bounds(1, 60_000_000, 3)?;
    let (mut answered, mut aborted) = (0, 0);
    let mut take = |(ticket, answer): (u64, Answer), sent: &Vec<Instant>| {
        latency_us.saturating_record(sent[ticket as usize].elapsed().as_micros() as u64);
        let Answer::Reply(reply) = answer else { anyhow::bail!("an answer that is no reply") };
        aborted += usize::from(reply.outcome.is_err());
        anyhow::Ok(())
    };
    for (ticket, request) in requests.into_iter().enumerate() {
        while ticket - answered >= window {
            to = None;
            take(answers.blocking_recv().context(dropped)?, &sent)?;
            answered += 1;
        }
        let sender = match to.take().or_else(|| weak.upgrade()) {
            Some(sender) => sender,
            None => {
                // Nothing is under way.
                while let Ok(answer) = answers.try_recv() {
                    take(answer, &sent)?;
                    answered += 1;
                }
                let (sender, receiver) = unbounded_channel();
                (weak, answers) = (sender.downgrade(), receiver);
                sender
            }
        };
        sent.push(Instant::now());
        handle.submit(request, Waiter::Stream { ticket: ticket as u64, to: sender.clone() }, false);
        to = Some(sender);
    }
    drop(to);
    while answered < total {
        take(answers.blocking_recv().context(dropped)?, &sent)?;
        answered += 1;
    }
    Ok(Run { elapsed: started.elapsed(), latency_us, aborted })
}

pub(crate) fn deployment(guest: &guest::Guest) -> Deployment {
    let function = |name: &str, read_only| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only,
        consistency: Default::default(),
        doc: String::new(),
    };
    Deployment {
        id: "dp_bench".into(),
        app: "bench".into(),
        created: Timestamp(0),
        components: vec![Component { name: "ycsb".into(), digest: guest.digest, size: 0, sdk: String::new() }],
        operators: vec![OperatorSpec {
            name: "account".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            functions: vec![
                function("insert", false),
                function("transfer", false),
                function("transfer_async", false),
                function("credit", false),
                function("update", false),
                function("read", true),
            ],
        }],
        limits: Limits::default(),
    }
}

/// CPU time of this process.
pub(crate) fn cpu() -> Duration {
    // SAFETY: getrusage fills the structure that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}
