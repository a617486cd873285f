//! Partitions change their owners under load: nobody notices, nothing is lost, and a restart comes to the same.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use styx_harness::Role;

use crate::process::Endpoints;
use crate::process::cluster::Cluster;
use crate::process::load::Load;

/// Partitions of each worker.
async fn partitions(cluster: &Cluster) -> Vec<u64> {
    let workers = cluster.get("/v1/workers").await;
    workers["workers"].as_array().unwrap().iter().map(|worker| worker["partitions"].as_u64().unwrap()).collect()
}

async fn migrate(cluster: &Cluster, method: Method, body: Value) -> (StatusCode, Value) {
    let url = format!("http://{}/v1/migrations", cluster.admin());
    let response = cluster.http().request(method, url).json(&body).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn migrates_under_load(store: &[&str]) {
    let mut cluster = Cluster::with_testkit_and(2, store).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    assert_eq!(partitions(&cluster).await, [512, 512]);
    for (goal, expected) in [
        (json!({ "empty": 1 }), [0, 1024]),
        (json!({ "moves": [{ "partition": 7, "worker": 1 }] }), [1, 1023]),
        (json!({ "balance": true }), [512, 512]),
        (json!({ "empty": 2 }), [1024, 0]),
        (json!({ "balance": true }), [512, 512]),
    ] {
        let (status, body) = migrate(&cluster, Method::POST, goal.clone()).await;
        assert_eq!((status, body), (StatusCode::OK, json!({ "migrated": true })), "{goal}");
        assert_eq!(partitions(&cluster).await, expected, "{goal}");
        load.goes_on(100).await;
    }
    assert_eq!(cluster.generation().await, generation, "nothing began anew");
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0, "no request was doubtful");

    // What was written on either side is in the log, and in snapshots.
    let state = cluster.state(&["testkit/a"]).await;
    let before = cluster.generation().await;
    cluster.kill(&[Role::Worker(0), Role::Worker(1), Role::Coordinator]).await;
    cluster.run(&[Role::Coordinator, Role::Worker(0), Role::Worker(1)]).await;
    cluster.settles(2, before).await;
    assert_eq!(cluster.state(&["testkit/a"]).await, state);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_move_under_load_and_nobody_notices() {
    migrates_under_load(&["--snapshot-interval", "200ms"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_move_without_snapshots_too() {
    migrates_under_load(&["--store", "none"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_migrated_is_refused_in_one_line() {
    let cluster = Cluster::with_testkit(2).await;
    for (goal, why) in [
        (json!({ "balance": true }), "every partition is where it is to be"),
        (json!({ "empty": 3 }), "there is no worker 3"),
        (json!({ "empty": 0 }), "there is no worker 0"),
        (json!({ "moves": [{ "partition": 1024, "worker": 1 }] }), "there is no partition 1024"),
        (json!({}), "a migration has one of balance, empty and moves"),
    ] {
        let (status, body) = migrate(&cluster, Method::POST, goal.clone()).await;
        assert_eq!((status, body["error"]["message"].as_str()), (StatusCode::BAD_REQUEST, Some(why)), "{goal}: {body}");
    }
    let (status, body) = migrate(&cluster, Method::DELETE, json!({})).await;
    let why = "no migration is under way that can be cancelled";
    assert_eq!((status, body["error"]["message"].as_str()), (StatusCode::BAD_REQUEST, Some(why)), "{body}");
}
