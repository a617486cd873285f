//! `styx requests`.

mod picture;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum RequestsVerb {
    /// List requests that were watched or aborted, the newest first
    List(ListArgs),
    /// Show how a request went: its time, its executions, whom it called, with whom it conflicted
    Show {
        /// Its id, as `list` and the header styx-request-id have it
        id: String,
    },
    /// List and release what ended the server again and again, and is not executed any more
    Quarantine {
        #[command(subcommand)]
        verb: QuarantineVerb,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The slowest first
    #[arg(long, conflicts_with = "aborted")]
    slow: bool,
    /// Only those that aborted
    #[arg(long)]
    aborted: bool,
    /// Of this app only
    #[arg(long)]
    app: Option<String>,
    /// Most of them
    #[arg(long, value_name = "N", default_value = "20")]
    limit: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineVerb {
    /// List requests and apps that are set aside, and why
    List,
    /// Have one executed again when it is next asked for
    Release {
        /// Its id, as `list` shows it
        id: String,
    },
}

pub(crate) fn run(client: &Client, verb: RequestsVerb, output: &Output) -> Result<(), CliError> {
    match verb {
        RequestsVerb::List(args) => list(client, &args, output),
        RequestsVerb::Show { id } => {
            let path = format!("/v1/requests/{}/trace", encode(&id));
            let trace = client.send(client.admin(Method::GET, &path))?.body;
            if output.is_json() {
                output.value(&trace);
            } else {
                picture::lines(&trace).iter().for_each(|line| output.line(line));
            }
            Ok(())
        }
        RequestsVerb::Quarantine { verb } => quarantine(client, verb, output),
    }
}

fn list(client: &Client, args: &ListArgs, output: &Output) -> Result<(), CliError> {
    let kind = if args.slow {
        "slow"
    } else if args.aborted {
        "aborted"
    } else {
        "recent"
    };
    let app = args.app.as_deref().map(|app| format!("&app={}", encode(app))).unwrap_or_default();
    let path = format!("/v1/requests?kind={kind}&limit={}{app}", args.limit);
    let body = client.send(client.admin(Method::GET, &path))?.body;
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |one: &Value| {
        let called = format!(
            "{}/{}/{}/{}",
            text(&one["app"]),
            text(&one["operator"]),
            text(&one["key"]),
            text(&one["function"])
        );
        let took = one["duration_us"].as_u64().map_or_else(|| "-".into(), picture::duration);
        let end = one["code"].as_str().map_or_else(|| text(&one["status"]), str::to_owned);
        vec![text(&one["request_id"]), called, end, took, one["attempts"].to_string()]
    };
    let rows: Vec<_> = body["requests"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() && !output.is_json() {
        output.note(
            "none was watched yet: one in a thousand is, and those that abort; `styx call --trace` has one watched",
        );
    }
    output.table(&["request", "called", "end", "took", "executions"], rows, &body);
    Ok(())
}

fn quarantine(client: &Client, verb: QuarantineVerb, output: &Output) -> Result<(), CliError> {
    match verb {
        QuarantineVerb::List => {
            let body = client.send(client.admin(Method::GET, "/v1/quarantine"))?.body;
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let row = |one: &Value| ["id", "app", "function", "since", "reason"].map(|name| text(&one[name])).to_vec();
            let rows = body["quarantined"].as_array().into_iter().flatten().map(row).collect();
            output.table(&["id", "app", "function", "since", "reason"], rows, &body);
        }
        QuarantineVerb::Release { id } => {
            let released = client.send(client.admin(Method::DELETE, &format!("/v1/quarantine/{}", encode(&id))))?.body;
            output.did(&format!("{id} is executed again when it is next asked for"), &released);
        }
    }
    Ok(())
}
