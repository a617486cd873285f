//! The same requests, one after the other, to one process and to clusters: every answer and all
//! state is the same.

use reqwest::Method;
use serde_json::{Value, json};
use styx_harness::Role;

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, Told, told};

/// Calls whose answers and effects depend on each other, over entities of several workers.
const CALLS: &[(&str, &str)] = &[
    ("a/x/append", "[1]"),
    ("a/x/append", "[2]"),
    ("b/x/append", "[3]"),
    ("a/y/put", "[[5, 6]]"),
    ("a/x/list", "[]"),
    ("a/nobody/list", "[]"),
    // Synchronous calls, in circles between two operators and down a chain of keys.
    ("a/pong/ping_pong", "[6]"),
    ("b/pong/list", "[]"),
    ("a/deep/descend_to", "[12]"),
    ("a/x/relay", r#"["b", "pong", "list"]"#),
    // What is read decides where it is written.
    ("a/7/append", "[7]"),
    ("a/start/append", "[7]"),
    ("a/start/follow", "[]"),
    ("a/7/list", "[]"),
    ("a/lost/follow", "[]"),
    // Asynchronous calls: spread, into one entity, and a tree whose order shows.
    ("a/fan/fan_out", "[20]"),
    ("a/fan/fan_in", r#"["funnel", 20]"#),
    ("a/funnel/list", "[]"),
    ("b/1/tree", "[1, 4]"),
    ("b/log/list", "[]"),
    // Scans over all workers, and what depends on them.
    ("a/any/scan", r#"["fan/"]"#),
    ("a/any/scan", r#"["fan/", "fan/13", 3]"#),
    ("a/any/scan", r#"["fan/", null, 5, true]"#),
    ("a/sum/sum_range", r#"["fan/"]"#),
    ("a/any/write_many", "[30]"),
    ("a/any/read_many", "[40]"),
    ("a/any/delete_range", r#"["any/1"]"#),
    ("a/any/scan", r#"["any/"]"#),
    ("a/y/delete", "[]"),
    ("a/y/delete", "[]"),
    ("a/own/read_own_write", "[]"),
    // Failures: nothing of them remains, wherever it was written.
    ("a/x/fail", r#"["as asked"]"#),
    ("a/x/panic", r#"["boom"]"#),
    ("a/x/write_then_fail", "[]"),
    ("a/x/relay", r#"["b", "y", "write_then_fail"]"#),
    ("a/x/relay_stubbornly", r#"["b", "far", "fail", "[\"no\"]"]"#),
    ("a/x/relay_stubbornly", r#"["b", "far", "append", "[1]"]"#),
    ("a/x/relay", r#"["a", "x", "spin"]"#),
    ("a/x/descend", "[]"),
    ("a/x/write_sneakily", "[]"),
    ("a/x/append", "[true]"),
    ("a/x/nothing", "[]"),
    ("c/x/append", "[1]"),
    ("a/x/list", "[]"),
    ("b/far/list", "[]"),
];

async fn answers(of: &impl Endpoints) -> Vec<(String, u16, Value)> {
    let mut answers = Vec::new();
    for (at, (target, arguments)) in CALLS.iter().enumerate() {
        let key = format!("key-{at}");
        // Every other one with a key, and then it is repeated.
        let key = (at % 2 == 0).then_some(key.as_str());
        let told = ask(of, target, arguments, key).await;
        if key.is_some() && told.status != 404 {
            let again = ask(of, target, arguments, key).await;
            assert_eq!((again.status, &again.body), (told.status, &told.body), "{target} again under its key");
        }
        answers.push(((*target).to_owned(), told.status, told.body));
    }
    answers
}

async fn ask(of: &impl Endpoints, target: &str, arguments: &'static str, key: Option<&str>) -> Told {
    let request = of.to_ingress(Method::POST, &format!("/v1/call/testkit/{target}")).body(arguments);
    told(match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    })
    .await
}

/// All entities of an operator, page by page.
async fn pages(of: &impl Endpoints, operator: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = of.get(&format!("/v1/state/testkit/{operator}?limit={limit}{after}")).await;
        all.extend(page["entries"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_answers_what_one_process_answers() {
    let directory = tempfile::tempdir().unwrap();
    let single = Process::with_testkit(&directory.path().join("data"), &["--threads", "2"]).await;
    let expect = answers(&single).await;
    let committed = expect.iter().filter(|(_, status, _)| *status == 200).count();
    assert!(committed > 30 && committed < expect.len(), "{committed} of {} calls succeed", expect.len());
    let mut state = Vec::new();
    for operator in ["a", "b"] {
        state.push(pages(&single, operator, 1000).await);
    }
    drop(single);

    // In two of them nothing fits into an epoch, and all runs beside.
    for (workers, slice) in [(1, None), (2, None), (3, None), (1, Some("1")), (3, Some("1"))] {
        let mut options = options(workers, &[]);
        options.worker_flags.extend(slice.into_iter().flat_map(|slice| ["--slice-fuel".into(), slice.into()]));
        let mut cluster = Cluster::with_testkit_in(options).await;
        for (expect, found) in expect.iter().zip(answers(&cluster).await) {
            assert_eq!(*expect, found, "{workers} workers, slices of {slice:?}");
        }
        for (operator, expect) in ["a", "b"].iter().zip(&state) {
            // However it is paged.
            for limit in [1000, 7] {
                let found = pages(&cluster, operator, limit).await;
                assert_eq!(*expect, found, "state of {operator} on {workers} workers, {limit} a page");
            }
        }
        let entity = cluster.get("/v1/state/testkit/a/funnel").await;
        assert_eq!(entity["value"], json!((0..20).collect::<Vec<_>>()));

        // The log says the same on another number of workers.
        let (position, generation) = (cluster.position().await, cluster.generation().await);
        if workers > 1 {
            cluster.kill(&[Role::Worker(0)]).await;
            cluster.settles(workers - 1, generation).await;
            assert_eq!(cluster.position().await, position, "replayed on {} workers", workers - 1);
        }
    }
}
