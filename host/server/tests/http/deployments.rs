//! Uploads, from every bad one to a good one, and what follows.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use styx_build::{Bundle, Manifest};
use styx_protocol::deployment::Limits;
use styx_server::http::HttpOptions;

use crate::server::{Server, Told, item, item_as, told};
use crate::support::Guest;

pub fn bundle(manifest: &str, components: &[(&str, Guest)]) -> Vec<u8> {
    let components: BTreeMap<String, Vec<u8>> =
        components.iter().map(|(name, guest)| ((*name).to_owned(), guest.bytes())).collect();
    Bundle::new(Manifest::parse(manifest).unwrap(), components).write().unwrap()
}

fn operators(told: &Told) -> Vec<String> {
    told.json()["operators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operator| operator["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_takes_effect_at_once_and_can_be_rolled_back() {
    let server = Server::start().await;
    let wasm = "application/wasm";
    let first = item_as("item", r#"{"type":"integer"}"#).bytes();

    // A dry run says what would be.
    let dry = server.deploy("app", "?dry_run=true", wasm, first.clone()).await;
    assert_eq!(
        (dry.status, operators(&dry), &dry.json()["deployment"], &dry.json()["dry_run"]),
        (200, vec!["item".into()], &Value::Null, &json!(true))
    );
    assert_eq!(dry.json()["changes"], json!({ "live": null, "changes": [] }));
    assert_eq!((server.get("/v1/apps/app").await.status, server.stored().len()), (404, 0));
    let misspelt = server.deploy("app", "?dryrun=true", wasm, first.clone()).await;
    assert_eq!(misspelt.error(), (400, "BAD_REQUEST".into()));
    assert_eq!(server.deploy("app", "", wasm, b"hello".to_vec()).await.error(), (400, "NOT_A_COMPONENT".into()));
    assert_eq!((server.get("/v1/apps").await.json(), server.stored().len()), (json!({ "apps": [] }), 0));

    let one = server.deploy("app", "", wasm, first.clone()).await;
    assert_eq!((one.status, operators(&one), &one.json()["digest"]), (201, vec!["item".into()], &dry.json()["digest"]));
    let first_id = one.json()["deployment"].as_str().unwrap().to_owned();
    assert!(first_id.starts_with("dp_"));
    assert_eq!(one.header("location"), format!("/v1/apps/app/deployments/{first_id}"));
    assert_eq!(server.get(one.header("location")).await.json()["active"], json!(true));
    assert_eq!(server.stored(), [format!("{}.wasm", one.json()["digest"].as_str().unwrap())]);
    assert_eq!(server.call("a", "store", "[1]").await.status, 200);
    assert_eq!(server.call("a", "store", "[\"x\"]").await.error(), (400, "BAD_ARGUMENTS".into()));

    // Another version takes strings; a dry run says so, and that nothing else changes but the code.
    let dry = server.deploy("app", "?dry_run=true", wasm, item_as("item", r#"{"type":"string"}"#).bytes()).await;
    let changes = dry.json()["changes"].clone();
    assert_eq!(changes["live"], json!(first_id));
    let noted: Vec<Value> =
        changes["changes"].as_array().unwrap().iter().map(|one| json!([one["of"], one["name"], one["kind"]])).collect();
    assert!(noted.contains(&json!(["function", "item.store", "changed"])), "{changes}");
    assert!(noted.iter().all(|one| one[2] == "changed" && one[0] != "operator" && one[0] != "limit"), "{changes}");
    let same = server.deploy("app", "?dry_run=true", wasm, first.clone()).await.json();
    assert_eq!(same["changes"], json!({ "live": first_id, "changes": [] }));
    assert!(one.json()["changes"].is_null(), "it was not asked for");

    // The state stays.
    let two = server.deploy("app", "", wasm, item_as("item", r#"{"type":"string"}"#).bytes()).await;
    let second_id = two.json()["deployment"].as_str().unwrap().to_owned();
    assert_eq!(server.call("a", "load", "[\"\"]").await.text(), "[1]");
    assert_eq!(server.call("a", "store", "[2]").await.error(), (400, "BAD_ARGUMENTS".into()));
    // The same content again is another deployment of the same component.
    let three = server.deploy("app", "", wasm, first).await;
    assert_eq!((three.status, &three.json()["digest"], server.stored().len()), (201, &one.json()["digest"], 2));
    assert_ne!(three.json()["deployment"], one.json()["deployment"]);
    assert_eq!(server.call("a", "store", "[3]").await.status, 200);

    // Back, and forward.
    for (id, args) in [(&second_id, "[\"x\"]"), (&first_id, "[4]")] {
        let activated = told(server.to_admin(Method::POST, &format!("/v1/apps/app/deployments/{id}/activate"))).await;
        assert_eq!((activated.status, &activated.json()["active"]), (200, &json!(true)));
        assert_eq!(server.call("a", "store", args).await.status, 200, "{args}");
    }
    let listed = server.get("/v1/apps/app/deployments").await.json();
    let listed: Vec<(String, bool)> = listed["deployments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["deployment"].as_str().unwrap().to_owned(), it["active"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        listed,
        [(three.json()["deployment"].as_str().unwrap().to_owned(), false), (second_id, false), (first_id, true)]
    );

    for (method, path, status, code) in [
        (Method::POST, "/v1/apps/app/deployments/dp_x/activate", 404, "UNKNOWN_DEPLOYMENT"),
        (Method::GET, "/v1/apps/app/deployments/dp_x", 404, "UNKNOWN_DEPLOYMENT"),
        (Method::POST, "/v1/apps/ap/deployments/dp_x/activate", 404, "UNKNOWN_APP"),
        (Method::GET, "/v1/apps/ap/deployments", 404, "UNKNOWN_APP"),
        (Method::DELETE, "/v1/apps/ap", 404, "UNKNOWN_APP"),
        (Method::GET, "/v1/apps/ap/openapi.json", 404, "UNKNOWN_APP"),
    ] {
        assert_eq!(told(server.to_admin(method, path)).await.error(), (status, code.to_owned()), "{path}");
    }

    // Gone with its state.
    assert_eq!(
        told(server.to_admin(Method::DELETE, "/v1/apps/app")).await.json(),
        json!({ "app": "app", "removed": true })
    );
    assert_eq!(server.call("a", "load", "[0]").await.error(), (404, "UNKNOWN_APP".into()));
    server.deploy("app", "", wasm, item().bytes()).await;
    assert_eq!(server.call("a", "load", "[0]").await.text(), "null");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_brings_several_components_and_its_limits() {
    let server = Server::start().await;
    let manifest = "[limits]\npayload = 64\nfuel = 1000000\n\n[operator.other]\nisolation = \"fresh\"\n";
    let deployed = server
        .deploy("app", "", "application/zip", bundle(manifest, &[("a", item()), ("b", item_as("other", "{}"))]))
        .await;
    assert_eq!(
        (deployed.status, operators(&deployed)),
        (201, vec!["item".into(), "other".into()]),
        "{}",
        deployed.text()
    );
    let told_of = |operator: &str, args: &str| {
        told(server.to_ingress(Method::POST, &format!("/v1/call/app/{operator}/k/store")).body(args.to_owned()))
    };
    assert_eq!(told_of("item", "[1]").await.text(), "[1]");
    assert_eq!(told_of("other", "[2]").await.text(), "[2]");
    assert_eq!(told_of("item", "[1]").await.status, 200);
    assert_eq!(told_of("item", &format!("[\"{}\"]", "x".repeat(64))).await.error(), (413, "TOO_LARGE".into()));
    let app = server.get("/v1/apps/app").await.json();
    assert_eq!((&app["limits"]["payload"], &app["limits"]["fuel"]), (&json!(64), &json!(1_000_000)));
    let isolation: BTreeMap<&str, &str> = app["operators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), it["isolation"].as_str().unwrap()))
        .collect();
    assert_eq!(isolation, BTreeMap::from([("item", "warm"), ("other", "fresh")]));
    assert_eq!(server.stored().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_have_limits() {
    let limits_max = HttpOptions::default().limits_max;
    let limits_max = Limits { fuel: 2_000_000, payload: 1 << 10, ..limits_max };
    let server = Server::with(HttpOptions { limits_max, ..HttpOptions::default() }).await;
    for (limits, name) in [
        ("fuel = 9223372036854775807", "fuel"),
        ("transaction_fuel = 9223372036854775807", "transaction_fuel"),
        ("memory = \"2GiB\"", "memory"),
        ("call_depth = 65", "call_depth"),
        ("calls = 4294967295", "calls"),
        ("rw_set = 4294967295", "rw_set"),
        ("payload = 1025", "payload"),
    ] {
        let bundle = bundle(&format!("[limits]\n{limits}\n"), &[("a", item())]);
        let refused = server.deploy("app", "", "application/zip", bundle).await;
        assert_eq!(refused.status, 400, "{limits}");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(name), "{limits}: {message}");
    }
    // What is not given is what the server allows, if that is less than the default.
    let told = server.deploy("app", "", "application/wasm", item().bytes()).await;
    assert_eq!(told.status, 201);
    let app = server.get("/v1/apps/app").await.json();
    assert_eq!((&app["limits"]["payload"], &app["limits"]["fuel"]), (&json!(1024), &json!(2_000_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_uploads_are_held_at_once() {
    let server = Server::with(HttpOptions { uploads_max: 0, ..HttpOptions::default() }).await;
    let refused = server.deploy("app", "", "application/wasm", item().bytes()).await;
    assert_eq!((refused.error(), refused.header("retry-after")), ((503, "OVERLOADED".into()), "1"));
}
