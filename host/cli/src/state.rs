//! `styx state`.

use std::io::{BufWriter, Write};
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
    /// Write all entities of an app, or of one operator, as lines of JSON: operator, key, value and its encoding, `json` or `base64`
    Export {
        /// app or app/operator
        target: String,
        /// File to write [default: standard output]
        #[arg(long, short)]
        output: Option<PathBuf>,
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
            let Some((app, operator, key)) = target
                .split_once('/')
                .and_then(|(app, rest)| rest.split_once('/').map(|(operator, key)| (app, operator, key)))
            else {
                return Err(CliError::usage(
                    "BAD_TARGET",
                    format!("\"{target}\" is not app/operator/key"),
                    "for example: styx state get shop/stock/apple",
                ));
            };
            let answered = client.send(
                client.admin(Method::GET, &format!("/v1/state/{}/{}/{}", encode(app), encode(operator), encode(key))),
            )?;
            output.value(&answered.body["value"]);
        }
        StateVerb::Scan { target, prefix, after, limit, all } => {
            let Some((app, operator)) = target.split_once('/') else {
                return Err(CliError::usage(
                    "BAD_TARGET",
                    format!("\"{target}\" is not app/operator"),
                    "for example: styx state scan shop/stock --prefix a",
                ));
            };
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
        StateVerb::Export { target, output: file } => export(client, target, file.as_deref(), output)?,
    }
    Ok(())
}

fn rows(entries: &[Value]) -> Vec<Vec<String>> {
    let row = |entry: &Value| vec![entry["key"].as_str().unwrap_or_default().to_string(), entry["value"].to_string()];
    entries.iter().map(row).collect()
}

fn export(client: &Client, target: &str, file: Option<&Path>, output: &Output) -> Result<(), CliError> {
    let (app, operators) = match target.split_once('/') {
        Some((app, operator)) => (app, vec![operator.to_owned()]),
        None => {
            let body = client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(target))))?.body;
            let operators = body["operators"].as_array().cloned().unwrap_or_default();
            (target, operators.iter().map(|each| each["name"].as_str().unwrap_or_default().to_owned()).collect())
        }
    };
    let failed = |error: std::io::Error| {
        let place = file.map_or_else(|| "standard output".into(), |file| file.display().to_string());
        CliError::new("IO", format!("{place}: {error}"), "give --output a file that can be written")
    };
    let mut to: BufWriter<Box<dyn Write>> = BufWriter::new(match file {
        Some(file) => Box::new(std::fs::File::create(file).map_err(failed)?),
        None => Box::new(std::io::stdout().lock()),
    });
    let (mut entities, mut epochs) = (0u64, None);
    for operator in &operators {
        pages(client, app, operator, "", PAGE, |body| {
            let epoch = body["epoch"].as_u64().unwrap_or_default();
            let (first, _) = *epochs.get_or_insert((epoch, epoch));
            epochs = Some((first, epoch));
            for entry in body["entries"].as_array().into_iter().flatten() {
                let mut line = json!({ "operator": operator });
                for (name, value) in entry.as_object().into_iter().flatten() {
                    line[name] = value.clone();
                }
                entities += 1;
                writeln!(to, "{line}").map_err(failed)?;
            }
            Ok(())
        })?;
    }
    to.flush().map_err(failed)?;
    let (first, last) = epochs.unwrap_or_default();
    let when = if first == last {
        format!("as of epoch {last}")
    } else {
        format!("read in epochs {first} to {last}; a page is of one epoch, and pages may be of several")
    };
    output.done(&format!("{entities} entities of {target}, {when}"));
    Ok(())
}
