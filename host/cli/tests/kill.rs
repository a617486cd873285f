//! A server that is killed with SIGKILL, again and again, in the middle of work: nothing that was
//! acknowledged is lost, nothing is done twice, and no answer is ever taken back.

mod process;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process::{Process, testkit};
use serde_json::json;
use styx_storage::log::{EmbeddedLog, EmbeddedOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const ROUNDS: u64 = 10;
const CLIENTS: u64 = 12;
const KEYS: u64 = 5;
/// As many as there is time for.
const SNAPSHOTS: &[&str] = &["--snapshot-interval", "5ms"];

/// One client: appends numbers of its own to lists, one after the other, and asks again under the
/// same idempotency key until it is answered.
async fn client(
    number: u64,
    ingress: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) -> Vec<(u64, u64, Vec<u64>)> {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    let mut answers = Vec::new();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let element = number * 1_000_000 + next;
        let key = element % KEYS;
        next += 1;
        let list = loop {
            let url = format!("http://{}/v1/call/testkit/a/list-{key}/append", ingress.lock().unwrap());
            let sent =
                http.post(url).header("idempotency-key", format!("e{element}")).json(&json!([element])).send().await;
            match sent {
                Ok(response) if response.status().is_success() => match response.json::<Vec<u64>>().await {
                    Ok(list) => break list,
                    Err(_) => continue,
                },
                Ok(response) if response.status() == 503 => {}
                Ok(response) => panic!("{}: {}", response.status(), response.text().await.unwrap_or_default()),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        answers.push((key, element, list));
        answered.fetch_add(1, Ordering::Relaxed);
    }
    answers
}

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
    let mut server = Process::start(&directory.path().join("data"), more).await;
    let deployed = server.deploy("testkit", "application/zip", testkit().await).await;
    assert_eq!(deployed.status, 201, "{}", deployed.body);

    let ingress = Arc::new(Mutex::new(server.ingress.clone()));
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|number| tokio::spawn(client(number, ingress.clone(), stop.clone(), answered.clone())))
        .collect();

    let (mut reached, mut snapshot, mut restored) = (0, 0, 0);
    for round in 0..ROUNDS {
        // At least some answers, then an arbitrary moment.
        let target = answered.load(Ordering::Relaxed) + pause;
        while answered.load(Ordering::Relaxed) < target {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
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
        *ingress.lock().unwrap() = server.ingress.clone();
    }
    let target = answered.load(Ordering::Relaxed) + pause;
    while answered.load(Ordering::Relaxed) < target {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut answers = Vec::new();
    for client in clients {
        answers.extend(client.await.unwrap());
    }

    let http = reqwest::Client::new();
    for key in 0..KEYS {
        let list: Vec<u64> = http
            .post(format!("http://{}/v1/call/testkit/a/list-{key}/list", server.ingress))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let distinct: BTreeSet<u64> = list.iter().copied().collect();
        assert_eq!(distinct.len(), list.len(), "list {key} holds an element twice");
        let mine: Vec<_> = answers.iter().filter(|(of, _, _)| *of == key).collect();
        assert_eq!(list.len(), mine.len(), "list {key} holds what was acknowledged, no more and no less");
        for (_, element, seen) in mine {
            // What a client once saw is the beginning of the list for ever, and ends with its own element.
            assert_eq!(seen.last(), Some(element), "list {key}");
            assert_eq!(Some(&seen[..]), list.get(..seen.len()), "list {key} changed after it was seen");
        }
    }
    // Asked again, each gets the answer that it got.
    for (key, element, seen) in answers.iter().step_by(7) {
        let url = format!("http://{}/v1/call/testkit/a/list-{key}/append", server.ingress);
        let again: Vec<u64> = http
            .post(url)
            .header("idempotency-key", format!("e{element}"))
            .json(&json!([element]))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(again, *seen);
    }
    println!("{ROUNDS} kills, {} calls, epoch {reached} reached, {restored} snapshots restored", answers.len());
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
        tokio::time::sleep(Duration::from_millis(1200)).await;
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
