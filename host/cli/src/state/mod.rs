//! `styx state`.

mod calls;
mod exporting;
pub(crate) mod migrating;
mod writing;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum StateVerb {
    /// The value of one entity
    Get {
        /// app/operator/key
        target: String,
    },
    /// Entities of an operator, in key order
    Scan {
        /// app/operator
        target: String,
        /// Only keys that start with this
        #[arg(long, default_value = "")]
        prefix: String,
        /// Only keys after this one
        #[arg(long, default_value = "")]
        after: String,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// All of them, however many there are
        #[arg(long, conflicts_with = "limit")]
        all: bool,
    },
    /// Write all entities of an app, or of one operator, as lines of JSON: operator, key, value and its encoding, `json` or
    /// `base64`. They are all of the end of one epoch: of a snapshot that is taken now
    Export {
        /// app or app/operator
        target: String,
        /// File to write [default: standard output]
        #[arg(long, short)]
        output: Option<PathBuf>,
        /// Of the newest snapshot that there is, and take none
        #[arg(long, conflicts_with = "live")]
        latest: bool,
        /// Page by page, each of one epoch, in the order of keys: without a snapshot
        #[arg(long)]
        live: bool,
    },
    /// Write entities from lines of JSON, as `export` writes them; a line with `"delete": true` removes one. Each is a
    /// transaction, and what is there and in no line stays
    Import {
        /// app or app/operator
        target: String,
        /// File to read [default: standard input]
        file: Option<PathBuf>,
    },
    /// Bring all entities to the type that their operators have now, by the migrations that the app brings. What is of it
    /// already stays as it is
    Migrate {
        /// app or app/operator
        target: String,
    },
    /// Write one entity
    Put {
        /// app/operator/key
        target: String,
        /// Its value, as JSON
        value: String,
    },
    /// Remove one entity, or many of an operator
    Delete {
        /// app/operator/key; or app/operator, with --prefix or --all
        target: String,
        /// All whose keys start with this
        #[arg(long, conflicts_with = "all")]
        prefix: Option<String>,
        /// All of the operator
        #[arg(long)]
        all: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Most entities of a page.
const PAGE: usize = 1000;

/// Reads an operator page by page.
pub(crate) fn pages(
    client: &Client,
    app: &str,
    operator: &str,
    prefix: &str,
    limit: usize,
    mut page: impl FnMut(&Value) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut after = String::new();
    loop {
        let path = format!(
            "/v1/state/{}/{}?prefix={}&after={}&limit={limit}",
            encode(app),
            encode(operator),
            encode(prefix),
            encode(&after)
        );
        let body = client.send(client.admin(Method::GET, &path))?.body;
        page(&body)?;
        match body["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return Ok(()),
        }
    }
}

pub(crate) fn run(client: &Client, verb: &StateVerb, output: &Output) -> Result<(), CliError> {
    match verb {
        StateVerb::Get { target } => {
            let [app, operator, key] = entity(target, "get")?;
            let answered = client.send(
                client.admin(Method::GET, &format!("/v1/state/{}/{}/{}", encode(app), encode(operator), encode(key))),
            )?;
            output.value(&answered.body["value"]);
        }
        StateVerb::Scan { target, prefix, after, limit, all } => {
            let (app, operator) = operator_of(target, "scan shop/stock --prefix a")?;
            if *all {
                let mut entries = Vec::new();
                let mut epoch = Value::Null;
                pages(client, app, operator, prefix, PAGE, |body| {
                    entries.extend(body["entries"].as_array().cloned().unwrap_or_default());
                    epoch = body["epoch"].clone();
                    Ok(())
                })?;
                output.table(
                    &["key", "value"],
                    rows(&entries),
                    &json!({ "entries": entries, "next": null, "epoch": epoch }),
                );
                return Ok(());
            }
            let path = format!(
                "/v1/state/{}/{}?prefix={}&after={}&limit={limit}",
                encode(app),
                encode(operator),
                encode(prefix),
                encode(after)
            );
            let body = client.send(client.admin(Method::GET, &path))?.body;
            let entries = body["entries"].as_array().cloned().unwrap_or_default();
            output.table(&["key", "value"], rows(&entries), &body);
            if let Some(next) = body["next"].as_str() {
                output.note(&format!("there are more: --after '{next}', or --all"));
            }
        }
        StateVerb::Export { target, output: file, latest, live } => {
            let from = match (live, latest) {
                (true, _) => exporting::From::Pages,
                (_, true) => exporting::From::NewestSnapshot,
                _ => exporting::From::Snapshot,
            };
            exporting::export(client, target, from, file.as_deref(), output)?;
        }
        StateVerb::Import { target, file } => {
            let file = file.as_deref().filter(|file| *file != Path::new("-"));
            writing::import(client, target, file, output)?;
        }
        StateVerb::Migrate { target } => migrating::run(client, target, output)?,
        StateVerb::Put { target, value } => writing::put(client, entity(target, "put")?, value, output)?,
        StateVerb::Delete { target, prefix: None, all: false, .. } => {
            writing::delete(client, entity(target, "delete")?, output)?;
        }
        StateVerb::Delete { target, prefix, yes, .. } => {
            let (app, operator) = operator_of(target, "delete shop/stock --prefix a")?;
            let prefix = prefix.as_deref().unwrap_or_default();
            let which = if prefix.is_empty() { String::new() } else { format!(" whose keys start with \"{prefix}\"") };
            if !yes && !output.confirms(&format!("Remove all entities of {app}/{operator}{which}?")) {
                return Err(CliError::usage(
                    "NOT_CONFIRMED",
                    format!("nothing of {app}/{operator} was removed"),
                    "say --yes where nobody can be asked",
                ));
            }
            writing::delete_all(client, app, operator, prefix, output)?;
        }
    }
    Ok(())
}

/// The parts of app/operator/key.
fn entity<'a>(target: &'a str, verb: &str) -> Result<[&'a str; 3], CliError> {
    let parts =
        target.split_once('/').and_then(|(app, rest)| rest.split_once('/').map(|(operator, key)| [app, operator, key]));
    parts.ok_or_else(|| {
        CliError::usage(
            "BAD_TARGET",
            format!("\"{target}\" is not app/operator/key"),
            format!("for example: styx state {verb} shop/stock/apple"),
        )
    })
}

/// The parts of app/operator.
fn operator_of<'a>(target: &'a str, example: &str) -> Result<(&'a str, &'a str), CliError> {
    target.split_once('/').ok_or_else(|| {
        CliError::usage(
            "BAD_TARGET",
            format!("\"{target}\" is not app/operator"),
            format!("for example: styx state {example}"),
        )
    })
}

fn rows(entries: &[Value]) -> Vec<Vec<String>> {
    let row = |entry: &Value| vec![entry["key"].as_str().unwrap_or_default().to_string(), entry["value"].to_string()];
    entries.iter().map(row).collect()
}
