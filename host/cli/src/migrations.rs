//! `styx migrations`.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum MigrationsVerb {
    /// Move partitions to other workers while everything goes on; returns when they are there
    Start {
        #[command(flatten)]
        goal: GoalArgs,
    },
    /// Leave partitions where they are that are on their way
    Cancel,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct GoalArgs {
    /// Every worker gets as many partitions as any other
    #[arg(long)]
    balance: bool,
    /// Number of a worker that gives all of its partitions to the others, as `/v1/workers` shows it
    #[arg(long, value_name = "WORKER")]
    empty: Option<u32>,
    /// A partition and the number of the worker that is to have it; may be repeated
    #[arg(long = "move", value_name = "PARTITION=WORKER", value_parser = read_move)]
    moves: Vec<(u16, u32)>,
}

fn read_move(text: &str) -> Result<(u16, u32), String> {
    let read = || {
        let (partition, worker) = text.split_once('=')?;
        Some((partition.parse().ok()?, worker.parse().ok()?))
    };
    read().ok_or_else(|| "write it as PARTITION=WORKER, such as 17=2".to_owned())
}

pub(crate) fn run(client: &Client, verb: MigrationsVerb, output: &Output) -> Result<(), CliError> {
    let (answer, done) = match verb {
        MigrationsVerb::Start { goal: GoalArgs { balance, empty, moves } } => {
            let named = |(partition, worker)| json!({ "partition": partition, "worker": worker });
            let moves: Vec<Value> = moves.into_iter().map(named).collect();
            let request = json!({ "balance": balance, "empty": empty, "moves": moves });
            let answer = client.send(client.admin(Method::POST, "/v1/migrations").json(&request))?.body;
            (answer, "the partitions are where they were to go")
        }
        MigrationsVerb::Cancel => {
            let answer = client.send(client.admin(Method::DELETE, "/v1/migrations"))?.body;
            (answer, "the partitions stay where they are")
        }
    };
    if output.is_json() {
        output.value(&answer);
    } else {
        output.done(done);
    }
    Ok(())
}
