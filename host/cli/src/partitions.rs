//! `styx partitions`: which are large, which are called, and who has them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::output::{Output, size};

#[derive(Debug, clap::Args)]
pub(crate) struct PartitionsArgs {
    /// What is shown first
    #[arg(long, value_enum, default_value = "calls")]
    sort: Sort,
    /// How many partitions are shown
    #[arg(long, value_name = "N", default_value = "20")]
    limit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    Partition,
    Entities,
    Bytes,
    Calls,
    Fuel,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Partition => "partition",
            Sort::Entities => "entities",
            Sort::Bytes => "bytes",
            Sort::Calls => "calls",
            Sort::Fuel => "fuel",
        }
    }
}

pub(crate) fn run(client: &Client, args: &PartitionsArgs, output: &Output) -> Result<(), CliError> {
    let path = format!("/v1/partitions?sort={}&limit={}", args.sort.name(), args.limit);
    let partitions = client.send(client.admin(Method::GET, &path))?.body;
    let workers = client.send(client.admin(Method::GET, "/v1/workers"))?.body;
    if output.is_json() {
        let both = json!({ "partitions": partitions["partitions"], "workers": workers["workers"] });
        output.value(&both);
        return Ok(());
    }
    let bytes = |one: &Value| size(one["bytes"].as_u64().unwrap_or(0));
    let number =
        |one: &Value, name: &str| one[name].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
    let worker = |one: &Value| {
        vec![
            number(one, "worker"),
            number(one, "partitions"),
            number(one, "entities"),
            bytes(one),
            number(one, "calls"),
            number(one, "fuel"),
        ]
    };
    let rows = workers["workers"].as_array().into_iter().flatten().map(worker).collect();
    output.table(&["worker", "partitions", "entities", "bytes", "calls", "fuel"], rows, &workers);
    let partition = |one: &Value| {
        vec![
            number(one, "partition"),
            number(one, "worker"),
            number(one, "entities"),
            bytes(one),
            number(one, "calls"),
            number(one, "fuel"),
            number(one, "moves_to"),
        ]
    };
    let rows = partitions["partitions"].as_array().into_iter().flatten().map(partition).collect();
    let header = ["partition", "worker", "entities", "bytes", "calls", "fuel", "goes to"];
    output.table(&header, rows, &partitions);
    let (total, used) = (&partitions["total"], &partitions["used"]);
    output.note(&format!("{used} of {total} partitions are used; calls and fuel count since a worker has a partition"));
    Ok(())
}
