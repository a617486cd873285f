//! `styx deploy`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use crate::INGRESS_URL;
use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;
use crate::state::migrating::migrate;

/// How long a server that was started just before is waited for.
const START: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Checks only.
    pub dry_run: bool,
    /// Calls between apps may break, and entities be of another type than it says.
    pub force: bool,
    /// Entities may be placed anew, for another key prefix.
    pub rekey: bool,
    /// Entities that are of an earlier type are migrated, all of them.
    pub migrate_state: bool,
}

pub(crate) fn run(
    client: &Client,
    source: &Path,
    app: Option<String>,
    Options { dry_run, force, rekey, migrate_state }: Options,
    output: &Output,
) -> Result<(), CliError> {
    let io = |error: std::io::Error| {
        CliError::new("IO", format!("{}: {error}", source.display()), "give a directory, a .zip or a .wasm")
    };
    let stem = || source.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let (kind, bytes, name) = if std::fs::metadata(source).map_err(io)?.is_dir() {
        // What takes long comes after what may fail at once.
        check_manifest(client, source, app.as_deref(), force)?;
        let report = crate::build::build(source, None, output)?;
        ("application/zip", std::fs::read(&report.output).map_err(io)?, Some(report.app))
    } else {
        let bytes = std::fs::read(source).map_err(io)?;
        match bytes.get(..4) {
            Some(b"\0asm") => ("application/wasm", bytes, stem()),
            Some(b"PK\x03\x04") => ("application/zip", bytes, stem()),
            _ => {
                return Err(CliError::usage(
                    "NOT_A_BUNDLE",
                    format!("{} is neither a component nor a bundle", source.display()),
                    "build one with `styx build`",
                ));
            }
        }
    };
    let Some(app) = app.or(name) else {
        return Err(CliError::usage("NO_APP_NAME", "the app has no name", "give --app NAME"));
    };
    let started = Instant::now();
    let spinner = output.spinner("uploading; the server checks and compiles");
    if spinner.is_hidden() && !dry_run {
        output.note("  uploading; the server checks and compiles");
    }
    let rekey = if rekey { "&rekey=true" } else { "" };
    let path = format!("/v1/apps/{}/deployments?dry_run={dry_run}&force={force}{rekey}", encode(&app));
    let answered = client.send(client.admin(Method::POST, &path).header("content-type", kind).body(bytes));
    spinner.finish_and_clear();
    let mut body = answered?.body;
    let migrates = migrate_state && waiting(&body["state"]).next().is_some();
    if output.is_json() {
        if migrates {
            body["migrated"] = migrated(client, &app, output)?;
        }
        output.value(&body);
        return Ok(());
    }
    for operator in body["operators"].as_array().into_iter().flatten() {
        let functions = operator["functions"].as_array().into_iter().flatten();
        let names: Vec<&str> =
            functions.filter_map(|function| function["name"].as_str().or(function.as_str())).collect();
        output.note(&format!(
            "  {} : {}",
            operator["name"].as_str().or(operator.as_str()).unwrap_or_default(),
            names.join(", ")
        ));
    }
    match body["deployment"].as_str() {
        Some(id) if !dry_run => {
            let took = started.elapsed().as_secs_f64();
            let ingress = told(client).unwrap_or_else(|| client.ingress_url().to_owned());
            output.done(&format!("{app} is live as {id} after {took:.1} s: {ingress}/v1/call/{app}/…"));
            tell_rekeyed(&body["rekeyed"], "was placed anew", output);
            if migrates {
                migrated(client, &app, output)?;
            } else {
                tell_waiting(&app, &body["state"], output);
            }
        }
        _ => {
            changes(&body["changes"], output);
            survey(&body["state"], output);
            tell_rekeyed(&body["rekeyed"], "would be placed anew, and calls would wait as long", output);
            output.done(&format!("{app} would be accepted; nothing was changed"));
        }
    }
    Ok(())
}

/// Asks the server what can be known of an app before it is built.
fn check_manifest(client: &Client, source: &Path, app: Option<&str>, force: bool) -> Result<(), CliError> {
    let manifest = styx_build::manifest_of(source).map_err(crate::build::refused)?;
    let Some(app) = app.or(manifest.app.name.as_deref()) else { return Ok(()) };
    let path = format!("/v1/apps/{}/deployments?dry_run=true&force={force}", encode(app));
    let begun = Instant::now();
    loop {
        let request = client.admin(Method::POST, &path).header("content-type", "application/toml");
        match client.send(request.body(manifest.to_text())) {
            // `styx server &` and this are often one line after the other.
            Err(error) if error.code == "UNREACHABLE" && begun.elapsed() < START => {
                std::thread::sleep(Duration::from_millis(50));
            }
            // A server of before knows no manifests by themselves, and checks the bundle.
            Err(error) if error.code == "UNSUPPORTED_MEDIA_TYPE" => return Ok(()),
            answered => return answered.map(|_| ()),
        }
    }
}

/// Migrates all entities of an app that was just deployed.
fn migrated(client: &Client, app: &str, output: &Output) -> Result<Value, CliError> {
    migrate(client, app, None, output)
        .map_err(|error| CliError { message: format!("{app} is live, and {}", error.message), ..error })
}

/// What it would change of the version that is live.
fn changes(changes: &Value, output: &Output) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(live) = changes["live"].as_str() else { return output.note("  the app is new") };
    let details = |change: &Value| -> String {
        change["details"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join("; ")
    };
    let row = |change: &Value| vec![text(&change["kind"]), text(&change["of"]), text(&change["name"]), details(change)];
    let rows: Vec<Vec<String>> = changes["changes"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return output.note(&format!("  it is what {live} is, which is live"));
    }
    output.note(&format!("  compared with {live}, which is live:"));
    output.table(&["change", "of", "name", ""], rows, changes);
}

/// What the server has seen of entities that there are.
fn survey(state: &Value, output: &Output) {
    let rows: Vec<Vec<String>> = state.as_array().into_iter().flatten().map(row).collect();
    if !rows.is_empty() {
        let header = ["operator", "entities", "looked at", "of another type", "", "for example"];
        output.table(&header, rows, state);
    }
}

fn row(operator: &Value) -> Vec<String> {
    let number = |name: &str| operator[name].to_string();
    let unfit = operator["unfit"].as_u64().unwrap_or_default();
    let becomes = match (unfit, operator["migrates"] == true) {
        (0, _) => "",
        (_, true) => "migrated",
        (_, false) => "read as they are",
    };
    let example = &operator["examples"][0];
    let example = match (example["key"].as_str(), example["reason"].as_str()) {
        (Some(key), Some(reason)) => format!("{key}: {reason}"),
        _ => String::new(),
    };
    let name = operator["operator"].as_str().unwrap_or_default().to_owned();
    vec![name, number("entities"), number("checked"), number("unfit"), becomes.into(), example]
}

/// Operators of which entities were seen that are of an earlier type, and are migrated when functions read them.
fn waiting(state: &Value) -> impl Iterator<Item = &Value> {
    let operators = state.as_array().into_iter().flatten();
    operators
        .filter(|operator| operator["migrates"] == true && operator["unfit"].as_u64().is_some_and(|unfit| unfit > 0))
}

/// Says which entities are of an earlier type, and what to do about it.
pub(crate) fn tell_waiting(app: &str, state: &Value, output: &Output) {
    let mut any = false;
    for operator in waiting(state) {
        any = true;
        output.note(&format!(
            "  {} of {} entities of {} that were looked at are of an earlier type",
            operator["unfit"],
            operator["checked"],
            operator["operator"].as_str().unwrap_or_default()
        ));
    }
    if any {
        output.note(&format!("  each is migrated when a function reads it; all of them now: styx state migrate {app}"));
    }
}

/// Says of what operators all entities live elsewhere, since keys have a prefix now or none any more.
pub(crate) fn tell_rekeyed(rekeyed: &Value, becomes: &str, output: &Output) {
    for operator in rekeyed.as_array().into_iter().flatten() {
        let name = operator["operator"].as_str().unwrap_or_default();
        output.note(&format!("  what {name} has, {} entities, {becomes}", operator["entities"]));
    }
}

/// Where the server says that it takes calls, or a gateway of its cluster, unless somebody has said it already.
fn told(client: &Client) -> Option<String> {
    if client.ingress_url() != INGRESS_URL {
        return None;
    }
    let identity = client.send(client.admin(Method::GET, "/v1/identity")).ok()?.body;
    match identity["ingress"].as_str() {
        Some(bound) => reached(client.admin_url(), bound.parse().ok()?),
        None => gateway(&client.send(client.admin(Method::GET, "/v1/nodes")).ok()?.body),
    }
}

/// A gateway that is there, if its address is one for others too.
fn gateway(nodes: &Value) -> Option<String> {
    let alive = nodes["nodes"].as_array()?.iter().filter(|node| node["status"] == "alive");
    let url = alive.filter_map(|node| node["ingress"].as_str()).find(|url| {
        let bound = url.split_once("://").and_then(|(_, address)| address.parse::<SocketAddr>().ok());
        bound.is_some_and(|bound| !bound.ip().is_unspecified())
    })?;
    Some(url.to_owned())
}

/// The URL of an address that a server was bound to, for whoever reaches its admin endpoints at a URL.
fn reached(admin: &str, bound: SocketAddr) -> Option<String> {
    let mut url = reqwest::Url::parse(admin).ok()?;
    url.set_port(Some(bound.port())).ok()?;
    if !bound.ip().is_unspecified() {
        url.set_ip_host(bound.ip()).ok()?;
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_is_there_takes_calls() {
        let node = |status: &str, ingress: &str| serde_json::json!({ "status": status, "ingress": ingress });
        let of = |nodes: &[Value]| gateway(&serde_json::json!({ "nodes": nodes }));
        assert_eq!(of(&[serde_json::json!({ "status": "alive", "ingress": null })]), None);
        let all = [
            node("lost", "http://127.0.0.1:1"),
            node("alive", "http://0.0.0.0:2"),
            node("alive", "https://10.0.0.7:3"),
        ];
        assert_eq!(of(&all).as_deref(), Some("https://10.0.0.7:3"));
    }

    #[test]
    fn an_address_is_reached_where_the_server_is() {
        let reached = |admin, bound: &str| reached(admin, bound.parse().unwrap()).unwrap();
        assert_eq!(reached("http://127.0.0.1:9070", "127.0.0.1:8081"), "http://127.0.0.1:8081");
        assert_eq!(reached("https://styx.example:9070/", "0.0.0.0:8081"), "https://styx.example:8081");
        assert_eq!(reached("http://127.0.0.1:9070", "[::]:80"), "http://127.0.0.1");
        assert_eq!(reached("http://127.0.0.1:9070", "10.0.0.7:8081"), "http://10.0.0.7:8081");
    }
}
