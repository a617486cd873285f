//! Workers and the coordinator are killed with SIGKILL under load: nothing that was acknowledged is
//! lost, nothing is done twice, no answer is ever taken back, and whoever brought a key never learns of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::process::told;
use crate::support::{Cluster, PATIENCE};

const CLIENTS: u64 = 10;
const KEYS: u64 = 5;

/// What one client did.
#[derive(Default)]
struct Record {
    /// Key, element, and the list after it: acknowledged.
    answered: Vec<(u64, u64, Vec<u64>)>,
    /// Key and element: nobody knows.
    doubtful: Vec<(u64, u64)>,
}

/// Appends numbers of its own to lists, one after the other. With `keyed`, under an idempotency key:
/// then there is always an answer, sooner or later.
async fn client(number: u64, keyed: bool, ingress: String, stop: Arc<AtomicBool>, count: Arc<AtomicU64>) -> Record {
    let http = Client::builder().timeout(PATIENCE).build().unwrap();
    let mut record = Record::default();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let element = number * 1_000_000 + next;
        let key = element % KEYS;
        next += 1;
        let mut request =
            http.post(format!("http://{ingress}/v1/call/testkit/a/list-{key}/append")).body(format!("[{element}]"));
        if keyed {
            request = request.header("idempotency-key", format!("e{element}"));
        }
        let answer = told(request).await;
        match answer.code() {
            "OK" => {
                let list = answer.body.as_array().unwrap().iter().map(|element| element.as_u64().unwrap());
                record.answered.push((key, element, list.collect()));
                count.fetch_add(1, Ordering::Relaxed);
            }
            "OUTCOME_UNKNOWN" if !keyed => record.doubtful.push((key, element)),
            other => panic!("client {number}, with a key: {keyed}, is told {other}: {}", answer.body),
        }
    }
    record
}

/// A cluster under load.
struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<Record>>,
}

impl Load {
    fn on(cluster: &Cluster) -> Load {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let clients = (1..=CLIENTS).map(|number| {
            let ingress = cluster.gateway.at("ingress").to_owned();
            tokio::spawn(client(number, number % 3 > 0, ingress, stop.clone(), count.clone()))
        });
        Load { clients: clients.collect(), stop, count }
    }

    /// Waits for so many more answers.
    async fn goes_on(&self, more: u64) {
        let target = self.count.load(Ordering::Relaxed) + more;
        let wait = async {
            while self.count.load(Ordering::Relaxed) < target {
                if let Some(ended) = self.clients.iter().position(|client| client.is_finished()) {
                    panic!("client {} has ended", ended + 1);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the cluster goes on answering");
    }

    /// Ends the load and compares what clients were told with what there is.
    async fn ends(self, cluster: &Cluster) -> String {
        self.stop.store(true, Ordering::Relaxed);
        let mut records = Vec::new();
        for client in self.clients {
            records.push(client.await.unwrap());
        }
        let mut found = BTreeMap::new();
        for key in 0..KEYS {
            let request = cluster.to_ingress(Method::POST, &format!("/v1/call/testkit/a/list-{key}/list"));
            let list: Vec<u64> = serde_json::from_value(told(request.body("[]")).await.body).unwrap();
            let distinct: std::collections::BTreeSet<u64> = list.iter().copied().collect();
            assert_eq!(distinct.len(), list.len(), "list {key} holds an element twice: {list:?}");
            found.insert(key, list);
        }
        let (mut answered, mut doubtful, mut happened) = (0, 0, 0);
        for record in &records {
            for (key, element, seen) in &record.answered {
                answered += 1;
                // What a client once saw is the beginning of the list for ever, and ends with its own element.
                assert_eq!(seen.last(), Some(element), "list {key}");
                assert_eq!(Some(&seen[..]), found[key].get(..seen.len()), "list {key} changed after it was seen");
            }
            doubtful += record.doubtful.len();
            happened += record.doubtful.iter().filter(|(key, element)| found[key].contains(element)).count();
        }
        let held: usize = found.values().map(Vec::len).sum();
        assert_eq!(held, answered + happened, "the lists hold what was acknowledged, and of the rest what is doubtful");
        // Asked again under its key, each gets the answer that it got.
        for (number, record) in records.iter().enumerate().filter(|(number, _)| (number + 1) % 3 > 0) {
            for (key, element, seen) in record.answered.iter().step_by(17) {
                let request = cluster.to_ingress(Method::POST, &format!("/v1/call/testkit/a/list-{key}/append"));
                let request = request.header("idempotency-key", format!("e{element}")).json(&json!([element]));
                let again: Value = told(request).await.body;
                assert_eq!(again, json!(seen), "client {}", number + 1);
            }
        }
        format!("{answered} answered, {doubtful} doubtful, of which {happened} had happened")
    }
}

/// Recovery replays the whole log.
const NEVER: &[&str] = &["--store", "none"];
/// Recovery begins with a snapshot, and the log is trimmed.
const OFTEN: &[&str] = &["--snapshot-interval", "50ms"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_lose_double_and_change_nothing() {
    workers_are_killed(Cluster::with_testkit_and(2, NEVER).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_between_snapshots_lose_double_and_change_nothing() {
    let cluster = Cluster::with_testkit_and(2, OFTEN).await;
    let restored = workers_are_killed(cluster).await;
    assert!(restored > 0, "some began with a snapshot");
}

/// Says how often the workers that are left have begun with a snapshot.
async fn workers_are_killed(mut cluster: Cluster) -> usize {
    let load = Load::on(&cluster);
    for round in 0..3 {
        load.goes_on(100).await;
        tokio::time::sleep(Duration::from_micros(round * 1337 % 7000)).await;
        let generation = cluster.generation().await;
        let victim = round as usize % 2;
        cluster.kill_worker(victim).await;
        if round == 1 {
            // The other one takes over, and goes on alone.
            let alone = cluster.settles(1, generation).await;
            load.goes_on(50).await;
            cluster.start_worker(victim).await;
            cluster.settles(2, alone).await;
        } else {
            cluster.start_worker(victim).await;
            cluster.settles(2, generation).await;
        }
    }
    load.goes_on(100).await;
    println!("{}", load.ends(&cluster).await);
    restored(&cluster)
}

/// How often workers have begun with a snapshot.
fn restored(cluster: &Cluster) -> usize {
    let of = |worker: &crate::support::Part| worker.said().matches("a snapshot was restored").count();
    cluster.workers.iter().flatten().map(of).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_killed_loses_doubles_and_changes_nothing() {
    a_coordinator_is_killed(Cluster::with_testkit_and(2, NEVER).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_killed_between_snapshots_loses_doubles_and_changes_nothing() {
    let mut cluster = a_coordinator_is_killed(Cluster::with_testkit_and(2, OFTEN).await).await;
    assert!(restored(&cluster) > 0, "some began with a snapshot");

    // The newest snapshot is damaged, which only a worker sees: the one before will do.
    for element in 99_000_000..99_000_020u64 {
        let path = format!("/v1/call/testkit/a/list-{}/append", element % KEYS);
        assert_eq!(told(cluster.to_ingress(Method::POST, &path).body(format!("[{element}]"))).await.code(), "OK");
    }
    let taken = told(cluster.to_admin(Method::POST, "/v1/snapshots")).await;
    assert_eq!(taken.status, 201, "{}", taken.body);
    let position = cluster.position().await;
    for worker in 0..2 {
        cluster.kill_worker(worker).await;
    }
    cluster.coordinator.kill().await;
    let parts = cluster.directory().join("coordinator/snapshots/parts");
    let mut parts: Vec<_> = std::fs::read_dir(parts).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.retain(|part| !part.to_string_lossy().contains("system"));
    parts.sort();
    let newest = parts.pop().expect("there are some");
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    cluster.restart_coordinator().await;
    for worker in 0..2 {
        cluster.start_worker(worker).await;
    }
    cluster.settles(2, 0).await;
    assert_eq!(cluster.position().await, position);
    assert!(cluster.coordinator.said().contains("SNAPSHOT_DAMAGED"), "{}", cluster.coordinator.said());
}

async fn a_coordinator_is_killed(mut cluster: Cluster) -> Cluster {
    let load = Load::on(&cluster);
    for _ in 0..3 {
        load.goes_on(100).await;
        let generation = cluster.generation().await;
        cluster.restart_coordinator().await;
        cluster.settles(2, generation).await;
    }
    load.goes_on(100).await;
    println!("{}", load.ends(&cluster).await);
    // All at once.
    let position = cluster.position().await;
    for worker in 0..2 {
        cluster.kill_worker(worker).await;
    }
    cluster.restart_coordinator().await;
    for worker in 0..2 {
        cluster.start_worker(worker).await;
    }
    cluster.settles(2, 0).await;
    assert_eq!(cluster.position().await, position, "the whole cluster comes to the same state again");
    cluster
}
