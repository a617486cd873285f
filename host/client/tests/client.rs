//! The client against a server that does what the test says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use styx_client::{Client, Request, Retry};

/// A request: its idempotency key, and its body or line.
type Asked = (Option<String>, String);

/// Answers in order, the last one for ever; and the requests so far.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<Vec<(u16, Value)>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    fn answer(&self, key: Option<String>, body: String) -> (u16, Value) {
        self.asked.lock().unwrap().push((key, body));
        let mut answers = self.answers.lock().unwrap();
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    }

    fn keys(&self) -> Vec<Option<String>> {
        self.asked.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }

    async fn serve(answers: &[(u16, Value)]) -> (Script, Client) {
        let script = Script { answers: Arc::new(Mutex::new(answers.to_vec())), ..Script::default() };
        let router = Router::new()
            .route("/v1/call/{*path}", post(call))
            .route("/v1/batch", post(batch))
            .route("/v1/ws", any(socket))
            .with_state(script.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let retry = Retry::default().pauses(Duration::from_millis(1), Duration::from_millis(5));
        (script, Client::builder(&address.to_string()).retry(retry.impatient()).build().unwrap())
    }
}

fn refusal(code: &str) -> Value {
    json!({ "error": { "code": code, "message": "no", "hint": "later" } })
}

async fn call(State(script): State<Script>, headers: HeaderMap, body: String) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
    let (status, answer) = script.answer(key, body);
    (StatusCode::from_u16(status).unwrap(), [("retry-after", "1"), ("styx-tid", "7")], Json(answer)).into_response()
}

fn line(script: &Script, line: &str) -> String {
    let request: Value = serde_json::from_str(line).unwrap();
    let (_, answer) = script.answer(request["idempotency_key"].as_str().map(str::to_owned), request.to_string());
    let answer = answer.to_string();
    format!("{{\"id\":{},{}", request["id"], &answer[1..])
}

async fn batch(State(script): State<Script>, body: String) -> String {
    body.lines().map(|text| line(&script, text) + "\n").collect()
}

/// An answer with status 0 breaks the connection.
async fn socket(State(script): State<Script>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |mut socket| {
        while let Some(Ok(Message::Text(lines))) = socket.recv().await {
            for text in lines.lines() {
                let breaks = script.answers.lock().unwrap()[0].0 == 0;
                let reply = line(&script, text);
                if breaks || socket.send(Message::Text(reply.into())).await.is_err() {
                    return;
                }
            }
        }
    })
}

#[tokio::test]
async fn a_call_is_repeated_under_its_key_until_it_has_an_answer() {
    let answers = [(503, refusal("OVERLOADED")), (503, refusal("OUTCOME_UNKNOWN")), (200, json!({ "n": 5 }))];
    let (script, client) = Script::serve(&answers).await;
    let reply = client.call("shop", "order", "o 1", "add", json!([1])).reply().await.unwrap();
    assert_eq!((reply.value().unwrap(), reply.tid), (json!({ "n": 5 }), Some(7)));
    let keys = script.keys();
    assert!(keys.len() == 3 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn without_a_key_only_what_did_not_happen_is_repeated() {
    let (script, client) = Script::serve(&[(503, refusal("UNAVAILABLE")), (503, refusal("OUTCOME_UNKNOWN"))]).await;
    let error = client.call("a", "b", "c", "f", json!([])).without_key().await.unwrap_err();
    assert!(error.outcome_unknown() && error.status == Some(503), "{error}");
    assert_eq!(script.keys(), [None, None]);
}

#[tokio::test]
async fn what_the_app_answers_is_not_repeated() {
    let (script, client) = Script::serve(&[(422, refusal("ABORTED"))]).await;
    let error = client.call("a", "b", "c", "f", json!([])).idempotency_key("mine").await.unwrap_err();
    assert!(error.is_aborted() && !error.is_transient());
    assert_eq!((&*error.message, &*error.hint), ("no", "later"));
    assert_eq!(script.keys(), [Some("mine".to_owned())]);
}

#[tokio::test]
async fn retry_after_is_heeded_and_patience_ends() {
    let (script, client) = Script::serve(&[(503, refusal("OVERLOADED"))]).await;
    let retry = Retry::default().patience(Duration::from_millis(300));
    let error = client.call("a", "b", "c", "f", json!([])).retry(retry).await.unwrap_err();
    assert_eq!((error.retry_after, script.keys().len()), (Some(Duration::from_secs(1)), 1));
    let nowhere = Client::builder("127.0.0.1:9").retry(Retry::never()).build().unwrap();
    let error = nowhere.call("a", "b", "c", "f", json!([])).await.unwrap_err();
    assert_eq!(error.code, "UNREACHABLE", "{error}");
    assert!(Client::new("no address").is_err());
}

#[tokio::test]
async fn of_a_batch_only_what_failed_is_repeated() {
    let answers = [(200, json!({ "ok": 1 })), (503, refusal("OVERLOADED")), (200, json!({ "ok": [3.10], "epoch": 4 }))];
    let (script, client) = Script::serve(&answers).await;
    let requests = ["x", "y"].map(|key| Request::new("a", "b", key, "f", json!([])).idempotency_key(key));
    let ends = client.batch(&requests).await.unwrap();
    let ends: Vec<_> = ends.into_iter().map(|end| end.unwrap()).collect();
    assert_eq!((ends[0].read::<u64>().unwrap(), ends[1].epoch), (1, Some(4)));
    assert_eq!(script.keys(), ["x", "y", "y"].map(|key| Some(key.to_owned())));
}

#[tokio::test]
async fn a_pipeline_goes_on_when_its_connection_breaks() {
    let ok = (200, json!({ "ok": "done" }));
    let (script, client) = Script::serve(&[(0, json!({})), (200, refusal("OVERLOADED")), ok]).await;
    let pipeline = client.pipeline();
    let calls: Vec<_> =
        (0..3).map(|at| pipeline.call(Request::new("a", "b", &at.to_string(), "f", json!([at])))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().read::<String>().unwrap(), "done");
    }
    // The first was asked, and lost; it came first again, was refused, and came once more.
    let keys = script.keys();
    assert_eq!((&keys[0], keys.iter().filter(|key| **key == keys[0]).count()), (&keys[1], 3), "{keys:?}");
}
