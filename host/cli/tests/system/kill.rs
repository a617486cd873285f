//! A server that is killed with SIGKILL, again and again, in the middle of work: nothing that was
//! acknowledged is lost, nothing is done twice, and no answer is ever taken back.

use std::process::Stdio;
use std::time::Duration;

use styx_storage::log::{EmbeddedLog, EmbeddedOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::process::load::Load;
use crate::process::{Endpoints, Process};

const ROUNDS: u64 = 10;
/// As many as there is time for.
const SNAPSHOTS: &[&str] = &["--snapshot-interval", "5ms"];

/// Recovery replays the whole log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_kills_lose_double_and_change_nothing() {
    kills(&["--store", "none"], 40).await;
}

/// Recovery begins with a snapshot, some of which are cut short by the kill, and the log is trimmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_kills_between_snapshots_lose_double_and_change_nothing() {
    let restored = kills(SNAPSHOTS, 100).await;
    assert!(restored >= ROUNDS / 2, "{restored} of {ROUNDS} restarts began with a snapshot");
}

/// Kills a server with these arguments after so many answers at a time, and says how often it began with a newer snapshot than before.
async fn kills(more: &[&str], pause: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::with_testkit(&directory.path().join("data"), more).await;
    let load = Load::on(&server.client());
    let (mut reached, mut snapshot, mut restored) = (0, 0, 0);
    for round in 0..ROUNDS {
        // At least some answers, then an arbitrary moment.
        load.goes_on(pause).await;
        // Every other time there is a newer snapshot; otherwise the kill may come in the middle of one.
        let newer = |listed: serde_json::Value| listed["last"]["epoch"].as_u64().is_some_and(|epoch| epoch > snapshot);
        while more == SNAPSHOTS && round % 2 == 1 && !newer(server.get("/v1/snapshots").await) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_micros(round * 1337 % 7000)).await;
        server = server.kill_and_restart(more).await;
        let now = server.snapshot_epoch + server.epochs_replayed;
        assert!(now > reached, "recovery comes further each time");
        assert!(server.snapshot_epoch >= snapshot, "a snapshot that was there is there");
        restored += u64::from(server.snapshot_epoch > snapshot);
        (reached, snapshot) = (now, server.snapshot_epoch);
    }
    load.goes_on(pause).await;
    println!("{ROUNDS} kills, epoch {reached} reached, {restored} snapshots restored: {}", load.ends().await);
    restored
}

/// Whoever was killed may hold its addresses and its log for a moment still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_an_address_and_a_log_that_are_just_being_freed() {
    let directory = tempfile::tempdir().unwrap();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let log = EmbeddedLog::open(&directory.path().join("log"), EmbeddedOptions::default()).unwrap();
    let freed = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(400)).await;
        drop(held);
        tokio::time::sleep(Duration::from_millis(1200)).await;
        drop(log);
    });
    let mut server = Command::new(env!("CARGO_BIN_EXE_styx"))
        .args(["server", "--json", "--ingress-addr", &address, "--admin-addr", "127.0.0.1:0", "--data-dir"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let ready = lines.next_line().await.unwrap().unwrap();
    assert!(ready.contains(&address) && freed.is_finished(), "{ready}");
    server.kill().await.unwrap();
}
