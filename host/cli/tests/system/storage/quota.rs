//! Who writes without end is refused, and nobody else; what was acknowledged stays, and a way out is there.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::process::cluster::{self, Cluster, PATIENCE};
use crate::process::{Endpoints, Process, Told, testkit, told};

const ZIP: &str = "application/zip";

/// Appends to a new list of an app.
async fn append(server: &impl Endpoints, app: &str, list: usize) -> Told {
    let path = format!("/v1/call/{app}/a/list{list}/append");
    let request = server.to_ingress(Method::POST, &path).header("idempotency-key", format!("{app}-{list}"));
    told(request.json(&json!([list]))).await
}

/// Appends to one new list of an app after the other, until that is refused; how many were not.
async fn fill(server: &impl Endpoints, app: &str, code: &str) -> usize {
    let started = Instant::now();
    for list in 0.. {
        let told = append(server, app, list).await;
        if told.status != 200 {
            told.is_error(app, 507, code, "nothing was done");
            return list;
        }
        assert!(started.elapsed() < PATIENCE, "{app} is never refused");
    }
    unreachable!("it is refused or too late")
}

async fn is_let_in(server: &impl Endpoints, app: &str) {
    let started = Instant::now();
    loop {
        let told = server.call(&format!("{app}/a/last/append"), "[1]").await;
        if told.status == 200 {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{app} is never let in again: {}", told.body);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn delete(server: &impl Endpoints, app: &str) {
    let told = told(server.to_admin(Method::DELETE, &format!("/v1/apps/{app}"))).await;
    assert_eq!(told.status, 200, "{}", told.body);
}

/// An app has more than it may: it alone is refused, until it is gone or has less.
async fn greedy_and_modest(server: &impl Endpoints) -> usize {
    for app in ["greedy", "modest"] {
        server.deploy(app, ZIP, testkit().await).await.is_deployed();
    }
    let lists = fill(server, "greedy", "APP_STATE_FULL").await;
    // Each takes more than 200 bytes, of 30,000; and some are taken until somebody looks.
    assert!(lists >= 100, "{lists}");
    assert_eq!(append(server, "modest", 1).await.status, 200);
    let list = told(server.to_ingress(Method::POST, "/v1/call/greedy/a/list7/list").body("[]")).await;
    assert_eq!((list.status, &list.body), (200, &json!([7])), "reads go on");
    assert_eq!(append(server, "greedy", 7).await.body, json!([7]), "a retry is told its reply");
    lists
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_that_has_as_much_state_as_it_may_is_refused_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--app-state", "30000"];
    let server = Process::start(&directory.path().join("data"), &more).await;
    let lists = greedy_and_modest(&server).await;
    let metrics = server.metrics().await;
    assert!(metrics.lines().any(|line| line == "styx_full_apps 1.0"), "{metrics}");
    assert!(metrics.lines().any(|line| line == "styx_state_full 0.0"), "{metrics}");

    // A restart lets nobody have more.
    let server = server.kill_and_restart(&more).await;
    let started = Instant::now();
    let mut next = lists;
    while append(&server, "greedy", next).await.status == 200 {
        assert!(started.elapsed() < PATIENCE, "it is let in by a restart");
        next += 1;
    }
    // Entities can be removed, and then there is room.
    let put = told(server.to_ingress(Method::POST, "/v1/call/greedy/a/more/styx.put").body("[[1]]")).await;
    put.is_error("a write", 507, "APP_STATE_FULL", "nothing was done");
    for list in 0..next {
        let delete = server.to_ingress(Method::POST, &format!("/v1/call/greedy/a/list{list}/styx.delete"));
        assert_eq!(told(delete).await.status, 200);
    }
    is_let_in(&server, "greedy").await;
    delete(&server, "greedy").await;
    server.deploy("greedy", ZIP, testkit().await).await.is_deployed();
    is_let_in(&server, "greedy").await;
    let empty = told(server.to_ingress(Method::POST, "/v1/call/greedy/a/list9/list").body("[]")).await;
    assert_eq!((empty.status, &empty.body), (200, &json!([])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_has_as_much_state_as_it_may_refuses_whoever_may_write() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--state-memory", "30000", "--app-state", "1GiB"];
    let server = Process::start(&directory.path().join("data"), &more).await;
    for app in ["greedy", "modest"] {
        server.deploy(app, ZIP, testkit().await).await.is_deployed();
    }
    fill(&server, "greedy", "STATE_FULL").await;
    append(&server, "modest", 0).await.is_error("modest", 507, "STATE_FULL", "nothing was done");
    let metrics = server.metrics().await;
    assert!(metrics.lines().any(|line| line == "styx_state_full 1.0"), "{metrics}");
    // The way out.
    delete(&server, "greedy").await;
    is_let_in(&server, "modest").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_has_so_much_on_all_workers_together() {
    let cluster = Cluster::start(cluster::options(2, &["--app-state", "30000"])).await;
    greedy_and_modest(&cluster).await;
    delete(&cluster, "greedy").await;
    cluster.deploy("greedy", ZIP, testkit().await).await.is_deployed();
    is_let_in(&cluster, "greedy").await;
}
