//! The processes under test: a coordinator, workers and a gateway; a Kafka broker and an S3 server,
//! if the log or the snapshots are there, and a second coordinator, if both are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::part::{Part, Program, free_port};

/// How long a cluster may take to serve again.
pub(super) const RECOVERY_MAX: Duration = Duration::from_secs(90);

/// Which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// In the order in which they are started when several were killed.
    Broker,
    Store,
    /// The one that leads, as of the last look.
    Coordinator,
    /// The one that does not, if there are two.
    Standby,
    Worker(usize),
    Gateway,
}

/// Where the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogKind {
    /// In the coordinator's directory
    Embedded,
    /// On a Kafka broker of its own, which also takes calls as records
    Kafka,
}

/// Where snapshots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StoreKind {
    /// In the coordinator's directory
    Dir,
    /// On an S3 server of its own
    S3,
    /// Nowhere: every recovery replays the whole log
    None,
}

/// What to start.
pub(super) struct Plan<'a> {
    pub(super) styx: &'a Path,
    pub(super) scripts: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) workers: usize,
    pub(super) log: LogKind,
    pub(super) store: StoreKind,
    pub(super) snapshot_interval: String,
}

/// The processes, on addresses that stay theirs.
pub(super) struct Site {
    parts: BTreeMap<Role, Part>,
    workers: usize,
    http: reqwest::Client,
    /// The command that reads every byte of the newest snapshot, if there are snapshots.
    verify: Option<Program>,
    pub(super) ingress: String,
    /// The coordinator's.
    pub(super) admin: String,
    /// That of the one that stands by.
    other_admin: Option<String>,
    /// How often another one has led instead of one that was started again.
    pub(super) replaced: usize,
    /// Where a broker is, if there is one.
    pub(super) brokers: Option<String>,
}

/// The epoch, and the hash of all state up to it.
pub(super) type Position = (u64, String);

impl Site {
    /// Starts everything, and waits until it serves.
    pub(super) async fn start(plan: &Plan<'_>) -> anyhow::Result<Site> {
        ensure!(plan.workers > 0, "a cluster has at least one worker: give --workers 1 or more");
        let address = |port: u16| format!("127.0.0.1:{port}");
        let (cluster, admin, ingress) = (address(free_port()?), address(free_port()?), address(free_port()?));
        let second = plan.log == LogKind::Kafka && plan.store == StoreKind::S3;
        let second = second.then(|| anyhow::Ok((address(free_port()?), address(free_port()?)))).transpose()?;
        let coordinators = match &second {
            Some((second, _)) => format!("{cluster},{second}"),
            None => cluster.clone(),
        };
        let mut programs = BTreeMap::new();
        let mut coordinator = strings(&["--workers", &plan.workers.to_string()]);
        coordinator.extend(strings(&["--snapshot-interval", &plan.snapshot_interval]));
        let mut gateway = strings(&["--coordinator", &coordinators, "--ingress-addr", &ingress]);
        gateway.extend(strings(&["--admin-addr", &address(free_port()?)]));
        let mut environment = vec![("STYX_LOG".to_owned(), "info".to_owned())];
        let mut brokers = None;
        if plan.log == LogKind::Kafka {
            let port = free_port()?;
            coordinator.extend(strings(&["--log", &format!("kafka://{}", address(port))]));
            gateway.extend(strings(&["--kafka", &address(port)]));
            brokers = Some(address(port));
            programs.insert(Role::Broker, server(plan, "kafka", port));
        }
        match plan.store {
            StoreKind::Dir => {}
            StoreKind::None => coordinator.extend(strings(&["--store", "none"])),
            StoreKind::S3 => {
                let port = free_port()?;
                coordinator.extend(strings(&["--store", "s3://styx/chaos"]));
                let settings = [
                    ("AWS_ACCESS_KEY_ID", "styx".to_owned()),
                    ("AWS_SECRET_ACCESS_KEY", "styx-secret".to_owned()),
                    ("AWS_REGION", "us-east-1".to_owned()),
                    ("AWS_ENDPOINT_URL", format!("http://{}", address(port))),
                ];
                environment.extend(settings.map(|(name, value)| (name.to_owned(), value)));
                programs.insert(Role::Store, server(plan, "s3", port));
            }
        }
        let mut styx = |role: Role, name: String, kind: &str, more: Vec<String>| {
            let mut arguments = strings(&["server", "--json", "--role", kind]);
            arguments.extend(more);
            if role != Role::Gateway {
                let path = |name: &str| plan.directory.join(name).to_string_lossy().into_owned();
                arguments.extend(["--data-dir".to_owned(), path(&name), "--cache-dir".to_owned(), path("cache")]);
                arguments.extend(strings(&["--determinism-check", "100"]));
            }
            let binary = plan.styx.to_path_buf();
            programs.insert(role, Program { name, binary, arguments, environment: environment.clone(), port: None });
        };
        let at = |cluster: &str, admin: &str| {
            [coordinator.clone(), strings(&["--cluster-addr", cluster, "--admin-addr", admin])].concat()
        };
        styx(Role::Coordinator, "coordinator".into(), "coordinator", at(&cluster, &admin));
        if let Some((cluster, admin)) = &second {
            styx(Role::Standby, "coordinator-2".into(), "coordinator", at(cluster, admin));
        }
        for number in 0..plan.workers {
            let more = strings(&["--coordinator", &coordinators, "--threads", "2"]);
            styx(Role::Worker(number), format!("worker-{}", number + 1), "worker", more);
        }
        styx(Role::Gateway, "gateway".into(), "gateway", gateway);
        let verify = (plan.store != StoreKind::None).then(|| {
            let data = plan.directory.join("coordinator").to_string_lossy().into_owned();
            let mut arguments = strings(&["snapshots", "verify", "--data-dir", &data]);
            if plan.store == StoreKind::S3 {
                arguments.extend(strings(&["--store", "s3://styx/chaos"]));
            }
            let binary = plan.styx.to_path_buf();
            Program { name: "verify".into(), binary, arguments, environment: environment.clone(), port: None }
        });
        let parts = programs.into_iter().map(|(role, program)| (role, Part::new(program, plan.directory)));
        let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
        let (parts, workers, other_admin) = (parts.collect(), plan.workers, second.map(|(_, admin)| admin));
        let mut site = Site { parts, workers, http, verify, ingress, admin, other_admin, replaced: 0, brokers };
        let all: Vec<Role> = site.parts.keys().copied().collect();
        site.start_again(&all).await?;
        site.settles().await?;
        Ok(site)
    }

    /// Which processes there are.
    pub(super) fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.parts.keys().copied()
    }

    /// Those that are Styx.
    pub(super) fn own(&self) -> Vec<Role> {
        self.roles().filter(|role| !matches!(role, Role::Broker | Role::Store)).collect()
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    pub(super) fn part(&mut self, role: Role) -> &mut Part {
        self.parts.get_mut(&role).expect("only roles that there are are named")
    }

    /// SIGKILL to all of them, one directly after the other.
    pub(super) async fn kill(&mut self, roles: &[Role]) -> anyhow::Result<()> {
        for role in roles {
            self.part(*role).runs()?;
            self.part(*role).kill().await?;
        }
        Ok(())
    }

    /// Starts them again: what others cannot start without first, the rest at the same time.
    pub(super) async fn start_again(&mut self, roles: &[Role]) -> anyhow::Result<()> {
        let mut roles = roles.to_vec();
        roles.sort_unstable();
        let (servers, own): (Vec<Role>, Vec<Role>) =
            roles.into_iter().partition(|role| matches!(role, Role::Broker | Role::Store));
        for together in [servers, own] {
            for role in &together {
                self.part(*role).start()?;
            }
            for role in &together {
                self.part(*role).ready().await?;
            }
        }
        Ok(())
    }

    /// An error if a process has ended though nobody killed it. A coordinator may, if another one leads: it is
    /// started again.
    pub(super) async fn all_run(&mut self) -> anyhow::Result<()> {
        if self.other_admin.is_some() {
            for role in [Role::Coordinator, Role::Standby] {
                if self.part(role).was_replaced().await? {
                    self.replaced += 1;
                    self.start_again(&[role]).await?;
                }
            }
        }
        self.parts.values_mut().try_for_each(Part::runs)
    }

    /// Takes the other one for the coordinator that leads, if there are two.
    fn swap(&mut self) {
        let Some(other) = &mut self.other_admin else { return };
        std::mem::swap(other, &mut self.admin);
        let (one, two) = (self.parts.remove(&Role::Coordinator), self.parts.remove(&Role::Standby));
        self.parts.extend(two.map(|part| (Role::Coordinator, part)));
        self.parts.extend(one.map(|part| (Role::Standby, part)));
    }

    /// Waits until all workers serve.
    pub(super) async fn settles(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let seen = self.get("/v1/cluster").await;
            if let Ok(seen) = &seen
                && seen["live"] == true
                && seen["workers"] == self.workers
                && seen["entities"].is_u64()
            {
                return Ok(());
            }
            self.all_run().await?;
            if seen.is_err() {
                self.swap();
            }
            ensure!(
                started.elapsed() < RECOVERY_MAX,
                "the cluster does not come to serve again within {RECOVERY_MAX:?}: {}",
                seen.map_or_else(|error| format!("{error:#}"), |seen| seen.to_string())
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where a cluster is that nobody asks anything.
    pub(super) async fn position(&mut self) -> anyhow::Result<Position> {
        let mut before = None;
        let started = Instant::now();
        loop {
            self.settles().await?;
            let seen = self.get("/v1/cluster").await?;
            let chain = seen["chain"].as_str().context("the cluster has a hash chain")?;
            let now = (seen["epoch"].as_u64().context("the cluster has an epoch")?, chain.to_owned());
            if before.as_ref() == Some(&now) && seen["backlog"] == 0 {
                return Ok(now);
            }
            ensure!(started.elapsed() < RECOVERY_MAX, "the cluster works on though nobody asks anything: {seen}");
            before = Some(now);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// All entities of an operator: key and value, bytes in base64.
    pub(super) async fn state(&self, operator: &str) -> anyhow::Result<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        let mut after = String::new();
        loop {
            let page = self.get(&format!("/v1/state/{operator}?limit=1000{after}")).await?;
            for entry in page["entries"].as_array().context("a page has entries")? {
                let key = entry["key"].as_str().context("an entity has a key")?;
                all.insert(key.to_owned(), entry["value"].clone());
            }
            let Some(next) = page["next"].as_str() else { return Ok(all) };
            after = format!("&after={next}");
        }
    }

    /// What is wrong with the newest snapshot, if anything.
    pub(super) async fn damage(&self) -> anyhow::Result<Option<String>> {
        let Some(Program { binary, arguments, environment, .. }) = &self.verify else { return Ok(None) };
        let mut command = Command::new(binary);
        let output = command.args(arguments).envs(environment.iter().cloned()).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        Ok((!output.status.success()).then(|| format!("the newest snapshot cannot be read: {}", said.trim())))
    }

    /// Has a snapshot taken, in the background; nobody waits for it.
    pub(super) fn snapshot(&self) {
        // Of the two, only the one that leads takes it.
        for admin in std::iter::once(&self.admin).chain(&self.other_admin) {
            drop(tokio::spawn(self.http.post(format!("http://{admin}/v1/snapshots")).send()));
        }
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.http.get(format!("http://{}{path}", self.admin)).timeout(Duration::from_secs(20));
        let response = request.send().await?;
        let (status, body) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{path}: {body}");
        Ok(serde_json::from_str(&body)?)
    }
}

fn server(plan: &Plan<'_>, name: &str, port: u16) -> Program {
    let data: PathBuf = plan.directory.join(name);
    let arguments = vec!["start".to_owned(), data.to_string_lossy().into_owned(), port.to_string()];
    let binary = plan.scripts.join(format!("{name}.sh"));
    Program { name: format!("{name}-server"), binary, arguments, environment: Vec::new(), port: Some(port) }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
