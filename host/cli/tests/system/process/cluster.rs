//! A coordinator, workers and a gateway, each a process that may be killed. A test has no use for an error: it ends
//! with it.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use styx_client::Retry;
use styx_harness::{Options, Process, Role, TimeLimit, waits_for};

use super::{Endpoints, testkit};

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Processes that serve together, on free ports.
pub struct Cluster {
    processes: styx_harness::Cluster,
    http: Client,
    _limit: TimeLimit,
}

impl Deref for Cluster {
    type Target = styx_harness::Cluster;
    fn deref(&self) -> &styx_harness::Cluster {
        &self.processes
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut styx_harness::Cluster {
        &mut self.processes
    }
}

impl Endpoints for Cluster {
    fn ingress(&self) -> &str {
        self.processes.ingress()
    }

    fn admin(&self) -> &str {
        self.processes.admin()
    }

    fn http(&self) -> &Client {
        &self.http
    }
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// So many workers, which check every transaction's determinism, and a coordinator with more arguments.
pub fn options(workers: usize, more: &[&str]) -> Options {
    Options {
        workers,
        worker_flags: words(&["--threads", "2", "--determinism-check", "all"]),
        log_flags: [words(&["--determinism-check", "all"]), words(more)].concat(),
        log_level: "info".into(),
        ..Options::new(env!("CARGO_BIN_EXE_styx"))
    }
}

impl Cluster {
    /// A cluster of which nothing runs yet.
    pub fn prepare(options: Options) -> Cluster {
        let limit = TimeLimit::of_test();
        let processes = styx_harness::Cluster::prepare(options).unwrap();
        Cluster { processes, http: Client::builder().timeout(3 * PATIENCE).build().unwrap(), _limit: limit }
    }

    /// A cluster that serves.
    pub async fn start(options: Options) -> Cluster {
        let mut cluster = Cluster::prepare(options);
        let (all, workers) = (cluster.own(), cluster.workers());
        cluster.run(&all).await;
        cluster.settles(workers, 0).await;
        cluster
    }

    /// A cluster of so many workers with the guest whose functions misbehave deployed as `testkit`.
    pub async fn with_testkit(workers: usize) -> Cluster {
        Cluster::with_testkit_and(workers, &[]).await
    }

    /// The same, with more arguments of the coordinator.
    pub async fn with_testkit_and(workers: usize, more: &[&str]) -> Cluster {
        Cluster::with_testkit_in(options(workers, more)).await
    }

    /// The same, of these processes.
    pub async fn with_testkit_in(options: Options) -> Cluster {
        let cluster = Cluster::start(options).await;
        cluster.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
        cluster
    }

    /// A client that asks once: gateways repeat what may be repeated.
    pub fn client(&self) -> styx_client::Client {
        let client = styx_client::Client::builder(self.ingress()).admin_url(self.admin());
        client.retry(Retry::never()).timeout(PATIENCE).build().unwrap()
    }

    /// To the gateway's admin port.
    pub fn to_gateway(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.process(Role::Gateway).text("admin")))
    }

    /// Asks until the answer is as it should be.
    pub async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let seen = self.get(path).await;
            if is_so(&seen) {
                return seen;
            }
            assert!(started.elapsed() < PATIENCE, "{path}: {seen}\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a later generation than `after` serves with so many workers; returns its number.
    pub async fn settles(&mut self, workers: usize, after: u64) -> u64 {
        waits_for(format!("a cluster of {workers} workers later than generation {after}"));
        let settled = tokio::time::timeout(PATIENCE, self.processes.settle_with(workers, after)).await;
        settled.expect("the cluster serves in time").unwrap()["generation"].as_u64().unwrap()
    }

    pub async fn generation(&self) -> u64 {
        self.processes.generation().await.unwrap()
    }

    /// What all processes have said, for whoever looks for a mistake.
    pub fn said(&self) -> String {
        let files = std::fs::read_dir(self.directory()).unwrap().map(|file| file.unwrap().path());
        let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|is| is == "log")).collect();
        logs.sort();
        logs.iter().map(|log| format!("{}:\n{}", log.display(), std::fs::read_to_string(log).unwrap())).collect()
    }

    /// Starts processes that do not run, at the addresses that they had.
    pub async fn run(&mut self, roles: &[Role]) {
        self.processes.start_again(roles).await.unwrap();
    }

    pub async fn kill(&mut self, roles: &[Role]) {
        self.processes.kill(roles).await.unwrap();
    }

    /// Asks a process to end, and waits until it has.
    pub async fn stop(&mut self, role: Role) {
        self.process_mut(role).stop().await.unwrap();
    }

    /// Another gateway of this cluster, with more arguments.
    pub async fn another_gateway(&self, more: &[&str]) -> Process {
        let flags = ["--coordinator", self.coordinators(), "--ingress-addr", super::FREE, "--admin-addr", super::FREE];
        let all = [&["server", "--json", "--role", "gateway"], &flags[..], more].concat();
        super::started(self.directory(), "gateway-2", "info", &all).await
    }
}
