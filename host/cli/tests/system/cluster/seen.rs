//! What the coordinator's admin port tells of the processes of a cluster: what gateways have answered, who is there and who is lost;
//! and the calls that it takes for pages.

use reqwest::Method;
use serde_json::{Value, json};
use styx_harness::Role;

use crate::process::cluster::Cluster;
use crate::process::{Endpoints, told};

fn outcome(traffic: &Value, name: &str) -> u64 {
    let outcomes = traffic["outcomes"].as_array().into_iter().flatten();
    outcomes.filter(|one| one["outcome"] == name).filter_map(|one| one["count"].as_u64()).sum()
}

fn of_function<'a>(traffic: &'a Value, name: &str) -> &'a Value {
    let functions = traffic["functions"].as_array().into_iter().flatten();
    functions.into_iter().find(|one| one["function"] == name).unwrap_or(&Value::Null)
}

fn nodes<'a>(seen: &'a Value, role: &str) -> Vec<&'a Value> {
    seen["nodes"].as_array().into_iter().flatten().filter(|node| node["role"] == role).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_report_what_they_have_answered_and_it_adds_up() {
    let mut cluster = Cluster::with_testkit(2).await;
    for key in 0..30 {
        assert_eq!(cluster.call(&format!("testkit/a/k{key}/append"), "[1]").await.status, 200);
    }
    assert_eq!(cluster.call("testkit/a/k1/nothing", "[]").await.code(), "UNKNOWN_FUNCTION");
    let second = cluster.another_gateway(&[]).await;
    for key in 0..20 {
        let path = format!("http://{}/v1/call/testkit/a/k{key}/append", second.text("ingress"));
        assert_eq!(told(cluster.http().post(path).body("[2]")).await.status, 200);
    }
    let traffic = cluster.until("/v1/traffic", |seen| outcome(seen, "committed") >= 50).await;
    assert_eq!((outcome(&traffic, "committed"), outcome(&traffic, "refused")), (50, 1), "{traffic}");
    assert_eq!(traffic["errors"], json!([{ "code": "UNKNOWN_FUNCTION", "count": 1 }]));
    let append = of_function(&traffic, "append");
    let in_buckets: u64 =
        append["buckets"].as_array().into_iter().flatten().filter_map(|bucket| bucket["count"].as_u64()).sum();
    assert_eq!((&append["succeeded"], in_buckets), (&json!(50), 50), "{append}");
    assert!(append["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{append}");
    // Workers report what they have executed, each of its own time.
    let executed = |seen: &Value| of_function(seen, "append")["invocations"].as_u64().is_some_and(|all| all >= 50);
    let traffic = cluster.until("/v1/traffic", executed).await;
    let append = of_function(&traffic, "append");
    assert!(append["fuel"].as_u64() > append["invocations"].as_u64().map(|all| 10 * all), "{append}");

    // Another process in the place of one that was killed counts from nothing, and what was counted stays.
    cluster.kill(&[Role::Gateway]).await;
    cluster.run(&[Role::Gateway]).await;
    assert_eq!(cluster.call("testkit/a/k1/append", "[3]").await.status, 200);
    cluster.until("/v1/traffic", |seen| outcome(seen, "committed") == 51).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_are_shown_with_how_they_fare_and_who_is_lost_needs_attention() {
    let mut cluster = Cluster::with_testkit(2).await;
    let seen = cluster.until("/v1/nodes", |seen| seen["nodes"].as_array().is_some_and(|all| all.len() == 4)).await;
    let coordinator = nodes(&seen, "coordinator")[0];
    assert_eq!((&coordinator["leads"]["why"], &coordinator["silent_ms"]), (&json!("only"), &Value::Null));
    let workers = nodes(&seen, "worker");
    assert_eq!(workers.iter().map(|worker| &worker["worker"]).collect::<Vec<_>>(), [&json!(1), &json!(2)]);
    let gateway = nodes(&seen, "gateway")[0];
    assert_eq!(gateway["ingress"], format!("http://{}", cluster.process(Role::Gateway).text("ingress")));
    for node in seen["nodes"].as_array().unwrap() {
        assert_eq!((&node["status"], &node["version"]), (&json!("alive"), &json!(env!("CARGO_PKG_VERSION"))), "{node}");
        assert!(node["resident_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{node}");
        let has_data = node["role"] != "gateway";
        assert_eq!(node["disk"]["free"].as_u64().is_some_and(|free| free > 0), has_data, "{node}");
    }
    let is_told = |seen: &Value, kind: &str| {
        seen["attention"].as_array().into_iter().flatten().any(|one| one["kind"] == kind && one["action"] != "")
    };
    let calm = cluster.get("/v1/attention").await;
    assert!(!is_told(&calm, "worker-lost") && !is_told(&calm, "gateway-lost"), "{calm}");
    cluster.kill(&[Role::Worker(1)]).await;
    cluster.until("/v1/attention", |seen| is_told(seen, "worker-lost")).await;
    let lost = cluster.get("/v1/nodes").await;
    assert!(nodes(&lost, "worker").iter().any(|worker| worker["status"] == "lost"), "{lost}");
    cluster.run(&[Role::Worker(1)]).await;
    cluster.until("/v1/attention", |seen| !is_told(seen, "worker-lost")).await;

    // Who was told to end is missed by nobody.
    cluster.stop(Role::Gateway).await;
    cluster.until("/v1/nodes", |seen| nodes(seen, "gateway").is_empty()).await;
    assert!(!is_told(&cluster.get("/v1/attention").await, "gateway-lost"));
    cluster.run(&[Role::Gateway]).await;
    cluster.until("/v1/nodes", |seen| !nodes(seen, "gateway").is_empty()).await;
    cluster.kill(&[Role::Gateway]).await;
    cluster.until("/v1/attention", |seen| is_told(seen, "gateway-lost")).await;
    // It is back, as another process at the same place.
    cluster.run(&[Role::Gateway]).await;
    cluster.until("/v1/attention", |seen| !is_told(seen, "gateway-lost")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_takes_calls_for_pages() {
    let cluster = Cluster::with_testkit(2).await;
    assert_eq!(cluster.get("/v1/identity").await["ingress"], Value::Null);
    let call = |key: usize, function: &str| {
        let request = cluster.to_admin(Method::POST, &format!("/v1/call/testkit/a/k{key}/{function}"));
        told(request.body("[7]"))
    };
    for key in 0..20 {
        let answer = call(key, "append").await;
        assert_eq!((answer.status, &answer.body), (200, &json!([7])), "{key}");
    }
    call(0, "nothing").await.is_error("an unknown function", 404, "UNKNOWN_FUNCTION", "nothing");
    // It is one cluster: a gateway sees what was written.
    assert_eq!(cluster.call("testkit/a/k3/append", "[8]").await.body, json!([7, 8]));
    cluster.until("/v1/traffic", |seen| outcome(seen, "committed") == 21).await;
}
