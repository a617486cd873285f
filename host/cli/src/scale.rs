//! `styx scale`: which workers are to have the partitions, and which may be stopped then.

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::migrations;
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
}

pub(crate) fn run(client: &Client, args: ScaleArgs, output: &Output) -> Result<(), CliError> {
    let ScaleArgs { workers: WorkerArgs { workers, only }, dry_run, rate, placement } = args;
    let mut request = json!({ "workers": workers, "only": only, "rate": rate, "placement": placement, "wait": false });
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
