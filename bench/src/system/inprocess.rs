//! Styx inside this process, below its ingress: protocol, engine and log, without network or JSON
//! around the calls. Guests are components, or host code.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use styx_build::{self, Silent};
use styx_engine::{Compiler, Determinism, EXECUTION_STACK_BYTES, Engine, EngineOptions, Long};
use styx_protocol::control::Control;
use styx_protocol::ids::{OperatorId, RequestId};
use styx_protocol::modes::Modes;
use styx_protocol::transaction::Request;
use styx_server::admin::{Kind, Upload};
use styx_server::components::ComponentStore;
use styx_server::handle::{Answer, Answers, Handle, Waiter};
use styx_server::http::{HttpOptions, Memory};
use styx_server::single::{SingleNode, SingleOptions};
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, MemoryDisk};
use tokio::sync::mpsc;

use super::native::Native;
use super::{Figures, System};
use crate::load::{Answered, Connection, End};
use crate::workload::Call;

#[derive(Clone, Debug)]
pub struct InProcessOptions {
    pub guest: PathBuf,
    /// True if its functions run as host code.
    pub native: bool,
    pub threads: usize,
    /// Most transactions of an epoch.
    pub epoch: usize,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// True if requests are made durable, in files.
    pub durable: bool,
    /// Most requests that may wait.
    pub backlog: usize,
}

/// A worker of this process with the app deployed.
pub struct InProcess {
    /// Taken when it is stopped.
    worker: Option<SingleNode>,
    connections: AtomicU64,
    backlog: usize,
    _directory: tempfile::TempDir,
}

const APP: &str = "bench";

impl InProcess {
    /// Builds the app, starts the worker and deploys.
    pub async fn start(options: InProcessOptions) -> anyhow::Result<InProcess> {
        let backlog = options.backlog;
        let (worker, control, directory) =
            tokio::task::spawn_blocking(move || start(&options)).await.context("starting a worker")??;
        let deployed = worker.handle().control(control).await;
        deployed.map_err(|abort| anyhow!("the app cannot be deployed: {}", abort.message))?;
        Ok(InProcess { worker: Some(worker), connections: AtomicU64::new(1), backlog, _directory: directory })
    }

    fn handle(&self) -> &Handle {
        self.worker.as_ref().expect("it runs until it is stopped").handle()
    }
}

fn start(options: &InProcessOptions) -> anyhow::Result<(SingleNode, Control, tempfile::TempDir)> {
    let directory = tempfile::tempdir()?;
    let within = |name: &str| directory.path().join(name);
    let engine = Engine::new(EngineOptions {
        cache_dir: within("cache"),
        determinism: Determinism::Off,
        executors: options.threads + 1,
        compiler: Compiler::InProcess,
        cluster: None,
        long: Some(Long::default()),
        guest_memory: usize::MAX,
    })?;
    let upload = upload(&engine, &options.guest, directory.path())?;
    let components = ComponentStore::open(within("components"))?;
    upload.store(&components).map_err(|error| anyhow!("{}", error.message))?;
    let log: Box<dyn Log> = if options.durable {
        Box::new(EmbeddedLog::open(&within("log"), EmbeddedOptions::default())?)
    } else {
        Box::new(MemoryDisk::default().open()?)
    };
    let worker_options = SingleOptions {
        threads: options.threads,
        stack_bytes: EXECUTION_STACK_BYTES,
        epoch_size_max: options.epoch,
        backlog_max: options.backlog * 2,
        modes: options.modes,
        engine: engine.engine_hash(),
        ..SingleOptions::default()
    };
    let none = |_, _| {};
    let worker = if options.native {
        SingleNode::start(worker_options, log, || Native, Box::new(|_| Ok(())), &none)?
    } else {
        for component in &upload.deployment.components {
            engine.load(component.digest, &components.path(component.digest))?;
        }
        SingleNode::start(worker_options, log, || engine.executor(), Box::new(|_| Ok(())), &none)?
    };
    Ok((worker, Control::Deploy(upload.deployment), directory))
}

/// Builds the app and checks it as a server does.
fn upload(engine: &Engine, guest: &Path, directory: &Path) -> anyhow::Result<Upload> {
    let bundle = directory.join("bundle.zip");
    styx_build::build(guest, &bundle, &Silent).map_err(|error| anyhow!("{error}"))?;
    let bytes = std::fs::read(bundle)?;
    let checked = Upload::check(engine, &HttpOptions::default(), APP, Kind::Bundle, &bytes);
    checked.map_err(|error| anyhow!("{}: {}", error.code, error.message))
}

impl System for InProcess {
    fn open(&self, results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Connection>>>> {
        async move {
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let (to, answers) = mpsc::unbounded_channel();
            let to = Answers::new(to, Memory::new(usize::MAX).account());
            let connection = Direct {
                handle: self.handle().clone(),
                functions: HashMap::new(),
                capacity: self.backlog,
                next: u128::from(number) << 64,
                to,
                answers,
                taken: Vec::new(),
                results,
            };
            Ok(vec![Box::new(connection) as Box<dyn Connection>])
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>> {
        let stats = self.handle().stats();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let totals = [
            ("epochs", of(&stats.epochs)),
            ("transactions{phase=\"lock_free\"}", of(&stats.committed)),
            ("transactions{phase=\"fallback\"}", of(&stats.fell_back)),
            ("aborted", of(&stats.aborted)),
            ("rescheduled", of(&stats.rescheduled)),
            ("queries", of(&stats.queries)),
            ("fuel", of(&stats.fuel)),
            ("log_records", of(&stats.log_records)),
            ("log_bytes", of(&stats.log_bytes)),
            ("log_syncs", of(&stats.log_syncs)),
            ("log_sync_seconds", of(&stats.log_sync_us) / 1e6),
        ];
        let mut totals: BTreeMap<String, f64> = totals.map(|(name, total)| (name.to_owned(), total)).into();
        let phases = stats.phases.all().into_iter();
        totals.extend(phases.map(|(name, spent)| (format!("phase_seconds{{phase=\"{name}\"}}"), spent.as_secs_f64())));
        let (_, rss_mb) = super::usage::of_tree(std::process::id());
        let figures = Figures { cpu: super::usage::of_threads("styx-"), rss_mb, totals };
        async move { Ok(figures) }.boxed()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        async move {
            let worker = self.worker.take().expect("it is stopped once");
            tokio::task::spawn_blocking(move || worker.stop()).await.context("stopping the worker")
        }
        .boxed()
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stop();
        }
    }
}

struct Direct {
    handle: Handle,
    functions: HashMap<(&'static str, &'static str), (OperatorId, Arc<str>)>,
    capacity: usize,
    /// Id of the next request.
    next: u128,
    to: Arc<Answers>,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
    taken: Vec<(u64, Answer)>,
    results: bool,
}

const TAKEN_MAX: usize = 1024;

impl Direct {
    fn resolve(&mut self, call: &Call) -> anyhow::Result<(OperatorId, Arc<str>)> {
        if let Some(found) = self.functions.get(&(call.operator, call.function)) {
            return Ok(found.clone());
        }
        let catalog = self.handle.catalog();
        let operator = catalog.find(APP, call.operator).map_err(|abort| anyhow!("{}", abort.message))?;
        let index = operator.function_index(call.function);
        let index = index.with_context(|| format!("{} has no function {}", call.operator, call.function))?;
        let found = (operator.id, operator.function(index).name.clone());
        self.functions.insert((call.operator, call.function), found.clone());
        Ok(found)
    }
}

impl Connection for Direct {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()> {
        let (operator, function) = self.resolve(call)?;
        self.next += 1;
        let request = Request {
            id: RequestId(self.next),
            operator,
            function,
            key: call.key.as_str().into(),
            args: call.arguments.as_bytes().into(),
            retained: false,
            origin: None,
        };
        let waiter = Waiter::Stream { ticket, to: self.to.clone() };
        if call.read_only {
            self.handle.query(Arc::new(request), waiter)
        } else {
            self.handle.submit(Arc::new(request), waiter, false)
        }
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
        if self.answers.poll_recv_many(context, &mut self.taken, TAKEN_MAX).is_pending() {
            return Poll::Pending;
        }
        for (ticket, answer) in self.taken.drain(..) {
            let Answer::Reply(reply) = answer else {
                return Poll::Ready(Err(anyhow!("an answer that is no reply: {answer:?}")));
            };
            let end = match reply.outcome {
                Ok(value) if self.results => End::Done(Bytes::copy_from_slice(&value)),
                Ok(_) => End::Done(Bytes::new()),
                Err(abort) => End::failed(abort.code.as_str(), abort.message.to_string()),
            };
            answers.push(Answered { ticket, end, retries: 0 });
        }
        Poll::Ready(Ok(()))
    }
}
