//! Snapshots of a real server, which is killed, damaged, copied and restored.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};
use styx_client::Client;
use styx_harness::Role;

use crate::process::cluster::Cluster;
use crate::process::{Endpoints, Process, told};

/// Runs the command line; what it prints with `--json`.
fn styx(arguments: &[&str]) -> (Output, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_styx")).arg("--json").args(arguments).output().unwrap();
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, value)
}

fn done(arguments: &[&str]) -> Value {
    let (output, value) = styx(arguments);
    assert!(output.status.success(), "{arguments:?}: {value} {}", String::from_utf8_lossy(&output.stderr));
    value
}

fn refused(arguments: &[&str], code: &str, says: &str) {
    let (output, value) = styx(arguments);
    let error = &value["error"];
    assert!(!output.status.success(), "{arguments:?} is not refused");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(error["code"] == code && message.contains(says), "{arguments:?}: expected {code} {says:?}, got {value}");
}

/// Appends to lists, under keys, and gives the answers.
async fn append(client: &Client, elements: std::ops::Range<u64>) -> Vec<Value> {
    let mut answers = Vec::new();
    for element in elements {
        let call = client.call("testkit", "a", &format!("list-{}", element % 7), "append", json!([element]));
        answers.push(call.idempotency_key(format!("e{element}")).await.unwrap());
    }
    answers
}

async fn take(server: &impl Endpoints) -> u64 {
    server.snapshot().await["epoch"].as_u64().unwrap()
}

/// A server with two snapshots, whose last answers are in the log only.
async fn begun(data: &Path) -> (Process, Vec<Value>) {
    let server = Process::with_testkit(data, NEVER).await;
    let mut answers = append(&server.client(), 0..30).await;
    let first = take(&server).await;
    answers.extend(append(&server.client(), 30..60).await);
    assert!(take(&server).await > first);
    answers.extend(append(&server.client(), 60..70).await);
    (server, answers)
}

/// By itself, none is taken.
const NEVER: &[&str] = &["--snapshot-interval", "1h", "--snapshot-keep", "3"];
const LISTS: &[&str] = &["testkit/a"];

fn newest(directory: &Path) -> PathBuf {
    newest_of(directory, "")
}

fn newest_of(directory: &Path, end: &str) -> PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_str().unwrap().ends_with(end));
    files.sort();
    files.pop().expect("there are some")
}

fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_begins_with_the_newest_snapshot_that_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (server, answers) = begun(&data).await;
    let (state, position) = (server.state(LISTS).await, server.position().await);

    let server = server.kill_and_restart(NEVER).await;
    assert!(server.snapshot_epoch > 60 && server.epochs_replayed == 10, "{}", server.snapshot_epoch);
    assert_eq!((server.state(LISTS).await, server.position().await), (state.clone(), position.clone()));
    let again = append(&server.client(), 0..70).await;
    assert_eq!(again, answers, "remembered replies are in the snapshot and in the log");
    assert_eq!(server.position().await, position, "nothing was done twice");

    // The newest is damaged, its manifest or a part that only it mentions: the one before will do.
    let mut server = server;
    for (elements, damaged) in [(100..105, "manifests"), (105..110, "parts")] {
        append(&server.client(), elements).await;
        let taken = take(&server).await;
        let (state, position) = (server.state(LISTS).await, server.position().await);
        server.kill().await;
        flip(&newest(&data.join("snapshots").join(damaged)));
        server = Process::start(&data, NEVER).await;
        assert!(server.snapshot_epoch < taken && server.epochs_replayed >= 5, "{damaged}");
        assert_eq!((server.state(LISTS).await, server.position().await), (state, position), "{damaged}");
    }
    append(&server.client(), 200..205).await;
    let taken = take(&server).await;
    let server = server.kill_and_restart(NEVER).await;
    assert_eq!((server.snapshot_epoch, server.epochs_replayed), (taken, 0), "after that, all is as before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_begins_another_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (mut server, answers) = begun(Path::new(&path("data"))).await;
    let at_snapshot = server.state(LISTS).await;
    take(&server).await;
    server.kill().await;

    let exported = done(&["snapshots", "export", &path("backup"), "--data-dir", &path("data")]);
    assert_eq!(done(&["snapshots", "verify", "--store", &path("backup")])["sequence"], exported["sequence"]);
    // People are told in a sentence what programs get as a value.
    let verify = ["snapshots", "verify", "--store", &path("backup")];
    let told = Command::new(env!("CARGO_BIN_EXE_styx")).args(verify).output().unwrap();
    let (sentence, value) = (String::from_utf8_lossy(&told.stderr), String::from_utf8_lossy(&told.stdout));
    assert!(sentence.contains(" is whole: ") && value.is_empty(), "{sentence}{value}");
    done(&["snapshots", "import", &path("backup"), "--data-dir", &path("other")]);
    refused(&["snapshots", "import", &path("backup"), "--data-dir", &path("data")], "NOT_EMPTY", "holds a log");
    let other = Process::start(Path::new(&path("other")), NEVER).await;
    assert_eq!(other.state(LISTS).await, at_snapshot);
    assert_eq!(append(&other.client(), 0..70).await, answers, "replies are remembered");
    append(&other.client(), 100..110).await;
    take(&other).await;
    let other = other.kill_and_restart(NEVER).await;
    assert_eq!(other.snapshot_epoch, other.position().await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_goes_back_to_an_older_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let text = data.to_str().unwrap().to_owned();
    let (mut server, answers) = begun(&data).await;
    let listed = server.get("/v1/snapshots").await["snapshots"].clone();
    let (first, epoch) = (listed[0]["sequence"].to_string(), listed[0]["epoch"].as_u64().unwrap());
    refused(&["snapshots", "restore", &first, "--data-dir", &text], "LOG_LOCKED", "open in another process");
    server.kill().await;

    assert_eq!(done(&["snapshots", "restore", &first, "--data-dir", &text])["epoch"], epoch);
    let mut server = Process::start(&data, NEVER).await;
    assert_eq!((server.position().await.0, server.epochs_replayed), (epoch, 0));
    assert_eq!(append(&server.client(), 0..30).await, answers[..30], "what was done then is done");
    assert_eq!(server.position().await.0, epoch);
    assert_eq!(append(&server.client(), 30..60).await, answers[30..60], "and what came after can be done again");
    server.kill().await;

    // A damaged log ends the server; it may be set aside for a snapshot.
    let segment = data.join("log/00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let start = ["server", "--data-dir", &text, "--ingress-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    refused(&start, "LOG_CORRUPT", "damaged at offset");
    done(&["snapshots", "restore", "--data-dir", &text]);
    let mut server = Process::start(&data, NEVER).await;
    assert_eq!(server.position().await.0, epoch);
    server.kill().await;

    // Without its log, a server does not take the snapshot for all there was.
    std::fs::remove_dir_all(data.join("log")).unwrap();
    refused(&start, "RECOVERY", "the log is empty");
    done(&["snapshots", "restore", "--data-dir", &text]);
    assert_eq!(Process::start(&data, NEVER).await.position().await.0, epoch);
    let none = directory.path().join("none");
    refused(&["snapshots", "verify", "--data-dir", none.to_str().unwrap()], "NO_SNAPSHOTS", "there are no snapshots");
    let nowhere = directory.path().join("nowhere");
    let export = ["export", nowhere.to_str().unwrap(), "--sequence", "99"];
    for verb in [&["verify", "99"][..], &["restore", "99"], &export] {
        let asked = [&["snapshots"], verb, &["--data-dir", &text]].concat();
        refused(&asked, "NO_SNAPSHOTS", "there is no snapshot 99");
        // The server is stopped: what it points to works without one.
        let (_, value) = styx(&asked);
        let hint = value["error"]["hint"].as_str().unwrap();
        let list: Vec<_> = hint.split('`').nth(1).unwrap().split(' ').skip(1).collect();
        assert_eq!(list[..3], ["snapshots", "list", "--store"], "{hint}");
        assert!(!done(&list)["snapshots"].as_array().unwrap().is_empty(), "{hint}");
    }
    assert!(!none.exists(), "looking makes no directory");
}

/// Offsets of what a file of the log holds, one a commit.
fn commits(bytes: &[u8]) -> Vec<usize> {
    let length = |at: usize| u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    std::iter::successors(Some(64), |at| Some((at + 24 + length(*at)).next_multiple_of(8)))
        .take_while(|at| length(*at) > 0)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_snapshot_is_whole_a_start_says_what_to_do_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (mut server, answers) = begun(&data).await;
    server.kill().await;
    let parts: Vec<_> =
        std::fs::read_dir(data.join("snapshots/parts")).unwrap().map(|part| part.unwrap().path()).collect();
    parts.iter().for_each(|part| flip(part));
    let text = data.to_str().unwrap();
    let start = ["server", "--data-dir", text, "--ingress-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    refused(&start, "SNAPSHOT_DAMAGED", "damaged");
    let (_, value) = styx(&start);
    assert!(value["error"]["hint"].as_str().unwrap().contains("styx snapshots verify"), "{value}");
    refused(&["snapshots", "verify", "--data-dir", text], "SNAPSHOT_DAMAGED", "the first: ");
    parts.iter().for_each(|part| flip(part));
    let server = Process::start(&data, NEVER).await;
    assert_eq!(append(&server.client(), 0..70).await, answers);
    // A server that runs reads them as well.
    let newest = server.get("/v1/snapshots").await["snapshots"].as_array().unwrap().last().unwrap().clone();
    let verify = |sequence: &str| told(server.to_admin(Method::POST, &format!("/v1/snapshots/{sequence}/verify")));
    let sequence = newest["sequence"].to_string();
    let whole = verify(&sequence).await;
    assert_eq!((whole.status, &whole.body["damage"], &whole.body["bytes"]), (200, &json!([]), &newest["bytes"]));
    assert!(whole.body["entries"].as_u64().unwrap() > 0, "{}", whole.body);
    parts.iter().for_each(|part| flip(part));
    let damaged = verify(&sequence).await;
    let first = damaged.body["damage"][0].as_str().unwrap();
    assert!(damaged.status == 200 && first.contains(" is damaged at byte "), "{}", damaged.body);
    for absent in ["99", "-1", "all"] {
        verify(absent).await.is_error(absent, 404, "NO_SNAPSHOTS", "there is no snapshot");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_in_the_log_matters_only_behind_the_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (mut server, answers) = begun(&data).await;
    let (state, position) = (server.state(LISTS).await, server.position().await);
    let segment = data.join("log/00000000000000000000.log");
    // The very first record, with what was decided when the cluster was created, and one a little later.
    for commit in [0, 4] {
        server.kill().await;
        let file = newest_of(&data.join("log"), ".log");
        let mut bytes = std::fs::read(&file).unwrap();
        let at = commits(&bytes)[commit];
        bytes[at + 24] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        server = Process::start(&data, NEVER).await;
        assert_eq!((server.state(LISTS).await, server.position().await), (state.clone(), position.clone()));
        assert_eq!(append(&server.client(), 0..70).await, answers);
    }
    assert!(!segment.exists(), "what was damaged is set aside");
    append(&server.client(), 100..110).await;
    let server = server.kill_and_restart(NEVER).await;
    append(&server.client(), 110..120).await;
    let mut server = server;
    server.kill().await;

    let file = newest_of(&data.join("log"), ".log");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = *commits(&bytes).last().unwrap();
    bytes[at + 24] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let text = data.to_str().unwrap();
    let start = ["server", "--data-dir", text, "--ingress-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    refused(&start, "LOG_CORRUPT", &format!("damaged at offset {at}"));
    let (_, value) = styx(&start);
    assert!(value["error"]["hint"].as_str().unwrap().contains("styx snapshots restore"), "{value}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_back_to_an_older_snapshot_and_its_backups_begin_others() {
    let mut cluster = Cluster::with_testkit_and(1, NEVER).await;
    // Generations pass, so that the store's are higher than those of a process that is alone.
    for _ in 0..2 {
        let generation = cluster.generation().await;
        cluster.kill(&[Role::Worker(0)]).await;
        cluster.run(&[Role::Worker(0)]).await;
        cluster.settles(1, generation).await;
    }
    let answers = append(&cluster.client(), 0..20).await;
    let first = cluster.snapshot().await;
    let lists = cluster.state(LISTS).await;
    append(&cluster.client(), 20..40).await;
    let generation = cluster.generation().await;
    assert!(Some(take(&cluster).await) > first["epoch"].as_u64() && generation >= 3);
    cluster.kill(&[Role::Coordinator]).await;

    let path = |name: &str| cluster.directory().join(name).to_string_lossy().into_owned();
    let (data, backup, other) = (path("coordinator"), path("backup"), path("other"));
    let sequence = first["sequence"].to_string();
    done(&["snapshots", "export", &backup, "--sequence", &sequence, "--data-dir", &data]);
    assert_eq!(done(&["snapshots", "restore", &sequence, "--data-dir", &data])["epoch"], first["epoch"]);

    cluster.run(&[Role::Coordinator]).await;
    cluster.settles(1, generation + 1).await;
    assert_eq!(cluster.state(LISTS).await, lists);
    assert_eq!(append(&cluster.client(), 0..20).await, answers, "what was done then is done");
    append(&cluster.client(), 50..60).await;
    take(&cluster).await;
    let state = cluster.state(LISTS).await;
    cluster.kill(&[Role::Coordinator]).await;

    // A process that is alone goes on where the cluster was, restored or not, and takes snapshots.
    let alone = Process::start(Path::new(&data), NEVER).await;
    assert_eq!(alone.state(LISTS).await, state);
    append(&alone.client(), 60..70).await;
    take(&alone).await;
    let mut alone = alone.kill_and_restart(NEVER).await;
    assert_eq!(alone.epochs_replayed, 0);
    alone.kill().await;
    done(&["snapshots", "restore", "--data-dir", &data]);
    let alone = Process::start(Path::new(&data), NEVER).await;
    append(&alone.client(), 70..80).await;
    take(&alone).await;

    done(&["snapshots", "import", &backup, "--data-dir", &other]);
    let other = Process::start(Path::new(&other), NEVER).await;
    assert_eq!(other.state(LISTS).await, lists);
    assert_eq!(append(&other.client(), 0..20).await, answers, "replies are remembered");
    append(&other.client(), 20..30).await;
    take(&other).await;
}
