//! One call over HTTP, and what its caller knows afterwards.

use std::time::Duration;

use reqwest::Client;
use serde_json::Value;

/// Longer than a gateway holds a request.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A call: where to, with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// `app/operator/key/function`
    pub(super) target: String,
    pub(super) arguments: Value,
    /// The idempotency key, if it has one.
    pub(super) key: Option<String>,
}

/// What the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It happened, and this is the result.
    Done(Value),
    /// The function refused; nothing happened.
    Refused,
    /// It did not happen, and may be asked again.
    NotDone,
    /// It happened or it did not.
    Unknown,
    /// What nobody should be told.
    Odd(String),
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    http: Client,
    ingress: String,
}

impl Asker {
    /// One that asks at `host:port`.
    pub(super) fn new(ingress: &str) -> anyhow::Result<Self> {
        Ok(Asker { http: Client::builder().timeout(ANSWER_MAX).build()?, ingress: ingress.to_owned() })
    }

    /// Asks once.
    pub(super) async fn ask(&self, call: &Call) -> Told {
        let mut request = self.http.post(format!("http://{}/v1/call/{}", self.ingress, call.target));
        request = request.json(&call.arguments);
        if let Some(key) = &call.key {
            request = request.header("idempotency-key", key);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Told::NotDone,
            Err(_) => return Told::Unknown,
        };
        let status = response.status();
        // Half an answer is none.
        let Ok(body) = response.bytes().await else { return Told::Unknown };
        let Ok(body) = serde_json::from_slice::<Value>(&body) else {
            return Told::Odd(format!("{}: {status} without JSON", call.target));
        };
        if status.is_success() {
            return Told::Done(body);
        }
        match body["error"]["code"].as_str().unwrap_or_default() {
            "ABORTED" => Told::Refused,
            "OVERLOADED" | "UNAVAILABLE" | "NOT_READY" | "LOG_STALLED" | "DISK_FULL" => Told::NotDone,
            "OUTCOME_UNKNOWN" | "SHUTTING_DOWN" => Told::Unknown,
            _ => Told::Odd(format!("{}: {status} {body}", call.target)),
        }
    }

    /// Asks until it is known what happened; a call without a key is asked again only if it did not happen.
    /// `None` if nobody says anything for so long.
    pub(super) async fn insist(&self, call: &Call, patience: Duration) -> Option<Told> {
        let insisting = async {
            let mut pause = Duration::from_millis(2);
            loop {
                match self.ask(call).await {
                    Told::NotDone => {}
                    Told::Unknown if call.key.is_some() => {}
                    told => return told,
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        };
        tokio::time::timeout(patience, insisting).await.ok()
    }
}
