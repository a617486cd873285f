//! Brokers that keep the log and are away: who calls is told at once, and nothing is lost.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tokio::task::JoinHandle;

use super::own_broker;
use crate::broker::Broker;
use crate::process::cluster::{Cluster, PATIENCE};
use crate::process::{Endpoints, Process, Told, told};

/// Shorter than any wait for brokers.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Who calls a function of one list, and looks at it.
struct Client<'a> {
    to_ingress: &'a dyn Fn(Method, &str) -> RequestBuilder,
    to_admin: &'a dyn Fn(Method, &str) -> RequestBuilder,
    /// To the admin port of the process that takes calls.
    to_taker: &'a dyn Fn(Method, &str) -> RequestBuilder,
}

impl Client<'_> {
    fn ask(&self, function: &str, body: &'static str) -> JoinHandle<Told> {
        let request = (self.to_ingress)(Method::POST, &format!("/v1/call/testkit/a/list/{function}")).body(body);
        tokio::spawn(told(request))
    }

    async fn is_stalled(&self) -> bool {
        let metrics = (self.to_taker)(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        metrics.lines().any(|line| line == "styx_log_stalled 1.0")
    }

    /// Is refused, and without waiting.
    async fn refused(&self, of: &str, request: RequestBuilder) {
        let started = Instant::now();
        told(request).await.is_error(of, 503, "LOG_STALLED", "the Kafka brokers");
        assert!(started.elapsed() < AT_ONCE, "{of}: {:?}", started.elapsed());
    }

    /// Kills the broker under two calls, and has it come back.
    async fn outlives(&self, broker: &mut Broker) {
        assert_eq!(self.ask("append", "[1]").await.unwrap().body, json!([1]));
        broker.kill();
        // One that nobody knows better about yet, and one that reads what it will have done.
        let waits = self.ask("append", "[2]");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let reads = self.ask("list", "");
        let started = Instant::now();
        while !self.is_stalled().await {
            assert!(started.elapsed() < PATIENCE, "that the brokers are away is noticed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for (function, body) in [("append", "[3]"), ("list", "")] {
            let call = (self.to_ingress)(Method::POST, &format!("/v1/call/testkit/a/list/{function}"));
            self.refused(function, call.body(body)).await;
        }
        let call = (self.to_ingress)(Method::POST, "/v1/send/testkit/a/list/append");
        self.refused("send", call.body("[4]")).await;
        for path in ["/v1/state/testkit/a", "/readyz", "/v1/cluster"] {
            self.refused(path, (self.to_admin)(Method::GET, path)).await;
        }
        self.refused("a removal", (self.to_admin)(Method::DELETE, "/v1/apps/testkit")).await;
        assert!(!waits.is_finished() && !reads.is_finished(), "nothing is told that is not durable");

        broker.restart();
        broker.wait();
        assert_eq!(waits.await.unwrap().body, json!([1, 2]), "what was taken before is done");
        assert_eq!(reads.await.unwrap().body, json!([1, 2]));
        let started = Instant::now();
        let told = loop {
            match self.ask("append", "[5]").await.unwrap() {
                told if told.status == 200 => break told,
                told => told.is_error("append", 503, "LOG_STALLED", "nothing was done"),
            }
            assert!(started.elapsed() < PATIENCE, "calls are taken again");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(told.body, json!([1, 2, 5]), "and what was refused is not");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_calls_while_brokers_are_away_is_told_at_once() {
    let Some((_few, mut broker)) = own_broker().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let log = format!("kafka://{}", broker.address);
    let server = Process::with_testkit(directory.path(), &["--log", &log]).await;
    let to_ingress = |method: Method, path: &str| server.to_ingress(method, path);
    let to_admin = |method: Method, path: &str| server.to_admin(method, path);
    Client { to_ingress: &to_ingress, to_admin: &to_admin, to_taker: &to_admin }.outlives(&mut broker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_knows_that_the_brokers_of_its_coordinator_are_away() {
    let Some((_few, mut broker)) = own_broker().await else { return };
    let cluster = Cluster::with_testkit_and(1, &["--log", &format!("kafka://{}", broker.address)]).await;
    let to_ingress = |method: Method, path: &str| cluster.to_ingress(method, path);
    let to_admin = |method: Method, path: &str| cluster.to_admin(method, path);
    let to_gateway = |method: Method, path: &str| cluster.to_gateway(method, path);
    Client { to_ingress: &to_ingress, to_admin: &to_admin, to_taker: &to_gateway }.outlives(&mut broker).await;
}
