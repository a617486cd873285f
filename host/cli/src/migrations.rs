//! `styx migrations`.

use std::time::Duration;

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::{Output, size};

/// Time between two looks at a migration.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Subcommand)]
pub(crate) enum MigrationsVerb {
    /// List the migration under way and the last that ended
    List,
    /// Show one
    Show {
        /// Its id, as `list` shows it
        id: String,
        /// Stay until it has ended
        #[arg(long)]
        watch: bool,
    },
    /// Say what a migration would do, and do nothing
    Plan {
        #[command(flatten)]
        goal: GoalArgs,
        #[command(flatten)]
        terms: TermArgs,
    },
    /// Move partitions to other workers while everything goes on
    Start {
        #[command(flatten)]
        goal: GoalArgs,
        #[command(flatten)]
        terms: TermArgs,
        /// Only if this placement is still in force, as a plan names it
        #[arg(long, value_name = "PLACEMENT")]
        placement: Option<String>,
        /// Stay until it has ended
        #[arg(long)]
        wait: bool,
    },
    /// Copy no further until it is resumed
    Pause {
        /// Its id
        id: String,
    },
    /// Copy again
    Resume {
        /// Its id
        id: String,
    },
    /// Leave partitions where they are that are on their way
    Cancel,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct GoalArgs {
    /// Workers get about as much to hold and to do
    #[arg(long)]
    balance: bool,
    /// Number of a worker that gives all of its partitions to the others, as `/v1/workers` shows it
    #[arg(long, value_name = "WORKER")]
    empty: Option<u32>,
    /// A partition and the number of the worker that is to have it; may be repeated
    #[arg(long = "move", value_name = "PARTITION=WORKER", value_parser = read_move)]
    moves: Vec<(u16, u32)>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TermArgs {
    /// Go by the number of partitions, not by bytes and calls
    #[arg(long)]
    by_number: bool,
    /// Most bytes a second that each worker copies
    #[arg(long, value_name = "SIZE", value_parser = styx_server::config::size)]
    rate: Option<u64>,
    /// How partitions get to their new owners
    #[arg(long, value_enum, default_value_t = Mode::Online)]
    mode: Mode,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Mode {
    /// When the new owners have followed them, while everything goes on
    Online,
    /// At once, and what is in them afterwards, first what is called: takes load off a worker sooner
    Immediate,
    /// With everything at rest, from a snapshot: to compare the others with
    StopAndRestart,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Online => "online",
            Mode::Immediate => "immediate",
            Mode::StopAndRestart => "stop-and-restart",
        }
    }
}

fn read_move(text: &str) -> Result<(u16, u32), String> {
    let read = || {
        let (partition, worker) = text.split_once('=')?;
        Some((partition.parse().ok()?, worker.parse().ok()?))
    };
    read().ok_or_else(|| "write it as PARTITION=WORKER, such as 17=2".to_owned())
}

fn request(GoalArgs { balance, empty, moves }: GoalArgs, terms: &TermArgs) -> Value {
    let named = |(partition, worker)| json!({ "partition": partition, "worker": worker });
    let moves: Vec<Value> = moves.into_iter().map(named).collect();
    let by = if terms.by_number { "partitions" } else { "load" };
    let mode = terms.mode.name();
    json!({ "balance": balance, "empty": empty, "moves": moves, "by": by, "rate": terms.rate, "wait": false, "mode": mode })
}

pub(crate) fn run(client: &Client, verb: MigrationsVerb, output: &Output) -> Result<(), CliError> {
    match verb {
        MigrationsVerb::List => {
            let body = client.send(client.admin(Method::GET, "/v1/migrations"))?.body;
            let rows = body["migrations"].as_array().into_iter().flatten().map(row).collect();
            output.table(&["id", "state", "partitions", "entities", "bytes", "took", "from → to"], rows, &body);
            Ok(())
        }
        MigrationsVerb::Show { id, watch: true } => watch(client, &id, output),
        MigrationsVerb::Show { id, watch: false } => {
            output.value(&one(client, &id)?);
            Ok(())
        }
        MigrationsVerb::Plan { goal, terms } => {
            let mut request = request(goal, &terms);
            request["dry_run"] = json!(true);
            plan(client, &request, output)
        }
        MigrationsVerb::Start { goal, terms, placement, wait } => {
            let mut request = request(goal, &terms);
            request["placement"] = json!(placement);
            start(client, &request, wait, output)
        }
        MigrationsVerb::Pause { id } => {
            pace(client, &id, "pause", "nothing more is copied until it is resumed", output)
        }
        MigrationsVerb::Resume { id } => pace(client, &id, "resume", "it is copied again", output),
        MigrationsVerb::Cancel => {
            let answer = client.send(client.admin(Method::DELETE, "/v1/migrations"))?.body;
            output.did("the partitions stay where they are", &answer);
            Ok(())
        }
    }
}

fn path(id: &str) -> String {
    format!("/v1/migrations/{}", encode(id))
}

fn one(client: &Client, id: &str) -> Result<Value, CliError> {
    Ok(client.send(client.admin(Method::GET, &path(id)))?.body)
}

fn pace(client: &Client, id: &str, verb: &str, done: &str, output: &Output) -> Result<(), CliError> {
    let answer = client.send(client.admin(Method::POST, &format!("{}/{verb}", path(id))))?.body;
    output.did(done, &answer);
    Ok(())
}

/// Says what a migration would do.
pub(crate) fn plan(client: &Client, request: &Value, output: &Output) -> Result<(), CliError> {
    let plan = client.send(client.admin(Method::POST, "/v1/migrations").json(request))?.body;
    let share = |share: &Value| {
        [share["partitions"].to_string(), size(share["bytes"].as_u64().unwrap_or(0)), share["calls"].to_string()]
    };
    let row = |worker: &Value| {
        let (before, after) = (share(&worker["before"]), share(&worker["after"]));
        [worker["worker"].to_string()].into_iter().chain(before).chain(after).collect()
    };
    let rows = plan["workers"].as_array().into_iter().flatten().map(row).collect();
    let header = ["worker", "partitions", "bytes", "calls", "partitions then", "bytes then", "calls then"];
    output.table(&header, rows, &plan);
    if plan["repartitioned"].is_null() && plan["partitions"] == 0 {
        output.note("every partition is where it is to be: nothing would go");
        return Ok(());
    }
    let bytes = size(plan["bytes"].as_u64().unwrap_or(0));
    let takes = match (plan["estimated_seconds"].as_f64(), plan["estimated_by"].as_str()) {
        (Some(seconds), Some(by)) => format!("about {seconds:.1} s, by the {by}"),
        _ => "nothing is known yet of how long it takes".to_owned(),
    };
    output.note(&match plan["repartitioned"].as_u64() {
        Some(partitions) => format!("there would be {partitions} partitions, each with the worker that has it now"),
        None => {
            format!(
                "{} partitions would go, with {} entities of {bytes}: {takes}",
                plan["partitions"], plan["entities"]
            )
        }
    });
    if let Some(placement) = plan["placement"].as_str() {
        output.note(&format!("start it with --placement {placement}: it is refused if the owners change before"));
    }
    Ok(())
}

/// Begins a migration, and stays for its end if so.
pub(crate) fn start(client: &Client, request: &Value, wait: bool, output: &Output) -> Result<(), CliError> {
    let begun = client.send(client.admin(Method::POST, "/v1/migrations").json(request))?.body;
    let id = begun["id"].as_str().unwrap_or_default().to_owned();
    if wait {
        return watch(client, &id, output);
    }
    output.did(&format!("migration {id} has begun: {} partitions", begun["partitions"]["of"]), &begun);
    output.note(&format!("watch it with `styx migrations show {id} --watch`"));
    Ok(())
}

/// Stays until a migration has ended.
fn watch(client: &Client, id: &str, output: &Output) -> Result<(), CliError> {
    let bar = output.bytes(id);
    let ended = loop {
        let now = one(client, id)?;
        let of = |name: &str| now["bytes"][name].as_u64().unwrap_or(0);
        bar.set_length(of("of").max(of("done")));
        bar.set_position(of("done"));
        let state = now["state"].as_str().unwrap_or_default();
        bar.set_message(format!("{id} {state}"));
        if ["done", "cancelled", "failed"].contains(&state) {
            break now;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    bar.finish_and_clear();
    if output.is_json() {
        output.value(&ended);
    }
    match ended["state"].as_str() {
        Some("done") => {
            if !output.is_json() {
                let took = ended["took_ms"].as_u64().unwrap_or(0) as f64 / 1000.0;
                output.done(&match ended["repartitioned"].as_u64() {
                    Some(partitions) => format!("there are {partitions} partitions, after {took:.1} s"),
                    None => {
                        format!("{} partitions are where they were to go, after {took:.1} s", ended["partitions"]["of"])
                    }
                });
            }
            Ok(())
        }
        Some("cancelled") => {
            let message = format!("migration {id} was cancelled: every partition is where it was");
            Err(CliError::new("MIGRATION_CANCELLED", message, "start it again with `styx migrations start`"))
        }
        _ => {
            let message = format!("migration {id} failed: {}", ended["reason"].as_str().unwrap_or("nobody knows why"));
            Err(CliError::new("MIGRATION_FAILED", message, "see `styx migrations plan`, and start it again"))
        }
    }
}

fn row(migration: &Value) -> Vec<String> {
    let text = |name: &str| migration[name].as_str().unwrap_or("-").to_owned();
    let progress = |name: &str| format!("{} of {}", migration[name]["done"], migration[name]["of"]);
    let bytes = |name: &str| size(migration["bytes"][name].as_u64().unwrap_or(0));
    let took = migration["took_ms"].as_u64().unwrap_or(0) as f64 / 1000.0;
    let transfer = |one: &Value| format!("{} → {}: {}", one["from"], one["to"], one["partitions"]);
    let transfers: Vec<String> = migration["transfers"].as_array().into_iter().flatten().map(transfer).collect();
    vec![
        text("id"),
        text("state"),
        progress("partitions"),
        progress("entities"),
        format!("{} of {}", bytes("done"), bytes("of")),
        format!("{took:.1} s"),
        transfers.join(", "),
    ]
}
