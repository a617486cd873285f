//! `styx state`.

use clap::Subcommand;
use reqwest::Method;

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
    },
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
        StateVerb::Scan { target, prefix, after, limit } => {
            let Some((app, operator)) = target.split_once('/') else {
                return Err(CliError::usage(
                    "BAD_TARGET",
                    format!("\"{target}\" is not app/operator"),
                    "for example: styx state scan shop/stock --prefix a",
                ));
            };
            let path = format!(
                "/v1/state/{}/{}?prefix={}&after={}&limit={limit}",
                encode(app),
                encode(operator),
                encode(prefix),
                encode(after)
            );
            let body = client.send(client.admin(Method::GET, &path))?.body;
            let entries = body["entries"].as_array().cloned().unwrap_or_default();
            let rows = entries
                .iter()
                .map(|entry| vec![entry["key"].as_str().unwrap_or_default().to_string(), entry["value"].to_string()])
                .collect();
            output.table(&["key", "value"], rows, &body);
            if let Some(next) = body["next"].as_str() {
                output.note(&format!("there are more: --after '{next}'"));
            }
        }
    }
    Ok(())
}
