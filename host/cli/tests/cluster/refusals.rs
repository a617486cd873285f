//! What does not belong into a cluster is refused, in words that say why.

use std::process::Output;
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::json;
use tokio::process::Command;

use crate::process::told;
use crate::support::{Cluster, FREE, PATIENCE, Part, coordinator, gateway, worker};

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
    let cluster = Cluster::start(1).await;
    let data = cluster.directory().join("worker-0");
    let at = cluster.coordinator.at("cluster");
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
    let directory = tempfile::tempdir().unwrap();
    let coordinator = coordinator(directory.path(), FREE, FREE, 1, &[]).await;
    let http = Client::builder().timeout(PATIENCE).build().unwrap();
    let of_cluster = || told(http.request(Method::GET, format!("http://{}/v1/cluster", coordinator.at("admin"))));
    let (at, within) = (coordinator.at("cluster"), directory.path().display());
    let flags = format!("--role worker --coordinator {at} --determinism-check off --data-dir {within}/worker");
    let mut worker = Part::start(directory.path(), "worker", &flags, &[]).await;
    let own = of_cluster().await.body["engine"].as_str().unwrap().to_owned();
    // It could only be refused again: it ends, and says why.
    let (status, told) = worker.ended().await;
    assert_eq!(status, Some(1));
    let told = |name: &str| told["error"][name].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let (code, line, hint) = (told("code"), told("message"), told("hint"));
    assert!(code == "REFUSED" && line.contains(coordinator.at("cluster")), "{code}: {line}");
    let (_, builds) = line.split_once("engine hash: mine ").unwrap_or_else(|| panic!("{line}"));
    let (mine, yours) = builds.split_once(", yours ").unwrap_or_else(|| panic!("{line}"));
    assert!(mine == own && yours != own && yours.len() == own.len(), "{line}, and the coordinator runs {own}");
    assert!(hint.contains("run the same release with the same engine options"), "{line}");
    let seen = of_cluster().await.body;
    assert_eq!((&seen["live"], &seen["workers"]), (&json!(false), &json!(0)), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_workers_nothing_is_ready_and_requests_wait() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = coordinator(directory.path(), FREE, FREE, 1, &[]).await;
    let gateway = gateway(directory.path(), coordinator.at("cluster")).await;
    let http = Client::builder().timeout(PATIENCE).build().unwrap();
    for address in [coordinator.at("admin"), gateway.at("admin")] {
        let alive = told(http.get(format!("http://{address}/healthz"))).await;
        assert_eq!(alive.status, 200);
        let ready = told(http.get(format!("http://{address}/readyz"))).await;
        ready.is_error("readyz", 503, "NOT_READY", "missing");
    }
    // Whether there is such an app shows when there are workers.
    let call = http.post(format!("http://{}/v1/call/shop/stock/apple/take", gateway.at("ingress"))).body("[]");
    let call = tokio::spawn(told(call));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!call.is_finished());
    let _worker = worker(directory.path(), "worker", coordinator.at("cluster"), &[]).await;
    call.await.unwrap().is_error("a call", 404, "UNKNOWN_APP", "shop");
}
