//! Calls of one function on many entities, sent many at a time: each is a transaction, and may be made again.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;

/// What is worth another try, and how often.
const AGAIN: [&str; 5] = ["OVERLOADED", "UNAVAILABLE", "OUTCOME_UNKNOWN", "LOG_STALLED", "RATE_LIMITED"];
const TRIES: u32 = 8;

pub(super) struct Call<'a> {
    pub operator: &'a str,
    pub key: &'a str,
    pub function: &'static str,
    /// As JSON.
    pub args: &'a str,
}

/// Makes calls of entities of an app, and again those that are refused for the moment. Gives what each came to, in their order.
pub(super) fn call_all(client: &Client, app: &str, calls: &[Call<'_>]) -> Result<Vec<Value>, CliError> {
    let mut ends = vec![Value::Null; calls.len()];
    let mut left: Vec<usize> = (0..calls.len()).collect();
    for attempt in 0..TRIES {
        let mut text = String::new();
        for at in &left {
            let Call { operator, key, function, args } = &calls[*at];
            let [app, operator, key] = [app, operator, key].map(|text| json!(text));
            text += &format!(
                "{{\"id\":{at},\"app\":{app},\"operator\":{operator},\"key\":{key},\"function\":\"{function}\",\"args\":{args}}}\n"
            );
        }
        for answer in ask(client, text)?.lines() {
            let answer: Value = serde_json::from_str(answer)
                .map_err(|error| CliError::new("CLIENT", format!("the server's answer is no JSON: {error}"), ""))?;
            if let Some(end) = answer["id"].as_u64().and_then(|at| ends.get_mut(at as usize)) {
                *end = answer;
            } else {
                return Err(refused(&answer, ""));
            }
        }
        let temporary =
            |at: &usize| ends[*at].is_null() || AGAIN.iter().any(|code| ends[*at]["error"]["code"] == **code);
        left.retain(temporary);
        if left.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50 << attempt));
    }
    if left.iter().any(|at| ends[*at].is_null()) {
        return Err(CliError::new("CONNECTION", "the server did not answer every call", "try again"));
    }
    Ok(ends)
}

/// The error that an answer tells of, of what.
pub(super) fn refused(answer: &Value, place: &str) -> CliError {
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    CliError::new(text("code").leak(), format!("{place}{}", text("message")), text("hint"))
}

fn ask(client: &Client, text: String) -> Result<String, CliError> {
    let request = client.ingress(Method::POST, "/v1/batch").header("content-type", "application/x-ndjson");
    let mut answers = Vec::new();
    client.stream(request.body(text), &mut |piece| {
        answers.extend_from_slice(piece);
        true
    })?;
    Ok(String::from_utf8_lossy(&answers).into_owned())
}
