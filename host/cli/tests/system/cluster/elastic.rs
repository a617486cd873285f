//! Workers come and go under load: who comes gets its share, who goes gives its partitions away, and nobody notices; the
//! autoscaler has a command bring them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use styx_harness::Role;

use super::migrations::migrate;
use crate::process::Endpoints;
use crate::process::cluster::{Cluster, PATIENCE};
use crate::process::load::Load;

fn partitions(workers: &Value) -> Vec<u64> {
    workers["workers"].as_array().into_iter().flatten().filter_map(|worker| worker["partitions"].as_u64()).collect()
}

async fn partitions_of(cluster: &Cluster) -> Vec<u64> {
    partitions(&cluster.get("/v1/workers").await)
}

/// Waits until partitions are spread like that.
async fn spreads(cluster: &Cluster, enough: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    partitions(&cluster.until("/v1/workers", |seen| enough(&partitions(seen))).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_gets_its_share_and_who_goes_gives_it_away() {
    let mut cluster = Cluster::with_testkit_and(2, &["--snapshot-interval", "200ms"]).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    cluster.stop(Role::Worker(1)).await;
    let alone = cluster.settles(1, generation).await;
    assert_eq!(partitions_of(&cluster).await, [1024]);
    let migrations = cluster.get("/v1/migrations").await;
    assert_eq!(migrations["migrations"][0]["state"], "done", "{migrations}");
    assert_eq!(migrations["migrations"][0]["partitions"], json!({ "done": 512, "of": 512 }), "{migrations}");
    load.goes_on(100).await;

    cluster.run(&[Role::Worker(1)]).await;
    cluster.settles(2, alone).await;
    let shared = spreads(&cluster, |partitions| partitions.len() == 2 && !partitions.contains(&0)).await;
    assert_eq!(shared.iter().sum::<u64>(), 1024);
    load.goes_on(100).await;

    // Who was emptied stays so, whoever coordinates.
    let (status, body) = migrate(&cluster, Method::POST, json!({ "empty": 2 })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let before = cluster.generation().await;
    cluster.kill(&[Role::Coordinator]).await;
    cluster.run(&[Role::Coordinator]).await;
    cluster.settles(2, before).await;
    let mut partitions = partitions_of(&cluster).await;
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1024]);
    load.goes_on(100).await;
    let outcome = load.ends().await;
    println!("{outcome}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_may_stop_everything_and_nothing_is_lost() {
    let mut cluster = Cluster::with_testkit_and(2, &["--snapshot-interval", "1s"]).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    let (status, body) = migrate(&cluster, Method::POST, json!({ "empty": 2, "mode": "stop-and-restart" })).await;
    assert_eq!((status, &body["migration"]["state"]), (StatusCode::OK, &json!("done")), "{body}");
    cluster.settles(2, generation).await;
    assert_eq!(spreads(&cluster, |partitions| partitions.len() == 2).await, [1024, 0]);
    load.goes_on(100).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0, "no request was doubtful");
    let (status, body) = migrate(&cluster, Method::POST, json!({ "empty": 2, "mode": "at-once" })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
}

/// A program that notes what it is called with.
fn command(directory: &Path) -> (String, std::path::PathBuf) {
    let (program, told) = (directory.join("scale"), directory.join("told"));
    // The first time it fails.
    let script = format!(
        "#!/bin/sh\nif mkdir {0}.first 2>/dev/null; then echo not yet >&2; exit 1; fi\necho \"$@\" >> {0}\n",
        told.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program.to_str().unwrap().to_owned(), told)
}

/// The first line that says so; where a worker takes long to join, the command is called again.
async fn is_told(told: &Path, verb: &str) -> String {
    let began = Instant::now();
    loop {
        if let Some(said) =
            std::fs::read_to_string(told).unwrap_or_default().lines().find(|line| line.starts_with(verb))
        {
            return said.to_owned();
        }
        assert!(began.elapsed() < 2 * PATIENCE, "the command was not called");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_autoscaler_has_a_command_bring_a_worker_under_load_and_stop_one_without() {
    let directory = tempfile::tempdir().unwrap();
    let (program, told) = command(directory.path());
    let more = [
        "--autoscale",
        "1..2",
        "--autoscale-command",
        &program,
        "--autoscale-interval",
        "300ms",
        "--autoscale-target",
        "10",
    ];
    let mut cluster = Cluster::with_testkit_and(2, &more).await;
    let generation = cluster.generation().await;
    cluster.stop(Role::Worker(1)).await;
    let alone = cluster.settles(1, generation).await;
    let load = Load::on(&cluster.client());
    let out = is_told(&told, "out ").await;
    assert_eq!(out, "out 1 2");
    let scaler = cluster.get("/v1/autoscaler").await;
    assert_eq!((&scaler["mode"], &scaler["max"]), (&json!("performs"), &json!(2)), "{scaler}");
    let decided = &scaler["decisions"][0];
    assert_eq!((&decided["wish"], &decided["wanted"]), (&json!("out"), &json!(2)), "{scaler}");
    assert!(decided["command"]["tries"].as_u64() >= Some(1), "{scaler}");
    cluster.run(&[Role::Worker(1)]).await;
    cluster.settles(2, alone).await;
    spreads(&cluster, |partitions| partitions.len() == 2 && !partitions.contains(&0)).await;
    load.ends().await;
    let fewer = is_told(&told, "in ").await;
    assert!(fewer.starts_with("in 2 1 127.0.0.1:"), "{fewer}");
}
