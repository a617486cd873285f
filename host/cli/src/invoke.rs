//! `styx call` and `styx send`.

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
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
    /// Makes the call exactly-once, however often it is repeated
    #[arg(long)]
    idempotency_key: Option<String>,
    /// Have it watched, for `styx requests show`
    #[arg(long)]
    trace: bool,
}

pub(crate) fn call(client: &Client, invocation: &Invocation, output: &Output) -> Result<(), CliError> {
    let answered = invoke(client, "call", invocation)?;
    output.value(&answered.body);
    if let (Some(tid), Some(epoch)) = (&answered.tid, &answered.epoch) {
        output.note(&format!("transaction {tid}, epoch {epoch}"));
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
    let path = parts.map(encode).join("/");
    let mut request = client.ingress(Method::POST, &format!("/v1/{verb}/{path}"));
    if let Some(args) = &invocation.args {
        serde_json::from_str::<Value>(args).map_err(|error| {
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
