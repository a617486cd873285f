//! The processes that serve together, each in its role.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use styx_client::Client;
use tempfile::TempDir;
use tokio::process::Command;

use crate::ports::free_port;
use crate::process::{Process, Program};

/// How long a cluster may take to serve again.
pub const RECOVERY_MAX: Duration = Duration::from_secs(120);

/// How long nothing happens in a cluster in which nothing more will: a share is wanted a little after its worker has joined.
const STILL: Duration = Duration::from_millis(500);

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    // In the order in which they are started when several were killed.
    Broker,
    Store,
    /// One server that is everything.
    Server,
    /// The coordinator that leads, as far as is known.
    Coordinator,
    /// The one that stands by, if there are two.
    Standby,
    Worker(usize),
    Gateway,
}

/// The place of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    #[default]
    Embedded,
    /// A Kafka broker of its own, which also takes calls as records.
    Kafka,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    #[default]
    Directory,
    /// An S3 server of its own.
    S3,
    /// None: every recovery replays the whole log.
    None,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub binary: PathBuf,
    /// The directory of data and logs; a temporary directory if none is given.
    pub directory: Option<PathBuf>,
    /// Worker processes; one server that is everything if there are none.
    pub workers: usize,
    /// The place of the log.
    pub log: Log,
    pub store: Store,
    /// True if another coordinator stands by: log and store are where both reach them.
    pub standby: bool,
    /// True if calls come as records of a Kafka broker, wherever the log is.
    pub kafka: bool,
    /// Where compiled apps are kept beyond the processes' end; none is a directory beside their data.
    pub cache_dir: Option<PathBuf>,
    /// Further flags of whatever executes: workers, or the one server.
    pub worker_flags: Vec<String>,
    /// Further flags of whatever has the log: coordinators, or the one server.
    pub log_flags: Vec<String>,
    /// Further flags of whatever takes calls: the gateway, or the one server.
    pub gateway_flags: Vec<String>,
    /// True if calls come over TLS.
    pub tls: bool,
    /// True if the processes of a cluster speak TLS with each other, and show certificates.
    pub cluster_tls: bool,
    /// The directory of the scripts that start a broker or an S3 server.
    pub scripts: PathBuf,
    /// The level of the processes' logs.
    pub log_level: String,
}

impl Options {
    /// One server, everything in a temporary directory.
    pub fn new(binary: impl Into<PathBuf>) -> Options {
        Options {
            binary: binary.into(),
            directory: None,
            workers: 0,
            log: Log::default(),
            store: Store::default(),
            standby: false,
            kafka: false,
            cache_dir: None,
            worker_flags: Vec::new(),
            log_flags: Vec::new(),
            gateway_flags: Vec::new(),
            tls: false,
            cluster_tls: false,
            scripts: "scripts/servers".into(),
            log_level: std::env::var("STYX_LOG").unwrap_or_else(|_| "info".into()),
        }
    }
}

/// The epoch, and the hash of all state up to it.
pub type Position = (u64, String);

/// Running processes, on addresses that stay theirs.
pub struct Cluster {
    processes: BTreeMap<Role, Process>,
    options: Options,
    directory: PathBuf,
    _temporary: Option<TempDir>,
    environment: Vec<(String, String)>,
    client: Client,
    ingress: String,
    admin: String,
    /// The admin address of the coordinator that stands by.
    other_admin: Option<String>,
    /// Where workers and gateways look for the coordinators.
    coordinators: String,
    brokers: Option<String>,
    /// The authority of the certificate of whatever takes calls, as PEM, if it has one.
    ca: Option<String>,
    /// How often another coordinator has led instead of one that had to be started again.
    pub replaced: usize,
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Any free port, where nobody has to know it before.
const ANY: &str = "127.0.0.1:0";

impl Cluster {
    /// Starts everything, and waits until it serves.
    pub async fn start(options: Options) -> anyhow::Result<Cluster> {
        let mut cluster = Cluster::prepare(options)?;
        let all: Vec<Role> = cluster.roles().collect();
        cluster.start_again(&all).await?;
        if let Some(server) = cluster.processes.get(&Role::Server) {
            (cluster.ingress, cluster.admin) = (server.text("ingress").to_owned(), server.text("admin").to_owned());
            cluster.client = cluster.client_of(&cluster.admin)?;
        }
        cluster.settle().await?;
        Ok(cluster)
    }

    /// All processes, none of them running.
    pub fn prepare(options: Options) -> anyhow::Result<Cluster> {
        let temporary = match &options.directory {
            None => Some(tempfile::tempdir()?),
            Some(_) => None,
        };
        let directory = temporary.as_ref().map_or_else(|| options.directory.clone(), |path| Some(path.path().into()));
        let directory: PathBuf = directory.context("one of the two is there")?;
        let environment = vec![("STYX_LOG".to_owned(), options.log_level.clone())];
        let (ingress, admin) = (address(free_port()?), address(free_port()?));
        let client = Client::new(&ingress)?;
        let mut cluster = Cluster {
            processes: BTreeMap::new(),
            options,
            directory,
            _temporary: temporary,
            environment,
            client,
            ingress,
            admin,
            other_admin: None,
            coordinators: String::new(),
            brokers: None,
            ca: None,
            replaced: 0,
        };
        cluster.certificates()?;
        cluster.client = cluster.client_of(&cluster.admin)?;
        cluster.servers()?;
        if cluster.options.workers == 0 {
            cluster.single()
        } else {
            cluster.distributed()?
        }
        Ok(cluster)
    }

    /// What is shown over TLS.
    fn certificates(&mut self) -> anyhow::Result<()> {
        if self.options.tls {
            let key = rcgen::KeyPair::generate()?;
            let certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned()])?.self_signed(&key)?.pem();
            let (cert, secret) = (self.within("http.pem"), self.within("http.key"));
            std::fs::write(&cert, &certificate)?;
            std::fs::write(&secret, key.serialize_pem())?;
            self.options.gateway_flags.extend(words(&["--tls-cert", &cert, "--tls-key", &secret]));
            self.ca = Some(certificate);
        }
        if self.options.cluster_tls {
            self.styx(&["cluster", "init", &self.within("ca")])?;
        }
        Ok(())
    }

    /// Flags of a process of a cluster that shows a certificate; none if nobody does.
    fn certified(&self, name: &str, role: &str) -> anyhow::Result<Vec<String>> {
        if !self.options.cluster_tls {
            return Ok(Vec::new());
        }
        let (authority, own) = (self.within("ca"), self.within(&format!("{name}-tls")));
        self.styx(&["cluster", "certificate", &authority, &own, "--role", role])?;
        Ok(words(&["--cluster-tls", &own]))
    }

    /// Runs a command to its end.
    fn styx(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = std::process::Command::new(&self.options.binary).args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "styx {} failed: {}", arguments.join(" "), said.trim());
        Ok(())
    }

    /// A path in the directory of data and logs.
    fn within(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    /// The broker and the S3 server, and what that means for the others' flags.
    fn servers(&mut self) -> anyhow::Result<()> {
        let Options { log, store, kafka, .. } = self.options;
        if log == Log::Kafka || kafka {
            let port = free_port()?;
            if log == Log::Kafka {
                self.options.log_flags.extend(words(&["--log", &format!("kafka://{}", address(port))]));
            }
            self.options.gateway_flags.extend(words(&["--kafka", &address(port)]));
            self.brokers = Some(address(port));
            self.server(Role::Broker, "kafka", port);
        }
        match store {
            Store::Directory => {}
            Store::None => self.options.log_flags.extend(words(&["--store", "none"])),
            Store::S3 => {
                let port = free_port()?;
                self.options.log_flags.extend(words(&["--store", S3_STORE]));
                let settings = [
                    ("AWS_ACCESS_KEY_ID", "styx".to_owned()),
                    ("AWS_SECRET_ACCESS_KEY", "styx-secret".to_owned()),
                    ("AWS_REGION", "us-east-1".to_owned()),
                    ("AWS_ENDPOINT_URL", format!("http://{}", address(port))),
                ];
                self.environment.extend(settings.map(|(name, value)| (name.to_owned(), value)));
                self.server(Role::Store, "s3", port);
            }
        }
        Ok(())
    }

    fn server(&mut self, role: Role, name: &str, port: u16) {
        let data = self.directory.join(name);
        let program = Program {
            name: format!("{name}-server"),
            binary: self.options.scripts.join(format!("{name}.sh")),
            arguments: words(&["start", &data.to_string_lossy(), &port.to_string()]),
            environment: Vec::new(),
            port: Some(port),
        };
        self.processes.insert(role, Process::new(program, &self.directory));
    }

    fn single(&mut self) {
        let options = self.options.clone();
        let data = self.directory.join("server").to_string_lossy().into_owned();
        let own = words(&["--ingress-addr", ANY, "--admin-addr", ANY, "--data-dir", &data]);
        let cache =
            options.cache_dir.iter().flat_map(|cache| words(&["--cache-dir", &cache.to_string_lossy()])).collect();
        let flags = [own, cache, options.worker_flags, options.log_flags, options.gateway_flags].concat();
        self.add(Role::Server, "server", None, flags);
    }

    fn distributed(&mut self) -> anyhow::Result<()> {
        self.coordinators = address(free_port()?);
        self.coordinator(Role::Coordinator, "coordinator", &self.coordinators.clone(), &self.admin.clone())?;
        if self.options.standby {
            let (second, admin) = (address(free_port()?), address(free_port()?));
            self.coordinator(Role::Standby, "coordinator-2", &second, &admin)?;
            // The one that leads is found behind the other one, too.
            self.coordinators = format!("{second},{}", self.coordinators);
            self.other_admin = Some(admin);
        }
        for _ in 0..std::mem::take(&mut self.options.workers) {
            self.add_worker();
        }
        let own = words(&["--coordinator", &self.coordinators, "--ingress-addr", &self.ingress, "--admin-addr", ANY]);
        let flags = [own, self.options.gateway_flags.clone(), self.certified("gateway", "gateway")?].concat();
        self.add(Role::Gateway, "gateway", Some("gateway"), flags);
        Ok(())
    }

    fn coordinator(&mut self, role: Role, name: &str, cluster: &str, admin: &str) -> anyhow::Result<()> {
        let workers = self.options.workers.to_string();
        let own = words(&["--name", name, "--cluster-addr", cluster, "--admin-addr", admin, "--workers", &workers]);
        let certified = self.certified(name, "coordinator")?;
        let flags = [own, self.data(name), self.options.log_flags.clone(), certified].concat();
        self.add(role, name, Some("coordinator"), flags);
        Ok(())
    }

    /// Adds one more worker, which does not run yet.
    ///
    /// # Panics
    /// If it cannot be certified, where the others are.
    pub fn add_worker(&mut self) -> Role {
        let role = Role::Worker(self.options.workers);
        self.options.workers += 1;
        let name = format!("worker-{}", self.options.workers);
        let own = words(&["--coordinator", &self.coordinators, "--admin-addr", ANY]);
        let certified = self.certified(&name, "worker").expect("the cluster has an authority, which certifies it");
        let flags = [own, self.data(&name), self.options.worker_flags.clone(), certified].concat();
        self.add(role, &name, Some("worker"), flags);
        role
    }

    /// Where a process of a cluster keeps what is its own. What one has compiled, the others need not compile.
    fn data(&self, name: &str) -> Vec<String> {
        let kept = self.options.cache_dir.as_ref().map(|cache| cache.to_string_lossy().into_owned());
        let cache = kept.unwrap_or_else(|| self.within("cache"));
        words(&["--data-dir", &self.within(name), "--cache-dir", &cache])
    }

    /// Adds a process of `styx server`, which does not run yet.
    fn add(&mut self, role: Role, name: &str, kind: Option<&str>, flags: Vec<String>) {
        let mut arguments = words(&["server", "--json"]);
        arguments.extend(kind.iter().flat_map(|kind| words(&["--role", kind])));
        arguments.extend(flags);
        let (binary, environment) = (self.options.binary.clone(), self.environment.clone());
        let program = Program { name: name.to_owned(), binary, arguments, environment, port: None };
        self.processes.insert(role, Process::new(program, &self.directory));
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// `host:port` of whatever takes calls.
    pub fn ingress(&self) -> &str {
        &self.ingress
    }

    /// A client of whatever takes calls, and of a process's admin address.
    pub fn client_of(&self, admin: &str) -> anyhow::Result<Client> {
        let client = Client::builder(&self.ingress_url()).admin_url(&self.admin_url(admin));
        Ok(self.ca.iter().fold(client, |client, ca| client.ca(ca.clone())).build()?)
    }

    fn ingress_url(&self) -> String {
        url(self.options.tls, &self.ingress)
    }

    /// The URL of a process's admin address.
    fn admin_url(&self, admin: &str) -> String {
        // One that is everything has one certificate for both of its ports; a coordinator has none.
        let gateway = self.processes.get(&Role::Gateway).map(|gateway| gateway.text("admin"));
        url(self.options.tls && (self.options.workers == 0 || gateway == Some(admin)), admin)
    }

    /// `host:port` of the admin address: the leading coordinator's, or the one server's.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// `host:port` of the broker, if there is one.
    pub fn brokers(&self) -> Option<&str> {
        self.brokers.as_deref()
    }

    /// Where workers and gateways look for the coordinators.
    pub fn coordinators(&self) -> &str {
        &self.coordinators
    }

    /// The directory of data and logs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.processes.keys().copied()
    }

    /// The roles whose processes are Styx.
    pub fn own(&self) -> Vec<Role> {
        self.roles().filter(|role| !matches!(role, Role::Broker | Role::Store)).collect()
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.options.workers
    }

    pub fn process(&self, role: Role) -> &Process {
        self.processes.get(&role).expect("only roles that there are are named")
    }

    /// The same, to do something to it.
    pub fn process_mut(&mut self, role: Role) -> &mut Process {
        self.processes.get_mut(&role).expect("only roles that there are are named")
    }

    /// SIGKILL to all of them, one directly after the other.
    pub async fn kill(&mut self, roles: &[Role]) -> anyhow::Result<()> {
        for role in roles {
            self.process_mut(*role).check()?;
            self.process_mut(*role).kill().await?;
        }
        Ok(())
    }

    /// Starts them: the servers that others cannot start without first, the rest at the same time.
    pub async fn start_again(&mut self, roles: &[Role]) -> anyhow::Result<()> {
        let mut roles = roles.to_vec();
        roles.sort_unstable();
        let (servers, own): (Vec<Role>, Vec<Role>) =
            roles.into_iter().partition(|role| matches!(role, Role::Broker | Role::Store));
        for together in [servers, own] {
            for role in &together {
                self.process_mut(*role).start()?;
            }
            for role in &together {
                self.process_mut(*role).ready().await?;
            }
        }
        Ok(())
    }

    /// Checks that nothing has ended by itself. A coordinator may, if another one leads: it is started again.
    pub async fn check(&mut self) -> anyhow::Result<()> {
        for role in [Role::Coordinator, Role::Standby] {
            if self.other_admin.is_none() {
                break;
            }
            let process = self.process_mut(role);
            let Some((status, last)) = process.has_ended().await? else { continue };
            let replaced = match status.code() {
                Some(_) => last.to_string().contains("LEASE_LOST"),
                None => process.last_line().contains("replaced as the log's writer"),
            };
            ensure!(replaced, "{} ended by itself with {status}: {}", process.name(), process.last_line());
            self.replaced += 1;
            self.start_again(&[role]).await?;
        }
        self.processes.values_mut().try_for_each(Process::check)
    }

    /// Takes the other coordinator for the one that leads, if there are two.
    pub fn swap(&mut self) -> anyhow::Result<()> {
        let Some(other) = &mut self.other_admin else { return Ok(()) };
        std::mem::swap(other, &mut self.admin);
        let (one, two) = (self.processes.remove(&Role::Coordinator), self.processes.remove(&Role::Standby));
        self.processes.extend(two.map(|process| (Role::Coordinator, process)));
        self.processes.extend(one.map(|process| (Role::Standby, process)));
        self.client = self.client_of(&self.admin)?;
        Ok(())
    }

    /// Waits until all workers serve.
    pub async fn settle(&mut self) -> anyhow::Result<Value> {
        self.settle_with(self.options.workers, 0).await
    }

    /// Waits until so many workers serve in a later generation than `after`; returns what `/v1/cluster` shows.
    pub async fn settle_with(&mut self, workers: usize, after: u64) -> anyhow::Result<Value> {
        let started = Instant::now();
        loop {
            let seen = self.client.admin("/v1/cluster").await;
            if let Ok(seen) = &seen
                && (self.options.workers == 0
                    || seen["live"] == true
                        && seen["workers"] == workers
                        && seen["entities"].is_u64()
                        && seen["generation"].as_u64() > Some(after))
            {
                return Ok(seen.clone());
            }
            self.check().await?;
            if seen.is_err() {
                self.swap()?;
            }
            ensure!(
                started.elapsed() < RECOVERY_MAX,
                "{workers} workers do not come to serve within {RECOVERY_MAX:?}: {}",
                seen.map_or_else(|error| error.to_string(), |seen| seen.to_string())
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn generation(&self) -> anyhow::Result<u64> {
        self.client.admin("/v1/cluster").await?["generation"].as_u64().context("a generation has a number")
    }

    /// The position of a cluster that nobody asks anything, once whoever joined has its share.
    pub async fn position(&mut self) -> anyhow::Result<Position> {
        let started = Instant::now();
        let mut still: Option<(Position, Instant)> = None;
        loop {
            let seen = self.settle().await?;
            let chain = seen["chain"].as_str().context("the cluster has a hash chain")?;
            let now = (seen["epoch"].as_u64().context("the cluster has an epoch")?, chain.to_owned());
            let migrations = self.client.admin("/v1/migrations").await?;
            let is_over = |migration: &Value| migration["ended"].is_u64();
            let rests = migrations["migrations"].as_array().is_none_or(|all| all.iter().all(is_over));
            match &still {
                Some((before, since)) if *before == now && rests && seen["backlog"] == 0 => {
                    if since.elapsed() >= STILL {
                        return Ok(now);
                    }
                }
                _ => still = Some((now, Instant::now())),
            }
            ensure!(started.elapsed() < RECOVERY_MAX, "the cluster works on though nobody asks anything: {seen}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Builds the app in `source` and deploys it under `name`, or its own, with the command that users use; `shown` is
    /// whether they see what it says.
    pub async fn deploy(&self, source: &Path, name: Option<&str>, shown: bool) -> anyhow::Result<()> {
        let (ingress, admin) = (self.ingress_url(), self.admin_url(&self.admin));
        let mut command = Command::new(&self.options.binary);
        command.args(["deploy", "--admin-url", &admin, "--ingress-url", &ingress]).arg(source);
        command.args(name.iter().flat_map(|name| ["--app", name]));
        command.args(self.ca.iter().flat_map(|_| ["--ca".to_owned(), self.within("http.pem")]));
        command.kill_on_drop(true);
        let started = || format!("{} does not start", self.options.binary.display());
        if shown {
            let status = command.status().await.with_context(started)?;
            ensure!(status.success(), "styx deploy {} failed: see above", source.display());
            return Ok(());
        }
        let output = command.output().await.with_context(started)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "styx deploy {} failed: {}", source.display(), said.trim());
        Ok(())
    }

    /// Reads every byte of the newest snapshot, while no process of Styx runs; says what is wrong with it.
    pub async fn snapshot_damage(&self) -> anyhow::Result<Option<String>> {
        let mut arguments = words(&["snapshots", "verify", "--data-dir"]);
        match self.options.store {
            Store::None => return Ok(None),
            Store::Directory => arguments.push(self.directory.join("coordinator").to_string_lossy().into_owned()),
            Store::S3 => {
                arguments.push(self.directory.join("coordinator").to_string_lossy().into_owned());
                arguments.extend(words(&["--store", S3_STORE]));
            }
        }
        let mut command = Command::new(&self.options.binary);
        let output = command.args(arguments).envs(self.environment.iter().cloned()).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        Ok((!output.status.success()).then(|| format!("the newest snapshot cannot be read: {}", said.trim())))
    }

    /// Has a snapshot taken, in the background.
    pub fn begin_snapshot(&self) {
        // Of two coordinators, only the one that leads takes it.
        for admin in std::iter::once(&self.admin).chain(&self.other_admin) {
            if let Ok(client) = self.client_of(admin) {
                // Whether it succeeds is not asked: the processes may be killed meanwhile.
                tokio::spawn(client.admin_request(styx_client::Method::POST, "/v1/snapshots").send());
            }
        }
    }

    /// Has partitions migrate, in the background; without a request, has those stay that are on their way.
    pub fn begin_migration(&self, request: Option<serde_json::Value>) {
        for admin in std::iter::once(&self.admin).chain(&self.other_admin) {
            if let Ok(client) = self.client_of(admin) {
                let asked = match &request {
                    Some(request) => client.admin_request(styx_client::Method::POST, "/v1/migrations").json(request),
                    None => client.admin_request(styx_client::Method::DELETE, "/v1/migrations"),
                };
                // One that is refused is as good as one that is cut off.
                tokio::spawn(asked.send());
            }
        }
    }

    /// Stops everything that runs, in order.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        // Who asks others ends before those.
        for (role, process) in self.processes.iter_mut().rev() {
            match (process.id(), role) {
                (Err(_), _) => {}
                // Nothing of theirs is needed any more.
                (Ok(_), Role::Broker | Role::Store) => process.kill().await?,
                (Ok(_), _) => process.stop().await?,
            }
        }
        Ok(())
    }
}

/// The place of snapshots on the S3 server, which has this bucket.
const S3_STORE: &str = "s3://styx/snapshots";

fn url(tls: bool, address: &str) -> String {
    format!("{}://{address}", if tls { "https" } else { "http" })
}
