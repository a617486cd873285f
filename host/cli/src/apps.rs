//! `styx apps`.

use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

pub(crate) fn run(client: &Client, app: Option<&str>, output: &Output) -> Result<(), CliError> {
    match app {
        None => {
            let body = client.send(client.admin(Method::GET, "/v1/apps"))?.body;
            let rows = list(&body["apps"]).into_iter().map(|app| {
                vec![
                    text(&app["name"]),
                    text(&app["active"]),
                    list(&app["operators"])
                        .iter()
                        .map(|operator| text(&operator["name"]))
                        .collect::<Vec<_>>()
                        .join(", "),
                ]
            });
            output.table(&["app", "deployment", "operators"], rows.collect(), &body);
        }
        Some(app) => {
            let body = client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(app))))?.body;
            let mut rows = Vec::new();
            for operator in list(&body["operators"]) {
                for function in list(&operator["functions"]) {
                    let parameters = list(&function["parameters"])
                        .iter()
                        .map(|parameter| text(&parameter["name"]))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let kind = if function["read_only"].as_bool() == Some(true) { "read-only" } else { "" };
                    rows.push(vec![
                        format!("{}.{}({parameters})", text(&operator["name"]), text(&function["name"])),
                        kind.into(),
                        text(&function["doc"]),
                    ]);
                }
            }
            output.table(&["function", "", "documentation"], rows, &body);
        }
    }
    Ok(())
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}
