//! A coordinator, workers and a gateway, each a process that may be killed.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use styx_client::Retry;
use styx_harness::Process;
use tempfile::TempDir;

use crate::process::{Told, at_rest, started, testkit, told};

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process of some role; killed when dropped.
pub struct Part(Process);

impl Part {
    /// Starts one with the words of `flags` and `more`, and waits until it is ready.
    pub async fn start(directory: &Path, name: &str, flags: &str, more: &[&str]) -> Part {
        let own: Vec<&str> = ["server", "--json"].into_iter().chain(flags.split(' ')).collect();
        Part(started(directory, name, "info", &[&own, more].concat()).await)
    }

    pub fn at(&self, name: &str) -> &str {
        self.0.text(name)
    }

    /// What it said of this when it was ready.
    pub fn value(&self, name: &str) -> &Value {
        self.0.value(name)
    }

    pub fn id(&self) -> u32 {
        self.0.id().unwrap()
    }

    pub async fn kill(&mut self) {
        // It may have been stopped before.
        if self.0.id().is_ok() {
            self.0.kill().await.unwrap();
        }
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(&mut self) {
        self.0.stop().await.unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        self.0.signal(signal).unwrap();
    }

    /// Waits until it has ended by itself; its exit status, and its last line for programs.
    pub async fn ended(&mut self) -> (Option<i32>, Value) {
        let (status, last) = self.0.ended().await.unwrap();
        (status.code(), last)
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.0.log()
    }
}

/// A cluster on free ports.
pub struct Cluster {
    pub coordinator: Part,
    /// Another one, which stands by.
    pub standby: Option<Part>,
    pub workers: Vec<Option<Part>>,
    pub gateway: Part,
    pub http: Client,
    /// More arguments of the coordinator.
    more: &'static [&'static str],
    directory: TempDir,
}

impl Cluster {
    /// A cluster of so many workers that serves.
    pub async fn start(workers: usize) -> Cluster {
        Cluster::start_with(workers, &[]).await
    }

    async fn start_with(workers: usize, more: &'static [&'static str]) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let coordinator = coordinator(directory.path(), FREE, FREE, workers, more).await;
        let mut cluster = Cluster {
            gateway: gateway(directory.path(), coordinator.at("cluster")).await,
            coordinator,
            standby: None,
            workers: (0..workers).map(|_| None).collect(),
            http: Client::builder().timeout(PATIENCE).build().unwrap(),
            more,
            directory,
        };
        for number in 0..workers {
            cluster.start_worker(number).await;
        }
        cluster.settles(workers, 0).await;
        cluster
    }

    /// A cluster of these coordinators, without workers so far.
    pub async fn of(coordinator: Part, standby: Part, directory: TempDir) -> Cluster {
        let addresses = format!("{},{}", coordinator.at("cluster"), standby.at("cluster"));
        Cluster {
            gateway: gateway(directory.path(), &addresses).await,
            coordinator,
            standby: Some(standby),
            workers: Vec::new(),
            http: Client::builder().timeout(PATIENCE).build().unwrap(),
            more: &[],
            directory,
        }
    }

    /// A cluster with the guest whose functions misbehave deployed as `testkit`.
    pub async fn with_testkit(workers: usize) -> Cluster {
        Cluster::with_testkit_and(workers, &[]).await
    }

    /// The same, with more arguments of the coordinator.
    pub async fn with_testkit_and(workers: usize, more: &'static [&'static str]) -> Cluster {
        let cluster = Cluster::start_with(workers, more).await;
        cluster.deploy("testkit", testkit().await).await.is_deployed();
        cluster
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub async fn deploy(&self, app: &str, bundle: Vec<u8>) -> Told {
        let request = self.to_admin(Method::POST, &format!("/v1/apps/{app}/deployments"));
        told(request.header("content-type", "application/zip").body(bundle)).await
    }

    /// A client that asks once: gateways repeat what may be repeated.
    pub fn client(&self) -> styx_client::Client {
        let client = styx_client::Client::builder(self.gateway.at("ingress")).admin_url(self.coordinator.at("admin"));
        client.retry(Retry::never()).timeout(PATIENCE).build().unwrap()
    }

    pub fn to_ingress(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.gateway.at("ingress")))
    }

    /// To the coordinator's admin port.
    pub fn to_admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.coordinator.at("admin")))
    }

    /// To the gateway's.
    pub fn to_gateway(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.gateway.at("admin")))
    }

    /// What the coordinator's admin path shows.
    pub async fn get(&self, path: &str) -> Value {
        let told = told(self.to_admin(Method::GET, path)).await;
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        told.body
    }

    /// Waits until a later generation than `after` serves with so many workers; returns its number.
    pub async fn settles(&self, workers: usize, after: u64) -> u64 {
        let started = Instant::now();
        loop {
            let seen = self.get("/v1/cluster").await;
            let generation = seen["generation"].as_u64().unwrap();
            if seen["live"] == true && seen["workers"] == workers && generation > after {
                return generation;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{workers} workers do not serve: {seen}\n{}",
                self.coordinator.said()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn generation(&self) -> u64 {
        self.get("/v1/cluster").await["generation"].as_u64().unwrap()
    }

    /// The epoch and the hash of all state up to it, once nothing happens any more.
    pub async fn position(&self) -> (u64, String) {
        at_rest(async || self.get("/v1/cluster").await).await
    }

    pub async fn start_worker(&mut self, number: usize) {
        let mut address = self.coordinator.at("cluster").to_owned();
        if let Some(standby) = &self.standby {
            // Found behind the one that stands by, too.
            address = format!("{},{address}", standby.at("cluster"));
        }
        self.workers[number] = Some(worker(self.directory(), &format!("worker-{number}"), &address, &[]).await);
    }

    pub async fn kill_worker(&mut self, number: usize) {
        self.workers[number].take().unwrap().kill().await;
    }

    pub async fn stop_worker(&mut self, number: usize) {
        self.workers[number].take().unwrap().stop().await;
    }

    /// Kills the coordinator and starts it again at the same addresses.
    pub async fn restart_coordinator(&mut self) {
        self.coordinator.kill().await;
        let (cluster, admin) = (self.coordinator.at("cluster").to_owned(), self.coordinator.at("admin").to_owned());
        let workers = self.workers.len();
        self.coordinator = coordinator(self.directory(), &cluster, &admin, workers, self.more).await;
    }
}

/// Any free port.
pub const FREE: &str = "127.0.0.1:0";

pub async fn coordinator(directory: &Path, cluster: &str, admin: &str, workers: usize, more: &[&str]) -> Part {
    let within = directory.display();
    let flags = format!(
        "--role coordinator --cluster-addr {cluster} --admin-addr {admin} --workers {workers} --determinism-check all \
         --data-dir {within}/coordinator --cache-dir {within}/cache"
    );
    Part::start(directory, "coordinator", &flags, more).await
}

/// A worker that checks every transaction's determinism.
pub async fn worker(directory: &Path, name: &str, coordinator: &str, more: &[&str]) -> Part {
    let within = directory.display();
    let flags = format!(
        "--role worker --coordinator {coordinator} --threads 2 --determinism-check all --data-dir {within}/{name} \
         --cache-dir {within}/cache"
    );
    Part::start(directory, name, &flags, more).await
}

pub async fn gateway(directory: &Path, coordinator: &str) -> Part {
    let flags = format!("--role gateway --coordinator {coordinator} --ingress-addr {FREE} --admin-addr {FREE}");
    Part::start(directory, "gateway", &flags, &[]).await
}
