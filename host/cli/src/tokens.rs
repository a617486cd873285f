//! `styx tokens`.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum TokensVerb {
    /// Issue a token and print it: it is never shown again
    Create {
        /// Name for people
        name: String,
        /// What its holder may do; may be repeated
        #[arg(long, required = true, value_parser = ["invoke", "read", "deploy", "operate"])]
        scope: Vec<String>,
        /// App that it is for; may be repeated [default: all, and what concerns no single app]
        #[arg(long)]
        app: Vec<String>,
        /// How long it is worth something, such as 30d [default: for ever]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// List tokens, without their secrets
    List,
    /// End a token
    Revoke {
        /// Its id, as `list` shows it
        id: String,
    },
}

pub(crate) fn run(client: &Client, verb: TokensVerb, output: &Output) -> Result<(), CliError> {
    match verb {
        TokensVerb::Create { name, scope, app, expires } => {
            let apps = (!app.is_empty()).then_some(app);
            let request = json!({ "name": name, "scopes": scope, "apps": apps, "expires_in": expires });
            let issued = client.send(client.admin(Method::POST, "/v1/tokens").json(&request))?.body;
            if output.is_json() {
                output.value(&issued);
            } else {
                output
                    .done(&format!("token {} is issued; this is the only time that it is shown", text(&issued["id"])));
                output.line(&text(&issued["token"]));
            }
        }
        TokensVerb::List => {
            let body = client.send(client.admin(Method::GET, "/v1/tokens"))?.body;
            let row = |token: &Value| {
                let expires =
                    if token["expired"] == true { "expired" } else { token["expires"].as_str().unwrap_or("never") };
                let apps = token["apps"].as_array().map_or_else(|| "all".to_owned(), |apps| list(apps));
                let scopes = token["scopes"].as_array().map(|scopes| list(scopes)).unwrap_or_default();
                vec![text(&token["id"]), text(&token["name"]), scopes, apps, expires.to_owned()]
            };
            let rows = body["tokens"].as_array().into_iter().flatten().map(row).collect();
            output.table(&["id", "name", "scopes", "apps", "expires"], rows, &body);
        }
        TokensVerb::Revoke { id } => {
            let revoked = client.send(client.admin(Method::DELETE, &format!("/v1/tokens/{}", encode(&id))))?.body;
            output.did(&format!("token {} is worth nothing any more", text(&revoked["id"])), &revoked);
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(" ")
}
