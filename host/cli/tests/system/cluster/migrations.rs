//! Partitions change their owners under load: nobody notices, nothing is lost, and a restart comes to the same.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use styx_harness::Role;

use crate::process::Endpoints;
use crate::process::cluster::{Cluster, PATIENCE};
use crate::process::load::Load;

/// Partitions of each worker.
async fn partitions_of(cluster: &Cluster) -> Vec<u64> {
    let workers = cluster.get("/v1/workers").await;
    workers["workers"].as_array().unwrap().iter().map(|worker| worker["partitions"].as_u64().unwrap()).collect()
}

/// The same, the fewest first, of a cluster that may have stopped everything a moment ago.
async fn spread(cluster: &Cluster) -> Vec<u64> {
    let began = Instant::now();
    loop {
        let workers = cluster.get("/v1/workers").await;
        let all = workers["workers"].as_array().into_iter().flatten();
        let mut partitions: Vec<u64> = all.filter_map(|worker| worker["partitions"].as_u64()).collect();
        if partitions.len() == 2 {
            partitions.sort_unstable();
            return partitions;
        }
        assert!(began.elapsed() < PATIENCE, "{workers}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn migrate(cluster: &Cluster, method: Method, body: Value) -> (StatusCode, Value) {
    let url = format!("http://{}/v1/migrations", cluster.admin());
    let response = cluster.http().request(method, url).json(&body).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

/// Sends a request without a body.
async fn ask(cluster: &Cluster, method: Method, path: &str) -> (StatusCode, Value) {
    let response = cluster.http().request(method, format!("http://{}{path}", cluster.admin())).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

/// A migration is done, leaves so many partitions to each worker, and is not noticed.
async fn goes_through(cluster: &Cluster, load: &Load, goal: Value, expected: [u64; 2]) {
    let (status, body) = migrate(cluster, Method::POST, goal.clone()).await;
    assert_eq!((status, &body["migrated"]), (StatusCode::OK, &json!(true)), "{goal}: {body}");
    assert_eq!(body["migration"]["state"], "done", "{goal}: {body}");
    assert_eq!(partitions_of(cluster).await, expected, "{goal}");
    load.goes_on(100).await;
}

/// All that keep anything are killed, and come back to the same state.
async fn comes_back(cluster: &mut Cluster) {
    let state = cluster.state(&["testkit/a"]).await;
    let before = cluster.generation().await;
    cluster.kill(&[Role::Worker(0), Role::Worker(1), Role::Coordinator]).await;
    cluster.run(&[Role::Coordinator, Role::Worker(0), Role::Worker(1)]).await;
    cluster.settles(2, before).await;
    assert_eq!(cluster.state(&["testkit/a"]).await, state);
}

async fn migrates_under_load(store: &[&str]) {
    let mut cluster = Cluster::with_testkit_and(2, store).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    assert_eq!(partitions_of(&cluster).await, [512, 512]);
    for (goal, expected) in [
        (json!({ "empty": 1 }), [0, 1024]),
        (json!({ "moves": [{ "partition": 7, "worker": 1 }] }), [1, 1023]),
        (json!({ "balance": true, "by": "partitions", "mode": "immediate" }), [512, 512]),
        (json!({ "empty": 2, "mode": "immediate" }), [1024, 0]),
        (json!({ "balance": true, "by": "partitions" }), [512, 512]),
    ] {
        goes_through(&cluster, &load, goal, expected).await;
    }
    assert_eq!(cluster.generation().await, generation, "nothing began anew");
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0, "no request was doubtful");

    // What was written on either side is in the log, and in snapshots.
    comes_back(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_move_under_load_and_nobody_notices() {
    migrates_under_load(&["--snapshot-interval", "200ms"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_move_without_snapshots_too() {
    migrates_under_load(&["--store", "none"]).await;
}

/// No other snapshot is cut before somebody writes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_change_in_a_cluster_that_is_idle_since_its_last_snapshot() {
    let mut cluster = Cluster::with_testkit(2).await;
    assert_eq!(cluster.call("testkit/a/k/append", "[1]").await.status, 200);
    let taken = cluster.http().post(format!("http://{}/v1/snapshots", cluster.admin())).send().await.unwrap();
    assert!(taken.status().is_success(), "{taken:?}");
    for goal in [json!({ "empty": 1 }), json!({ "empty": 2, "mode": "immediate" }), json!({ "empty": 1 })] {
        let migrated = migrate(&cluster, Method::POST, goal.clone());
        let (status, body) = tokio::time::timeout(PATIENCE, migrated).await.expect("nobody writes");
        assert_eq!((status, &body["migrated"]), (StatusCode::OK, &json!(true)), "{goal}: {body}");
    }
    assert_eq!(partitions_of(&cluster).await, [0, 1024]);
    // Nor after everything has stopped: what there is now is in the log, and a snapshot of it is cut.
    for (goal, expected) in [
        (json!({ "partitions": 2048, "mode": "stop-and-restart" }), [0, 2048]),
        (json!({ "balance": true, "by": "partitions" }), [1024, 1024]),
        (json!({ "empty": 2, "mode": "stop-and-restart" }), [0, 2048]),
    ] {
        let migrated = migrate(&cluster, Method::POST, goal.clone());
        let (status, body) = tokio::time::timeout(PATIENCE, migrated).await.expect("nobody writes");
        assert_eq!((status, &body["migration"]["state"]), (StatusCode::OK, &json!("done")), "{goal}: {body}");
        assert_eq!(spread(&cluster).await, expected, "{goal}");
    }
    comes_back(&mut cluster).await;
    assert_eq!(spread(&cluster).await, [0, 2048]);
    assert_eq!(cluster.call("testkit/a/k/append", "[2]").await.body, json!([1, 2]));
}

async fn repartitions_under_load(store: &[&str]) {
    let mut cluster = Cluster::with_testkit_and(2, store).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    let (status, plan) = migrate(&cluster, Method::POST, json!({ "partitions": 4096, "dry_run": true })).await;
    assert_eq!(
        (status, &plan["repartitioned"], &plan["partitions"]),
        (StatusCode::OK, &json!(4096), &json!(0)),
        "{plan}"
    );
    assert_eq!(plan["workers"][1]["after"]["partitions"], 2048, "{plan}");
    for (goal, expected) in [
        (json!({ "partitions": 4096 }), [2048, 2048]),
        (json!({ "moves": [{ "partition": 1, "worker": 2 }] }), [2047, 2049]),
        (json!({ "empty": 2, "mode": "immediate" }), [4096, 0]),
        (json!({ "partitions": 2048 }), [2048, 0]),
        (json!({ "balance": true, "by": "partitions" }), [1024, 1024]),
    ] {
        goes_through(&cluster, &load, goal, expected).await;
    }
    assert_eq!(cluster.generation().await, generation, "nothing began anew");
    // Half a partition cannot be at another worker than the other half.
    let (status, _) = migrate(&cluster, Method::POST, json!({ "moves": [{ "partition": 0, "worker": 2 }] })).await;
    assert_eq!(status, StatusCode::OK);
    let (status, refused) = migrate(&cluster, Method::POST, json!({ "partitions": 1024 })).await;
    let why = "some of 1024 partitions would be made of what several workers have: take a multiple of 2048, or mode \
               stop-and-restart";
    assert_eq!((status, refused["error"]["message"].as_str()), (StatusCode::BAD_REQUEST, Some(why)), "{refused}");
    let goal = json!({ "partitions": 3072, "mode": "stop-and-restart" });
    let (status, body) = migrate(&cluster, Method::POST, goal).await;
    assert_eq!((status, &body["migration"]["repartitioned"]), (StatusCode::OK, &json!(3072)), "{body}");
    assert!(cluster.generation().await > generation, "everything has rested");
    load.goes_on(100).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0, "no request was doubtful");

    // Who begins anew knows the number, whatever that of the beginning was.
    comes_back(&mut cluster).await;
    assert_eq!(partitions_of(&cluster).await.iter().sum::<u64>(), 3072);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_other_partitions_under_load_and_nobody_notices() {
    repartitions_under_load(&["--snapshot-interval", "200ms"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_other_partitions_without_snapshots_too() {
    repartitions_under_load(&["--store", "none"]).await;
}

const UNSOUND: &str = "there can be 1024, as at the beginning, or a multiple of that up to 65536";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_migrated_is_refused_in_one_line() {
    let cluster = Cluster::with_testkit(2).await;
    for (goal, why) in [
        (json!({ "balance": true, "by": "partitions" }), "every partition is where it is to be"),
        (json!({ "workers": 0 }), "0 workers cannot have the partitions: somebody must"),
        (json!({ "workers": 3 }), "3 workers cannot have the partitions: the cluster has 2"),
        (json!({ "only": [2, 9] }), "there is no worker 9"),
        (json!({ "empty": 1, "rate": 0 }), "a rate of 0 copies nothing"),
        (json!({ "empty": 1, "placement": "first" }), "\"first\" names no placement"),
        (json!({ "empty": 3 }), "there is no worker 3"),
        (json!({ "empty": 0 }), "there is no worker 0"),
        (json!({ "moves": [{ "partition": 1024, "worker": 1 }] }), "there is no partition 1024"),
        (json!({}), "a migration has one of balance, empty, workers, only, moves and partitions"),
        (
            json!({ "balance": true, "partitions": 2048 }),
            "a migration has one of balance, empty, workers, only, moves and partitions",
        ),
        (json!({ "partitions": 1024 }), "there are 1024 partitions already"),
        (json!({ "partitions": 0 }), UNSOUND),
        (json!({ "partitions": 1500 }), UNSOUND),
        (json!({ "partitions": 131072 }), UNSOUND),
    ] {
        let (status, body) = migrate(&cluster, Method::POST, goal.clone()).await;
        let message = body["error"]["message"].as_str().unwrap();
        let is_said = if why == UNSOUND { message.ends_with(why) } else { message == why };
        assert!(status == StatusCode::BAD_REQUEST && is_said, "{goal}: {body}");
    }
    let (status, body) = migrate(&cluster, Method::DELETE, json!({})).await;
    let why = "no migration is under way that can be cancelled";
    assert_eq!((status, body["error"]["message"].as_str()), (StatusCode::CONFLICT, Some(why)), "{body}");
    assert_eq!(body["error"]["code"], "MIGRATION_ENDED", "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_is_planned_watched_paused_and_cancelled() {
    let cluster = Cluster::with_testkit(2).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let partitions = cluster.get("/v1/partitions?sort=calls&limit=3").await;
    assert_eq!((&partitions["total"], partitions["partitions"].as_array().map(Vec::len)), (&json!(1024), Some(3)));
    let hottest = &partitions["partitions"][0];
    assert!(hottest["calls"].as_u64() > Some(0) && hottest["fuel"].as_u64() > Some(0), "{hottest}");

    let goal = json!({ "workers": 1, "dry_run": true, "rate": 1000 });
    let (status, plan) = migrate(&cluster, Method::POST, goal).await;
    assert_eq!((status, &plan["partitions"]), (StatusCode::OK, &json!(512)), "{plan}");
    assert_eq!(plan["workers"][1]["after"]["partitions"], 0, "{plan}");
    assert_eq!((&plan["estimated_by"], plan["moves"].as_array().map(Vec::len)), (&json!("rate limit"), Some(512)));
    let placement = plan["placement"].as_str().unwrap().to_owned();
    assert_eq!(partitions_of(&cluster).await, [512, 512], "nothing was done");

    // A byte a second: what there is of it would take for ever.
    let goal = json!({ "workers": 1, "placement": &placement, "rate": 1, "wait": false });
    let (status, begun) = migrate(&cluster, Method::POST, goal.clone()).await;
    assert_eq!((status, &begun["state"]), (StatusCode::ACCEPTED, &json!("copying")), "{begun}");
    let one = format!("/v1/migrations/{}", begun["id"].as_str().unwrap());
    let (status, second) = migrate(&cluster, Method::POST, goal.clone()).await;
    assert_eq!((status, &second["error"]["code"]), (StatusCode::CONFLICT, &json!("MIGRATION_UNDER_WAY")), "{second}");
    let (status, paused) = ask(&cluster, Method::POST, &format!("{one}/pause")).await;
    assert_eq!((status, &paused["state"]), (StatusCode::OK, &json!("paused")), "{paused}");
    load.goes_on(100).await;
    let (_, resumed) = ask(&cluster, Method::POST, &format!("{one}/resume")).await;
    assert_eq!(resumed["state"], "copying", "{resumed}");
    let moving = cluster.get("/v1/partitions?limit=65536").await;
    let going = moving["partitions"].as_array().unwrap().iter().filter(|one| one["moves_to"] == 1).count();
    assert_eq!(going, 512);
    let (status, _) = ask(&cluster, Method::DELETE, &one).await;
    assert_eq!(status, StatusCode::OK);
    let (_, ended) = ask(&cluster, Method::GET, &one).await;
    assert_eq!(ended["state"], "cancelled", "{ended}");
    let (status, again) = ask(&cluster, Method::POST, &format!("{one}/pause")).await;
    assert_eq!((status, &again["error"]["code"]), (StatusCode::CONFLICT, &json!("MIGRATION_ENDED")), "{again}");
    let (status, nobody) = ask(&cluster, Method::GET, "/v1/migrations/mg_1_99").await;
    assert_eq!((status, &nobody["error"]["code"]), (StatusCode::NOT_FOUND, &json!("UNKNOWN_MIGRATION")), "{nobody}");

    // Without the limit it goes through, and a plan that was made before is one of another placement.
    let (status, done) = migrate(&cluster, Method::POST, json!({ "workers": 1, "placement": &placement })).await;
    assert_eq!((status, &done["migration"]["state"]), (StatusCode::OK, &json!("done")), "{done}");
    assert_eq!(done["migration"]["partitions"], json!({ "done": 512, "of": 512 }), "{done}");
    assert_eq!(partitions_of(&cluster).await, [1024, 0]);
    let late = json!({ "balance": true, "placement": &placement });
    let (status, late) = migrate(&cluster, Method::POST, late).await;
    assert_eq!((status, &late["error"]["code"]), (StatusCode::CONFLICT, &json!("PLACEMENT_CHANGED")), "{late}");
    let all = cluster.get("/v1/migrations").await;
    let states: Vec<_> = all["migrations"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["done", "cancelled"], "the newest first");
    costs(&cluster, &one).await;
    let (status, nobody) = ask(&cluster, Method::GET, "/v1/migrations/mg_1_99/course").await;
    assert_eq!((status, &nobody["error"]["code"]), (StatusCode::NOT_FOUND, &json!("UNKNOWN_MIGRATION")), "{nobody}");
    assert_eq!(load.ends().await.unknown, 0, "no request was doubtful");
}

/// What a migration that has ended cost those who called comes to be known, and is, as gateways report it.
async fn costs(cluster: &Cluster, migration: &str) {
    let began = Instant::now();
    loop {
        let course = cluster.get(&format!("{migration}/course")).await;
        let points = course["points"].as_array().unwrap();
        let number = |point: &Value, name: &str| point[name].as_f64().unwrap();
        for pair in points.windows(2) {
            let gap = number(&pair[1], "after_ms") - number(&pair[0], "after_ms") - number(&pair[0], "ms");
            assert!(gap.abs() <= 1.0, "one follows the other: {course}");
        }
        let called: Vec<&Value> = points.iter().filter(|point| number(point, "calls") > 0.0).collect();
        for point in &called {
            let (p50, p99) = (number(point, "p50_ms"), number(point, "p99_ms"));
            assert!(0.0 < p50 && p50 <= p99, "{point}");
        }
        if course["complete"] == true {
            assert!(called.len() > 3, "{course}");
            let (first, last) = (number(&points[0], "after_ms"), number(points.last().unwrap(), "after_ms"));
            assert!(first < 0.0 && last > 5000.0, "{course}");
            assert!(
                points.iter().filter(|point| point["longest_epoch_ms"].as_f64() > Some(0.0)).count() > 3,
                "{course}"
            );
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{course}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_calls_what_has_not_arrived_waits_for_that_and_for_nothing_else() {
    let cluster = Cluster::with_testkit(2).await;
    let client = cluster.client();
    let (before, new) = (|number: usize| json!(vec![number; 20]), json!([7]));
    let keys: Vec<String> = (0..300).map(|number| format!("k{number}")).collect();
    for (number, key) in keys.iter().enumerate() {
        client.call("testkit", "a", key, "put", json!([before(number)])).await.unwrap();
    }
    // What is not asked for takes a quarter of a minute.
    let goal = json!({ "empty": 2, "mode": "immediate", "rate": 1000, "wait": false });
    let (status, begun) = migrate(&cluster, Method::POST, goal).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{begun}");
    let one = format!("/v1/migrations/{}", begun["id"].as_str().unwrap());
    let began = Instant::now();
    while cluster.get(&one).await["state"] != "arriving" {
        assert!(began.elapsed() < PATIENCE, "{}", cluster.get(&one).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(partitions_of(&cluster).await, [1024, 0], "they have changed their owner");
    let held: u64 = cluster.get("/v1/workers").await["workers"][0]["entities"].as_u64().unwrap();
    assert!(held >= 300, "what is to come counts: {held}");
    for (number, key) in keys.iter().enumerate() {
        match number % 4 {
            0 => {
                let read = client.call("testkit", "a", key, "list", json!([])).await.unwrap();
                assert_eq!(read, before(number));
            }
            1 => {
                client.call("testkit", "a", key, "put", json!([new])).await.unwrap();
            }
            2 => {
                let shown = cluster.get(&format!("/v1/state/testkit/a/{key}")).await;
                assert_eq!(shown["value"], before(number), "{shown}");
            }
            _ => {}
        }
    }
    // Many at once, in several transactions that conflict, and of which each has most of its entities in another partition.
    let rest: Vec<&String> = keys.iter().skip(3).step_by(4).collect();
    let callers: Vec<String> = (0..5).map(|number| format!("all{number}")).collect();
    let append = |caller| client.call("testkit", "a", caller, "append_all", json!([rest, 7])).into_future();
    for appended in join_all(callers.iter().map(|caller| append(caller))).await {
        assert_eq!(appended.unwrap().as_array().map(Vec::len), Some(rest.len() + 1));
    }
    let (status, refused) = ask(&cluster, Method::DELETE, &one).await;
    assert!(status.is_client_error(), "it is too late: {refused}");
    let (_, paused) = ask(&cluster, Method::POST, &format!("{one}/pause")).await;
    assert_eq!(paused["state"], "paused", "{paused}");
    // A scan needs all of it, paused or not.
    let found = client.call("testkit", "a", "k", "scan", json!(["k", null, 1000])).await.unwrap();
    assert_eq!(found.as_array().map(Vec::len), Some(300), "{found}");
    ask(&cluster, Method::POST, &format!("{one}/resume")).await;
    while cluster.get(&one).await["state"] != "done" {
        assert!(began.elapsed() < PATIENCE, "{}", cluster.get(&one).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (number, key) in keys.iter().enumerate() {
        let read = client.call("testkit", "a", key, "list", json!([])).await.unwrap();
        let expected = match number % 4 {
            1 => new.clone(),
            3 => json!([vec![number; 20], vec![7; 5]].concat()),
            _ => before(number),
        };
        assert_eq!(read, expected, "{key}");
    }
}
