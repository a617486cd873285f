//! `styx logs`: lines of guests.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Go on with lines as they come
    #[arg(long, short)]
    follow: bool,
    /// Of this app only
    #[arg(long)]
    app: Option<String>,
    /// Of this function only, as operator.function or its name
    #[arg(long)]
    function: Option<String>,
    /// At least of this level
    #[arg(long, value_parser = ["debug", "info", "warn", "error"], default_value = "debug")]
    level: String,
    /// Of this request only, by its id
    #[arg(long)]
    request: Option<String>,
    /// Lines from before
    #[arg(long, value_name = "N", default_value = "200")]
    tail: usize,
}

pub(crate) fn run(client: &Client, args: &LogsArgs, output: &Output) -> Result<(), CliError> {
    let mut path = format!("/v1/logs?level={}&tail={}&follow={}", args.level, args.tail, args.follow);
    for (name, value) in [("app", &args.app), ("function", &args.function), ("request", &args.request)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    let mut text = Vec::new();
    client.stream(client.admin(Method::GET, &path), &mut |bytes| {
        text.extend_from_slice(bytes);
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            show(&String::from_utf8_lossy(&event), output);
        }
        // A reader that has gone ends it.
        std::io::stdout().flush().is_ok()
    })?;
    Ok(())
}

/// One event of the stream.
fn show(event: &str, output: &Output) {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    let Some(data) = field("data:") else { return };
    if field("event:") == Some("missed") {
        return output.note(&format!("{data} lines were forgotten before they could be told"));
    }
    let Ok(line) = serde_json::from_str::<Value>(data) else { return };
    if output.is_json() {
        return output.value(&line);
    }
    let text = |name: &str| line[name].as_str().unwrap_or("");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_micros(line["time_us"].as_u64().unwrap_or(0));
    let head = format!(
        "{} {:5} {}/{}.{}({}) {}",
        humantime::format_rfc3339_millis(time),
        text("level"),
        text("app"),
        text("operator"),
        text("function"),
        text("key"),
        text("request_id")
    );
    // Each line stands on its own: none of them can look like another's.
    text("message").lines().for_each(|message| output.line(&format!("{head} {message}")));
}
