//! What a state of values of a kilobyte costs in memory, once it has been written and a few snapshots
//! have been taken.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Endpoints, Process};

/// Snapshots are taken when the test says so.
const MORE: &[&str] = &["--snapshot-interval", "1h"];

/// Entities of a request.
const BATCH: u64 = 500;

/// Puts a list of about a kilobyte into each of these entities.
async fn put(server: &Process, keys: std::ops::Range<u64>, salt: u64) {
    let one = async |from: u64, until: u64| {
        let line = |key: u64| {
            let list: Vec<u64> =
                (0..93).map(|at| 1_000_000_000 + (key * 7919 + at * 104_729 + salt) % 1_000_000_000).collect();
            json!({"id": key, "app": "testkit", "operator": "a", "key": format!("key-{key:08}"), "function": "put", "args": [list]})
                .to_string()
        };
        let lines: Vec<String> = (from..until).map(line).collect();
        let answered = server.to_ingress(Method::POST, "/v1/batch").body(lines.join("\n")).send().await.unwrap();
        let answered = answered.text().await.unwrap();
        let done = answered.lines().filter(|line| line.contains("\"ok\"")).count() as u64;
        assert_eq!(done, until - from, "{}", answered.lines().next().unwrap_or_default());
    };
    let mut from = keys.start;
    while from < keys.end {
        let (middle, until) = ((from + BATCH).min(keys.end), (from + 2 * BATCH).min(keys.end));
        tokio::join!(one(from, middle), one(middle, until));
        from = until;
    }
}

async fn metric(server: &Process, name: &str) -> f64 {
    let metrics = server.metrics().await;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name)).expect("it is a metric");
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Writes so many values, then overwrites tenths of them between snapshots, then restarts. Keys and values in MiB, and
/// what the process has more of memory than before.
async fn measure(keys: u64) -> (f64, f64) {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::with_testkit(&directory.path().join("data"), MORE).await;
    put(&server, 0..2 * BATCH, 0).await;
    let before = server.memory();
    put(&server, 0..keys, 1).await;
    let loaded = server.memory();
    let mut taken: Vec<Value> = Vec::new();
    for salt in 2..5 {
        taken.push(server.snapshot().await);
        put(&server, 0..keys / 10, salt).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (payload, after) = (metric(&server, "styx_state_bytes").await / (1 << 20) as f64, server.memory());
    assert!(taken.iter().all(|taken| taken["epoch"].is_u64()), "{taken:?}");
    let server = server.kill_and_restart(MORE).await;
    assert!(server.snapshot_epoch > 0);
    let restarted = server.memory();
    let of = |memory: u64| memory.saturating_sub(before) as f64 / payload;
    eprintln!(
        "{keys} keys, {payload:.0} MiB: {before} MiB before, {loaded} loaded, {after} after snapshots, {restarted} after \
         a restart; without what was there before {:.2}, {:.2} and {:.2} of the payload",
        of(loaded),
        of(after),
        of(restarted)
    );
    (payload, (after.max(restarted) - before) as f64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_costs_little_more_memory_than_its_bytes() {
    let (payload, memory) = measure(20_000).await;
    // Whoever writes records and snapshots needs some memory, however small they are.
    assert!(memory <= 2.2 * payload + 128.0, "{memory} MiB for {payload} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: a minute, and a gigabyte of memory"]
async fn three_hundred_thousand_values_of_a_kilobyte() {
    let (payload, memory) = measure(300_000).await;
    assert!(memory <= 2.2 * payload, "{memory} MiB for {payload} MiB");
}
