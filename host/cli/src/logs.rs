//! `styx logs`: lines of guests.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Of this app only, or of app/operator, or of app/operator.function
    #[arg(conflicts_with_all = ["app", "function"])]
    target: Option<String>,
    /// Go on with lines as they come
    #[arg(long, short)]
    follow: bool,
    /// Of this app only
    #[arg(long)]
    app: Option<String>,
    /// Of this function only, as operator.function or its name; `operator.*` for all of an operator
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

impl LogsArgs {
    /// App and function that lines are wanted of.
    fn wanted(&self) -> Result<(Option<String>, Option<String>), CliError> {
        let Some(target) = &self.target else { return Ok((self.app.clone(), self.function.clone())) };
        let Some((app, of)) = target.split_once('/') else { return Ok((Some(target.clone()), None)) };
        if app.is_empty() || of.is_empty() || of.contains('/') {
            let message = format!("\"{target}\" is not app, app/operator or app/operator.function");
            return Err(CliError::usage("BAD_TARGET", message, "for example: styx logs shop/stock.take"));
        }
        let function = if of.contains('.') { of.to_owned() } else { format!("{of}.*") };
        Ok((Some(app.to_owned()), Some(function)))
    }
}

pub(crate) fn run(client: &Client, args: &LogsArgs, output: &Output) -> Result<(), CliError> {
    let (app, function) = args.wanted()?;
    let mut path = format!("/v1/logs?level={}&tail={}&follow={}", args.level, args.tail, args.follow);
    for (name, value) in [("app", &app), ("function", &function), ("request", &args.request)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    let (mut text, mut shown) = (Vec::new(), false);
    client.stream(client.admin(Method::GET, &path), &mut |bytes| {
        text.extend_from_slice(bytes);
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            shown = true;
            if !show(&String::from_utf8_lossy(&event), output) {
                return false;
            }
        }
        true
    })?;
    if !shown {
        // Of an app that is not there, nothing would ever come.
        if let Some(app) = &app {
            client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(app))))?;
        }
        output.note("no lines: functions have logged nothing of this, or since the server's start");
    }
    Ok(())
}

/// One event of the stream; false if nobody reads any more.
fn show(event: &str, output: &Output) -> bool {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    let Some(data) = field("data:") else { return true };
    if field("event:") == Some("missed") {
        output.note(&format!("{data} lines were forgotten before they could be told"));
        return true;
    }
    let Ok(line) = serde_json::from_str::<Value>(data) else { return true };
    if output.is_json() {
        return output.one_of(&line);
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
    text("message").lines().all(|message| output.line_of_many(&format!("{head} {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_asked_for_by_what_functions_are_named_by() {
        let wanted = |target: &str| {
            let args = ["logs", target].into_iter();
            let matches = LogsArgs::augment_args(clap::Command::new("logs")).try_get_matches_from(args).unwrap();
            <LogsArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap().wanted()
        };
        for (target, app, function) in [
            ("shop", "shop", None),
            ("shop/stock", "shop", Some("stock.*")),
            ("shop/stock.take", "shop", Some("stock.take")),
        ] {
            assert_eq!(wanted(target).unwrap(), (Some(app.to_owned()), function.map(str::to_owned)), "{target}");
        }
        for target in ["shop/", "/stock", "shop/stock/apple/take"] {
            assert_eq!(wanted(target).unwrap_err().code, "BAD_TARGET", "{target}");
        }
    }
}
