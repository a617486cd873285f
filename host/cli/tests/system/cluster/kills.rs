//! Workers and the coordinator are killed with SIGKILL under load: nothing that was acknowledged is
//! lost, nothing is done twice, no answer is ever taken back, and whoever brought a key never learns of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use styx_harness::Role;
use styx_storage::snapshot::{SnapshotStore, StoreLocation};

use crate::process::Endpoints;
use crate::process::cluster::{Cluster, PATIENCE};
use crate::process::load::{Load, list};

const WORKERS: [Role; 2] = [Role::Worker(0), Role::Worker(1)];
/// Recovery replays the whole log.
const NEVER: &[&str] = &["--store", "none"];
const LISTS: &[&str] = &["testkit/a"];
/// Recovery begins with a snapshot, and the log is trimmed.
const OFTEN: &[&str] = &["--snapshot-interval", "50ms"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_double_and_change_nothing() {
    kills(&mut Cluster::with_testkit_and(2, NEVER).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_between_snapshots_lose_double_and_change_nothing() {
    let mut cluster = Cluster::with_testkit_and(2, OFTEN).await;
    kills(&mut cluster).await;
    // On a busy machine the first one may take longer than the load.
    let started = Instant::now();
    while cluster.get("/v1/snapshots").await["snapshots"].as_array().is_none_or(Vec::is_empty) {
        assert!(started.elapsed() < PATIENCE, "no snapshot is taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    all_are_killed(&mut cluster).await;
    let restored = |worker| cluster.process(worker).log().contains("a snapshot was restored");
    assert!(WORKERS.into_iter().any(restored), "some began with a snapshot");

    // The newest snapshot is damaged, which only a worker sees: the one before will do.
    for element in 99_000_000..99_000_020u64 {
        let target = format!("testkit/a/list-{}/append", list(element));
        let appended = cluster.call(&target, format!("[{element}]")).await;
        assert_eq!(appended.code(), "OK", "{}", appended.body);
    }
    cluster.snapshot().await;
    let (state, (epoch, _)) = (cluster.state(LISTS).await, cluster.position().await);
    kill_all(&mut cluster).await;
    let (newest, middle) = newest_part(cluster.directory().join("coordinator/snapshots")).await;
    let mut bytes = std::fs::read(&newest).unwrap();
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    start_all(&mut cluster).await;
    // Who has found the damage comes back a generation later, and gets its share by a migration: an epoch in which nobody asks anything.
    assert_eq!(cluster.state(LISTS).await, state);
    assert!([epoch, epoch + 1].contains(&cluster.position().await.0), "{epoch}");
    let said = cluster.process(Role::Coordinator).log();
    assert!(said.contains("SNAPSHOT_DAMAGED"), "{said}");
}

/// A worker is killed and comes back, another one's work is taken over, and then the coordinator is killed, thrice.
async fn kills(cluster: &mut Cluster) {
    let load = Load::on(&cluster.client());
    for round in 0..3 {
        load.goes_on(100).await;
        tokio::time::sleep(Duration::from_micros(round * 1337 % 7000)).await;
        let mut generation = cluster.generation().await;
        let victim = [WORKERS[round as usize % 2]];
        cluster.kill(&victim).await;
        if round == 1 {
            // The other one takes over, and goes on alone.
            generation = cluster.settles(1, generation).await;
            load.goes_on(50).await;
        }
        cluster.run(&victim).await;
        cluster.settles(2, generation).await;
    }
    for _ in 0..3 {
        load.goes_on(100).await;
        let generation = cluster.generation().await;
        cluster.kill(&[Role::Coordinator]).await;
        cluster.run(&[Role::Coordinator]).await;
        cluster.settles(2, generation).await;
    }
    load.goes_on(100).await;
    println!("{}", load.ends().await.told_by_gateway());
    all_are_killed(cluster).await;
}

/// All at once: they come to the same state again.
async fn all_are_killed(cluster: &mut Cluster) {
    let position = cluster.position().await;
    kill_all(cluster).await;
    start_all(cluster).await;
    assert_eq!(cluster.position().await, position, "the whole cluster comes to the same state again");
}

async fn kill_all(cluster: &mut Cluster) {
    cluster.kill(&WORKERS).await;
    cluster.kill(&[Role::Coordinator]).await;
}

async fn start_all(cluster: &mut Cluster) {
    cluster.run(&[Role::Coordinator]).await;
    cluster.run(&WORKERS).await;
    cluster.settles(2, 0).await;
}

/// The file with the newest part of the newest snapshot, and the middle of that part: a byte that some worker has to read.
/// What else the file holds may have been merged into other parts, and is read by nobody then.
async fn newest_part(store: PathBuf) -> (PathBuf, usize) {
    let runtime = tokio::runtime::Handle::current();
    let find = move || {
        let place = StoreLocation::new(store.to_str().unwrap());
        let identity = SnapshotStore::identify(&place, &runtime).unwrap().expect("it is in use");
        let store_at = SnapshotStore::open(&place, identity, &runtime).unwrap();
        let (manifest, _) = store_at.newest_complete(None).unwrap().expect("there is one");
        let newest = manifest.partitions.values().flatten().max_by_key(|part| part.epoch);
        let part = newest.expect("something was written");
        (store.join(&part.object), (part.offset + part.bytes / 2) as usize)
    };
    tokio::task::spawn_blocking(find).await.unwrap()
}
