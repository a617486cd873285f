//! What the admin surface tells.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use styx_server::http::HttpOptions;

use crate::server::{Server, item_as, told};

#[tokio::test(flavor = "multi_thread")]
async fn every_endpoint_is_there_and_described() {
    let server = Server::with_item(HttpOptions::default()).await;
    let document = server.get("/openapi.json").await.json();
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let of_ingress = item["servers"][0]["url"] == "http://127.0.0.1:8080";
        for (method, operation) in item.as_object().unwrap().iter().filter(|(_, operation)| operation.is_object()) {
            operations += 1;
            let name = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{name}");
            assert_eq!(operation["responses"]["default"]["$ref"], "#/components/responses/Error", "{name}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let contents = response["content"].as_object();
                let has_schema = contents.is_some_and(|contents| {
                    contents.values().all(|content| content["schema"].as_object().is_some_and(|it| !it.is_empty()))
                });
                // The result of a function is whatever its app's own document says.
                let is_free = status == "200" && path.starts_with("/v1/call/");
                assert!(has_schema || is_free || ["default", "101"].contains(&status.as_str()), "{name}: {response}");
            }
            let path = path
                .replace("{app}", "absent")
                .replace("{operator}", "o")
                .replace("{key}", "k")
                .replace("{function}", "f")
                .replace("{id}", "0".repeat(32).as_str());
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let request = if of_ingress { server.to_ingress(method, &path) } else { server.to_admin(method, &path) };
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            assert_ne!(status, 405, "{name}");
            if status == 404 {
                let body: Value = response.json().await.unwrap();
                assert_ne!(body["error"]["code"], "NOT_FOUND", "{name}");
            }
        }
    }
    assert_eq!(operations, 51);
    for (method, path, status, code) in [
        (Method::GET, "/v1/nothing", 404, "NOT_FOUND"),
        (Method::POST, "/v1/cluster", 405, "METHOD_NOT_ALLOWED"),
        (Method::GET, "/v1/state/%FF/x", 400, "BAD_REQUEST"),
    ] {
        assert_eq!(told(server.to_admin(method, path)).await.error(), (status, code.to_owned()), "{path}");
    }
    assert_eq!(server.get("/").await.status, 200);
}

/// What is answered is of the schema that the document gives for it, down to the last part.
#[tokio::test(flavor = "multi_thread")]
async fn responses_are_what_the_document_says() {
    let server = Server::with_item(HttpOptions::default()).await;
    assert_eq!(server.call("a", "store", "[1]").await.status, 200);
    let watched = server.to_ingress(Method::POST, "/v1/call/app/item/a/store").header("styx-trace", "1").body("[2]");
    let trace = format!("/v1/requests/{}/trace", told(watched).await.header("styx-request-id"));
    let document = server.get("/openapi.json").await.json();
    let deployment = server.get("/v1/apps/app").await.json()["active"].as_str().unwrap().to_owned();
    let version = format!("/v1/apps/app/deployments/{deployment}");
    for (path, described) in [
        ("/v1/apps", "/v1/apps"),
        ("/v1/apps/app", "/v1/apps/{app}"),
        ("/v1/apps/app/openapi.json", "/v1/apps/{app}/openapi.json"),
        ("/v1/apps/app/deployments", "/v1/apps/{app}/deployments"),
        (&version, "/v1/apps/{app}/deployments/{id}"),
        ("/v1/state/app/item", "/v1/state/{app}/{operator}"),
        ("/v1/state/app/item/a", "/v1/state/{app}/{operator}/{key}"),
        ("/v1/state/app/item/a/last-write", "/v1/state/{app}/{operator}/{key}/last-write"),
        ("/v1/cluster", "/v1/cluster"),
        ("/v1/workers", "/v1/workers"),
        ("/v1/partitions", "/v1/partitions"),
        ("/v1/epochs", "/v1/epochs"),
        ("/v1/requests", "/v1/requests"),
        (&trace, "/v1/requests/{id}/trace"),
        ("/v1/snapshots", "/v1/snapshots"),
        ("/v1/tokens", "/v1/tokens"),
        ("/v1/traffic", "/v1/traffic"),
        ("/v1/nodes", "/v1/nodes"),
        ("/v1/attention", "/v1/attention"),
        ("/v1/audit", "/v1/audit"),
        ("/v1/identity", "/v1/identity"),
        ("/v1/quarantine", "/v1/quarantine"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz"),
        ("/openapi.json", "/openapi.json"),
    ] {
        let body = server.get(path).await.json();
        let content = &document["paths"][described]["get"]["responses"]["200"]["content"]["application/json"];
        let mut schema = content["schema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{path}: {wrong:?}: {body}");
        // And nothing more: every part is described.
        let name = content["schema"]["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        let known = &document["components"]["schemas"][name]["properties"];
        for part in body.as_object().unwrap().keys().filter(|_| !name.eq("Document")) {
            assert!(name == "EntityView" || known[part].is_object(), "{path}: {part} is not described");
        }
    }
    let missing = server.get("/v1/apps/absent").await;
    let mut schema = document["components"]["schemas"]["Error"].clone();
    schema["components"] = document["components"].clone();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&missing.json()), "{}", missing.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_looks_is_not_among_those_who_have_changed_something() {
    let server = Server::with_item(HttpOptions::default()).await;
    assert_eq!(server.get("/v1/tokens").await.status, 200);
    assert_eq!(told(server.to_admin(Method::HEAD, "/v1/tokens")).await.status, 200);
    assert_eq!(told(server.to_admin(Method::DELETE, "/v1/tokens/0a")).await.status, 404);
    let audit = server.get("/v1/audit").await.json();
    let changes: Vec<(&str, &str)> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["method"].as_str().unwrap(), entry["path"].as_str().unwrap()))
        .collect();
    assert_eq!(changes.first(), Some(&("DELETE", "/v1/tokens/0a")));
    assert!(changes.iter().all(|(method, _)| !["GET", "HEAD"].contains(method)), "{changes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_read_one_by_one_and_page_by_page() {
    let server = Server::with_item(HttpOptions::default()).await;
    for key in ["a1", "a2", "a3", "b1", "c%2F%C3%A9"] {
        assert_eq!(server.call(key, "store", "[ 12345678901234567890123 ]").await.status, 200);
    }
    assert_eq!(server.call("blob", "blob", "[0]").await.status, 200);

    let one = server.get("/v1/state/app/item/a1").await;
    assert!(one.text().contains("\"value\":[12345678901234567890123],\"encoding\":\"json\""), "{}", one.text());
    assert_eq!(
        (&one.json()["key"], &one.json()["app"], &one.json()["operator"]),
        (&json!("a1"), &json!("app"), &json!("item"))
    );
    assert_eq!(server.get("/v1/state/app/item/c%2F%C3%A9").await.json()["key"], "c/é");
    let blob = server.get("/v1/state/app/item/blob").await.json();
    assert_eq!((&blob["value"], &blob["encoding"]), (&json!("/3s="), &json!("base64")));

    for (query, expect, next) in [
        ("", vec!["a1", "a2", "a3", "b1", "blob", "c/é"], Value::Null),
        ("?prefix=a", vec!["a1", "a2", "a3"], Value::Null),
        ("?prefix=a&limit=2", vec!["a1", "a2"], json!("a2")),
        ("?prefix=a&limit=2&after=a2", vec!["a3"], Value::Null),
        ("?limit=6", vec!["a1", "a2", "a3", "b1", "blob", "c/é"], Value::Null),
        ("?after=a3&limit=1", vec!["b1"], json!("b1")),
        ("?prefix=zzz", vec![], Value::Null),
        ("?prefix=a&after=b", vec![], Value::Null),
    ] {
        let page = server.get(&format!("/v1/state/app/item{query}")).await.json();
        let keys: Vec<&str> =
            page["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect();
        assert_eq!((keys, &page["next"]), (expect, &next), "{query}");
        assert!(page["epoch"].as_u64() > Some(0));
    }
    for (path, status, code) in [
        ("/v1/state/app/item?limit=0", 400, "BAD_REQUEST"),
        ("/v1/state/app/item?limit=1001", 400, "BAD_REQUEST"),
        ("/v1/state/app/item?limit=x", 400, "BAD_REQUEST"),
        ("/v1/state/app/item?perfix=a", 400, "BAD_REQUEST"),
        ("/v1/state/app/itme", 404, "UNKNOWN_OPERATOR"),
        ("/v1/state/ap/item", 404, "UNKNOWN_APP"),
        ("/v1/state/app/item/absent", 404, "UNKNOWN_ENTITY"),
        ("/v1/state/app/itme/a1", 404, "UNKNOWN_OPERATOR"),
        ("/v1/state/ap/item/a1", 404, "UNKNOWN_APP"),
    ] {
        assert_eq!(server.get(path).await.error(), (status, code.to_owned()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_make_short_pages() {
    let server = Server::with_item(HttpOptions::default()).await;
    let args = format!("[\"{}\"]", "x".repeat((1 << 20) - 10));
    for key in 0..12 {
        assert_eq!(server.call(&format!("k{key:02}"), "store", args.clone()).await.status, 200);
    }
    let (mut seen, mut after, mut pages) = (0, String::new(), 0);
    loop {
        let page = server.get(&format!("/v1/state/app/item?limit=1000&after={after}")).await;
        assert!(page.body.len() < 10 << 20);
        pages += 1;
        seen += page.json()["entries"].as_array().unwrap().len();
        match page.json()["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    assert_eq!((seen, pages), (12, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_described_for_tools() {
    let server = Server::start().await;
    let schema = r##"{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}}"##;
    assert_eq!(server.deploy("app", "", "application/wasm", item_as("item", schema).bytes()).await.status, 201);
    let apps = server.get("/v1/apps").await.json();
    assert_eq!((&apps["apps"][0]["name"], &apps["apps"][0]["operators"][0]["name"]), (&json!("app"), &json!("item")));
    let app = server.get("/v1/apps/app").await.json();
    let load = app["operators"][0]["functions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|function| function["name"] == "load")
        .unwrap()
        .clone();
    assert_eq!(
        (&load["read_only"], &load["parameters"][0]["name"], &load["parameters"][0]["schema"]["$ref"]),
        (&json!(true), &json!("n"), &json!("#/$defs/t"))
    );

    let document = server.get("/v1/apps/app/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 8);
    let operation = &paths["/v1/call/app/item/{key}/store"]["post"];
    assert_eq!((&operation["operationId"], &operation["x-styx-read-only"]), (&json!("item.store"), &json!(false)));
    // Every reference leads somewhere, and the schemas mean what they meant.
    let mut references = Vec::new();
    find_references(&document, &mut references);
    assert!(references.len() > 20);
    for reference in &references {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
    let mut body = operation["requestBody"]["content"]["application/json"]["schema"].clone();
    body["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&body).unwrap();
    for (given, valid) in [
        (json!([[[], [[]]]]), true),
        (json!([[1]]), false),
        (json!({ "n": [[]] }), true),
        (json!({ "m": [] }), false),
        (json!([]), false),
        (json!([[], []]), false),
    ] {
        assert_eq!(validator.is_valid(&given), valid, "{given}");
        // The document and the gateway agree.
        assert_eq!(server.call("k", "store", given.to_string()).await.status == 200, valid, "{given}");
    }
}

fn find_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(target) if key == "$ref" => found.push(target.clone()),
                    value => find_references(value, found),
                }
            }
        }
        Value::Array(array) => array.iter().for_each(|value| find_references(value, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_is_described_as_it_is() {
    let server = Server::with_item(HttpOptions::default()).await;
    for key in 0..20 {
        server.call(&format!("k{key}"), "store", "[1]").await;
    }
    let cluster = server.get("/v1/cluster").await.json();
    assert_eq!(
        (&cluster["workers"], &cluster["partitions"], &cluster["entities"], &cluster["apps"]),
        (&json!(1), &json!(8), &json!(20), &json!(1))
    );
    assert_eq!(cluster["chain"].as_str().unwrap().len(), 32);
    let partitions = server.get("/v1/partitions").await.json();
    let partitions = partitions["partitions"].as_array().unwrap();
    let entities: u64 = partitions.iter().map(|partition| partition["entities"].as_u64().unwrap()).sum();
    let bytes: u64 = partitions.iter().map(|partition| partition["bytes"].as_u64().unwrap()).sum();
    assert_eq!((partitions.len(), entities, json!(bytes)), (8, 20, cluster["bytes"].clone()));
    let workers = server.get("/v1/workers").await.json();
    assert_eq!((&workers["workers"][0]["worker"], &workers["workers"][0]["entities"]), (&json!(1), &json!(20)));

    while server.handle().stats().committed.load(Ordering::Relaxed) < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let epochs = server.get("/v1/epochs").await.json();
    let listed: Vec<u64> =
        epochs["epochs"].as_array().unwrap().iter().map(|epoch| epoch["epoch"].as_u64().unwrap()).collect();
    assert!(listed.len() >= 2 && listed.is_sorted_by(|a, b| a > b), "newest first: {listed:?}");
    let committed: u64 =
        epochs["epochs"].as_array().unwrap().iter().map(|epoch| epoch["committed"].as_u64().unwrap()).sum();
    assert_eq!(committed, 20);

    told(server.to_ingress(Method::POST, "/v1/send/app/item/k/store").body("[1]")).await;
    // It is durable, and may not have run yet.
    while server.get("/v1/requests").await.json()["waiting"] != 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.get("/v1/requests").await.json()["remembered"], json!(1));
    assert_eq!(server.get("/healthz").await.json(), json!({ "status": "ok" }));
    assert_eq!(server.get("/readyz").await.json()["status"], "ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_there_for_prometheus() {
    let server = Server::with_item(HttpOptions::default()).await;
    for function in ["store", "store", "fail", "load"] {
        server.call("k", function, "[1]").await;
    }
    server.call("k", "nothing", "[1]").await;
    // An epoch is counted after its replies have gone out.
    let stats = server.handle().stats();
    while stats.queries.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stats.peer_errors.fetch_add(2, Ordering::Relaxed);
    let metrics = server.get("/metrics").await;
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    let text = metrics.text();
    let figure = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    for (name, expect) in [
        ("styx_transactions_total{phase=\"lock_free\"}", 2.0),
        ("styx_transactions_total{phase=\"fallback\"}", 0.0),
        ("styx_aborted_total", 1.0),
        ("styx_queries_total", 1.0),
        ("styx_peer_errors_total", 2.0),
        ("styx_entities", 1.0),
        ("styx_state_bytes", 4.0),
        ("styx_apps", 1.0),
        ("styx_request_duration_seconds_count{outcome=\"committed\"}", 2.0),
        ("styx_request_duration_seconds_count{outcome=\"answered\"}", 1.0),
        ("styx_request_duration_seconds_count{outcome=\"aborted\"}", 1.0),
        ("styx_request_duration_seconds_count{outcome=\"refused\"}", 1.0),
        ("styx_request_duration_seconds_bucket{le=\"+Inf\",outcome=\"committed\"}", 2.0),
    ] {
        assert_eq!(figure(name), expect, "{name}");
    }
    for name in [
        "styx_epochs_total",
        "styx_log_bytes_total",
        "styx_fuel_total",
        "styx_log_sync_seconds_total",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
    ] {
        assert!(figure(name) >= 0.0);
    }
    assert!(figure("process_resident_memory_bytes") > 1e6 && figure("styx_fuel_total") > 0.0);
    assert!(text.ends_with("# EOF\n"));
}

/// A stream of server-sent events.
struct Events(reqwest::Response, String);

/// Name, id and data.
type Event = (String, String, Value);

impl Events {
    async fn of(server: &Server, last: Option<&str>) -> Self {
        let request = server.to_admin(Method::GET, "/v1/events");
        let request = last.iter().fold(request, |request, id| request.header("last-event-id", *id));
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events(response, String::new())
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.1.split_once("\n\n") {
                let of = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
                };
                let (name, id, data) = (of("event").to_owned(), of("id").to_owned(), of("data").to_owned());
                self.1 = rest.to_owned();
                // Without data it only keeps the connection alive.
                if data.is_empty() {
                    continue;
                }
                return Some((name, id, serde_json::from_str(&data).unwrap()));
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.0.chunk()).await.expect("an event in time");
            self.1.push_str(std::str::from_utf8(&chunk.unwrap()?).unwrap());
        }
    }

    async fn named(&mut self, name: &str) -> Option<(String, Value)> {
        loop {
            let (found, id, data) = self.next().await?;
            if found == name {
                return Some((id, data));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_watches_is_told_of_epochs() {
    let server = Server::with_item(HttpOptions::default()).await;
    let mut events = Events::of(&server, None).await;
    let (id, totals) = events.named("epochs").await.unwrap();
    assert_eq!((&totals["epochs"], &totals["committed"]), (&json!(1), &json!(0)));
    let mut committed = 0;
    for key in 0..30 {
        server.call(&format!("k{key}"), "store", "[1]").await;
    }
    while committed < 30 {
        let (_, event) = events.named("epochs").await.unwrap();
        committed += event["committed"].as_u64().unwrap();
        assert!(event["last"]["chain"].is_string() && event["state_bytes"].is_u64(), "{event}");
    }
    assert_eq!(committed, 30);
    // Whoever comes back is told what came meanwhile, and no more.
    let (last, rest) = {
        let mut again = Events::of(&server, Some(&id)).await;
        again.named("epochs").await.unwrap()
    };
    assert_eq!(rest["committed"], 30);
    server.call("more", "store", "[1]").await;
    let mut again = Events::of(&server, Some(&last)).await;
    assert_eq!(again.named("epochs").await.unwrap().1["committed"], 1);
    for other_life in ["0-1-2-3-4-5-6", "x"] {
        let mut again = Events::of(&server, Some(other_life)).await;
        assert_eq!(again.named("epochs").await.unwrap().1["committed"], 31, "{other_life}");
    }
    // A shutdown does not wait for those who watch.
    let stopping = tokio::time::timeout(Duration::from_secs(20), server.stop());
    let end = async { while events.next().await.is_some() {} };
    let (stopped, ()) = tokio::join!(stopping, end);
    assert!(stopped.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_watches_is_told_what_has_changed() {
    let server = Server::start().await;
    let mut events = Events::of(&server, None).await;
    let (name, _, status) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &status["apps"], &status["workers"]), ("status", &json!(0), &json!(1)));
    assert_eq!(server.deploy("app", "", "application/wasm", item_as("item", "{}").bytes()).await.status, 201);
    let (_, after) = events.named("status").await.unwrap();
    assert_eq!(after["apps"], 1);
    assert!(after["catalog"].as_u64() > status["catalog"].as_u64());
    let (_, deployed) = events.named("deployment").await.unwrap();
    assert_eq!((&deployed["change"], &deployed["app"]), (&json!("deployed"), &json!("app")));
    server.call("a", "store", "[1]").await;
    let (id, _) = events.named("epochs").await.unwrap();
    drop(events);
    // What has happened meanwhile is told to whoever comes back, once; who is new is told of what comes.
    let second = server.deploy("app", "", "application/wasm", item_as("item", r#"{"type":"string"}"#).bytes()).await;
    let second = second.json()["deployment"].as_str().unwrap().to_owned();
    assert_eq!(told(server.to_admin(Method::DELETE, "/v1/apps/app?force=true")).await.status, 200);
    let mut again = Events::of(&server, Some(&id)).await;
    let (_, change) = again.named("deployment").await.unwrap();
    let removed = if change["change"] == "deployed" {
        assert_eq!(change["deployment"], json!(second));
        again.named("deployment").await.unwrap().1
    } else {
        // Both lay between two looks.
        change
    };
    assert_eq!((&removed["change"], &removed["deployment"]), (&json!("removed"), &Value::Null));
    let mut fresh = Events::of(&server, None).await;
    assert_eq!(server.deploy("other", "", "application/wasm", item_as("item", "{}").bytes()).await.status, 201);
    assert_eq!(fresh.named("deployment").await.unwrap().1["app"], json!("other"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_the_console() {
    let server = Server::with_item(HttpOptions::default()).await;
    let open = |path: &str| told(server.to_admin(Method::GET, path).header("accept", "text/html,*/*;q=0.8"));
    for path in ["/", "/apps/app", "/state/app/item?prefix=a"] {
        let page = open(path).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("cache-control"), "no-cache");
    }
    let page = open("/").await.text();
    let script = page.split('"').find(|part| part.starts_with("/assets/") && part.contains(".js")).unwrap();
    let asset = told(server.to_admin(Method::GET, script)).await;
    assert_eq!((asset.status, asset.header("content-encoding")), (200, "gzip"));
    assert!(asset.header("cache-control").contains("immutable"));
    assert_eq!(asset.body[..2], [0x1f, 0x8b]);
    assert_eq!(server.get("/assets/absent.js").await.error(), (404, "NOT_FOUND".into()));
    assert_eq!(server.get("/assets/..%2Findex.html").await.error(), (404, "NOT_FOUND".into()));
    // Programs get what they got.
    assert!(server.get("/").await.json()["styx"].is_string());
    assert_eq!(server.get("/apps/app").await.error(), (404, "NOT_FOUND".into()));
    assert_eq!(open("/v1/nothing").await.error(), (404, "NOT_FOUND".into()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_port_of_a_single_process_takes_calls() {
    let server = Server::with_item(HttpOptions::default()).await;
    let call = |path: &str| told(server.to_admin(Method::POST, path).body("[5]"));
    let stored = call("/v1/call/app/item/a/store").await;
    assert_eq!(stored.status, 200, "{}", stored.text());
    assert!(!stored.header("styx-tid").is_empty());
    assert_eq!(call("/v1/call/app/item/a/nothing").await.error().1, "UNKNOWN_FUNCTION");
    assert_eq!(call("/v1/call/app/item/a/fail").await.status, 422);
    let identity = server.get("/v1/identity").await.json();
    assert_eq!(
        identity,
        json!({ "name": "anybody", "known": false, "scopes": ["invoke", "read", "deploy", "operate"], "apps": null, "ingress": server.ingress })
    );
    let traffic = server.get("/v1/traffic").await.json();
    let count = |outcome: &str| {
        let outcomes = traffic["outcomes"].as_array().unwrap();
        outcomes.iter().find(|view| view["outcome"] == outcome).unwrap()["count"].as_u64().unwrap()
    };
    assert_eq!((count("committed"), count("aborted"), count("refused")), (1, 1, 1));
    assert_eq!(
        traffic["errors"],
        json!([{ "code": "ABORTED", "count": 1 }, { "code": "UNKNOWN_FUNCTION", "count": 1 }])
    );
    server.stop().await;
}
