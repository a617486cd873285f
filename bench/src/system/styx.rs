//! Styx as a user runs it: one server process, or a coordinator, workers and a gateway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use styx_client::Method;
use styx_harness::{Cluster, Options, Role};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::http::{Exchange, HttpConnection};
use super::kafka::Records;
use super::migration::migrate;
use super::usage::of_tree;
use super::viewers::Viewers;
use super::websocket::Socket;
use super::{Disturbance, Figures, Goal, Migrated, Mode, System};
use crate::load::{Connection, Pool};

/// How calls get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
pub enum Driver {
    /// Pipelined WebSockets
    Websocket,
    /// Connections that are kept alive, one call at a time on each
    Http,
    /// Records of a Kafka topic, on a broker of its own
    Kafka,
}

#[derive(Clone, Debug)]
pub struct StyxOptions {
    pub processes: Options,
    pub guest: PathBuf,
    pub driver: Driver,
    pub connections: usize,
    /// True if calls have idempotency keys: then each has an answer, whatever happens to workers.
    pub keyed: bool,
    /// True if records are sent and fetched one by one, as whoever waits for each would; otherwise in batches.
    pub prompt: bool,
    /// People who look at the console meanwhile.
    pub viewers: usize,
}

/// Running processes with the app deployed.
pub struct Styx {
    cluster: Mutex<Cluster>,
    client: styx_client::Client,
    ingress: String,
    brokers: Option<String>,
    driver: Driver,
    connections: usize,
    keyed: bool,
    prompt: bool,
    viewers: Option<Viewers>,
    migrations: Mutex<Vec<JoinHandle<anyhow::Result<Migrated>>>>,
}

/// The app's name, whatever the directory's is.
const APP: &str = "bench";

impl Styx {
    /// Starts everything and deploys the app.
    pub async fn start(options: StyxOptions) -> anyhow::Result<Styx> {
        let StyxOptions { processes, guest, driver, connections, keyed, prompt, viewers } = options;
        let cluster = Cluster::start(processes).await?;
        cluster.deploy(&guest, Some(APP), false).await?;
        let (ingress, brokers) = (cluster.ingress().to_owned(), cluster.brokers().map(str::to_owned));
        let client = cluster.client().clone();
        let viewers = (viewers > 0).then(|| Viewers::begin(viewers, &client));
        Ok(Styx {
            viewers,
            cluster: Mutex::new(cluster),
            client,
            ingress,
            brokers,
            driver,
            connections: connections.max(1),
            keyed,
            prompt,
            migrations: Mutex::default(),
        })
    }
}

/// Time that a worker spends in a phase.
const PHASE: &str = "phase_seconds";

/// Reads the counters: of a cluster the coordinator's, how long clients waited at the gateway,
/// and the mean of what workers say of their phases.
async fn metrics(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut totals = metrics_of(cluster, cluster.admin()).await?;
    let workers = cluster.workers();
    if workers == 0 {
        return Ok(totals);
    }
    let gateway = metrics_of(cluster, cluster.process(Role::Gateway).text("admin")).await?;
    totals.extend(gateway.into_iter().filter(|(name, _)| name.starts_with("request_")));
    totals.retain(|name, _| !name.starts_with(PHASE));
    for number in 0..workers {
        // It may have been killed.
        let Ok(seen) = metrics_of(cluster, cluster.process(Role::Worker(number)).text("admin")).await else { continue };
        for (name, seconds) in seen.into_iter().filter(|(name, _)| name.starts_with(PHASE)) {
            *totals.entry(name).or_default() += seconds / workers as f64;
        }
    }
    Ok(totals)
}

async fn metrics_of(cluster: &Cluster, admin: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    let client = cluster.client_of(admin)?;
    let response = client.admin_request(Method::GET, "/metrics").send().await?;
    Ok(read_metrics(&response.error_for_status()?.text().await?))
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
    fn snapshots(&self) -> BoxFuture<'_, anyhow::Result<Vec<SystemTime>>> {
        async move {
            // Nobody is there to ask while a coordinator is away.
            let Ok(known) = self.client.admin("/v1/snapshots").await else { return Ok(Vec::new()) };
            let created = |one: &Value| humantime::parse_rfc3339(one["created"].as_str()?).ok();
            Ok(known["snapshots"].as_array().into_iter().flatten().filter_map(created).collect())
        }
        .boxed()
    }

    fn open(&self, results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Connection>>>> {
        async move {
            let mut opened: Vec<Box<dyn Connection>> = Vec::new();
            match self.driver {
                Driver::Websocket => {
                    for _ in 0..self.connections {
                        opened.push(Box::new(Socket::open(&self.client, APP, results, self.keyed).await?));
                    }
                }
                Driver::Http => {
                    let mut connections = Vec::new();
                    for _ in 0..self.connections {
                        let exchange = Exchange::open(&self.ingress).await?;
                        connections.push(HttpConnection { exchange, app: APP.to_owned(), results });
                    }
                    opened.push(Box::new(Pool::new(connections)));
                }
                Driver::Kafka => {
                    let brokers = self.brokers.clone().context("a broker runs")?;
                    let prompt = self.prompt;
                    let records = move || Records::open(&brokers, APP, results, prompt);
                    let records = tokio::task::spawn_blocking(records);
                    opened.push(Box::new(records.await??));
                }
            }
            Ok(opened)
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>> {
        async move {
            let cluster = self.cluster.lock().await;
            let mut figures = Figures { cpu: Some(Duration::ZERO), rss_mb: 0, totals: metrics(&cluster).await? };
            for role in cluster.roles() {
                // One that was killed has no figures.
                let Ok(process) = cluster.process(role).id() else { continue };
                let (cpu, rss_mb) = of_tree(process);
                figures.cpu = figures.cpu.map(|sum| sum + cpu);
                figures.rss_mb += rss_mb;
            }
            if let Some(viewers) = &self.viewers {
                figures.totals.extend(viewers.shown());
            }
            Ok(figures)
        }
        .boxed()
    }

    fn disturb(&self, what: Disturbance) -> BoxFuture<'_, anyhow::Result<()>> {
        async move {
            let mut cluster = self.cluster.lock().await;
            let all = cluster.workers();
            ensure!(all > 1, "only a cluster of two workers or more can lose one, or have partitions migrate");
            let role = |worker: usize| Role::Worker(worker % all);
            match what {
                Disturbance::Kill(worker) => cluster.kill(&[role(worker)]).await,
                Disturbance::Stop(worker) => cluster.process_mut(role(worker)).stop().await,
                Disturbance::Rejoin(worker) => {
                    cluster.settle_with(all - 1, 0).await?;
                    cluster.start_again(&[role(worker)]).await?;
                    cluster.settle().await.map(drop)
                }
                Disturbance::Migrate(goal, mode) => {
                    let client = self.client.clone();
                    let migration = tokio::spawn(async move { migrate(&client, goal, mode).await });
                    self.migrations.lock().await.push(migration);
                    Ok(())
                }
            }
        }
        .boxed()
    }

    fn place(&self, workers: usize) -> BoxFuture<'_, anyhow::Result<()>> {
        async move {
            let Migrated { state, .. } = migrate(&self.client, Goal::Workers(workers), Mode::Online).await?;
            ensure!(state == "done", "the first {workers} workers cannot have everything: {state}");
            Ok(())
        }
        .boxed()
    }

    fn keep(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        async move {
            let taken = self.client.admin_request(styx_client::Method::POST, "/v1/snapshots");
            self.client.execute(taken).await.context("no snapshot can be taken")?;
            Ok(())
        }
        .boxed()
    }

    fn migrated(&self) -> BoxFuture<'_, anyhow::Result<Vec<Migrated>>> {
        async move {
            let mut all = Vec::new();
            for migration in self.migrations.lock().await.drain(..) {
                all.push(migration.await??);
            }
            Ok(all)
        }
        .boxed()
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        self.cluster.into_inner().stop().boxed()
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
