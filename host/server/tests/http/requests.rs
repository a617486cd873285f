//! Requests that are watched, those that abort, and who is told of them.

use reqwest::Method;
use serde_json::{Value, json};
use styx_server::http::HttpOptions;

use crate::server::{Server, Told, told};

async fn watched(server: &Server, key: &str, function: &str, header: (&str, &str)) -> Told {
    let path = format!("/v1/call/app/item/{key}/{function}");
    told(server.to_ingress(Method::POST, &path).header(header.0, header.1).body("[1]")).await
}

async fn trace(server: &Server, of: &Told) -> Told {
    server.get(&format!("/v1/requests/{}/trace", of.header("styx-request-id"))).await
}

async fn listed(server: &Server, query: &str) -> Vec<Value> {
    let list = server.get(&format!("/v1/requests{query}")).await.json();
    list["requests"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_is_watched_and_nobody_else() {
    let server = Server::with_item(HttpOptions::default()).await;
    let parent = |flags: &str| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    for (header, value, is_watched) in [
        ("styx-trace", "1".to_owned(), true),
        ("styx-trace", "0".to_owned(), false),
        ("traceparent", parent("01"), true),
        ("traceparent", parent("00"), false),
        ("traceparent", "nonsense".to_owned(), false),
    ] {
        let answer = watched(&server, "a", "store", (header, &value)).await;
        let told = trace(&server, &answer).await;
        assert_eq!(told.status, if is_watched { 200 } else { 404 }, "{header}: {value}: {}", told.text());
        if !is_watched {
            assert_eq!(told.error(), (404, "NOT_TRACED".to_owned()));
        }
    }
    assert_eq!(listed(&server, "").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_tells_what_it_did() {
    let server = Server::with_item(HttpOptions::default()).await;
    let answer = watched(&server, "a", "store", ("styx-trace", "1")).await;
    let trace = trace(&server, &answer).await.json();
    assert_eq!(trace["status"], "committed", "{trace}");
    assert_eq!([&trace["app"], &trace["operator"], &trace["function"], &trace["key"]], ["app", "item", "store", "a"]);
    assert_eq!(trace["tid"].to_string(), answer.header("styx-tid"));
    assert_eq!(trace["epoch"].to_string(), answer.header("styx-epoch"));
    let attempts = trace["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{trace}");
    assert_eq!([&attempts[0]["kind"], &attempts[0]["outcome"]], ["lock_free", "ok"]);
    assert!(attempts[0]["fuel"].as_u64().unwrap() > 0, "{trace}");
    let access = &attempts[0]["accesses"][0];
    assert_eq!((&access["key"], &access["written"], &access["bytes"]), (&json!("a"), &json!(true), &json!(3)));
    let calls = attempts[0]["calls"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["parent"], &calls[0]["worker"]), (1, &Value::Null, &json!(1)), "{trace}");
    // Phases follow one another, from when it came to its answer.
    let phases = trace["phases"].as_array().unwrap();
    assert_eq!(phases.first().unwrap()["begun_us"], trace["begun_us"]);
    assert_eq!(phases.last().unwrap()["ended_us"], trace["ended_us"]);
    assert!(phases.windows(2).all(|pair| pair[0]["ended_us"] == pair[1]["begun_us"]), "{trace}");
    assert!(phases.iter().any(|phase| phase["name"] == "execute"), "{trace}");
}

/// Under a key the id is the key's; it is watched all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_a_key_is_watched() {
    let server = Server::with_item(HttpOptions::default()).await;
    let request = server.to_ingress(Method::POST, "/v1/call/app/item/a/store");
    let answer = told(request.header("styx-trace", "1").header("idempotency-key", "k").body("[1]")).await;
    assert_eq!(trace(&server, &answer).await.json()["status"], "committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_aborts_is_kept_without_being_asked_for() {
    let server = Server::with_item(HttpOptions::default()).await;
    let answer = server.call("a", "fail", "[1]").await;
    assert_eq!(answer.status, 422);
    let found = listed(&server, "?kind=aborted").await;
    assert_eq!((found.len(), &found[0]["code"], &found[0]["key"]), (1, &json!("ABORTED"), &json!("a")));
    let id = found[0]["request_id"].as_str().unwrap();
    let trace = server.get(&format!("/v1/requests/{id}/trace")).await.json();
    assert_eq!((&trace["status"], &trace["attempts"][0]["outcome"]), (&json!("aborted"), &json!("aborted")), "{trace}");
    assert_eq!(trace["attempts"][0]["calls"][0]["function"], "fail", "{trace}");
    assert!(listed(&server, "?app=other").await.is_empty());
    assert_eq!(server.get("/v1/requests?kind=odd").await.error().0, 400);
    assert_eq!(server.get("/v1/requests/odd/trace").await.error().0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wrote_an_entity_last_is_known_of_those_who_were_watched() {
    let server = Server::with_item(HttpOptions::default()).await;
    let store = |key: &str, value: &'static str, watched: &'static str| {
        let request = server.to_ingress(Method::POST, &format!("/v1/call/app/item/{key}/store"));
        told(request.header("styx-trace", watched).body(value))
    };
    let last = |key: &str| {
        let path = format!("/v1/state/app/item/{key}/last-write");
        let server = &server;
        async move { server.get(&path).await.json()["recorded"].clone() }
    };
    assert_eq!(store("a", "[1]", "0").await.status, 200);
    assert_eq!(last("a").await, Value::Null, "nobody watched");
    store("a", "[2]", "1").await;
    let second = store("a", "[3]", "1").await;
    store("b", "[4]", "1").await;
    let seen = last("a").await;
    assert_eq!((&seen["request_id"], &seen["function"]), (&json!(second.header("styx-request-id")), &json!("store")));
    assert_eq!(seen["epoch"].to_string(), second.header("styx-epoch"));
    // Who only reads has written nothing.
    told(server.to_ingress(Method::POST, "/v1/call/app/item/a/load").header("styx-trace", "1").body("[1]")).await;
    assert_eq!(last("a").await, seen);
    assert_eq!(server.get("/v1/state/app/nothing/a/last-write").await.error().1, "UNKNOWN_OPERATOR");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_entity_was_before_the_last_write_is_known_while_it_is_small() {
    let server = Server::with_item(HttpOptions::default()).await;
    let store = async |key: &str, function: &str, value: String, watched: &str| {
        let request = server.to_ingress(Method::POST, &format!("/v1/call/app/item/{key}/{function}"));
        told(request.header("styx-trace", watched).body(value)).await
    };
    let change =
        async |key: &str| server.get(&format!("/v1/state/app/item/{key}/last-write")).await.json()["change"].clone();
    let json = |value: Value| json!({ "value": value, "encoding": "json" });
    assert_eq!(change("a").await, Value::Null);
    store("a", "store", "[1]".into(), "0").await;
    assert_eq!(change("a").await, Value::Null, "nobody watched");
    store("a", "store", "[2.50]".into(), "1").await;
    assert_eq!(change("a").await, json!({ "known": "yes", "before": json(json!([1])), "after": json(json!([2.50])) }));
    // What nobody watches is not what is told of.
    store("a", "store", "[3]".into(), "0").await;
    assert_eq!(change("a").await["after"], json(json!([2.50])));
    store("a", "store", "[4]".into(), "1").await;
    assert_eq!(change("a").await, json!({ "known": "yes", "before": json(json!([3])), "after": json(json!([4])) }));
    // An abort writes nothing, whatever it put.
    store("a", "fail", "[5]".into(), "1").await;
    assert_eq!(change("a").await["after"], json(json!([4])));
    // It came to be; bytes that are no JSON are told as such.
    store("b", "blob", "[1]".into(), "1").await;
    let bytes = json!({ "value": "/3s=", "encoding": "base64" });
    assert_eq!(change("b").await, json!({ "known": "yes", "before": null, "after": bytes }));
    // One value too large, before or after, is not kept.
    store("c", "store", format!("[{:?}]", "x".repeat(5000)), "1").await;
    let too_large = json!({ "known": "too_large", "before": null, "after": null });
    assert_eq!(change("c").await, too_large);
    store("c", "store", "[1]".into(), "1").await;
    assert_eq!(change("c").await, too_large);
    store("c", "store", "[2]".into(), "1").await;
    assert_eq!(change("c").await["before"], json(json!([1])));
    // How a request went holds no values.
    let answer = store("d", "store", "[\"secret\"]".into(), "1").await;
    let trace = trace(&server, &answer).await;
    assert_eq!(trace.json()["status"], "committed");
    assert!(!trace.text().contains("secret"), "{}", trace.text());
    server.stop().await;
}
