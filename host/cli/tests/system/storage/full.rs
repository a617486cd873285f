//! What is refused while the disk is full, what is not, and what comes after.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use styx_harness::{Options, Role};

use super::disk::Disk;
use crate::process::cluster::{self, Cluster, PATIENCE};
use crate::process::{Endpoints, Process, Told, testkit, told};

const ZIP: &str = "application/zip";

/// A client of one list, which knows what must be in it.
struct Client<'a> {
    /// Makes a request to the ingress.
    to_ingress: &'a dyn Fn(Method, &str) -> RequestBuilder,
    acknowledged: &'a mut Vec<u64>,
    next: &'a mut u64,
}

impl Client<'_> {
    /// Appends the next number; what is refused is not in the list.
    async fn append(&mut self) -> Told {
        let element = *self.next;
        *self.next += 1;
        let request = (self.to_ingress)(Method::POST, "/v1/call/testkit/a/list/append");
        let told = told(request.json(&json!([element]))).await;
        match told.status {
            200 => self.acknowledged.push(element),
            503 => told.is_error("append", 503, "DISK_FULL", "nothing was done"),
            _ => panic!("{}", told.body),
        }
        told
    }

    /// Appends until that is answered with this status.
    async fn append_until(&mut self, status: u16) {
        let started = Instant::now();
        while self.append().await.status != status {
            assert!(started.elapsed() < PATIENCE, "appends are not answered with {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The list is what was acknowledged, in that order.
    async fn reads(&self) {
        let list = told((self.to_ingress)(Method::POST, "/v1/call/testkit/a/list/list").body("[]")).await;
        assert_eq!((list.status, &list.body), (200, &json!(self.acknowledged)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_answers_reads_and_recovers() {
    let (disk, elsewhere) = (Disk::new(), tempfile::tempdir().unwrap());
    let (cache, reserve) = (elsewhere.path().join("cache"), disk.reserve.to_string());
    let more = ["--cache-dir", cache.to_str().unwrap(), "--disk-reserve", &reserve, "--snapshot-interval", "500ms"];
    let server = Process::start(&disk.path().join("data"), &more).await;
    let bundle = testkit().await;
    server.deploy("testkit", ZIP, bundle.clone()).await.is_deployed();

    let (mut acknowledged, mut next) = (Vec::new(), 0);
    let to_ingress = |method: Method, path: &str| server.to_ingress(method, path);
    let mut client = Client { to_ingress: &to_ingress, acknowledged: &mut acknowledged, next: &mut next };
    for _ in 0..20 {
        assert_eq!(client.append().await.status, 200);
    }
    disk.fill();
    client.append_until(503).await;

    // Whatever way it comes.
    let request = server.to_ingress(Method::POST, "/v1/call/testkit/a/list/append").body("[0]");
    let response = request.send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    let sent = told(server.to_ingress(Method::POST, "/v1/send/testkit/a/list/append").body("[0]")).await;
    sent.is_error("send", 503, "DISK_FULL", "nothing was done");
    let call = |function: &str, args: Value| json!({ "id": function, "app": "testkit", "operator": "a", "key": "list", "function": function, "args": args });
    let batch = format!("{}\n{}\n", call("append", json!([0])), call("list", json!([])));
    let answers = server.to_ingress(Method::POST, "/v1/batch").body(batch).send().await.unwrap().text().await.unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |id: &str| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer("append")["error"]["code"], "DISK_FULL");
    assert_eq!(answer("list")["ok"], json!(client.acknowledged));
    let refused = server.deploy("other", ZIP, bundle).await;
    refused.is_error("a deployment", 503, "DISK_FULL", "nothing was done");
    told(server.to_admin(Method::DELETE, "/v1/apps/testkit")).await.is_error("a removal", 503, "DISK_FULL", "");
    let metrics = server.metrics().await;
    assert!(metrics.lines().any(|line| line == "styx_disk_full 1.0"), "{metrics}");

    // Reads go on, before and after a restart, which refuses from its first request on.
    client.reads().await;
    assert_eq!(server.get("/v1/state/testkit/a").await["entries"].as_array().unwrap().len(), 1);
    let server = server.kill_and_restart(&more).await;
    let to_ingress = |method: Method, path: &str| server.to_ingress(method, path);
    let mut client = Client { to_ingress: &to_ingress, acknowledged: &mut acknowledged, next: &mut next };
    assert_eq!(client.append().await.status, 503);
    client.reads().await;

    disk.empty();
    client.append_until(200).await;
    for _ in 0..20 {
        assert_eq!(client.append().await.status, 200);
    }
    client.reads().await;
    let server = server.kill_and_restart(&more).await;
    let to_ingress = |method: Method, path: &str| server.to_ingress(method, path);
    Client { to_ingress: &to_ingress, acknowledged: &mut acknowledged, next: &mut next }.reads().await;
    assert!(acknowledged.len() >= 41);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateways_of_a_cluster_refuse_writes_while_its_log_has_no_room() {
    let disk = Disk::new();
    let reserve = disk.reserve.to_string();
    let directory = Some(disk.path());
    let mut cluster = Cluster::start(Options { directory, ..cluster::options(1, &["--disk-reserve", &reserve]) }).await;
    let bundle = testkit().await;
    cluster.deploy("testkit", ZIP, bundle.clone()).await.is_deployed();

    let (mut acknowledged, mut next) = (Vec::new(), 0);
    let (http, ingress) = (cluster.http().clone(), cluster.ingress().to_owned());
    let to_ingress = |method: Method, path: &str| http.request(method, format!("http://{ingress}{path}"));
    let mut client = Client { to_ingress: &to_ingress, acknowledged: &mut acknowledged, next: &mut next };
    for _ in 0..20 {
        assert_eq!(client.append().await.status, 200);
    }
    disk.fill();
    client.append_until(503).await;
    client.reads().await;
    cluster.deploy("other", ZIP, bundle).await.is_error("a deployment", 503, "DISK_FULL", "nothing was done");
    disk.empty();
    client.append_until(200).await;
    client.reads().await;

    // The worker can be watched.
    let worker = cluster.process(Role::Worker(0)).text("admin").to_owned();
    let of_worker = |path: &str| http.get(format!("http://{worker}{path}"));
    assert_eq!(told(of_worker("/healthz")).await.body["status"], "ok");
    assert_eq!(told(of_worker("/readyz")).await.body["status"], "ready");
    told(of_worker("/v1/apps")).await.is_error("/v1/apps", 421, "NOT_HERE", "this is a worker");
    let metrics = of_worker("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.lines().any(|line| line == "styx_entities 1.0"), "{metrics}");

    cluster.kill(&[Role::Coordinator]).await;
    cluster.run(&[Role::Coordinator]).await;
    client.reads().await;
    client.append_until(200).await;
    client.reads().await;
}
