//! `styx call` and `styx send`.

use std::time::{Duration, Instant};

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::client::{Client, Response};
use crate::error::CliError;
use crate::output::Output;

/// Target and arguments of a call.
#[derive(Debug, Args)]
pub(crate) struct Invocation {
    /// app/operator/key/function
    target: String,
    /// Arguments as JSON: an array, an object by name, or nothing
    args: Option<String>,
    #[arg(hide = true)]
    more: Vec<String>,
    /// Makes the call exactly-once, however often it is repeated
    #[arg(long)]
    idempotency_key: Option<String>,
    /// Have it watched, for `styx requests show`
    #[arg(long)]
    trace: bool,
}

pub(crate) fn call(client: &Client, invocation: &Invocation, output: &Output) -> Result<(), CliError> {
    let answered = invoke(client, "call", invocation)?;
    output.json_text(&answered.text);
    if let (Some(tid), Some(epoch)) = (answered.tid, answered.epoch) {
        output.note(&place(tid, epoch));
    }
    if let (true, Some(id)) = (invocation.trace, &answered.request_id) {
        output.note(&format!("how it went: styx requests show {id}"));
    }
    Ok(())
}

pub(crate) fn send(client: &Client, invocation: &Invocation, output: &Output) -> Result<(), CliError> {
    let answered = invoke(client, "send", invocation)?;
    output.value(&answered.body);
    Ok(())
}

/// Where a request stands. What only reads has no place among the transactions.
fn place(tid: u64, epoch: u64) -> String {
    match tid {
        0 => format!("read as of epoch {epoch}"),
        _ => format!("transaction {tid}, epoch {epoch}"),
    }
}

/// A request that was sent, or called under an idempotency key.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Id of the request, as `styx send` prints it
    id: String,
    /// Wait until it has ended, for so long at most, such as 30s
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1day", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
}

/// What came of a request: its result, or the error that it ended by.
pub(crate) fn result(client: &Client, args: &ResultArgs, output: &Output) -> Result<(), CliError> {
    let until = args.wait.map(|wait| Instant::now() + wait);
    let body = loop {
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        let step = left.min(Duration::from_secs(10)).as_millis();
        let body =
            client.send(client.ingress(Method::GET, &format!("/v1/requests/{}?wait={step}ms", encode(&args.id))))?.body;
        if body["status"] != "pending" || left.is_zero() {
            break body;
        }
    };
    if body["status"] == "pending" {
        let hint = "ask again with --wait";
        return Err(CliError::new("PENDING", format!("request {} has not ended yet", args.id), hint));
    }
    let error = &body["error"];
    if error.is_object() {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        return Err(CliError {
            app_code: error["app_code"].as_str().map(str::to_owned),
            ..CliError::new(text("code").leak(), text("message"), text("hint"))
        });
    }
    output.value(body.get("result").or(body.get("result_base64")).unwrap_or(&Value::Null));
    if let (Some(tid), Some(epoch)) = (body["tid"].as_u64(), body["epoch"].as_u64()) {
        output.note(&place(tid, epoch));
    }
    Ok(())
}

fn invoke(client: &Client, verb: &str, invocation: &Invocation) -> Result<Response, CliError> {
    // The key may hold slashes; the other three parts may not.
    let target = &invocation.target;
    let parts = target.split_once('/').and_then(|(app, rest)| {
        let (operator, rest) = rest.split_once('/')?;
        let (key, function) = rest.rsplit_once('/')?;
        Some([app, operator, key, function])
    });
    let Some(parts) = parts.filter(|parts| parts.iter().all(|part| !part.is_empty())) else {
        return Err(CliError::usage(
            "BAD_TARGET",
            format!("\"{target}\" is not app/operator/key/function"),
            "for example: styx call shop/stock/apple/take '[2]'",
        ));
    };
    if !invocation.more.is_empty() {
        let all: Vec<&str> = invocation.args.iter().chain(&invocation.more).map(String::as_str).collect();
        return Err(CliError::usage(
            "BAD_ARGUMENTS",
            format!("there are {} arguments, and they are to be one JSON array", all.len()),
            format!("for example: styx {verb} {target} '[{}]'", all.join(", ")),
        ));
    }
    let path = parts.map(encode).join("/");
    let mut request = client.ingress(Method::POST, &format!("/v1/{verb}/{path}"));
    if let Some(args) = &invocation.args {
        // The server looks at values, of which more are JSON than are one of `Value`'s.
        serde_json::from_str::<IgnoredAny>(args).map_err(|error| {
            CliError::usage(
                "BAD_ARGUMENTS",
                format!("the arguments are not JSON: {error}"),
                "quote them for the shell: '[\"text\", 1]'",
            )
        })?;
        request = request.header("content-type", "application/json").body(args.clone());
    }
    if let Some(key) = &invocation.idempotency_key {
        request = request.header("idempotency-key", key);
    }
    if invocation.trace {
        request = request.header("styx-trace", "1");
    }
    client.send(request)
}

/// What of a path segment needs encoding.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// Percent-encodes a path segment.
pub(crate) fn encode(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}
