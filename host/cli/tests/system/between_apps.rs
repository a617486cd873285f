//! Two apps of which one calls the other: in one process, and on several workers.

use reqwest::Method;
use serde_json::{Value, json};
use styx_build::{Bundle, BundleLimits, Manifest};

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, Told, testkit, told};

const EXPORT: &str =
    "[export.a]\nfunctions = [\"append\", \"list\", \"who\", \"write_then_fail\", \"spin\"]\nto = [\"shop\"]\n";
const IMPORT: &str = "[import]\n\"billing/a\" = [\"append\", \"list\", \"who\", \"write_then_fail\", \"spin\"]\n";
const OTHER: &str = "billing/a";

/// The test kit with another manifest.
async fn kit(manifest: &str) -> Vec<u8> {
    let components = Bundle::read(&testkit().await, &BundleLimits::default()).unwrap().components;
    Bundle::new(Manifest::parse(manifest).unwrap(), components).write().unwrap()
}

async fn deploy(server: &impl Endpoints, app: &str, options: &str, manifest: &str) -> Told {
    let path = format!("/v1/apps/{app}/deployments{options}");
    let request = server.to_admin(Method::POST, &path).header("content-type", "application/zip");
    told(request.body(kit(manifest).await)).await
}

/// Has an entity of `shop` call one of `billing`, and gives what comes of it.
async fn relay(server: &impl Endpoints, key: &str, to: &str, function: &str) -> Told {
    server.call(&format!("shop/a/{key}/relay"), json!([OTHER, to, function]).to_string()).await
}

/// The same of a function with arguments, between two writes of the caller.
async fn pay(server: &impl Endpoints, key: &str, to: &str, function: &str, arguments: &Value) -> Told {
    let arguments = json!([OTHER, to, function, arguments.to_string()]);
    server.call(&format!("shop/a/{key}/relay_stubbornly"), arguments.to_string()).await
}

/// The values of some entities of both apps, by their keys.
async fn values(server: &impl Endpoints) -> [Value; 2] {
    let state = server.state(&["shop/a", "billing/a"]).await;
    let of = |entries: &Value| {
        let entries = entries.as_array().unwrap().iter();
        Value::Object(
            entries.map(|entry| (entry["key"].as_str().unwrap().to_owned(), entry["value"].clone())).collect(),
        )
    };
    [of(&state[0]), of(&state[1])]
}

/// All that two apps do with each other.
async fn both(server: &impl Endpoints) {
    deploy(server, "shop", "", IMPORT).await.is_error("a caller before", 409, "UNMET_IMPORT", "no app \"billing\"");
    deploy(server, "billing", "", EXPORT).await.is_deployed();
    deploy(server, "shop", "", IMPORT).await.is_deployed();
    let first = server.get("/v1/apps/billing").await["active"].as_str().unwrap().to_owned();

    // One transaction writes in both.
    for (key, to) in [("s1", "b1"), ("s2", "b1"), ("s3", "b2")] {
        let paid = pay(server, key, to, "append", &json!([5])).await;
        assert_eq!((paid.status, paid.body), (200, json!(true)));
    }
    let before = [json!({ "s1": [8], "s2": [8], "s3": [8] }), json!({ "b1": [5, 5], "b2": [5] })];
    assert_eq!(values(server).await, before);
    assert_eq!(relay(server, "s4", "b1", "list").await.body, json!("[5,5]"));
    let who = relay(server, "s4", "b1", "who").await.body;
    assert!(who.as_str().unwrap().starts_with("[\"billing\",\"a\",\"b1\","), "{who}");

    // Or in neither.
    let refused = pay(server, "s1", "b1", "write_then_fail", &json!([])).await;
    refused.is_error("a refusal of the callee", 422, "ABORTED", "after writing");
    pay(server, "s1", "b1", "append", &json!(["x"])).await.is_error(
        "arguments that the callee does not take",
        500,
        "GUEST_EXCEPTION",
        "billing/a.append was called with arguments that it does not take",
    );
    relay(server, "s1", "b1", "tid").await.is_error("no import", 500, "NOT_IMPORTED", "under [import]");
    let own = server.call("shop/a/s1/relay", json!(["shop/b", "k", "list"]).to_string()).await;
    assert_eq!(own.body, json!("[]"), "an app may be named by itself");
    assert_eq!(values(server).await, before);

    // A version that takes something away is refused, unless it is forced.
    let taken = "app \"shop\" imports what this takes away";
    deploy(server, "billing", "", "").await.is_error("a version without", 409, "BROKEN_IMPORT", taken);
    let delete = |force: &str| told(server.to_admin(Method::DELETE, &format!("/v1/apps/billing{force}")));
    delete("").await.is_error("a removal", 409, "BROKEN_IMPORT", taken);
    deploy(server, "billing", "?force=true", "").await.is_deployed();
    pay(server, "s1", "b1", "append", &json!([6])).await.is_error(
        "no export",
        500,
        "NOT_EXPORTED",
        "add [export.a] with functions = [\"append\"] in styx.toml of \"billing\"",
    );
    let activate = format!("/v1/apps/billing/deployments/{first}/activate");
    assert_eq!(told(server.to_admin(Method::POST, &activate)).await.status, 200);
    assert_eq!(values(server).await, before);
    assert_eq!(pay(server, "s1", "b1", "append", &json!([6])).await.body, json!(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_calls_another_in_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &[]).await;
    both(&server).await;
    // Killed, it has all of it, and both say the same of each other.
    let before = values(&server).await;
    let server = server.kill_and_restart(&[]).await;
    assert_eq!(values(&server).await, before);
    assert_eq!(server.get("/v1/apps/billing").await["imported_by"], json!(["shop"]));
    assert_eq!(relay(&server, "s4", "b2", "list").await.body, json!("[5]"));
    let removed = told(server.to_admin(Method::DELETE, "/v1/apps/billing?force=true")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    relay(&server, "s1", "b1", "list").await.is_error("nobody there", 500, "GUEST_EXCEPTION", "no app \"billing\"");
}

/// Each has limits of its own; of the transaction, those of the app that the request calls hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_the_fuel_that_its_app_gives_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &[]).await;
    for (own, transaction, says) in [
        (3_000_000, 50_000_000, "billing/a.spin used up its fuel: 3000000 units (limits.fuel)"),
        (60_000_000, 40_000_000, "of 40000000 units for the transaction (limits.transaction_fuel)"),
    ] {
        let limits = format!("[limits]\nfuel = {own}\n{EXPORT}");
        deploy(&server, "billing", "", &limits).await.is_deployed();
        let limits = format!("[limits]\nfuel = 20_000_000\ntransaction_fuel = {transaction}\n{IMPORT}");
        deploy(&server, "shop", "", &limits).await.is_deployed();
        relay(&server, "s", "b", "spin").await.is_error("a call without end", 500, "OUT_OF_FUEL", says);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_workers_it_is_the_same() {
    let cluster = Cluster::start(options(3, &[])).await;
    both(&cluster).await;
}
