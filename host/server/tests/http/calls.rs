//! Single requests: calls, sends, and what becomes of them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use styx_server::admission::DiskWatch;
use styx_server::http::HttpOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{Server, Told, told};

#[tokio::test(flavor = "multi_thread")]
async fn every_end_has_its_status() {
    let server = Server::with_item(HttpOptions::default()).await;
    let long_key = "k".repeat(1025);
    let long_args = format!("[\"{}\"]", "x".repeat(1 << 20));
    // Method, path, body, status, code (empty: success).
    for (method, path, body, status, code) in [
        ("POST", "/v1/call/app/item/a/store", "[1]", 200, ""),
        ("POST", "/v1/call/app/item/a/store", "{\"n\":1}", 200, ""),
        ("POST", "/v1/call/app/item/%2F%C3%A9%20/store", "[1]", 200, ""),
        ("POST", "/v1/call/app/item/a/load", "[null]", 200, ""),
        ("POST", "/v1/call/app/item/a/fail", "[1]", 422, "ABORTED"),
        ("POST", "/v1/call/app/item/a/trap", "[1]", 500, "GUEST_TRAP"),
        ("POST", "/v1/call/app/item/a/spin", "[1]", 500, "OUT_OF_FUEL"),
        ("POST", "/v1/call/app/item/a/sneak", "[1]", 500, "READ_ONLY"),
        ("POST", "/v1/call/app/item/a/store", "", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[1,2]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "{\"m\":1}", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "{\"n\":1,\"n\":1}", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[{\"x\":1,\"x\":1}]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[1", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "1", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[1] x", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[NaN]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", "[\"\\ud800\"]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", &"[".repeat(100_000), 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item//store", "[1]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/%FF/store", "[1]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/%G0/store", "[1]", 400, "BAD_ARGUMENTS"),
        ("POST", &format!("/v1/call/app/item/{long_key}/store"), "[1]", 400, "BAD_ARGUMENTS"),
        ("POST", "/v1/call/app/item/a/store", &long_args, 413, "TOO_LARGE"),
        ("POST", "/v1/call/ap/item/a/store", "[1]", 404, "UNKNOWN_APP"),
        ("POST", "/v1/call/app/itme/a/store", "[1]", 404, "UNKNOWN_OPERATOR"),
        ("POST", "/v1/call/app/item/a/sotre", "[1]", 404, "UNKNOWN_FUNCTION"),
        ("POST", "/v1/call/app/item/a", "[1]", 404, "NOT_FOUND"),
        ("POST", "/v1/call/app/item/a/b/store", "[1]", 404, "NOT_FOUND"),
        ("POST", "/v1/call/", "[1]", 404, "NOT_FOUND"),
        ("POST", "/v1/nothing", "[1]", 404, "NOT_FOUND"),
        ("GET", "/v1/call/app/item/a/store", "", 405, "METHOD_NOT_ALLOWED"),
        ("PUT", "/v1/send/app/item/a/store", "", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "/v1/batch", "", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/v1/ws", "", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/v1/ws", "", 400, "BAD_REQUEST"),
        ("GET", "/v1/ws?bach=true", "", 400, "BAD_REQUEST"),
        ("GET", "/v1/requests/xyz", "", 400, "BAD_REQUEST"),
        ("GET", "/v1/requests/0123456789abcdef0123456789abcdef", "", 404, "UNKNOWN_REQUEST"),
        ("GET", "/v1/requests/0123456789abcdef0123456789abcdef?wait=5%20parsecs", "", 400, "BAD_REQUEST"),
        ("GET", "/v1/requests/0123456789abcdef0123456789abcdef?timeout=5s", "", 400, "BAD_REQUEST"),
        ("GET", "/", "", 200, ""),
    ] {
        let told =
            told(server.to_ingress(Method::from_bytes(method.as_bytes()).unwrap(), path).body(body.to_owned())).await;
        let found = if told.status < 300 { (told.status, String::new()) } else { told.error() };
        assert_eq!(found, (status, code.to_owned()), "{method} {path:.60} {body:.60}: {}", told.text());
    }
    for (path, of_admin) in
        [("/v1/apps", true), ("/readyz", true), ("/v1/send/app/item/a/store", false), ("/v1/ws", false)]
    {
        let (request, other) = if of_admin {
            (server.to_ingress(Method::GET, path), server.admin)
        } else {
            (server.to_admin(Method::POST, path), server.ingress)
        };
        let told = told(request).await;
        assert_eq!(told.error(), (421, "NOT_HERE".to_owned()), "{path}");
        assert!(told.text().contains(&format!("http://{other}")), "{path} is there: {}", told.text());
    }
    let told = told(server.to_ingress(Method::PUT, "/v1/batch")).await;
    assert_eq!(told.header("allow"), "POST");
    // The calls that failed wrote nothing; the last success did.
    assert_eq!(server.call("a", "load", "[0]").await.json(), json!([1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_help() {
    let server = Server::with_item(HttpOptions::default()).await;
    for (path, body, message, hint) in [
        ("/v1/call/apq/item/a/store", "[1]", "no app \"apq\"", "did you mean `app`?"),
        ("/v1/call/app/itme/a/store", "[1]", "app \"app\" has no operator \"itme\"", "did you mean `item`?"),
        ("/v1/call/app/item/a/stoer", "[1]", "operator \"item\" has no function \"stoer\"", "did you mean `store`?"),
        ("/v1/call/app/item/a/store", "[]", "parameter `n` is missing", "it takes store(n: any)"),
        ("/v1/call/app/item/a/fail", "[\"why\"]", "[\"why\"]", "the function refused; nothing was written"),
        (
            "/v1/call/app/item/a",
            "",
            "/v1/call/app/item/a has 3 parts behind /v1/call/, not 4",
            "/v1/call/{app}/{operator}/{key}/{function}; a `/` in a key is written %2F",
        ),
    ] {
        let told = told(server.to_ingress(Method::POST, path).body(body)).await;
        let error = &told.json()["error"];
        assert_eq!((error["message"].as_str().unwrap(), error["hint"].as_str().unwrap()), (message, hint));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_say_which_transaction_they_are_of() {
    let server = Server::with_item(HttpOptions::default()).await;
    let first = server.call("a", "store", " [ \"x y\" , 1.50 ] ".replace(", 1.50", "")).await;
    assert_eq!(
        (first.status, first.text(), first.header("content-type")),
        (200, "[\"x y\"]".into(), "application/json")
    );
    let second = server.call("a", "store", "[10000000000000000000001]").await;
    assert_eq!(second.text(), "[10000000000000000000001]", "digits are kept");
    let number = |told: &crate::server::Told, name: &str| told.header(name).parse::<u64>().unwrap();
    assert!(number(&second, "styx-tid") > number(&first, "styx-tid"));
    assert!(number(&second, "styx-epoch") > number(&first, "styx-epoch"));
    assert_eq!(first.header("styx-request-id").len(), 32);
    assert_ne!(first.header("styx-request-id"), second.header("styx-request-id"));

    let failed = server.call("a", "fail", "[1]").await;
    assert!(number(&failed, "styx-tid") > number(&second, "styx-tid"), "an abort is a transaction too");
    let nothing = server.call("absent", "load", "[0]").await;
    assert_eq!((nothing.status, nothing.text()), (200, "null".into()));
    let raw = server.call("a", "raw", "[0]").await;
    assert_eq!(
        (raw.status, raw.body.as_slice(), raw.header("content-type")),
        (200, &b"\xff{"[..], "application/octet-stream")
    );
    // Read-only calls see what was committed before, and leave no trace in the log.
    let records = server.handle().stats().log_records.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(server.call("a", "load", "[0]").await.text(), "[10000000000000000000001]");
    assert_eq!(server.handle().stats().log_records.load(std::sync::atomic::Ordering::Relaxed), records);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_told_its_reply_when_its_function_is_gone_or_nothing_new_is_taken() {
    let server = Server::with_item(HttpOptions::default()).await;
    let keyed = async |path: &str, key: &str, args: &str| {
        told(server.to_ingress(Method::POST, path).header("idempotency-key", key).body(args.to_owned())).await
    };
    let (call, send) = ("/v1/call/app/item/a/store", "/v1/send/app/item/a/store");
    let first = keyed(call, "one", "[1]").await;
    let unchanged = async || {
        let again = keyed(call, "one", "[1]").await;
        assert_eq!((again.status, again.text()), (200, "[1]".into()));
        assert_eq!(again.header("styx-tid"), first.header("styx-tid"));
        assert_eq!(keyed(send, "one", "[1]").await.status, 202);
    };
    let line = |key: &str| {
        let mut line = crate::server::envelope(json!(1), "a", "store", json!([1]));
        line["idempotency_key"] = json!(key);
        server.to_ingress(Method::POST, "/v1/batch").body(line.to_string())
    };

    let full = DiskWatch::start(std::path::Path::new("/"), u64::MAX, server.handle().admission().clone()).unwrap();
    unchanged().await;
    assert_eq!(keyed(call, "two", "[1]").await.error(), (503, "DISK_FULL".into()));
    drop(full);
    drop(DiskWatch::start(std::path::Path::new("/"), 0, server.handle().admission().clone()).unwrap());

    // The arguments are no longer what it takes.
    assert_eq!(keyed(call, "three", "[1,2]").await.error(), (400, "BAD_ARGUMENTS".into()));
    assert_eq!(keyed(call, "one", "[1,2]").await.text(), "[1]");
    assert_eq!(told(server.to_admin(Method::DELETE, "/v1/apps/app")).await.status, 200);
    unchanged().await;
    assert_eq!(keyed(call, "three", "[1]").await.error(), (404, "UNKNOWN_APP".into()));
    assert_eq!(told(line("one")).await.json()["tid"].to_string(), first.header("styx-tid"));
    assert_eq!(told(line("three")).await.json()["error"]["code"], "UNKNOWN_APP");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_makes_a_call_exactly_once() {
    let server = Server::with_item(HttpOptions::default()).await;
    let keyed = async |key: &str, function: &str, args: &str| {
        told(
            server
                .to_ingress(Method::POST, &format!("/v1/call/app/item/a/{function}"))
                .header("idempotency-key", key)
                .body(args.to_owned()),
        )
        .await
    };
    let first = keyed("one", "store", "[1]").await;
    server.call("a", "store", "[2]").await;
    let again = keyed("one", "store", "{ \"n\" : 1 }").await;
    for header in ["styx-tid", "styx-epoch", "styx-request-id"] {
        assert_eq!(first.header(header), again.header(header));
    }
    let replayed = |told: &Told| told.header("idempotent-replayed") == "true";
    assert!(!replayed(&first) && replayed(&again));
    assert_eq!((again.status, again.text()), (200, "[1]".into()));
    assert_eq!(server.call("a", "load", "[0]").await.text(), "[2]", "the retry did not run");

    assert_eq!(keyed("one", "store", "[3]").await.error(), (409, "IDEMPOTENCY_MISMATCH".into()));
    // A failure is remembered as well.
    let failed = keyed("two", "fail", "[1]").await;
    let again = keyed("two", "fail", "[1]").await;
    assert_eq!((failed.error(), failed.header("styx-tid")), (again.error(), again.header("styx-tid")));
    assert_eq!(again.error(), (422, "ABORTED".into()));
    assert!(!replayed(&failed) && replayed(&again));

    assert_eq!(keyed("", "store", "[1]").await.error(), (400, "BAD_REQUEST".into()));
    assert_eq!(keyed(&"k".repeat(256), "store", "[1]").await.error(), (400, "BAD_REQUEST".into()));
    let twice = server
        .to_ingress(Method::POST, "/v1/call/app/item/a/store")
        .header("idempotency-key", "a")
        .header("idempotency-key", "b")
        .body("[1]");
    assert_eq!(told(twice).await.error(), (400, "BAD_REQUEST".into()));

    // Many at once under one key: one transaction.
    let retries = futures_util::future::join_all((0..20).map(|_| keyed("three", "store", "[7]"))).await;
    let tids: std::collections::BTreeSet<&str> = retries.iter().map(|told| told.header("styx-tid")).collect();
    assert_eq!(tids.len(), 1);
    assert!(retries.iter().all(|told| told.status == 200));
    assert_eq!(retries.iter().filter(|told| !replayed(told)).count(), 1, "one of them was executed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_told_that_it_is_durable_and_can_be_asked_for() {
    let server = Server::with_item(HttpOptions::default()).await;
    let send = async |function: &str, args: &str, key: Option<&str>| {
        let request = server.to_ingress(Method::POST, &format!("/v1/send/app/item/s/{function}")).body(args.to_owned());
        told(key.into_iter().fold(request, |request, key| request.header("idempotency-key", key))).await
    };
    let ask =
        async |id: &str, wait: &str| told(server.to_ingress(Method::GET, &format!("/v1/requests/{id}{wait}"))).await;
    for (function, args, status, field, expect) in [
        ("store", "[5]", "committed", "result", json!([5])),
        (
            "fail",
            "[6]",
            "aborted",
            "error",
            json!({ "code": "ABORTED", "message": "[6]", "hint": "the function refused; nothing was written" }),
        ),
        ("raw", "[0]", "committed", "result_base64", json!("/3s=")),
        ("load", "[0]", "committed", "result", json!([5])),
    ] {
        let sent = send(function, args, None).await;
        let id = sent.json()["request_id"].as_str().unwrap().to_owned();
        assert_eq!((sent.status, sent.header("styx-request-id")), (202, id.as_str()));
        let end = ask(&id, "?wait=10s").await.json();
        assert_eq!(
            (end["status"].as_str(), &end[field], end["request_id"].as_str()),
            (Some(status), &expect, Some(id.as_str())),
            "{end}"
        );
        assert!(end["tid"].as_u64() > Some(0) && end["epoch"].as_u64() > Some(0), "{end}");
        assert_eq!(ask(&id, "").await.json(), end, "asked again, at once");
    }
    // What takes long is pending until it has ended.
    let sent = send("spin", "[0]", None).await;
    let id = sent.json()["request_id"].as_str().unwrap().to_owned();
    let at_once = ask(&id, "").await.json();
    assert!(matches!(at_once["status"].as_str(), Some("pending" | "aborted")), "{at_once}");
    assert_eq!(ask(&id, "?wait=30s").await.json()["error"]["code"], "OUT_OF_FUEL");

    // Sends are exactly-once too.
    let (one, two) = (send("store", "[8]", Some("s")).await, send("store", "[8]", Some("s")).await);
    assert_eq!((one.status, one.json()), (202, two.json()));
    assert_eq!(send("store", "[9]", Some("s")).await.error(), (409, "IDEMPOTENCY_MISMATCH".into()));
    assert_eq!(send("store", "[]", None).await.error(), (400, "BAD_ARGUMENTS".into()));

    // A call without a key is not kept; one with a key is.
    let call = server.call("s", "store", "[1]").await;
    assert_eq!(ask(call.header("styx-request-id"), "").await.error(), (404, "UNKNOWN_REQUEST".into()));
    let keyed =
        told(server.to_ingress(Method::POST, "/v1/call/app/item/s/store").header("idempotency-key", "c").body("[1]"))
            .await;
    assert_eq!(ask(keyed.header("styx-request-id"), "").await.json()["status"], "committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_broken_clients_are_let_go() {
    let server = Server::with_item(HttpOptions { silence: Duration::from_millis(200), ..HttpOptions::default() }).await;
    let exchange = async |text: &str, then: &str| {
        let mut stream = tokio::net::TcpStream::connect(server.ingress).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        if !then.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.write_all(then.as_bytes()).await.unwrap();
        }
        let mut reply = vec![0; 4096];
        let length = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut reply))
            .await
            .expect("an answer in time")
            .unwrap();
        String::from_utf8_lossy(&reply[..length]).into_owned()
    };
    let head = "POST /v1/call/app/item/a/store HTTP/1.1\r\nhost: localhost\r\n";
    let stalled = exchange(&format!("{head}content-length: 3\r\n\r\n[1"), "").await;
    assert!(stalled.starts_with("HTTP/1.1 408") && stalled.contains("\"TIMEOUT\""), "{stalled}");
    let slow = exchange(&format!("{head}content-length: 3\r\n\r\n[1"), "]").await;
    assert!(slow.starts_with("HTTP/1.1 200") && slow.ends_with("[1]"), "{slow}");
    // A body that claims to be too long is refused before it is sent; a chunked one when it is.
    let claimed = exchange(&format!("{head}content-length: 999999999999\r\n\r\n"), "").await;
    assert!(claimed.starts_with("HTTP/1.1 413"), "{claimed}");
    let chunk = format!("100001\r\n{}\r\n0\r\n\r\n", " ".repeat(0x100001));
    let chunked = exchange(&format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}"), "").await;
    assert!(chunked.starts_with("HTTP/1.1 413") && chunked.contains("TOO_LARGE"), "{chunked}");
    // A refusal does not spoil the connection for the next request, even if the body comes late.
    let mut stream = tokio::net::TcpStream::connect(server.ingress).await.unwrap();
    for _ in 0..3 {
        let refused = "POST /v1/call/ap/item/a/store HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\n";
        stream.write_all(refused.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        stream.write_all(b"[1]").await.unwrap();
        let mut reply = vec![0; 4096];
        let length = stream.read(&mut reply).await.unwrap();
        let reply = String::from_utf8_lossy(&reply[..length]);
        assert!(reply.starts_with("HTTP/1.1 404") && !reply.contains("connection: close"), "{reply}");
    }
    // One that never ends is told to go.
    let endless = exchange("POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n[", "").await;
    assert!(endless.starts_with("HTTP/1.1 404") && endless.contains("connection: close"), "{endless}");
    // One that asks first is told before it sends.
    let asked = format!("{head}expect: 100-continue\r\ncontent-length: 99999999\r\n\r\n");
    let asked = exchange(&asked, "").await;
    assert!(asked.starts_with("HTTP/1.1 413") && asked.contains("connection: close"), "{asked}");
    // No HTTP at all.
    let garbage = exchange("\u{16}\u{3}\u{1} not HTTP\r\n\r\n", "").await;
    assert!(garbage.is_empty() || garbage.starts_with("HTTP/1.1 400"), "{garbage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_answers_what_is_under_way_and_takes_no_more() {
    let server = Server::with_item(HttpOptions::default()).await;
    let url = format!("http://{}/v1/call/app/item/a/spin", server.ingress);
    let client = server.client.clone();
    let under_way =
        tokio::spawn(async move { client.post(url).body("[0]").send().await.unwrap().json::<Value>().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let ingress = server.ingress;
    server.stop().await;
    assert_eq!(under_way.await.unwrap()["error"]["code"], "OUT_OF_FUEL");
    assert!(tokio::net::TcpStream::connect(ingress).await.is_err());
}
