//! The service that clients call: it has every step prepared, makes the decision durable, answers,
//! and tells the participants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::journal::Journal;
use super::{Refusal, Step};

struct Coordinator {
    participants: Vec<String>,
    journal: Journal,
    client: reqwest::Client,
    next: AtomicU64,
}

pub(super) fn router(journal: Journal, participants: Vec<String>) -> Router {
    let client = reqwest::Client::builder().tcp_nodelay(true).build().expect("a client without options can be made");
    let coordinator = Coordinator { participants, journal, client, next: AtomicU64::new(1) };
    Router::new().route("/{account}/{function}", post(call)).with_state(Arc::new(coordinator))
}

/// A function of an account.
async fn call(
    State(coordinator): State<Arc<Coordinator>>,
    Path((account, function)): Path<(u64, String)>,
    Json(arguments): Json<Vec<Value>>,
) -> Result<Json<Value>, Refusal> {
    let whole = |at: usize| {
        let argument = arguments.get(at);
        let number = argument.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        number.ok_or_else(|| Refusal::Aborted(format!("{function} takes a number")))
    };
    match &*function {
        "transfer" => {
            let to = whole(0)?;
            if to == account {
                return Err(Refusal::Aborted("a transfer needs two accounts".into()));
            }
            coordinator.transaction(&[(account, -1), (to, 1)]).await
        }
        "update" => coordinator.transaction(&[(account, 1)]).await,
        "insert" => {
            let path = format!("insert/{account}/{}", whole(0)?);
            coordinator.ask(account, &path, &Value::Null).await
        }
        "read" => coordinator.ask(account, &format!("read/{account}"), &Value::Null).await,
        "sum" => coordinator.sum().await,
        _ => Err(Refusal::Aborted(format!("there is no function {function}"))),
    }
    .map(Json)
}

impl Coordinator {
    /// Two-phase commit; the result of the first step.
    async fn transaction(self: &Arc<Self>, steps: &[(u64, i64)]) -> Result<Value, Refusal> {
        let transaction = self.next.fetch_add(1, Ordering::Relaxed);
        let step = |&(account, amount): &(u64, i64)| Step { transaction, account, amount };
        let steps: Vec<Step> = steps.iter().map(step).collect();
        let prepared = join_all(steps.iter().map(|step| self.tell("prepare", step))).await;
        let decision = prepared.into_iter().collect::<Result<Vec<Value>, Refusal>>();
        let verb = match &decision {
            Ok(_) => {
                self.journal.append(&json!({ "commits": transaction })).await?;
                "decide/commit"
            }
            // Nobody needs to know: what is not decided is aborted.
            Err(_) => "decide/abort",
        };
        let telling = self.clone();
        // The decision stands; whoever waits for a lock waits for this.
        tokio::spawn(async move { drop(join_all(steps.iter().map(|step| telling.tell(verb, step))).await) });
        decision.map(|results| results[0].clone())
    }

    async fn tell(&self, verb: &str, step: &Step) -> Result<Value, Refusal> {
        self.ask(step.account, verb, &json!(step)).await
    }

    /// Asks the service of an account.
    async fn ask(&self, account: u64, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.ask_at(&self.participants[account as usize % self.participants.len()], path, body).await
    }

    async fn ask_at(&self, participant: &str, path: &str, body: &Value) -> Result<Value, Refusal> {
        let broken = |error: reqwest::Error| Refusal::Broken(error.to_string());
        let asked = self.client.post(format!("http://{participant}/{path}")).json(body).send().await.map_err(broken)?;
        let status = asked.status();
        let text = asked.text().await.map_err(broken)?;
        match status {
            StatusCode::OK if text.is_empty() => Ok(Value::Null),
            StatusCode::OK => serde_json::from_str(&text).map_err(|error| Refusal::Broken(error.to_string())),
            StatusCode::CONFLICT => Err(Refusal::Conflict),
            StatusCode::UNPROCESSABLE_ENTITY => Err(Refusal::Aborted(text)),
            _ => Err(Refusal::Broken(format!("{status}: {text}"))),
        }
    }

    /// All accounts as one page, without a last key.
    async fn sum(&self) -> Result<Value, Refusal> {
        let asked = self.participants.iter().map(|participant| self.ask_at(participant, "sum", &Value::Null));
        let (mut count, mut sum) = (0, 0);
        for part in join_all(asked).await {
            let part = part?;
            count += part[0].as_i64().unwrap_or_default();
            sum += part[1].as_i64().unwrap_or_default();
        }
        Ok(json!([count, sum, null]))
    }
}
