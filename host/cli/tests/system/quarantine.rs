//! Requests that end every process that executes them: after three lives they are set aside, and all else goes on.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use styx_harness::{Program, Role};
use styx_protocol::ids::{EngineHash, Epoch, Generation, SequencerCounter, Timestamp};
use styx_protocol::record::{Chain, EpochRecord, Record, Sequence};
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log};

use crate::process::cluster::{Cluster, PATIENCE, options};
use crate::process::{Endpoints, FREE, Process, Told, testkit, told};

const CHECK_OFF: [&str; 2] = ["--determinism-check", "off"];

/// From now on the process of a data directory ends so when this key's entity is called.
fn plant(data: &Path, how: &str, key: &str) {
    std::fs::write(data.join("test-end"), format!("{how}:{key}")).unwrap();
}

fn unplant(data: &Path) {
    std::fs::remove_file(data.join("test-end")).unwrap();
}

/// A server with the apps `poisoned` and `shop`, in which twenty calls were acknowledged.
async fn server(data: &Path, more: &[&str]) -> Process {
    let server = Process::start(data, &[&CHECK_OFF, more].concat()).await;
    deploy(&server).await;
    server
}

async fn deploy(server: &impl Endpoints) {
    let bundle = testkit().await;
    for app in ["poisoned", "shop"] {
        server.deploy(app, "application/zip", bundle.clone()).await.is_deployed();
    }
    for element in 0..20 {
        let told = server.call("shop/a/list/append", format!("[{element}]")).await;
        assert_eq!(told.status, 200, "{}", told.body);
    }
}

async fn is_whole(server: &impl Endpoints) {
    let list = server.call("shop/a/list/list", "[]").await;
    assert_eq!(list.body, json!((0..20).collect::<Vec<u64>>()));
}

fn keyed(server: &impl Endpoints, target: &str, arguments: &Value) -> reqwest::RequestBuilder {
    let request = server.to_ingress(Method::POST, &format!("/v1/call/{target}"));
    request.header("idempotency-key", "the same").body(arguments.to_string())
}

/// Asks for something that ends the server, and starts it again.
async fn dies(mut server: Process, data: &Path, request: reqwest::RequestBuilder) -> Process {
    ends(&mut server, request).await;
    Process::start(data, &CHECK_OFF).await
}

/// The process ends, and nobody is told that anything was done.
async fn ends(server: &mut Process, request: reqwest::RequestBuilder) {
    let asked = tokio::spawn(request.send());
    let said = server.ended().await;
    // Its last words may be that it ends.
    let answer = asked.await.unwrap();
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status() == 503), "{said}");
}

fn is_quarantined(told: &Told, says: &str) {
    told.is_error("a poisoned call", 422, "QUARANTINED", says);
}

async fn quarantined(server: &impl Endpoints) -> Vec<Value> {
    server.get("/v1/quarantine").await["quarantined"].as_array().unwrap().clone()
}

/// Runs `styx requests quarantine …` and gives what it prints.
fn styx(server: &Process, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_styx"));
    command.args(["--json", "--admin-url", &format!("http://{}", server.admin()), "requests", "quarantine"]);
    let output = command.args(arguments).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    serde_json::from_str(&said).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_ends_the_server_is_set_aside_after_three_lives_until_it_is_released() {
    for how in ["panic", "abort", "kill"] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let mut server = server(data, &[]).await;
        plant(data, how, "poison");
        let (target, arguments) = ("poisoned/a/poison/append", json!([1]));
        for _ in 0..3 {
            assert_eq!(quarantined(&server).await, Vec::<Value>::new(), "{how}");
            let request = keyed(&server, target, &arguments);
            server = dies(server, data, request).await;
        }
        is_whole(&server).await;
        for _ in 0..2 {
            let told = told(keyed(&server, target, &arguments)).await;
            is_quarantined(&told, if how == "panic" { "planted for panic:poison" } else { "is set aside" });
        }
        // Others of the app are executed, and so is the same for whoever asks under another key.
        let other = server.call("poisoned/a/other/append", "[7]").await;
        assert_eq!(other.status, 200, "{}", other.body);
        let all = quarantined(&server).await;
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (&one["app"], &one["function"], &one["kind"]),
            (&json!("poisoned"), &json!("append"), &json!("request"))
        );
        assert!(server.metrics().await.contains("styx_quarantined 1"));

        // It is in the log, whatever becomes of the files beside it.
        std::fs::remove_file(data.join("executing")).unwrap();
        unplant(data);
        server = server.kill_and_restart(&CHECK_OFF).await;
        is_quarantined(&told(keyed(&server, target, &arguments)).await, "is set aside");
        assert_eq!(styx(&server, &["list"])["quarantined"], json!(all));
        let id = one["id"].as_str().unwrap();
        assert_eq!(styx(&server, &["release", id])["released"], true);
        for _ in 0..2 {
            let told = told(keyed(&server, target, &arguments)).await;
            assert_eq!((told.status, told.body), (200, json!([1])), "it is executed, once");
        }
        assert_eq!(quarantined(&server).await, Vec::<Value>::new());
        let again = told(server.to_admin(Method::DELETE, &format!("/v1/quarantine/{id}"))).await;
        again.is_error("released twice", 404, "NOT_QUARANTINED", "is not in quarantine");
        is_whole(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_of_which_different_requests_end_the_server_is_set_aside_until_it_is_deployed_anew() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut server = server(data, &[]).await;
    let before = server.call("poisoned/a/good/append", "[1]").await;
    assert_eq!(before.status, 200, "{}", before.body);
    plant(data, "panic", "poison");
    for function in ["append", "echo", "append"] {
        let request = server.to_ingress(Method::POST, &format!("/v1/call/poisoned/a/poison/{function}"));
        server = dies(server, data, request.body(if function == "echo" { "[\"x\"]" } else { "[1]" })).await;
    }
    // Calls that write, calls that only read, and whatever its key is.
    for (function, arguments) in [("append", "[1]"), ("list", "[]")] {
        let told = server.call(&format!("poisoned/a/good/{function}"), arguments).await;
        is_quarantined(&told, "app \"poisoned\" is set aside");
    }
    let state = server.get("/v1/state/poisoned/a/good").await;
    assert_eq!(state["value"], json!([1]), "its state can be read: {state}");
    is_whole(&server).await;
    unplant(data);
    server.deploy("poisoned", "application/zip", testkit().await).await.is_deployed();
    let after = server.call("poisoned/a/good/append", "[2]").await;
    assert_eq!(after.body, json!([1, 2]));
    assert_eq!(quarantined(&server).await, Vec::<Value>::new());
}

/// Rounds that need more fuel than a slice has, so that the log carries the call.
const LONG: u64 = 3_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_the_log_that_ends_every_life_is_set_aside_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut server = server(data, &[]).await;
    plant(data, "long", "poison");
    let (target, arguments) = ("poisoned/a/poison/append_slowly", json!([1, LONG]));
    let request = keyed(&server, target, &arguments);
    ends(&mut server, request).await;
    // Nobody asks again: it is the log that brings it back.
    assert_eq!(1 + lives(data).await, 3);
    let server = Process::start(data, &CHECK_OFF).await;
    is_whole(&server).await;
    is_quarantined(&told(keyed(&server, target, &arguments)).await, "planted for long:poison");
    unplant(data);
    let id = quarantined(&server).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(styx(&server, &["release", &id])["released"], true);
    let told = told(keyed(&server, target, &arguments)).await;
    assert_eq!((told.status, told.body), (200, json!([1])));
}

/// Starts a server until one lives on with something set aside, and stops that; how many ended by themselves, some of them
/// before they were ready.
async fn lives(data: &Path) -> usize {
    let arguments =
        ["server", "--json", "--ingress-addr", FREE, "--admin-addr", FREE, "--data-dir", data.to_str().unwrap()];
    let program = Program {
        name: "lives".to_owned(),
        binary: env!("CARGO_BIN_EXE_styx").into(),
        arguments: [&arguments[..], &CHECK_OFF].concat().iter().map(|argument| (*argument).to_owned()).collect(),
        environment: Vec::new(),
        port: None,
    };
    for lives in 0..10 {
        let mut process = styx_harness::Process::new(program.clone(), data);
        process.start().unwrap();
        if process.ready().await.is_ok() {
            let path = format!("http://{}/v1/quarantine", process.text("admin"));
            while process.has_ended().await.unwrap().is_none() {
                let answer = reqwest::get(&path).await;
                if answer.is_ok_and(|answer| answer.content_length().is_some_and(|length| length > 50)) {
                    process.stop().await.unwrap();
                    return lives;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        } else {
            process.ended().await.unwrap();
        }
    }
    panic!("ten lives have ended")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_passes_over_a_transaction_of_the_log_by_its_tid() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut server = server(data, &[]).await;
    let reply = server.to_ingress(Method::POST, "/v1/call/shop/a/other/append").body("[1]").send().await.unwrap();
    let tid: u64 = reply.headers()["styx-tid"].to_str().unwrap().parse().unwrap();
    plant(data, "long", "poison");
    let (target, arguments) = ("poisoned/a/poison/append_slowly", json!([1, LONG]));
    let request = keyed(&server, target, &arguments);
    ends(&mut server, request).await;
    // The next one; and one that the log does not carry, which is nobody's.
    let skip = format!("--skip-tid={},{}", tid + 1, tid + 2);
    let server = Process::start(data, &[&CHECK_OFF[..], &[&skip]].concat()).await;
    is_quarantined(&told(keyed(&server, target, &arguments)).await, "--skip-tid");
    is_whole(&server).await;
    let all = quarantined(&server).await;
    assert_eq!(all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>(), [json!(format!("tid:{}", tid + 1))]);
    // It stays so.
    let server = server.kill_and_restart(&CHECK_OFF).await;
    is_quarantined(&told(keyed(&server, target, &arguments)).await, "--skip-tid");
    unplant(data);
    assert_eq!(styx(&server, &["release", &format!("tid:{}", tid + 1)])["released"], true);
    let told = told(keyed(&server, target, &arguments)).await;
    assert_eq!((told.status, told.body), (200, json!([1])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_killed_or_stopped_under_load_set_nothing_aside() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut server = server(data, &[]).await;
    for life in 0..4 {
        let calls = (0..50).map(|at| keyed_as(&server, at, life).send());
        let calls = tokio::spawn(futures_util::future::join_all(calls));
        tokio::time::sleep(Duration::from_millis(5)).await;
        server = server.kill_and_restart(&CHECK_OFF).await;
        let _ = calls.await;
    }
    assert_eq!(quarantined(&server).await, Vec::<Value>::new());
    is_whole(&server).await;
}

fn keyed_as(server: &Process, at: u64, life: u64) -> reqwest::RequestBuilder {
    let request = server.to_ingress(Method::POST, "/v1/call/poisoned/a/busy/append");
    request.header("idempotency-key", format!("{life}-{at}")).body(format!("[{at}]"))
}

/// Starts those of the workers that have ended; how many.
async fn run_again(cluster: &mut Cluster, workers: [Role; 2]) -> u32 {
    let mut ended = 0;
    for worker in workers {
        if cluster.process_mut(worker).has_ended().await.unwrap().is_some() {
            ended += 1;
            cluster.run(&[worker]).await;
        }
    }
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_sets_aside_what_ends_one_worker_after_the_other() {
    let mut cluster = Cluster::start(options(2, &[])).await;
    deploy(&cluster).await;
    let workers = [Role::Worker(0), Role::Worker(1)];
    let data = workers.map(|worker| match worker {
        Role::Worker(at) => cluster.directory().join(format!("worker-{}", at + 1)),
        _ => unreachable!("these are workers"),
    });
    data.iter().for_each(|data| plant(data, "panic", "poison"));
    let (target, arguments) = ("poisoned/a/poison/append", json!([1]));
    let ask = |cluster: &Cluster| tokio::spawn(told(keyed(cluster, target, &arguments)));
    let before = cluster.generation().await;
    let (mut asked, mut lives, begun) = (ask(&cluster), 0, Instant::now());
    // The gateway asks again by itself, whoever is there.
    let told_at_last = loop {
        assert!(begun.elapsed() < PATIENCE, "{lives} workers have ended\n{}", cluster.said());
        lives += run_again(&mut cluster, workers).await;
        if asked.is_finished() {
            let told = asked.await.unwrap();
            if told.code() == "QUARANTINED" {
                break told;
            }
            assert!(matches!(told.code(), "UNAVAILABLE" | "OUTCOME_UNKNOWN"), "{}", told.body);
            asked = ask(&cluster);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    is_quarantined(&told_at_last, "planted for panic:poison");
    // A worker that comes back after the release sets aside again what it noted before.
    lives += run_again(&mut cluster, workers).await;
    cluster.settles(2, before).await;
    // The other worker may take the call over, and end, before the third has come back to say what ended it.
    assert!((3..=4).contains(&lives), "{lives} workers have ended\n{}", cluster.said());
    is_whole(&cluster).await;
    let all = quarantined(&cluster).await;
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&one["app"], &one["function"]), (&json!("poisoned"), &json!("append")));
    data.iter().for_each(|data| unplant(data));
    let id = one["id"].as_str().unwrap();
    let released = told(cluster.to_admin(Method::DELETE, &format!("/v1/quarantine/{id}"))).await;
    assert_eq!(released.status, 200, "{}", released.body);
    let told = told(keyed(&cluster, target, &arguments)).await;
    assert_eq!((told.status, told.body), (200, json!([1])));
}

/// A record that does not follow on the one before ends no start with a backtrace: it is one line that says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_applied_is_an_error_of_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let mut server = server(data, &["--store", "none"]).await;
    let (epoch, _) = server.position().await;
    server.kill().await;
    let mut log = EmbeddedLog::open(&data.join("log"), EmbeddedOptions::default()).unwrap();
    let record = EpochRecord {
        epoch: Epoch(epoch + 1),
        generation: Generation(1),
        engine: EngineHash(0),
        time: Timestamp(u64::MAX >> 1),
        sequencers: 1,
        counter: SequencerCounter(1 << 30),
        carried: Vec::new(),
        before: Chain(1),
        controls: Vec::new(),
        sequences: vec![Sequence::default()],
        outcome: None,
    };
    log.append(&Record::Epoch(Arc::new(record)).encode()).unwrap();
    log.sync().unwrap();
    drop(log);
    let mut command = Command::new(env!("CARGO_BIN_EXE_styx"));
    command.args(["server", "--json", "--store", "none", "--ingress-addr", FREE, "--admin-addr", FREE, "--data-dir"]);
    let output = command.arg(data).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &said["error"]["code"]), (Some(1), &json!("RECOVERY")), "{output:?}");
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("epoch {} of the log cannot be applied: ", epoch + 1)), "{message}");
    assert!(said["error"]["hint"].as_str().unwrap().contains("styx snapshots restore"), "{said}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("panicked") && !errors.contains("RUST_BACKTRACE"), "{errors}");
}
