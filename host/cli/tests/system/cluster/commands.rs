//! What moves partitions, as somebody types it: planned, begun, watched, given up, and refused.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::cluster::{Cluster, PATIENCE, options};
use crate::process::{Endpoints, testkit};
use crate::verbs::asked;

/// What a command says, which must go well.
fn told(cluster: &Cluster, arguments: &[&str]) -> Value {
    let (status, told) = tokio::task::block_in_place(|| asked(cluster, arguments));
    assert_eq!(status, 0, "{arguments:?}: {told}");
    told
}

/// The code and the line of what a command is refused with.
fn refused(cluster: &Cluster, arguments: &[&str]) -> (String, String) {
    let (status, told) = tokio::task::block_in_place(|| asked(cluster, arguments));
    assert_ne!(status, 0, "{arguments:?}: {told}");
    let text = |name: &str| told["error"][name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("message"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_moved_by_commands() {
    let cluster = Cluster::with_testkit(2).await;
    for number in 0..50 {
        assert_eq!(cluster.call(&format!("testkit/a/k{number}/put"), "[[1, 2, 3]]").await.status, 200);
    }
    let most = told(&cluster, &["partitions", "--sort", "entities", "--limit", "3"]);
    assert_eq!(
        (most["partitions"].as_array().map(Vec::len), most["workers"].as_array().map(Vec::len)),
        (Some(3), Some(2))
    );
    assert!(most["partitions"][0]["entities"].as_u64() >= most["partitions"][2]["entities"].as_u64(), "{most}");

    // What is planned is not done.
    let planned = told(&cluster, &["migrations", "plan", "--empty", "2"]);
    assert_eq!((&planned["partitions"], &planned["workers"][0]["after"]["partitions"]), (&json!(512), &json!(1024)));
    let scaled = told(&cluster, &["scale", "--workers", "1", "--dry-run"]);
    assert_eq!(scaled["moves"].as_array().map(Vec::len), Some(512), "{scaled}");
    let placement = scaled["placement"].as_str().unwrap();

    // A byte a second: it does not end by itself.
    let begun = told(&cluster, &["migrations", "start", "--empty", "2", "--rate", "1", "--placement", placement]);
    let id = begun["id"].as_str().unwrap();
    assert_eq!(begun["state"], "copying", "{begun}");
    assert_eq!(refused(&cluster, &["scale", "--workers", "1"]).0, "MIGRATION_UNDER_WAY");
    told(&cluster, &["migrations", "pause", id]);
    assert_eq!(told(&cluster, &["migrations", "show", id])["state"], "paused");
    told(&cluster, &["migrations", "resume", id]);
    assert_eq!(told(&cluster, &["migrations", "list"])["migrations"][0]["state"], "copying");
    told(&cluster, &["migrations", "cancel"]);
    let watched = ["migrations", "show", id, "--watch"];
    let (status, ended) = tokio::task::block_in_place(|| asked(&cluster, &watched));
    assert!(status != 0 && ended["state"] == "cancelled", "{ended}");
    let (code, why) = refused(&cluster, &["migrations", "cancel"]);
    assert_eq!((&*code, &*why), ("MIGRATION_ENDED", "no migration is under way that can be cancelled"));

    let ended = told(&cluster, &["scale", "--workers", "1", "--placement", placement]);
    assert_eq!((&ended["state"], &ended["partitions"]["of"]), (&json!("done"), &json!(512)), "{ended}");
    for (arguments, code) in [
        (&["scale", "--workers", "2", "--placement", placement][..], "PLACEMENT_CHANGED"),
        (&["scale", "--workers", "0"], "BAD_REQUEST"),
        (&["scale", "--only", "1,9"], "BAD_REQUEST"),
        (&["scale", "--partitions", "1500"], "BAD_REQUEST"),
        (&["scale", "--partitions", "1024"], "BAD_REQUEST"),
        (&["migrations", "start", "--move", "17=9"], "BAD_REQUEST"),
        (&["migrations", "pause", id], "MIGRATION_ENDED"),
        (&["migrations", "show", "mg_1_99"], "UNKNOWN_MIGRATION"),
    ] {
        let (found, line) = refused(&cluster, arguments);
        assert!(found == code && !line.is_empty() && !line.contains('\n'), "{arguments:?}: {found}: {line}");
    }
    told(&cluster, &["migrations", "start", "--balance", "--by-number", "--mode", "immediate", "--wait"]);
    assert_eq!(told(&cluster, &["partitions"])["workers"][1]["partitions"], 512);
    let more = told(&cluster, &["scale", "--partitions", "2048", "--mode", "stop-and-restart"]);
    assert_eq!((&more["state"], &more["mode"]), (&json!("done"), &json!("stop-and-restart")), "{more}");
    assert_eq!(cluster.call("testkit/a/k7/list", "[]").await.body, json!([1, 2, 3]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_would_be_full_gets_nothing_and_the_cluster_goes_on() {
    let mut options = options(2, &["--app-state", "1MiB"]);
    options.worker_flags.extend(["--state-memory", "60000"].map(str::to_owned));
    let cluster = Cluster::start(options).await;
    cluster.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
    // Each has about 38,000 bytes of it.
    for number in 0..350 {
        assert_eq!(cluster.call(&format!("testkit/a/k{number}/put"), "[[1, 2, 3, 4, 5, 6]]").await.status, 200);
    }
    let began = Instant::now();
    let line = loop {
        let (code, line) = refused(&cluster, &["scale", "--workers", "1"]);
        if code == "STATE_FULL" {
            break line;
        }
        assert!(began.elapsed() < PATIENCE, "{code}: {line}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(
        line.starts_with("worker 1 has no room for that: it would hold ") && line.ends_with(" and may hold 60000"),
        "{line}"
    );
    let (code, dry) = refused(&cluster, &["scale", "--workers", "1", "--dry-run"]);
    assert!(code == "STATE_FULL" && dry.starts_with("worker 1 has no room for that"), "{code}: {dry}");
    assert_eq!(cluster.call("testkit/a/k7/append", "[7]").await.body, json!([1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(told(&cluster, &["migrations", "list"])["migrations"], json!([]));
    told(&cluster, &["migrations", "start", "--move", "17=1", "--wait"]);
}
