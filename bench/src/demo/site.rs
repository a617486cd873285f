//! What the demonstration runs on: one server process, or a cluster of them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::proof::Proof;
use crate::process::{self, Process};
use crate::server::ServerProcess;

/// How it is started.
pub(super) struct Plan<'a> {
    pub(super) styx: &'a Path,
    pub(super) directory: &'a Path,
    /// Worker processes; none for one process that is everything.
    pub(super) workers: Option<usize>,
    pub(super) determinism_check: &'a str,
}

/// The processes.
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
pub(super) enum Site {
    Single { server: ServerProcess, styx: PathBuf, data: PathBuf, flags: Vec<String> },
    Cluster(Box<Cluster>),
}

/// What a kill came to.
pub(super) struct Healed {
    /// Who was killed and how it went on.
    pub(super) what: String,
}

impl Site {
    pub(super) async fn start(plan: &Plan<'_>) -> anyhow::Result<Site> {
        let flags = vec!["--determinism-check".to_owned(), plan.determinism_check.to_owned()];
        match plan.workers {
            None => Ok(Site::Single {
                server: ServerProcess::start(plan.styx, plan.directory, None, &flags).await?,
                styx: plan.styx.into(),
                data: plan.directory.into(),
                flags,
            }),
            Some(workers) => Ok(Site::Cluster(Box::new(Cluster::start(plan, workers, flags).await?))),
        }
    }

    /// `host:port` for calls.
    pub(super) fn ingress(&self) -> &str {
        match self {
            Site::Single { server, .. } => server.ingress(),
            Site::Cluster(cluster) => cluster.gateway.ready("ingress"),
        }
    }

    /// How often something is killed, if nobody says.
    pub(super) fn kills(&self) -> usize {
        match self {
            Site::Single { .. } => 1,
            Site::Cluster(_) => 3,
        }
    }

    /// Whether clients must connect again after a kill.
    pub(super) fn goes_down(&self) -> bool {
        matches!(self, Site::Single { .. })
    }

    pub(super) fn deploy(&self, app: &Path) -> anyhow::Result<()> {
        match self {
            Site::Single { server, .. } => server.deploy(app),
            Site::Cluster(cluster) => process::deploy(&cluster.styx, cluster.admin(), self.ingress(), app),
        }
    }

    /// Kills something with SIGKILL, the `number`th time, and sees to it that it goes on.
    pub(super) async fn kill(&mut self, number: usize) -> anyhow::Result<Healed> {
        match self {
            Site::Single { server, styx, data, flags } => {
                server.kill().await?;
                *server = ServerProcess::start(styx, data, Some(server), flags).await?;
                Ok(Healed { what: format!("the server came back: {} epochs replayed", server.epochs_replayed()) })
            }
            Site::Cluster(cluster) => cluster.kill(number).await,
        }
    }

    /// What only a cluster can show.
    pub(super) async fn proofs(&mut self) -> anyhow::Result<Vec<Proof>> {
        match self {
            Site::Single { .. } => Ok(Vec::new()),
            Site::Cluster(cluster) => cluster.replays_on_fewer().await,
        }
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Site::Single { server, .. } => server.stop().await,
            Site::Cluster(cluster) => cluster.stop().await,
        }
    }
}

/// A coordinator, workers and a gateway.
pub(super) struct Cluster {
    styx: PathBuf,
    directory: PathBuf,
    flags: Vec<String>,
    coordinator: Process,
    workers: Vec<Option<Process>>,
    gateway: Process,
}

/// Longer than any recovery takes.
const RECOVERY_MAX: Duration = Duration::from_secs(120);

impl Cluster {
    async fn start(plan: &Plan<'_>, workers: usize, flags: Vec<String>) -> anyhow::Result<Cluster> {
        ensure!(workers > 0, "a cluster has at least one worker");
        let (styx, directory) = (plan.styx.to_path_buf(), plan.directory.to_path_buf());
        // What one process has compiled, the others need not compile.
        let cache = directory.join("cache").to_string_lossy().into_owned();
        let flags = [&flags[..], &["--cache-dir".to_owned(), cache]].concat();
        let expect = ["--workers".to_owned(), workers.to_string()];
        let at = ("127.0.0.1:0", "127.0.0.1:0");
        let coordinator = coordinator(&styx, &directory, at, &[&flags[..], &expect].concat()).await?;
        let address = coordinator.ready("cluster");
        let mut running = Vec::new();
        for number in 0..workers {
            running.push(Some(worker(&styx, &directory, number, address, &flags).await?));
        }
        let gateway = [
            "--role",
            "gateway",
            "--coordinator",
            address,
            "--ingress-addr",
            "127.0.0.1:0",
            "--admin-addr",
            "127.0.0.1:0",
        ];
        let gateway = Process::start(&styx, &gateway.map(str::to_owned)).await?;
        let cluster = Cluster { styx, directory, flags, coordinator, workers: running, gateway };
        cluster.settles(workers, 0).await?;
        Ok(cluster)
    }

    fn admin(&self) -> &str {
        self.coordinator.ready("admin")
    }

    async fn overview(&self) -> anyhow::Result<Value> {
        process::admin_get(self.admin(), "/v1/cluster").await
    }

    /// Waits until a later generation than `after` serves, with so many workers.
    async fn settles(&self, workers: usize, after: u64) -> anyhow::Result<Value> {
        let started = Instant::now();
        loop {
            if let Ok(seen) = self.overview().await
                && seen["live"] == true
                && seen["workers"] == workers
                && seen["generation"].as_u64() > Some(after)
            {
                return Ok(seen);
            }
            ensure!(
                started.elapsed() < RECOVERY_MAX,
                "the cluster does not come to serve again: {:?}",
                self.overview().await
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn generation(&self) -> anyhow::Result<u64> {
        self.overview().await?["generation"].as_u64().context("a generation has a number")
    }

    /// In turn: a worker that comes back at once, the coordinator, a worker that stays away for a while.
    async fn kill(&mut self, number: usize) -> anyhow::Result<Healed> {
        let generation = self.generation().await?;
        let (all, victim) = (self.workers.len(), number % self.workers.len());
        let what = match number % 3 {
            0 => {
                self.kill_worker(victim).await?;
                self.start_worker(victim).await?;
                self.settles(all, generation).await?;
                format!("worker {} came back", victim + 1)
            }
            1 => {
                self.coordinator.kill().await?;
                let at = (self.coordinator.ready("cluster").to_owned(), self.admin().to_owned());
                let at = (at.0.as_str(), at.1.as_str());
                let expect = ["--workers".to_owned(), all.to_string()];
                let flags = [&self.flags[..], &expect].concat();
                self.coordinator = coordinator(&self.styx, &self.directory, at, &flags).await?;
                self.settles(all, generation).await?;
                "the coordinator came back".into()
            }
            _ if all == 1 => {
                self.kill_worker(victim).await?;
                self.start_worker(victim).await?;
                self.settles(all, generation).await?;
                "the only worker came back".into()
            }
            _ => {
                self.kill_worker(victim).await?;
                self.settles(all - 1, generation).await?;
                // It joins while the others serve.
                self.start_worker(victim).await?;
                format!("the others took over from worker {}", victim + 1)
            }
        };
        Ok(Healed { what })
    }

    async fn kill_worker(&mut self, victim: usize) -> anyhow::Result<()> {
        let mut worker = self.workers[victim].take().context("this worker runs")?;
        worker.kill().await
    }

    async fn start_worker(&mut self, number: usize) -> anyhow::Result<()> {
        let address = self.coordinator.ready("cluster");
        self.workers[number] = Some(worker(&self.styx, &self.directory, number, address, &self.flags).await?);
        Ok(())
    }

    /// The whole log again, on one worker fewer: the state must be the same.
    async fn replays_on_fewer(&mut self) -> anyhow::Result<Vec<Proof>> {
        let all = self.workers.len();
        let before = self.settles(all, 0).await?;
        if all == 1 {
            return Ok(Vec::new());
        }
        let generation = before["generation"].as_u64().context("a generation has a number")?;
        self.kill_worker(all - 1).await?;
        let after = self.settles(all - 1, generation).await?;
        let at = |seen: &Value| (seen["epoch"].as_u64(), seen["chain"].as_str().map(str::to_owned));
        Ok(vec![Proof {
            claim: format!(
                "replayed on {} of {all} workers, epoch {} has the same state hash",
                all - 1,
                before["epoch"].as_u64().unwrap_or_default()
            ),
            holds: at(&before) == at(&after) && at(&before).1.is_some(),
        }])
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.gateway.stop().await?;
        for worker in self.workers.into_iter().flatten() {
            worker.stop().await?;
        }
        self.coordinator.stop().await
    }
}

async fn coordinator(
    styx: &Path,
    directory: &Path,
    (cluster, admin): (&str, &str),
    flags: &[String],
) -> anyhow::Result<Process> {
    let data = directory.join("coordinator").to_string_lossy().into_owned();
    let own = ["--role", "coordinator", "--cluster-addr", cluster, "--admin-addr", admin, "--data-dir", &data];
    Process::start(styx, &[&own.map(str::to_owned)[..], flags].concat()).await
}

async fn worker(
    styx: &Path,
    directory: &Path,
    number: usize,
    coordinator: &str,
    flags: &[String],
) -> anyhow::Result<Process> {
    let data = directory.join(format!("worker-{number}")).to_string_lossy().into_owned();
    let own = ["--role", "worker", "--coordinator", coordinator, "--threads", "2", "--data-dir", &data];
    Process::start(styx, &[&own.map(str::to_owned)[..], flags].concat()).await
}
