//! Styx as a user runs it: one server process, or a coordinator, workers and a gateway.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::broker::Broker;
use super::http::Connection;
use super::kafka::Records;
use super::usage::of_tree;
use super::websocket::Socket;
use super::{Figures, System};
use crate::load::{Lane, Pool};
use crate::process::{self, Process};

/// How calls get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// Pipelined WebSockets
    Websocket,
    /// Connections that are kept alive, one call at a time on each
    Http,
    /// Records of a Kafka topic, on a broker of its own
    Kafka,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct StyxOptions {
    /// The server's binary.
    pub binary: PathBuf,
    /// The app's source directory.
    pub guest: PathBuf,
    /// Worker processes; one process that is everything if there are none.
    pub workers: usize,
    /// Further flags of whatever executes.
    pub flags: Vec<String>,
    /// Further flags of whatever has the log and takes snapshots.
    pub log_flags: Vec<String>,
    /// Further flags of whatever takes calls.
    pub door_flags: Vec<String>,
    /// How calls get there.
    pub driver: Driver,
    /// Connections.
    pub connections: usize,
    /// Where the scripts are that start other servers.
    pub scripts: PathBuf,
}

/// Running processes with the app deployed.
pub struct Styx {
    /// Stopped in this order; the second is the first worker of a cluster.
    processes: Vec<Process>,
    /// The worker was killed.
    killed: AtomicBool,
    ingress: String,
    admin: String,
    /// Of a cluster: where its gateway and its workers tell of themselves.
    gateway: Option<String>,
    workers: Vec<String>,
    driver: Driver,
    connections: usize,
    /// If calls come as records.
    broker: Option<Broker>,
    _directory: tempfile::TempDir,
}

/// The worker that may be killed, among the processes of a cluster.
const WORKER: usize = 1;

/// The app's name, whatever the directory's is.
const APP: &str = "bench";

impl Styx {
    /// Starts everything and deploys the app.
    pub async fn start(mut options: StyxOptions) -> anyhow::Result<Styx> {
        let directory = tempfile::tempdir()?;
        let broker = match options.driver {
            Driver::Kafka => Some(Broker::start(&options.scripts).await?),
            Driver::Websocket | Driver::Http => None,
        };
        if let Some(broker) = &broker {
            options.door_flags = strings(&["--kafka", &broker.address]);
        }
        let Site { processes, ingress, admin, gateway, workers } = match options.workers {
            0 => single(&options, directory.path()).await?,
            workers => cluster(&options, workers, directory.path()).await?,
        };
        let (binary, guest) = (options.binary.clone(), options.guest.clone());
        let (to_admin, to_ingress) = (admin.clone(), ingress.clone());
        tokio::task::spawn_blocking(move || process::deploy_as(&binary, &to_admin, &to_ingress, &guest, APP)).await??;
        Ok(Styx {
            processes,
            killed: AtomicBool::new(false),
            ingress,
            admin,
            gateway,
            workers,
            driver: options.driver,
            connections: options.connections.max(1),
            broker,
            _directory: directory,
        })
    }

    /// What the system counts; of a cluster what the coordinator counts, how long clients waited at the gateway,
    /// and the mean of what workers say of their phases.
    async fn metrics(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let mut totals = metrics_of(&self.admin).await?;
        if let Some(gateway) = &self.gateway {
            totals.extend(metrics_of(gateway).await?.into_iter().filter(|(name, _)| name.starts_with("request_")));
        }
        if !self.workers.is_empty() {
            totals.retain(|name, _| !name.starts_with(PHASE));
        }
        for worker in &self.workers {
            // It may have been killed.
            let Ok(seen) = metrics_of(worker).await else { continue };
            for (name, seconds) in seen.into_iter().filter(|(name, _)| name.starts_with(PHASE)) {
                *totals.entry(name).or_default() += seconds / self.workers.len() as f64;
            }
        }
        Ok(totals)
    }
}

/// Time that a worker spends in a phase.
const PHASE: &str = "phase_seconds";

async fn metrics_of(admin: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    let text = reqwest::get(format!("http://{admin}/metrics")).await?.error_for_status()?.text().await?;
    Ok(read_metrics(&text))
}

/// Processes and where they are reached.
struct Site {
    processes: Vec<Process>,
    ingress: String,
    admin: String,
    gateway: Option<String>,
    workers: Vec<String>,
}

async fn single(options: &StyxOptions, directory: &Path) -> anyhow::Result<Site> {
    let data = directory.to_string_lossy();
    let own = strings(&["--ingress-addr", FREE, "--admin-addr", FREE, "--data-dir", &data]);
    let arguments = [own, options.flags.clone(), options.log_flags.clone(), options.door_flags.clone()].concat();
    let process = Process::start(&options.binary, &arguments).await?;
    let (ingress, admin) = (process.ready("ingress").to_owned(), process.ready("admin").to_owned());
    Ok(Site { processes: vec![process], ingress, admin, gateway: None, workers: Vec::new() })
}

async fn cluster(options: &StyxOptions, workers: usize, directory: &Path) -> anyhow::Result<Site> {
    let within = |name: &str| directory.join(name).to_string_lossy().into_owned();
    // What one process has compiled, the others need not compile.
    let cache = within("cache");
    let start = async |role: &str, more: Vec<String>| {
        let own = strings(&["--role", role]);
        Process::start(&options.binary, &[own, more].concat()).await
    };
    let data = within("coordinator");
    let own = ["--workers", &workers.to_string(), "--cluster-addr", FREE, "--admin-addr", FREE, "--data-dir", &data];
    let own = [&own[..], &["--cache-dir", &cache]].concat();
    let coordinator = start("coordinator", [strings(&own), options.log_flags.clone()].concat()).await?;
    let address = coordinator.ready("cluster").to_owned();
    let admin = coordinator.ready("admin").to_owned();
    let mut running = Vec::new();
    for number in 0..workers {
        let data = within(&format!("worker-{number}"));
        let own = ["--coordinator", &address, "--data-dir", &data, "--cache-dir", &cache, "--admin-addr", FREE];
        running.push(start("worker", [strings(&own), options.flags.clone()].concat()).await?);
    }
    let admins = running.iter().map(|worker| worker.ready("admin").to_owned()).collect();
    let own = strings(&["--coordinator", &address, "--ingress-addr", FREE, "--admin-addr", FREE]);
    let gateway = start("gateway", [own, options.door_flags.clone()].concat()).await?;
    let ingress = gateway.ready("ingress").to_owned();
    process::serves(&admin, workers).await?;
    let of_gateway = gateway.ready("admin").to_owned();
    running.insert(0, gateway);
    running.push(coordinator);
    Ok(Site { processes: running, ingress, admin, gateway: Some(of_gateway), workers: admins })
}

/// Any port that nobody uses.
const FREE: &str = "127.0.0.1:0";

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Counters of a page of metrics: names without `styx_` and `_total`, with their labels.
fn read_metrics(text: &str) -> BTreeMap<String, f64> {
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        let name = name.strip_prefix("styx_")?;
        let (name, labels) = name.find('{').map_or((name, ""), |at| name.split_at(at));
        let name = name.strip_suffix("_total").unwrap_or(name);
        (!name.ends_with("_bucket")).then_some((format!("{name}{labels}"), value.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

impl System for Styx {
    fn open(&self, results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Lane>>>> {
        async move {
            let mut lanes: Vec<Box<dyn Lane>> = Vec::new();
            match self.driver {
                Driver::Websocket => {
                    for _ in 0..self.connections {
                        lanes.push(Box::new(Socket::open(&self.ingress, APP, results).await?));
                    }
                }
                Driver::Http => {
                    let mut connections = Vec::new();
                    for _ in 0..self.connections {
                        connections.push(Connection::open(&self.ingress, APP, results).await?);
                    }
                    lanes.push(Box::new(Pool::new(connections)));
                }
                Driver::Kafka => {
                    let brokers = self.broker.as_ref().context("a broker runs")?.address.clone();
                    let opened = tokio::task::spawn_blocking(move || Records::open(&brokers, APP, results));
                    lanes.push(Box::new(opened.await??));
                }
            }
            Ok(lanes)
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>> {
        async move {
            let totals = self.metrics().await?;
            let mut figures = Figures { cpu: Some(Duration::ZERO), rss_mb: 0, totals };
            let mut processes = self.processes.iter().map(Process::id).collect::<anyhow::Result<Vec<u32>>>()?;
            processes.extend(self.broker.as_ref().and_then(Broker::id));
            for process in processes {
                let (cpu, rss_mb) = of_tree(process);
                figures.cpu = figures.cpu.map(|sum| sum + cpu);
                figures.rss_mb += rss_mb;
            }
            Ok(figures)
        }
        .boxed()
    }

    fn disturb(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        async move {
            let worker = self.processes.get(WORKER).context("only a cluster has a worker that may be killed")?;
            self.killed.store(true, Ordering::Relaxed);
            // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
            unsafe { libc::kill(worker.id()? as libc::pid_t, libc::SIGKILL) };
            Ok(())
        }
        .boxed()
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        async move {
            let killed = self.killed.load(Ordering::Relaxed);
            for (at, mut process) in self.processes.into_iter().enumerate() {
                if killed && at == WORKER {
                    process.kill().await?;
                    continue;
                }
                process.stop().await.context("a server process")?;
            }
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let text = "# HELP styx_epochs Epochs ended.\n# TYPE styx_epochs counter\nstyx_epochs_total 12\n\
                    styx_transactions_total{phase=\"fallback\"} 3\n\
                    styx_request_duration_seconds_sum{outcome=\"committed\"} 0.25\n\
                    styx_request_duration_seconds_bucket{le=\"0.1\",outcome=\"committed\"} 7\n\
                    process_cpu_seconds_total 1.5\n# EOF\n";
        let expected = [
            ("epochs", 12.0),
            ("request_duration_seconds_sum{outcome=\"committed\"}", 0.25),
            ("transactions{phase=\"fallback\"}", 3.0),
        ];
        let expected: BTreeMap<String, f64> = expected.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(read_metrics(text), expected);
    }
}
