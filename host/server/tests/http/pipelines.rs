//! Many requests on one connection: WebSockets and batches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt, TryFutureExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use styx_server::http::HttpOptions;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::server::{Server, envelope};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(server: &Server, options: &str) -> Socket {
    connect_async(format!("ws://{}/v1/ws{options}", server.ingress)).await.unwrap().0
}

async fn send(socket: &mut Socket, text: impl ToString) {
    socket.send(Message::text(text.to_string())).await.unwrap();
}

async fn text(socket: &mut Socket) -> String {
    loop {
        match tokio::time::timeout(Duration::from_secs(20), socket.next())
            .await
            .expect("a reply in time")
            .unwrap()
            .unwrap()
        {
            Message::Text(text) => return text.to_string(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn reply(socket: &mut Socket) -> Value {
    let text = text(socket).await;
    assert!(!text.contains('\n'), "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_any_kind_come_back_as_they_were() {
    let server = Server::with_item(HttpOptions::default()).await;
    let mut socket = connect(&server, "").await;
    for id in ["1", "-1.50", "\"x\\u0041\"", "null", "true", "[1, {\"a\" : 2}]", "12345678901234567890123456789"] {
        send(&mut socket, format!("{{\"args\":[1],\"function\":\"store\",\"key\":\"k\",\"operator\":\"item\",\"app\":\"app\",\"id\":{id}}}")).await;
        let text = text(&mut socket).await;
        assert!(text.starts_with(&format!("{{\"id\":{id},\"ok\":[1],\"tid\":")), "{text}");
    }
    // One without.
    send(&mut socket, r#"{"app":"app","operator":"item","key":"k","function":"load","args":[0]}"#).await;
    let told = reply(&mut socket).await;
    assert_eq!((&told["id"], &told["ok"]), (&Value::Null, &json!([1])));
    assert!(told["epoch"].as_u64() > Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_and_the_connection_goes_on() {
    let server = Server::with_item(HttpOptions::default()).await;
    let mut socket = connect(&server, "").await;
    let of = |id: u64, key: &str, function: &str, args: Value| envelope(id.into(), key, function, args).to_string();
    for (message, id, code) in [
        (String::from("nonsense"), Value::Null, "BAD_REQUEST"),
        (String::new(), Value::Null, "BAD_REQUEST"),
        (String::from("[]"), Value::Null, "BAD_REQUEST"),
        (String::from(r#"{"id":1}"#), json!(1), "BAD_REQUEST"),
        (
            String::from(r#"{"id":2,"app":"app","operator":"item","key":"k","function":"load","arguments":[0]}"#),
            json!(2),
            "BAD_REQUEST",
        ),
        (
            String::from(r#"{"id":3,"id":3,"app":"app","operator":"item","key":"k","function":"load","args":[0]}"#),
            Value::Null,
            "BAD_REQUEST",
        ),
        (
            String::from(r#"{"id":4,"app":"app","operator":"item","key":5,"function":"load","args":[0]}"#),
            json!(4),
            "BAD_REQUEST",
        ),
        (of(5, "k", "load", json!([])), json!(5), "BAD_ARGUMENTS"),
        (of(6, "k", "load", json!("x")), json!(6), "BAD_ARGUMENTS"),
        (of(7, "", "load", json!([0])), json!(7), "BAD_ARGUMENTS"),
        (of(8, &"k".repeat(1025), "load", json!([0])), json!(8), "BAD_ARGUMENTS"),
        (of(9, "k", "laod", json!([0])), json!(9), "UNKNOWN_FUNCTION"),
        (of(10, "k", "store", json!(["x".repeat(1 << 20)])), json!(10), "TOO_LARGE"),
        (of(11, "k", "fail", json!(["why"])), json!(11), "ABORTED"),
        (of(12, "k", "trap", json!([0])), json!(12), "GUEST_TRAP"),
        (
            of(13, "k", "load", json!([0])).replace("\"id\"", "\"idempotency_key\":\"\",\"id\""),
            json!(13),
            "BAD_REQUEST",
        ),
    ] {
        send(&mut socket, &message).await;
        let told = reply(&mut socket).await;
        assert_eq!((&told["id"], told["error"]["code"].as_str()), (&id, Some(code)), "{message:.100}: {told}");
        assert!(!told["error"]["message"].as_str().unwrap().is_empty() && told["error"]["hint"].is_string());
    }
    socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(reply(&mut socket).await["error"]["message"], "this is a binary message");
    socket.send(Message::Ping(vec![7].into())).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(vec![7].into()));
    send(&mut socket, of(1, "k", "store", json!([1]))).await;
    assert_eq!(reply(&mut socket).await["ok"], json!([1]));
    socket.close(None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_in_flight_are_all_answered_in_commit_order() {
    let server = Server::with_item(HttpOptions { in_flight_max: 64, ..HttpOptions::default() }).await;
    let socket = connect(&server, "").await;
    let (mut to, mut from) = socket.split();
    const COUNT: u64 = 5000;
    let sending = tokio::spawn(async move {
        for id in 0..COUNT {
            to.feed(Message::text(envelope(id.into(), &format!("k{}", id % 7), "store", json!([id])).to_string()))
                .await
                .unwrap();
        }
        to.flush().await.unwrap();
        to
    });
    let (mut ids, mut last, mut tids) = (BTreeSet::new(), (0, 0), BTreeSet::new());
    for _ in 0..COUNT {
        let Message::Text(text) = from.next().await.unwrap().unwrap() else { panic!("not text") };
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["ok"], json!([told["id"]]));
        assert!(ids.insert(told["id"].as_u64().unwrap()), "once");
        assert!(tids.insert(told["tid"].as_u64().unwrap()), "each is a transaction of its own");
        // Epochs never go back.
        let now = (told["epoch"].as_u64().unwrap(), 0);
        assert!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
    assert_eq!(ids.len() as u64, COUNT);
    drop(sending.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_requests_may_stand_in_one_message() {
    let server = Server::with_item(HttpOptions { in_flight_max: 8, ..HttpOptions::default() }).await;
    let lines = |count: u64| {
        (0..count)
            .map(|id| envelope(id.into(), &format!("k{id}"), "store", json!([id])).to_string())
            .collect::<Vec<_>>()
    };
    let mut expect: BTreeMap<u64, Value> = (0..100).map(|id| (id, json!([id]))).collect();

    let mut socket = connect(&server, "").await;
    send(&mut socket, lines(100).join("\n")).await;
    for _ in 0..100 {
        let told = reply(&mut socket).await;
        assert_eq!(expect.remove(&told["id"].as_u64().unwrap()).unwrap(), told["ok"]);
    }
    // A request written over several lines is one.
    send(&mut socket, serde_json::to_string_pretty(&envelope(json!({"a": 1}), "k", "load", json!([0]))).unwrap()).await;
    assert_eq!(text(&mut socket).await.find("{\"id\":{\"a\":1},"), Some(0));
    // A bad line among good ones.
    send(&mut socket, format!("{}\r\n\nnonsense\n{}\n", lines(1)[0], lines(1)[0])).await;
    let mut codes: Vec<Value> = Vec::new();
    for _ in 0..3 {
        codes.push(reply(&mut socket).await["error"]["code"].take());
    }
    codes.sort_by_key(Value::is_string);
    assert_eq!(codes, [Value::Null, Value::Null, json!("BAD_REQUEST")]);

    // Replies share messages only if the client asked for it.
    let mut socket = connect(&server, "?batch=true").await;
    send(&mut socket, lines(100).join("\n")).await;
    let (mut ids, mut messages) = (BTreeSet::new(), 0);
    while ids.len() < 100 {
        messages += 1;
        for line in text(&mut socket).await.lines() {
            let told: Value = serde_json::from_str(line).unwrap();
            assert!(ids.insert(told["id"].as_u64().unwrap()));
        }
    }
    assert!(messages < 100, "{messages} messages for 100 replies");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_works_here_too() {
    let server = Server::with_item(HttpOptions::default()).await;
    let mut socket = connect(&server, "").await;
    let mut request = envelope(json!(1), "k", "store", json!([1]));
    request["idempotency_key"] = json!("once");
    let mut tids = BTreeSet::new();
    for replayed in [Value::Null, json!(true)] {
        send(&mut socket, &request).await;
        let told = reply(&mut socket).await;
        assert_eq!(told["replayed"], replayed, "{told}");
        tids.insert(told["tid"].as_u64().unwrap());
    }
    // One key, whatever the way.
    let call = server.to_ingress(Method::POST, "/v1/call/app/item/k/store").header("idempotency-key", "once");
    tids.insert(crate::server::told(call.body("[1]")).await.header("styx-tid").parse().unwrap());
    assert_eq!(tids.len(), 1);
    request["args"] = json!([2]);
    send(&mut socket, &request).await;
    let told = reply(&mut socket).await;
    assert_eq!((told["error"]["code"].as_str(), &told["tid"]), (Some("IDEMPOTENCY_MISMATCH"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_long_ends_the_connection() {
    let server = Server::with_item(HttpOptions { body_bytes_max: 1000, ..HttpOptions::default() }).await;
    let mut socket = connect(&server, "").await;
    // The server may close before it has all of it.
    let _ = socket.send(Message::text("x".repeat(2 << 20))).await;
    match socket.next().await {
        Some(Ok(Message::Close(Some(frame)))) => assert_eq!(frame.code, CloseCode::Size),
        // The reset that follows may come first.
        Some(Err(_)) | None => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_drains() {
    let server = Server::with_item(HttpOptions::default()).await;
    let mut socket = connect(&server, "").await;
    send(&mut socket, envelope(json!(0), "k", "load", json!([0]))).await;
    reply(&mut socket).await;
    // No more than are taken before anything is known of their results.
    for id in 0..50 {
        send(&mut socket, envelope(id.into(), "k", "store", json!([id]))).await;
    }
    send(&mut socket, envelope(json!("slow"), "s", "spin", json!([0]))).await;
    // Once the first is answered, all have arrived.
    let mut answered = 0;
    answered += usize::from(reply(&mut socket).await["ok"].is_array());
    tokio::time::sleep(Duration::from_millis(30)).await;
    let stopping = tokio::spawn(server.stop());
    let mut closed = None;
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) => {
                let told: Value = serde_json::from_str(&text).unwrap();
                assert!(told["ok"].is_array() || told["error"]["code"] == "OUT_OF_FUEL", "{told}");
                answered += 1;
            }
            Message::Close(frame) => closed = frame.map(|frame| frame.code),
            _ => {}
        }
    }
    assert_eq!((answered, closed), (51, Some(CloseCode::Away)));
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_hurts_nobody() {
    let server = Server::with_item(HttpOptions::default()).await;
    for _ in 0..3 {
        let mut socket = connect(&server, "").await;
        // In one message: of several, those that the server has not read when the connection breaks are lost.
        let lines: Vec<String> =
            (0..50).map(|id| envelope(id.into(), "gone", "store", json!([id])).to_string()).collect();
        send(&mut socket, lines.join("\n")).await;
        drop(socket);
    }
    // What was taken is carried out, whether anybody hears of it or not.
    for _ in 0..100 {
        if server.call("gone", "load", "[0]").await.text() == "[49]" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.call("gone", "load", "[0]").await.text(), "[49]");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_results_are_all_delivered() {
    let server = Server::with_item(HttpOptions::default()).await;
    let large = "x".repeat(500_000);
    assert_eq!(server.call("large", "store", json!([large]).to_string()).await.status, 200);
    let mut socket = connect(&server, "").await;
    let requests: Vec<String> =
        (0..300).map(|id| envelope(id.into(), "large", "load", json!([0])).to_string()).collect();
    send(&mut socket, requests.join("\n")).await;
    let mut ids = BTreeSet::new();
    for _ in 0..300 {
        let told = reply(&mut socket).await;
        assert_eq!(told["ok"][0].as_str().unwrap().len(), large.len());
        ids.insert(told["id"].as_u64().unwrap());
    }
    assert_eq!(ids.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_every_line() {
    let server = Server::with_item(HttpOptions { in_flight_max: 16, ..HttpOptions::default() }).await;
    let mut lines: Vec<String> =
        (0..1000).map(|id| envelope(id.into(), &format!("k{id}"), "store", json!([id])).to_string()).collect();
    lines.insert(500, String::from("nonsense"));
    lines.insert(10, String::new());
    // The last line need not end.
    let told = crate::server::told(server.to_ingress(Method::POST, "/v1/batch").body(lines.join("\n"))).await;
    assert_eq!((told.status, told.header("content-type")), (200, "application/x-ndjson"));
    let (mut ids, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in told.text().lines() {
        let reply: Value = serde_json::from_str(line).unwrap();
        match reply["id"].as_u64() {
            Some(id) => {
                assert_eq!(reply["ok"], json!([id]));
                assert!(ids.insert(id));
            }
            None => wrong.push(reply["error"]["message"].as_str().unwrap().to_owned()),
        }
    }
    assert_eq!(ids.len(), 1000);
    assert!(wrong.len() == 1 && wrong[0].starts_with("line 502: this is no request: "), "{wrong:?}");
    for (body, expect) in [("", ""), ("\n\n", "")] {
        let told = crate::server::told(server.to_ingress(Method::POST, "/v1/batch").body(body)).await;
        assert_eq!((told.status, told.text().as_str()), (200, expect));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_streamed_both_ways() {
    let server = Server::with_item(HttpOptions {
        silence: Duration::from_millis(300),
        body_bytes_max: 1000,
        ..HttpOptions::default()
    })
    .await;
    let (to, lines) = tokio::sync::mpsc::channel::<Result<String, std::io::Error>>(1);
    let body = stream::unfold(lines, |mut lines| async move { Some((lines.recv().await?, lines)) });
    let line = |id: u64| format!("{}\n", envelope(id.into(), "k", "store", json!([id])));
    to.send(Ok(line(0))).await.unwrap();
    let mut response =
        server.to_ingress(Method::POST, "/v1/batch").body(reqwest::Body::wrap_stream(body)).send().await.unwrap();
    // Each reply comes before the next request is sent, which may come in pieces.
    for id in 0..5 {
        let reply: Value = serde_json::from_slice(&response.chunk().await.unwrap().unwrap()).unwrap();
        assert_eq!(reply["id"], json!(id));
        let next = line(id + 1);
        let (a, b) = next.split_at(20);
        to.send(Ok(a.to_owned())).await.unwrap();
        to.send(Ok(b.to_owned())).await.unwrap();
    }
    assert!(response.chunk().await.unwrap().is_some());
    // Silence ends it.
    let end: Value = serde_json::from_slice(&response.chunk().await.unwrap().unwrap()).unwrap();
    assert_eq!(end["error"]["code"], "TIMEOUT");
    assert_eq!(response.chunk().await.unwrap(), None);

    // So does a line without an end; who still writes may learn first that nobody reads on.
    let sent = server.to_ingress(Method::POST, "/v1/batch").body("x".repeat(3 << 20)).send();
    match sent.and_then(|response| response.text()).await {
        Ok(text) => assert!(text.contains("TOO_LARGE"), "{text}"),
        Err(error) => assert!(!error.is_timeout(), "{error:?}"),
    }
    assert_eq!(server.call("k", "load", "[0]").await.status, 200, "others are served");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_more_than_may_wait_is_slowed_and_not_refused() {
    const COUNT: u64 = 5000;
    let server = Server::with_item_and_backlog(HttpOptions::default(), 4).await;
    let line = |id: u64| {
        let function = if id.is_multiple_of(3) { "load" } else { "store" };
        envelope(id.into(), &format!("k{id}"), function, json!([id])).to_string()
    };
    let lines = (0..COUNT).map(line).collect::<Vec<_>>().join("\n");
    let of = |reply: &Value| {
        assert!(reply["error"].is_null(), "{reply}");
        reply["id"].as_u64().unwrap()
    };
    let all: BTreeSet<u64> = (0..COUNT).collect();
    let told = crate::server::told(server.to_ingress(Method::POST, "/v1/batch").body(lines.clone())).await;
    let ids = told.text().lines().map(|line| of(&serde_json::from_str(line).unwrap())).collect::<BTreeSet<_>>();
    assert_eq!((told.text().lines().count() as u64, ids), (COUNT, all.clone()));

    // Of two who share what there is, both come to their end.
    let mut sockets = [connect(&server, "").await, connect(&server, "").await];
    for socket in &mut sockets {
        send(socket, &lines).await;
    }
    for socket in &mut sockets {
        let mut ids = BTreeSet::new();
        for _ in 0..COUNT {
            assert!(ids.insert(of(&reply(socket).await)), "each once");
        }
        assert_eq!(ids, all);
    }
    // Who asks for one thing at a time is still told at once.
    let calls = (0..20).map(|_| server.call("slow", "spin", "[0]"));
    let statuses: BTreeSet<u16> =
        futures_util::future::join_all(calls).await.into_iter().map(|told| told.status).collect();
    assert_eq!(statuses, BTreeSet::from([500, 503]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_who_sends_more_than_is_taken_little_is_held() {
    let server = Server::with_item_and_backlog(HttpOptions::default(), 4).await;
    let mut socket = TcpStream::connect(server.ingress).await.unwrap();
    let head = "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    // Each takes a fifth of a second.
    let line = format!("{}\n", envelope(json!(1), "slow", "spin", json!(["x".repeat(1000)])));
    let lines = line.repeat(1000);
    let mut sent = 0;
    while let Ok(wrote) = tokio::time::timeout(Duration::from_secs(2), socket.write_all(lines.as_bytes())).await {
        wrote.unwrap();
        sent += lines.len();
        assert!(sent < 64 << 20, "it is read on and on");
    }
    let held = server.memory.used();
    assert!(held < 16 << 20, "{held} of {sent} bytes");
}
