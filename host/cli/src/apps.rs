//! `styx apps`.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::{Output, size};

/// Entities of one page of an operator, when they are counted.
const PAGE: usize = 1000;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AppsArgs {
    /// Name of an app to show [default: list all]
    app: Option<String>,
    #[command(subcommand)]
    verb: Option<AppsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AppsVerb {
    /// All apps, and what is live of each
    List,
    /// Functions of an app, with their parameters
    Show {
        /// Name of the app
        app: String,
    },
    /// Deployments of an app, newest first
    Versions {
        /// Name of the app
        app: String,
    },
    /// Make another deployment of an app live: an earlier one, or a later one again
    Rollback {
        /// Name of the app
        app: String,
        /// Id of the deployment [default: the one before the live one]
        deployment: Option<String>,
        /// Make it live though calls between apps break, each of which aborts then, or entities are not of the type that it says
        #[arg(long)]
        force: bool,
        /// Place entities anew where keys of their operator get a prefix with it, or lose theirs; calls wait as long
        #[arg(long)]
        rekey: bool,
    },
    /// Remove an app with all of its deployments and all of its state
    Delete {
        /// Name of the app
        app: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Remove it though other apps call it: each of these calls aborts then
        #[arg(long)]
        force: bool,
    },
    /// How many entities each operator of an app has, and how many bytes they are
    Usage {
        /// Name of the app
        app: String,
    },
}

pub(crate) fn run(client: &Client, args: AppsArgs, output: &Output) -> Result<(), CliError> {
    let verb = args.verb.unwrap_or(match args.app {
        Some(app) => AppsVerb::Show { app },
        None => AppsVerb::List,
    });
    match verb {
        AppsVerb::List => all(client, output),
        AppsVerb::Show { app } => show(client, &app, output),
        AppsVerb::Versions { app } => versions(client, &app, output),
        AppsVerb::Rollback { app, deployment, force, rekey } => {
            rollback(client, &app, deployment, (force, rekey), output)
        }
        AppsVerb::Delete { app, yes, force } => delete(client, &app, yes, force, output),
        AppsVerb::Usage { app } => usage(client, &app, output),
    }
}

fn all(client: &Client, output: &Output) -> Result<(), CliError> {
    let body = client.send(client.admin(Method::GET, "/v1/apps"))?.body;
    let rows = list(&body["apps"]).iter().map(|app| {
        let operators: Vec<_> = list(&app["operators"]).iter().map(|operator| text(&operator["name"])).collect();
        vec![text(&app["name"]), text(&app["active"]), operators.join(", ")]
    });
    output.table(&["app", "deployment", "operators"], rows.collect(), &body);
    Ok(())
}

fn show(client: &Client, app: &str, output: &Output) -> Result<(), CliError> {
    let body = of_app(client, app)?;
    let mut rows = Vec::new();
    for operator in list(&body["operators"]) {
        for function in list(&operator["functions"]) {
            let parameters: Vec<_> = list(&function["parameters"]).iter().map(parameter).collect();
            let kind = if function["read_only"].as_bool() == Some(true) { "read-only" } else { "" };
            let returns = kind_of(&function["returns"]);
            rows.push(vec![
                format!(
                    "{}.{}({}) → {returns}",
                    text(&operator["name"]),
                    text(&function["name"]),
                    parameters.join(", ")
                ),
                kind.into(),
                text(&function["doc"]),
            ]);
        }
    }
    output.table(&["function", "", "documentation"], rows, &body);
    if !output.is_json() {
        list(&body["operators"]).iter().filter_map(state_of).for_each(|line| output.line(&line));
        agreements(&body).iter().for_each(|line| output.line(line));
    }
    Ok(())
}

/// What an operator says of its entities, in a line.
fn state_of(operator: &Value) -> Option<String> {
    let migrates = if operator["migrates"] == true { ", and has a migration" } else { "" };
    let kind = operator.get("state").map(kind_of)?;
    Some(format!("entities of {} are {kind}{migrates}", text(&operator["name"])))
}

/// What an app has to do with others, in lines.
fn agreements(app: &Value) -> Vec<String> {
    let names = |value: &Value| match value.as_array() {
        Some(names) => names.iter().map(text).collect::<Vec<_>>().join(", "),
        None => "all".into(),
    };
    let exports = list(&app["exports"]).iter().map(|export| {
        format!(
            "exports {}: {} (to {})",
            text(&export["operator"]),
            names(&export["functions"]),
            match &export["to"] {
                Value::Null => "all apps".into(),
                to => names(to),
            }
        )
    });
    let imports = list(&app["imports"])
        .iter()
        .map(|import| format!("imports {}: {}", text(&import["operator"]), names(&import["functions"])));
    let importers = list(&app["imported_by"]);
    let imported = (!importers.is_empty()).then(|| format!("imported by {}", names(&app["imported_by"])));
    exports.chain(imports).chain(imported).collect()
}

/// `name: type`, with a question mark if it may be left out.
fn parameter(parameter: &Value) -> String {
    let optional = if parameter["required"].as_bool() == Some(false) { "?" } else { "" };
    format!("{}{optional}: {}", text(&parameter["name"]), kind_of(&parameter["schema"]))
}

/// The type of a JSON Schema in a word or two.
fn kind_of(schema: &Value) -> String {
    if let Some(options) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        return options.iter().map(kind_of).collect::<Vec<_>>().join(" | ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(kind) => match (kind.as_str(), &schema["title"], &schema["format"]) {
            ("object", Value::String(title), _) => title.clone(),
            ("string", _, Value::String(format)) => format.clone(),
            ("array", ..) if schema["items"].is_object() => format!("{}[]", kind_of(&schema["items"])),
            (kind, ..) => kind.to_owned(),
        },
        Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" | "),
        _ => match schema["$ref"].as_str() {
            Some(reference) => reference.rsplit('/').next().unwrap_or_default().to_owned(),
            None => "any".to_owned(),
        },
    }
}

fn versions(client: &Client, app: &str, output: &Output) -> Result<(), CliError> {
    let body = client.send(client.admin(Method::GET, &format!("/v1/apps/{}/deployments", encode(app))))?.body;
    let rows = list(&body["deployments"]).iter().map(|deployment| {
        let components: Vec<_> = list(&deployment["components"])
            .iter()
            .map(|component| text(&component["digest"]).chars().take(12).collect::<String>())
            .collect();
        let live = if deployment["active"].as_bool() == Some(true) { "live" } else { "" };
        vec![text(&deployment["deployment"]), live.into(), text(&deployment["created"]), components.join(", ")]
    });
    output.table(&["deployment", "", "created", "components"], rows.collect(), &body);
    Ok(())
}

fn rollback(
    client: &Client,
    app: &str,
    deployment: Option<String>,
    (force, rekey): (bool, bool),
    output: &Output,
) -> Result<(), CliError> {
    let deployment = match deployment {
        Some(deployment) => deployment,
        None => before_the_live_one(client, app)?,
    };
    let rekey = if rekey { "&rekey=true" } else { "" };
    let (name, id) = (encode(app), encode(&deployment));
    let path = format!("/v1/apps/{name}/deployments/{id}/activate?force={force}{rekey}");
    let body = client.send(client.admin(Method::POST, &path))?.body;
    output.did(&format!("{deployment} of {app} is live"), &body);
    crate::deploy::tell_rekeyed(&body["rekeyed"], "was placed anew", output);
    crate::deploy::tell_waiting(app, &body["state"], output);
    Ok(())
}

fn before_the_live_one(client: &Client, app: &str) -> Result<String, CliError> {
    let body = client.send(client.admin(Method::GET, &format!("/v1/apps/{}/deployments", encode(app))))?.body;
    let before = list(&body["deployments"])
        .iter()
        .skip_while(|deployment| deployment["active"].as_bool() != Some(true))
        .nth(1)
        .map(|deployment| text(&deployment["deployment"]));
    before.ok_or_else(|| {
        let message = format!("nothing of {app} was deployed before what is live");
        CliError::usage("NOTHING_BEFORE", message, "`styx apps versions APP` lists the deployments; name one")
    })
}

fn delete(client: &Client, app: &str, yes: bool, force: bool, output: &Output) -> Result<(), CliError> {
    // Also that there is such an app.
    let operators = list(&of_app(client, app)?["operators"]).len();
    if !yes && !output.confirms(&format!("delete {app}, its {operators} operators and all of their state?")) {
        let message = format!("{app} was not deleted");
        return Err(CliError::usage("NOT_CONFIRMED", message, "answer y, or give --yes"));
    }
    let body = client.send(client.admin(Method::DELETE, &format!("/v1/apps/{}?force={force}", encode(app))))?.body;
    output.did(&format!("{app} is deleted"), &body);
    Ok(())
}

fn usage(client: &Client, app: &str, output: &Output) -> Result<(), CliError> {
    let view = of_app(client, app)?;
    let spinner = output.spinner("counting");
    let (mut rows, mut counted) = (Vec::new(), Vec::new());
    let mut sum = (0, 0);
    for operator in list(&view["operators"]) {
        let name = text(&operator["name"]);
        let (mut entities, mut bytes) = (0u64, 0u64);
        crate::state::pages(client, app, &name, "", PAGE, |body| {
            for entry in list(&body["entries"]) {
                entities += 1;
                bytes += (text(&entry["key"]).len() + entry["value"].to_string().len()) as u64;
            }
            Ok(())
        })?;
        sum = (sum.0 + entities, sum.1 + bytes);
        rows.push(vec![name.clone(), entities.to_string(), size(bytes)]);
        counted.push(json!({ "operator": name, "entities": entities, "bytes": bytes }));
    }
    spinner.finish_and_clear();
    rows.push(vec!["all".into(), sum.0.to_string(), size(sum.1)]);
    let body = json!({ "app": app, "operators": counted, "entities": sum.0, "bytes": sum.1 });
    output.table(&["operator", "entities", "size"], rows, &body);
    Ok(())
}

fn of_app(client: &Client, app: &str) -> Result<Value, CliError> {
    Ok(client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(app))))?.body)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_said_in_a_word() {
        for (schema, expected) in [
            (json!({ "type": "integer" }), "integer"),
            (json!({ "type": ["string", "null"] }), "string | null"),
            (json!({ "type": "array", "items": { "type": "string", "format": "date" } }), "date[]"),
            (json!({ "type": "object", "title": "Item" }), "Item"),
            (json!({ "anyOf": [{ "$ref": "#/$defs/Tree" }, { "type": "null" }] }), "Tree | null"),
            (json!({ "enum": ["a", 1] }), "\"a\" | 1"),
            (json!({}), "any"),
        ] {
            assert_eq!(kind_of(&schema), expected);
        }
        let app = json!({
            "exports": [{ "operator": "a", "functions": ["f", "g"] }, { "operator": "b", "to": ["x"] }],
            "imports": [{ "operator": "x/y", "functions": ["h"] }],
            "imported_by": ["x", "z"],
        });
        let expected = ["exports a: f, g (to all apps)", "exports b: all (to x)", "imports x/y: h", "imported by x, z"];
        assert_eq!(agreements(&app), expected);
        assert_eq!(agreements(&json!({ "exports": [], "imports": [], "imported_by": [] })), [""; 0]);
        let given = json!({ "name": "n", "required": false, "schema": { "type": "integer" } });
        assert_eq!(parameter(&given), "n?: integer");
    }
}
