//! Workers and the coordinator are killed with SIGKILL under load: nothing that was acknowledged is
//! lost, nothing is done twice, no answer is ever taken back, and whoever brought a key never learns of it.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Method;
use styx_storage::snapshot::{SnapshotStore, StoreLocation};

use crate::process::load::{KEYS, Load};
use crate::process::told;
use crate::support::Cluster;

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
    let load = Load::on(&cluster.client());
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
    println!("{}", load.ends().await.told_by_gateway());
    restored(&cluster)
}

/// How often workers have begun with a snapshot.
fn restored(cluster: &Cluster) -> usize {
    let of = |worker: &crate::support::Part| worker.said().matches("a snapshot was restored").count();
    cluster.workers.iter().flatten().map(of).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_killed_loses_doubles_and_changes_nothing() {
    a_coordinator_is_killed(Cluster::with_testkit_and(2, NEVER).await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_killed_between_snapshots_loses_doubles_and_changes_nothing() {
    let mut cluster = a_coordinator_is_killed(Cluster::with_testkit_and(2, OFTEN).await, true).await;
    assert!(restored(&cluster) > 0, "some began with a snapshot");

    // The newest snapshot is damaged, which only a worker sees: the one before will do.
    for element in 99_000_000..99_000_020u64 {
        let path = format!("/v1/call/testkit/a/list-{}/append", element % KEYS);
        let appended = told(cluster.to_ingress(Method::POST, &path).body(format!("[{element}]"))).await;
        assert_eq!(appended.code(), "OK", "{}", appended.body);
    }
    let taken = told(cluster.to_admin(Method::POST, "/v1/snapshots")).await;
    assert_eq!(taken.status, 201, "{}", taken.body);
    let position = cluster.position().await;
    for worker in 0..2 {
        cluster.kill_worker(worker).await;
    }
    cluster.coordinator.kill().await;
    let newest = newest_part(cluster.directory().join("coordinator/snapshots")).await;
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

/// The file of the newest part of the newest snapshot, which some worker has to read.
async fn newest_part(store: PathBuf) -> PathBuf {
    let runtime = tokio::runtime::Handle::current();
    let find = move || {
        let place = StoreLocation::new(store.to_str().unwrap());
        let identity = SnapshotStore::identify(&place, &runtime).unwrap().expect("it is in use");
        let store_at = SnapshotStore::open(&place, identity, &runtime).unwrap();
        let (manifest, _) = store_at.newest_complete(None).unwrap().expect("there is one");
        let newest = manifest.partitions.values().flatten().max_by_key(|part| part.epoch);
        store.join(&newest.expect("something was written").object)
    };
    tokio::task::spawn_blocking(find).await.unwrap()
}

async fn a_coordinator_is_killed(mut cluster: Cluster, often: bool) -> Cluster {
    let load = Load::on(&cluster.client());
    for _ in 0..3 {
        load.goes_on(100).await;
        let generation = cluster.generation().await;
        cluster.restart_coordinator().await;
        cluster.settles(2, generation).await;
    }
    load.goes_on(100).await;
    println!("{}", load.ends().await.told_by_gateway());
    if often {
        // On a busy machine the first one may take longer than the load.
        for _ in 0..200 {
            if cluster.get("/v1/snapshots").await["snapshots"].as_array().is_some_and(|taken| !taken.is_empty()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
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
