//! Migration of all entities of an operator to the type that they have now, by the function `styx.migrate` that it brings.
//! What is of that type already stays as it is: it may break off, and begin again.

use reqwest::Method;
use serde_json::{Value, json};

use super::calls::{Call, call_all, refused};
use super::{PAGE, pages};
use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

/// What came of an operator's entities.
#[derive(Default)]
struct Done {
    entities: u64,
    migrated: u64,
    failed: u64,
    /// Why the first of them could not be migrated.
    first: Option<CliError>,
}

/// Migrates the entities of all operators of an app that can, or of one, and shows how many there were.
pub(super) fn run(client: &Client, target: &str, output: &Output) -> Result<(), CliError> {
    let (app, only) = match target.split_once('/') {
        Some((app, operator)) => (app, Some(operator)),
        None => (target, None),
    };
    let report = migrate(client, app, only, output)?;
    if output.is_json() {
        output.value(&report);
    }
    Ok(())
}

/// The same, telling people about it, and giving it to programs.
pub(crate) fn migrate(client: &Client, app: &str, only: Option<&str>, output: &Output) -> Result<Value, CliError> {
    let view = client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(app))))?.body;
    let operators = view["operators"].as_array().into_iter().flatten();
    let migrating = operators.filter(|operator| operator["migrates"] == true).filter_map(|one| one["name"].as_str());
    let migrating: Vec<&str> = migrating.filter(|name| only.is_none_or(|only| only == *name)).collect();
    if migrating.is_empty() {
        let whose =
            only.map_or_else(|| format!("no operator of {app}"), |name| format!("operator \"{name}\" of {app}"));
        let not = if only.is_some() { "has no migration" } else { "has a migration" };
        return Err(CliError::usage(
            "NO_MIGRATION",
            format!("{whose} {not}"),
            "deploy a version that brings one (docs/concepts/apps.md)",
        ));
    }
    let mut told = Vec::new();
    let (mut all_failed, mut first) = (0, None);
    for operator in migrating {
        let Done { entities, migrated, failed, first: why } = of_operator(client, app, operator, output)?;
        told.push(json!({ "operator": operator, "entities": entities, "migrated": migrated, "failed": failed }));
        output.done(&format!("{app}/{operator}: {migrated} of {entities} entities migrated"));
        all_failed += failed;
        first = first.or(why);
    }
    match first {
        None => Ok(json!({ "app": app, "operators": told })),
        Some(why) => Err(CliError {
            message: format!("{all_failed} entities could not be migrated, which are as they were: {}", why.message),
            ..why
        }),
    }
}

fn of_operator(client: &Client, app: &str, operator: &str, output: &Output) -> Result<Done, CliError> {
    let mut done = Done::default();
    let spinner = output.spinner(&format!("migrating {app}/{operator}"));
    let ended = pages(client, app, operator, "", PAGE, |page| {
        let keys = page["entries"].as_array().into_iter().flatten().filter_map(|entry| entry["key"].as_str());
        let calls: Vec<Call<'_>> =
            keys.map(|key| Call { operator, key, function: "styx.migrate", args: "[]" }).collect();
        for (answer, Call { key, .. }) in call_all(client, app, &calls)?.iter().zip(&calls) {
            done.entities += 1;
            if answer["error"].is_object() {
                done.failed += 1;
                done.first.get_or_insert_with(|| refused(answer, &format!("{operator}/{key}: ")));
            } else if answer["ok"] == true {
                done.migrated += 1;
            }
        }
        spinner
            .set_message(format!("{app}/{operator}: {} entities looked at, {} migrated", done.entities, done.migrated));
        Ok(())
    });
    spinner.finish_and_clear();
    ended.map(|()| done)
}
