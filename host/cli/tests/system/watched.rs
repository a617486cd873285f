//! How a request went, as it is told afterwards: of one process, and of the workers of a cluster together.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::cluster::Cluster;
use crate::process::{Endpoints, Process};

/// Calls with a header that has it watched; gives what is told of it when it has ended.
async fn watched(server: &impl Endpoints, target: &str, arguments: Value) -> Value {
    let request = server.to_ingress(Method::POST, &format!("/v1/call/{target}"));
    let answer = request.header("styx-trace", "1").body(arguments.to_string()).send().await.unwrap();
    let id = answer.headers()["styx-request-id"].to_str().unwrap().to_owned();
    server.get(&format!("/v1/requests/{id}/trace")).await
}

/// The calls of an attempt, by key: who called it, where it ran, and whether asynchronously.
fn calls(attempt: &Value) -> Vec<(String, Option<String>, u64, bool)> {
    let calls = attempt["calls"].as_array().unwrap();
    let key_of =
        |id: &Value| calls.iter().find(|call| call["id"] == *id).map(|call| call["key"].as_str().unwrap().to_owned());
    let call = |call: &Value| {
        let key = call["key"].as_str().unwrap().to_owned();
        (key, key_of(&call["parent"]), call["worker"].as_u64().unwrap(), call["asynchronous"] == json!(true))
    };
    let mut all: Vec<_> = calls.iter().map(call).collect();
    all.sort();
    all
}

fn last(trace: &Value) -> &Value {
    trace["attempts"].as_array().unwrap().last().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_process_tells_of_calls_and_lines() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::with_testkit(directory.path(), &["--trace-sample", "off"]).await;
    let trace = watched(&server, "testkit/a/one/append_all", json!([["two", "three"], 7])).await;
    assert_eq!(trace["status"], "committed", "{trace}");
    let root = Some("one".to_owned());
    let expected = [("one", None, false), ("three", root.clone(), false), ("two", root, false)];
    let expected = expected.map(|(key, parent, asynchronous)| (key.to_owned(), parent, 1, asynchronous));
    assert_eq!(calls(last(&trace)), expected, "{trace}");
    let fuel = |at: usize| last(&trace)["calls"][at]["fuel"].as_u64().unwrap();
    assert!((0..3).all(|at| fuel(at) > 0), "{trace}");

    let trace = watched(&server, "testkit/a/one/fan_out", json!([2])).await;
    let below: Vec<_> = calls(last(&trace)).into_iter().filter(|(_, parent, ..)| parent.is_some()).collect();
    assert!(below.len() == 2 && below.iter().all(|(.., asynchronous)| *asynchronous), "{trace}");

    let trace = watched(&server, "testkit/a/one/chatter", json!([3])).await;
    assert_eq!(trace["logs"].as_array().unwrap().len(), 3, "{trace}");
    let id = trace["request_id"].as_str().unwrap();
    let lines = |query: String| {
        let request = server.to_admin(Method::GET, &format!("/v1/logs?{query}"));
        async move { request.send().await.unwrap().text().await.unwrap().matches("event: line").count() }
    };
    assert_eq!(lines(format!("request={id}")).await, 3);
    assert_eq!(lines(format!("request={id}&tail=2")).await, 2);
    assert_eq!(lines("app=other".into()).await, 0);
    assert_eq!(lines("function=a.chatter&app=testkit".into()).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_tell_together_of_a_graph_that_they_share() {
    let cluster = Cluster::with_testkit(2).await;
    let others: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    let trace = watched(&cluster, "testkit/a/root/append_all", json!([others, 7])).await;
    assert_eq!(trace["status"], "committed", "{trace}");
    let calls = calls(last(&trace));
    assert_eq!(calls.len(), 9, "{trace}");
    let workers: BTreeSet<u64> = calls.iter().map(|(_, _, worker, _)| *worker).collect();
    assert_eq!(workers, BTreeSet::from([1, 2]), "{trace}");
    assert!(calls.iter().all(|(key, parent, ..)| (key == "root") == parent.is_none()), "{trace}");

    let trace = watched(&cluster, "testkit/a/root/fail", json!(["no"])).await;
    assert_eq!([&trace["status"], &trace["code"]], ["aborted", "ABORTED"], "{trace}");
    let list = cluster.get("/v1/requests?kind=aborted").await;
    assert_eq!(list["requests"][0]["request_id"], trace["request_id"], "{list}");

    watched(&cluster, "testkit/a/root/chatter", json!([2])).await;
    let lines = cluster.to_admin(Method::GET, "/v1/logs").send().await.unwrap().text().await.unwrap();
    assert_eq!(lines.matches("event: line").count(), 2, "{lines}");
}

/// What is told of the last write of an entity, values only: before and after.
async fn change(server: &impl Endpoints, key: &str) -> (Value, Value) {
    let told = server.get(&format!("/v1/state/testkit/a/{key}/last-write")).await;
    assert_eq!(told["change"]["known"], "yes", "{key}: {told}");
    (told["change"]["before"]["value"].clone(), told["change"]["after"]["value"].clone())
}

/// Many that are watched at a time change the same: each that commits changes what the one before has made of it.
async fn the_last_of_many(server: &(impl Endpoints + Sync), target: &str, arguments: Value, keys: &[&str]) {
    const AT_A_TIME: usize = 32;
    let calls = (0..AT_A_TIME).map(|_| watched(server, target, arguments.clone()));
    let traces = join_all(calls).await;
    assert!(traces.iter().all(|trace| trace["status"] == "committed"), "{traces:?}");
    let kinds: BTreeSet<&str> = traces.iter().map(|trace| last(trace)["kind"].as_str().unwrap()).collect();
    println!("{target}: {kinds:?}");
    for key in keys {
        let list = |length: usize| json!(vec![7; length]);
        assert_eq!(change(server, key).await, (list(AT_A_TIME - 1), list(AT_A_TIME)), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_entity_was_before_is_known_however_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--trace-sample", "off", "--slice-fuel", "5000000"];
    let server = Process::with_testkit(directory.path(), &flags).await;
    the_last_of_many(&server, "testkit/a/one/append", json!([7]), &["one"]).await;
    the_last_of_many(&server, "testkit/a/two/append_all", json!([["three"], 7]), &["two", "three"]).await;
    watched(&server, "testkit/a/one/delete", json!([])).await;
    assert_eq!(change(&server, "one").await, (json!(vec![7; 32]), Value::Null));
    watched(&server, "testkit/a/one/append", json!([8])).await;
    assert_eq!(change(&server, "one").await, (Value::Null, json!([8])));
    // One that runs beside the epochs.
    let trace = watched(&server, "testkit/a/one/append_slowly", json!([9, 2_000_000])).await;
    assert_eq!((&trace["status"], &last(&trace)["kind"]), (&json!("committed"), &json!("long")), "{trace}");
    assert_eq!(change(&server, "one").await, (json!([8]), json!([8, 9])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_know_what_their_entities_were_before() {
    let cluster = Cluster::with_testkit(2).await;
    let others: Vec<String> = (0..4).map(|n| format!("k{n}")).collect();
    let keys = ["root", "k0", "k1", "k2", "k3"];
    the_last_of_many(&cluster, "testkit/a/root/append_all", json!([others, 7]), &keys).await;
}
