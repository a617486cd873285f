//! The autoscaler finds one worker hot beside one that has nothing to do, and has partitions balanced of its own accord.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use styx_client::Client;
use styx_harness::Role;

use crate::process::Endpoints;
use crate::process::cluster::Cluster;

const KEYS: u64 = 60;
/// Clients that call, each one after the other.
const CLIENTS: usize = 6;
/// About a millisecond, less than a slice: what is longer may be run by the worker that is idle.
const ROUNDS: u64 = 200_000;
/// Calls of those that are idle afterwards: more than the hot ones get before it is decided.
const BEFORE: usize = 1500;

/// By number of a worker its keys, as owners are now.
async fn keys_by_worker(cluster: &Cluster) -> BTreeMap<u64, Vec<String>> {
    let owners = calls_by_partition(cluster).await;
    let mut keys = BTreeMap::<u64, Vec<String>>::new();
    for number in 0..KEYS {
        let key = format!("k{number}");
        let partition = cluster.get(&format!("/v1/state/testkit/a/{key}")).await["partition"].as_u64().unwrap();
        keys.entry(owners[&partition].0).or_default().push(key);
    }
    keys
}

/// By partition its worker's number, and how often it was called there.
async fn calls_by_partition(cluster: &Cluster) -> BTreeMap<u64, (u64, u64)> {
    let answer = cluster.get("/v1/partitions?limit=65536&sort=partition").await;
    let number = |one: &Value, name: &str| one[name].as_u64().unwrap();
    let partitions = answer["partitions"].as_array().unwrap();
    partitions.iter().map(|one| (number(one, "partition"), (number(one, "worker"), number(one, "calls")))).collect()
}

/// Of all calls in a while, the part of the worker that got most.
async fn most_of(cluster: &Cluster, time: Duration) -> f64 {
    let before = calls_by_partition(cluster).await;
    tokio::time::sleep(time).await;
    let mut by_worker = BTreeMap::<u64, u64>::new();
    for (partition, (worker, calls)) in calls_by_partition(cluster).await {
        *by_worker.entry(worker).or_default() += calls - before[&partition].1;
    }
    let all: u64 = by_worker.values().sum();
    assert!(all > 0, "calls go on");
    *by_worker.values().max().unwrap() as f64 / all as f64
}

/// Calls these keys by turns until it is to stop; how often.
async fn calls(client: Client, keys: Vec<String>, from: usize, stop: Arc<AtomicBool>) -> usize {
    let mut answered = 0;
    for key in keys.iter().cycle().skip(from) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let answer = client.call("testkit", "a", key, "burn", json!([ROUNDS])).await;
        answer.unwrap_or_else(|error| panic!("{key}: {error}"));
        answered += 1;
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker_that_is_hot_beside_an_idle_one_is_relieved_by_a_balance_and_by_one_at_a_time() {
    // Little is much here, so that what runs beside this test has processors, too.
    let more = ["--autoscale", "2..2", "--autoscale-interval", "300ms", "--autoscale-target", "24"];
    let cluster = Cluster::with_testkit_and(2, &more).await;
    for number in 0..KEYS {
        let appended = cluster.call(&format!("testkit/a/k{number}/append"), "[1]").await;
        assert_eq!(appended.code(), "OK", "{}", appended.body);
    }
    let keys = keys_by_worker(&cluster).await;
    let (hot, idle) = (keys[&1].clone(), keys[&2].clone());
    // What was called most so far is what nobody calls any more.
    let client = cluster.client();
    for key in idle.iter().cycle().take(BEFORE) {
        client.call("testkit", "a", key, "echo", json!(["x"])).await.unwrap();
    }
    assert_eq!(cluster.get("/v1/autoscaler").await["decisions"], json!([]), "nothing is hot yet");

    let stop = Arc::<AtomicBool>::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(calls(cluster.client(), hot.clone(), number * 2, stop.clone())))
        .collect();
    let scaler = cluster.until("/v1/autoscaler", |seen| seen["decisions"][0]["balance"].is_object()).await;
    let decided = Instant::now();
    let decision = &scaler["decisions"][0];
    assert_eq!((&decision["wish"], &decision["wanted"]), (&json!("balance"), &json!(2)), "{decision}");
    let reason = decision["reason"].as_str().unwrap();
    assert!(reason.contains("one has much more to do than others: a balance would help"), "{decision}");
    let id = decision["balance"]["migration"].as_str().unwrap_or_else(|| panic!("{decision}"));

    let migration = cluster.until(&format!("/v1/migrations/{id}"), |seen| seen["ended"].is_u64()).await;
    assert_eq!(migration["state"], "done", "{migration}");
    let transfers = migration["transfers"].as_array().unwrap();
    assert!(transfers.iter().any(|one| one["from"] == 1 && one["to"] == 2), "{migration}");
    let most = most_of(&cluster, Duration::from_secs(2)).await;
    assert!(most < 0.9, "one worker got all of the calls before, and gets {most} of them now");

    // Nothing is changed for six seconds.
    let last = cluster.get("/v1/autoscaler").await;
    let quiet = |seen: &Value| seen["last"]["reason"].as_str().unwrap_or_default().contains("nothing is changed for");
    assert!(quiet(&last) || decided.elapsed() > Duration::from_secs(5), "{last}");
    tokio::time::sleep(Duration::from_secs(5).saturating_sub(decided.elapsed())).await;
    let migrations = cluster.get("/v1/migrations").await;
    assert_eq!(migrations["migrations"].as_array().map(Vec::len), Some(1), "{migrations}");

    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 0, "each was answered");
    }
    let said = cluster.process(Role::Coordinator).log();
    assert!(said.contains(&format!("partitions should be balanced: {reason}")), "{said}");
    assert!(said.contains(&format!("partitions are balanced by migration {id}")), "{said}");
}
