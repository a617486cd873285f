//! Guests that keep what no entity holds, such as counters in globals: what a call comes to depends on which instance
//! took it. What was answered stays whatever a later run would come to, and other apps notice nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use styx_harness::{Options, Role};

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, build, testkit, told};

/// As servers are started that nobody says anything to; without snapshots, so that all is read from the log.
const DEFAULTS: &[&str] = &["--determinism-check", "1000", "--snapshot-interval", "1h"];
const CLIENTS: usize = 16;
const CALLS: usize = 12;
/// In Rust and in Python.
const APPS: [&str; 2] = ["leaky", "leaky_python"];
const LEAKY: &[&str] = &["leaky/a", "leaky/b", "leaky_python/a", "leaky_python/b"];
const INNOCENT: &[&str] = &["shop/a"];

/// The longest that a start may take.
const START_MAX: Duration = Duration::from_secs(5);

/// How often the server is killed: more often by `STYX_TEST_ROUNDS`.
#[expect(clippy::disallowed_methods, reason = "a knob of this test, not a setting")]
fn rounds() -> usize {
    std::env::var("STYX_TEST_ROUNDS").map_or(5, |rounds| rounds.parse().expect("STYX_TEST_ROUNDS is a number"))
}

/// Deploys the leaky apps, and one that leaves its globals alone.
async fn deploy(to: &impl Endpoints) {
    let bundle = testkit().await;
    let source = tempfile::tempdir().unwrap();
    let directory = source.path().join("leaky_python");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("leaky.py"), include_str!("leaky.py")).unwrap();
    let python = build(directory).await;
    for (app, bundle) in [("leaky", &bundle), ("leaky_python", &python), ("shop", &bundle)] {
        to.deploy(app, "application/zip", bundle.clone()).await.is_deployed();
    }
}

/// Calls functions that leak, many at a time, and the innocent neighbour; adds what was answered under keys.
async fn call(to: &impl Endpoints, round: usize, answers: &mut BTreeMap<String, Value>) {
    let client = |client: usize| async move {
        let mut answers = Vec::new();
        for at in 0..CALLS {
            let (app, operator) = (APPS[at % 2], ["a", "b"][at / 2 % 2]);
            let leaks = to.call(&format!("{app}/{operator}/w{client}/leak_into_state"), "[]").await;
            assert_eq!(leaks.status, 200, "{}", leaks.body);
            let appended = to.call(&format!("shop/a/order{client}/append"), format!("[{at}]")).await;
            assert_eq!(appended.status, 200, "{}", appended.body);
            let key = format!("{round}-{client}-{at}/{app}");
            answers.push((key.clone(), leak(to, &key).await));
        }
        answers
    };
    answers.extend(join_all((0..CLIENTS).map(client)).await.into_iter().flatten());
}

/// What a call comes to that tells how often its instance was called; the app's name ends the key.
async fn leak(to: &impl Endpoints, key: &str) -> Value {
    let path = format!("/v1/call/{}/a/k/leak", key.rsplit('/').next().unwrap());
    let request = to.to_ingress(reqwest::Method::POST, &path).header("idempotency-key", key);
    let answer = told(request.body("[]")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

async fn check(to: &impl Endpoints, state: &(Vec<Value>, Vec<Value>), answers: &BTreeMap<String, Value>) {
    assert_eq!((to.state(LEAKY).await, to.state(INNOCENT).await), *state);
    for (key, answer) in answers {
        assert_eq!(leak(to, key).await, *answer, "the answer under key {key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_with_globals_answered_outlives_kills() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(&directory.path().join("data"), DEFAULTS).await;
    deploy(&server).await;
    let mut answers = BTreeMap::new();
    for round in 0..rounds() {
        call(&server, round, &mut answers).await;
        let state = (server.state(LEAKY).await, server.state(INNOCENT).await);
        let killed = Instant::now();
        server = server.kill_and_restart(DEFAULTS).await;
        assert!(killed.elapsed() <= START_MAX, "a start took {:?}", killed.elapsed());
        check(&server, &state, &answers).await;
    }
    for app in APPS {
        let of_app = answers.iter().filter(|(key, _)| key.ends_with(&format!("/{app}")));
        let differ: BTreeSet<String> = of_app.map(|(_, answer)| answer.to_string()).collect();
        assert!(differ.len() > 1, "{app} leaks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_with_globals_answered_outlives_the_loss_of_workers() {
    let defaults = || DEFAULTS[..2].iter().map(|word| (*word).to_owned());
    let worker_flags = ["--threads".to_owned(), "2".to_owned()].into_iter().chain(defaults()).collect();
    let mut cluster =
        Cluster::start(Options { worker_flags, log_flags: defaults().collect(), ..options(2, &[]) }).await;
    deploy(&cluster).await;
    let mut answers = BTreeMap::new();
    for (round, lost) in [Role::Worker(0), Role::Coordinator].into_iter().enumerate() {
        call(&cluster, round, &mut answers).await;
        let state = (cluster.state(LEAKY).await, cluster.state(INNOCENT).await);
        let generation = cluster.generation().await;
        cluster.kill(&[lost]).await;
        cluster.run(&[lost]).await;
        cluster.settles(2, generation).await;
        check(&cluster, &state, &answers).await;
    }
}
