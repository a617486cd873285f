//! `styx requests`.

use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum RequestsVerb {
    /// List and release what ended the server again and again, and is not executed any more
    Quarantine {
        #[command(subcommand)]
        verb: QuarantineVerb,
    },
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
    let RequestsVerb::Quarantine { verb } = verb;
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
            output.done(&format!("{id} is executed again when it is next asked for"));
            if output.is_json() {
                output.value(&released);
            }
        }
    }
    Ok(())
}
