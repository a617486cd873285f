//! Every way to call, and everything that can be looked at, through a cluster's endpoints.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use styx_harness::Role;

use crate::process::cluster::{Cluster, PATIENCE};
use crate::process::{Endpoints, told};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_call_works_through_a_gateway() {
    let cluster = Cluster::with_testkit(2).await;

    // Sends, and what became of them.
    let mut sent = Vec::new();
    for element in 0..20 {
        let request = cluster.to_ingress(Method::POST, &format!("/v1/send/testkit/a/sent-{element}/append"));
        let answer = told(request.json(&json!([element]))).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        sent.push(answer.body["request_id"].as_str().unwrap().to_owned());
    }
    for (element, id) in sent.iter().enumerate() {
        let report = told(cluster.to_ingress(Method::GET, &format!("/v1/requests/{id}?wait=20s"))).await.body;
        assert_eq!((&report["status"], &report["result"]), (&json!("committed"), &json!([element])), "{report}");
    }
    let nobody = "0".repeat(32);
    told(cluster.to_ingress(Method::GET, &format!("/v1/requests/{nobody}"))).await.is_error(
        "an unknown request",
        404,
        "UNKNOWN_REQUEST",
        &nobody,
    );

    // A batch of calls to all workers.
    let line = |id: usize| {
        json!({"id": id, "app": "testkit", "operator": "a", "key": format!("batch-{}", id % 50), "function": "append", "args": [id]})
            .to_string()
    };
    let lines: Vec<String> = (0..500).map(line).collect();
    let answered = cluster.to_ingress(Method::POST, "/v1/batch").body(lines.join("\n")).send().await.unwrap();
    let answered = answered.text().await.unwrap();
    let mut ids = BTreeSet::new();
    for line in answered.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let id = answer["id"].as_u64().unwrap();
        assert!(answer["ok"].as_array().unwrap().contains(&json!(id)), "{answer}");
        assert!(ids.insert(id), "{id} is answered twice");
    }
    assert_eq!(ids.len(), 500);

    // An idempotency key is for one request only.
    let call = |body: &'static str| {
        let request = cluster.to_ingress(Method::POST, "/v1/call/testkit/a/once/append");
        told(request.header("idempotency-key", "once").body(body))
    };
    assert_eq!(call("[1]").await.body, json!([1]));
    assert_eq!(call("[1]").await.body, json!([1]));
    call("[2]").await.is_error("another body", 409, "IDEMPOTENCY_MISMATCH", "idempotency key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_can_be_looked_at() {
    let cluster = Cluster::with_testkit(2).await;
    for key in 0..40 {
        assert_eq!(cluster.call(&format!("testkit/a/k{key}/append"), "[1]").await.status, 200);
    }
    // Once nothing happens any more, both say the same.
    cluster.position().await;
    let seen = cluster.get("/v1/cluster").await;
    let of_gateway = told(cluster.to_gateway(Method::GET, "/v1/cluster")).await.body;
    assert_eq!((&seen["mode"], &seen["workers"], &seen["entities"]), (&json!("cluster"), &json!(2), &json!(40)));
    for field in ["chain", "epoch", "engine", "entities", "generation", "live", "partitions", "workers", "apps"] {
        assert_eq!(of_gateway[field], seen[field], "{field}");
    }
    assert_eq!(of_gateway["coordinator_admin"], cluster.admin());

    let workers = cluster.get("/v1/workers").await["workers"].as_array().unwrap().clone();
    assert_eq!(workers.len(), 2);
    let addresses: BTreeSet<&str> = workers.iter().map(|worker| worker["address"].as_str().unwrap()).collect();
    let expect: BTreeSet<&str> = [0, 1].map(|worker| cluster.process(Role::Worker(worker)).text("cluster")).into();
    assert_eq!(addresses, expect);
    assert_eq!(workers.iter().map(|worker| worker["entities"].as_u64().unwrap()).sum::<u64>(), 40);
    assert!(workers.iter().all(|worker| worker["entities"] != 0), "both hold something: {workers:?}");

    let partitions = cluster.get("/v1/partitions").await["partitions"].as_array().unwrap().clone();
    let numbers: Vec<u64> = partitions.iter().map(|partition| partition["partition"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..1024).collect::<Vec<_>>());
    let entity = cluster.get("/v1/state/testkit/a/k7").await;
    let partition = &partitions[entity["partition"].as_u64().unwrap() as usize];
    assert!(partition["entities"].as_u64().unwrap() > 0, "{partition}");

    for (name, request) in [
        ("coordinator", cluster.to_admin(Method::GET, "/readyz")),
        ("gateway", cluster.to_gateway(Method::GET, "/readyz")),
    ] {
        let ready = told(request).await;
        assert_eq!((ready.status, &ready.body["status"]), (200, &json!("ready")), "{name}");
    }
    let metrics = cluster.to_gateway(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let answered = metrics.lines().find(|line| line.contains("request_duration_seconds_count{outcome=\"committed\"}"));
    assert_eq!(answered.and_then(|line| line.split(' ').nth(1)), Some("40"), "{metrics}");

    // Everything else is the coordinator's, and the gateway says where that is.
    for path in ["/v1/apps", "/v1/state/testkit/a", "/v1/workers", "/v1/apps/testkit/deployments"] {
        let answer = told(cluster.to_gateway(Method::GET, path)).await;
        answer.is_error(path, 421, "NOT_HERE", "gateway");
        assert!(answer.hint().contains(cluster.admin()), "{}", answer.hint());
    }
    // Whoever mixes up its ports is told so.
    let answer = told(cluster.to_ingress(Method::GET, "/v1/apps")).await;
    answer.is_error("/v1/apps", 421, "NOT_HERE", "this is the port of calls");
    assert!(answer.hint().contains(cluster.admin()), "{}", answer.hint());
    let answer = told(cluster.to_gateway(Method::POST, "/v1/send/testkit/a/k/append")).await;
    answer.is_error("a call", 421, "NOT_HERE", "this is an admin port");
    assert!(answer.hint().contains(cluster.ingress()), "{}", answer.hint());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_reach_workers_that_join_later_and_gateways_that_start_later() {
    let mut cluster = Cluster::with_testkit(1).await;
    assert_eq!(cluster.call("testkit/a/x/append", "[1]").await.status, 200);
    let generation = cluster.generation().await;
    let worker = cluster.add_worker();
    cluster.run(&[worker]).await;
    cluster.settles(2, generation).await;
    cluster.kill(&[Role::Gateway]).await;
    cluster.run(&[Role::Gateway]).await;
    // Calls wait until the gateway knows what is deployed.
    assert_eq!(cluster.call("testkit/a/x/append", "[1]").await.body, json!([1, 1]));
    let removed = told(cluster.to_admin(Method::DELETE, "/v1/apps/testkit")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    loop {
        match cluster.call("testkit/a/x/append", "[1]").await.code() {
            "UNKNOWN_APP" => break,
            "OK" | "UNKNOWN_OPERATOR" => tokio::time::sleep(Duration::from_millis(20)).await,
            other => panic!("{other}"),
        }
    }
    let started = Instant::now();
    while cluster.get("/v1/cluster").await["entities"] != 0 {
        assert!(started.elapsed() < PATIENCE, "what belonged to the app is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
