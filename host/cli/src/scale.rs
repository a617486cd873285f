//! `styx scale`: which workers are to have the partitions, which may be stopped then, and how many partitions there are.

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::migrations::{self, Mode};
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    workers: WorkerArgs,
    /// Say what it would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Most bytes a second that each worker copies
    #[arg(long, value_name = "SIZE", value_parser = styx_server::config::size)]
    rate: Option<u64>,
    /// How partitions get to their new owners; fewer partitions may need everything at rest
    #[arg(long, value_enum, default_value_t = Mode::Online)]
    mode: Mode,
    /// Only if this placement is still in force, as a plan names it
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct WorkerArgs {
    /// The first so many workers have all partitions
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Numbers of the workers that have all partitions, with commas
    #[arg(long, value_name = "WORKER,…", value_delimiter = ',')]
    only: Vec<u32>,
    /// There are so many partitions: a multiple of the number with which the cluster was created, at most 65,536
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,
    /// Show how many workers there should be, and why; change nothing
    #[arg(long)]
    auto: bool,
}

pub(crate) fn run(client: &Client, args: ScaleArgs, output: &Output) -> Result<(), CliError> {
    let ScaleArgs { workers: WorkerArgs { workers, only, partitions, auto }, dry_run, rate, mode, placement } = args;
    if auto {
        return show_autoscaler(client, output);
    }
    let mut request = json!({
        "workers": workers,
        "only": only,
        "partitions": partitions,
        "rate": rate,
        "mode": mode.name(),
        "placement": placement,
        "wait": false,
    });
    if dry_run {
        request["dry_run"] = json!(true);
        return migrations::plan(client, &request, output);
    }
    migrations::start(client, &request, true, output)?;
    let answer = client.send(client.admin(Method::GET, "/v1/workers"))?.body;
    let empty = |one: &&Value| one["partitions"] == 0;
    for one in answer["workers"].as_array().into_iter().flatten().filter(empty) {
        let (node, address) = (one["node"].as_str().unwrap_or("-"), one["address"].as_str().unwrap_or("-"));
        output
            .note(&format!("worker {} has no partitions and may be stopped: node {node} at {address}", one["worker"]));
    }
    Ok(())
}

fn show_autoscaler(client: &Client, output: &Output) -> Result<(), CliError> {
    let body = client.send(client.admin(Method::GET, "/v1/autoscaler"))?.body;
    if body["mode"] == "off" && !output.is_json() {
        output.note("nothing looks at the workers: start the coordinator with --autoscale 1..4 or the like");
        return Ok(());
    }
    let last = std::iter::once(&body["last"]).filter(|last| last.is_object());
    let rows = last.chain(body["decisions"].as_array().into_iter().flatten()).map(row).collect();
    output.table(&["wish", "workers", "wanted", "done", "why"], rows, &body);
    Ok(())
}

fn row(one: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (command, balance) = (&one["command"], &one["balance"]);
    // Of a command its state, of a balance its migration; and why it has failed, or is not begun.
    let told = [&command["state"], &command["reason"], &balance["migration"], &balance["reason"]];
    let told: Vec<&str> = told.into_iter().filter_map(Value::as_str).collect();
    let done = if told.is_empty() { "-".to_owned() } else { told.join(": ") };
    vec![text(&one["wish"]), text(&one["workers"]), text(&one["wanted"]), done, text(&one["reason"])]
}
