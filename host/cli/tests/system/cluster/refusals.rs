//! What does not belong into a cluster is refused, in words that say why.

use std::process::Output;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use styx_harness::{Options, Role};
use tokio::process::Command;

use crate::process::cluster::{Cluster, PATIENCE, options};
use crate::process::{Endpoints, FREE, told};

/// Runs a server that must not start.
async fn fails(arguments: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_styx")).arg("server").args(arguments).kill_on_drop(true).output();
    tokio::time::timeout(PATIENCE, run).await.expect("it ends").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_refused_in_one_line() {
    let output = fails(&["--role", "gateway", "--coordinator", "localhost"]).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.starts_with("error CONFIG_INVALID: \"localhost\" is no address of a coordinator"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_and_an_address_belong_to_one_process() {
    let cluster = Cluster::start(options(1, &[])).await;
    let data = cluster.directory().join("worker-1");
    let at = cluster.coordinators();
    let output = fails(&["--role", "worker", "--coordinator", at, "--data-dir", data.to_str().unwrap()]).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("error DATA_LOCKED: another process uses"), "{told}");
    let other = cluster.directory().join("other");
    let flags = ["--role", "coordinator", "--cluster-addr", at, "--admin-addr", FREE, "--data-dir"];
    let output = fails(&[&flags[..], &[other.to_str().unwrap()]].concat()).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("error ADDRESS: cannot listen on") && told.contains("--cluster-addr"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_another_engine_is_refused_with_both_named() {
    let worker_flags = ["--determinism-check", "off"].map(str::to_owned).into();
    let mut cluster = Cluster::prepare(Options { worker_flags, ..options(1, &[]) });
    cluster.run(&[Role::Coordinator, Role::Worker(0)]).await;
    let own = cluster.get("/v1/cluster").await["engine"].as_str().unwrap().to_owned();
    // It could only be refused again: it ends, and says why.
    let (status, told) = cluster.process_mut(Role::Worker(0)).ended().await.unwrap();
    assert_eq!(status.code(), Some(1));
    let told = |name: &str| told["error"][name].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let (code, line, hint) = (told("code"), told("message"), told("hint"));
    assert!(code == "REFUSED" && line.contains(cluster.coordinators()), "{code}: {line}");
    let (_, builds) = line.split_once("engine hash: mine ").unwrap_or_else(|| panic!("{line}"));
    let (mine, yours) = builds.split_once(", yours ").unwrap_or_else(|| panic!("{line}"));
    assert!(mine == own && yours != own && yours.len() == own.len(), "{line}, and the coordinator runs {own}");
    assert!(hint.contains("run the same release with the same engine options"), "{line}");
    let seen = cluster.get("/v1/cluster").await;
    assert_eq!((&seen["live"], &seen["workers"]), (&json!(false), &json!(0)), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_workers_nothing_is_ready_and_requests_wait() {
    let mut cluster = Cluster::prepare(options(1, &[]));
    cluster.run(&[Role::Coordinator, Role::Gateway]).await;
    for to in [Cluster::to_admin, Cluster::to_gateway] {
        let alive = told(to(&cluster, Method::GET, "/healthz")).await;
        assert_eq!(alive.status, 200);
        let ready = told(to(&cluster, Method::GET, "/readyz")).await;
        ready.is_error("readyz", 503, "NOT_READY", "missing");
    }
    // Whether there is such an app shows when there are workers.
    let call = tokio::spawn(told(cluster.to_ingress(Method::POST, "/v1/call/shop/stock/apple/take").body("[]")));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!call.is_finished());
    cluster.run(&[Role::Worker(0)]).await;
    call.await.unwrap().is_error("a call", 404, "UNKNOWN_APP", "shop");
}
