//! Requests that are wrong, and requests that come twice, over HTTP and over WebSocket.

use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::process::{Process, Told, testkit, told};
use crate::{Expect, fails, nothing_is};

/// Path under `/v1/call`, body, and what it gives.
fn cases() -> Vec<(&'static str, String, Expect)> {
    let arguments = |says| fails(400, "BAD_ARGUMENTS", says);
    vec![
        ("kti/a/k/list", "[]".into(), fails(404, "UNKNOWN_APP", "no app \"kti\"")),
        ("kit/c/k/list", "[]".into(), fails(404, "UNKNOWN_OPERATOR", "no operator \"c\"")),
        ("kit/a/k/lits", "[]".into(), fails(404, "UNKNOWN_FUNCTION", "no function \"lits\"")),
        ("kit/a/k/append", "[]".into(), arguments("element")),
        ("kit/a/k/append", "[1, 2]".into(), arguments("takes 1 argument, and there are more")),
        ("kit/a/k/append", "[\"1\"]".into(), arguments("element")),
        ("kit/a/k/append", "[-1]".into(), arguments("element")),
        ("kit/a/k/append", "[1.5]".into(), arguments("element")),
        ("kit/a/k/append", "[null]".into(), arguments("element")),
        ("kit/a/k/append", "{\"elemnt\": 1}".into(), arguments("elemnt")),
        ("kit/a/k/append", "{\"element\": 1, \"more\": 1}".into(), arguments("more")),
        ("kit/a/k/append", "7".into(), arguments("")),
        ("kit/a/k/append", "[1".into(), arguments("")),
        ("kit/a/k/append", "[1] x".into(), arguments("")),
        ("kit/a/k/append", "[NaN]".into(), arguments("")),
        ("kit/a/k/append", "[99999999999999999999999]".into(), arguments("")),
        ("kit/a/k/append", "[".repeat(100_000), arguments("")),
        ("kit/a/k/echo", "[\"\\ud800\"]".into(), arguments("")),
        ("kit/a/k/echo", format!("[\"{}\"]", "x".repeat(1 << 20)), fails(413, "TOO_LARGE", "at most 1048576 bytes")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_and_repeated_requests_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &[]).await;
    let deployed = server.deploy("kit", "application/zip", testkit().await).await;
    assert_eq!(deployed.status, 201, "{}", deployed.body);
    server.call("kit/a/k/put", "[[5]]").await;
    let state = server.state(&["kit/a", "kit/b"]).await;
    let (mut socket, _) = connect_async(format!("ws://{}/v1/ws", server.ingress)).await.unwrap();
    let mut over_websocket = async |message: String| {
        socket.send(Message::text(message)).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()
    };

    let mut wrong = Vec::new();
    for (path, body, expect) in cases() {
        let of = format!("{path} {}", &body[..body.len().min(80)]);
        wrong.extend(expect.wrong(&of, &server.call(path, body.clone()).await));
        let names: Vec<&str> = path.split('/').collect();
        let message = format!(
            r#"{{"id":1,"app":"{}","operator":"{}","key":"{}","function":"{}","args":{body}}}"#,
            names[0], names[1], names[2], names[3]
        );
        let answer = over_websocket(message).await;
        let code = answer["error"]["code"].as_str().unwrap_or("OK");
        // What is not JSON makes the whole message none.
        if code != expect.code && code != "BAD_REQUEST" {
            wrong.push(format!("{of}, over WebSocket: {answer}"));
        }
    }
    nothing_is(&wrong);
    // Bytes that are no text, and a key that is none.
    server.call("kit/a/k/echo", b"[\"\xff\"]".to_vec()).await.is_error("bytes", 400, "BAD_ARGUMENTS", "");
    server.call("kit/a/%ff/list", "[]").await.is_error("key", 400, "BAD_ARGUMENTS", "not UTF-8");
    let key = "k".repeat(1025);
    server.call(&format!("kit/a/{key}/list"), "[]").await.is_error("long key", 400, "BAD_ARGUMENTS", "1024");
    assert_eq!(server.state(&["kit/a", "kit/b"]).await, state, "nothing has changed");

    // The same idempotency key: the same answer, or, with another request, none.
    let keyed = async |path: &str, body: &'static str| -> Told {
        told(
            server
                .to_ingress(Method::POST, &format!("/v1/call/kit/{path}"))
                .header("idempotency-key", "once")
                .body(body),
        )
        .await
    };
    for _ in 0..3 {
        let again = keyed("a/k/append", "[6]").await;
        assert_eq!((again.status, again.body), (200, json!([5, 6])));
    }
    for (path, body) in [("a/k/append", "[7]"), ("a/l/append", "[6]"), ("b/k/append", "[6]"), ("a/k/burn", "[6]")] {
        keyed(path, body).await.is_error(path, 409, "IDEMPOTENCY_MISMATCH", "");
    }
    let message = |key: &str, element: u64| {
        json!({ "id": 1, "app": "kit", "operator": "a", "key": "k", "function": "append", "args": [element], "idempotency_key": key }).to_string()
    };
    assert_eq!(over_websocket(message("once", 6)).await["ok"], json!([5, 6]), "one key, whatever the way");
    for _ in 0..3 {
        assert_eq!(over_websocket(message("twice", 8)).await["ok"], json!([5, 6, 8]));
    }
    for key in ["once", "twice"] {
        assert_eq!(over_websocket(message(key, 9)).await["error"]["code"], "IDEMPOTENCY_MISMATCH");
    }
    // A failure is remembered too.
    for _ in 0..2 {
        let request =
            server.to_ingress(Method::POST, "/v1/call/kit/a/k/write_then_fail").header("idempotency-key", "fails");
        told(request).await.is_error("a failure", 422, "ABORTED", "after writing");
    }
    // All of it survives a kill.
    let server = server.kill_and_restart(&["--threads", "1"]).await;
    let request = server.to_ingress(Method::POST, "/v1/call/kit/a/k/append").header("idempotency-key", "twice");
    assert_eq!(told(request.body("[8]")).await.body, json!([5, 6, 8]));
    let request = server.to_ingress(Method::POST, "/v1/call/kit/a/k/append").header("idempotency-key", "twice");
    told(request.body("[9]")).await.is_error("after a kill", 409, "IDEMPOTENCY_MISMATCH", "");
    assert_eq!(server.call("kit/a/k/list", "[]").await.body, json!([5, 6, 8]));
}
