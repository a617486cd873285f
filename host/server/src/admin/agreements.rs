//! Agreements between apps: what one imports the other one exports, and goes on to. A change of what is deployed that breaks
//! one is refused, unless it is forced; then calls abort, each with its reason.
//!
//! This is advice to whoever deploys. Whether a call is made is decided where it is executed, by what is live in its epoch.

use axum::http::StatusCode;
use serde::Deserialize;
use styx_build::manifest::Manifest;
use styx_protocol::abort::Abort;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Function, OperatorSpec};
use styx_protocol::interface::{Export, Import, ImportedFunction, Interface, Signature, admit_export};
use utoipa::IntoParams;

use super::compatibility;
use super::upload::refused;
use crate::http::{ApiError, nearest::suggestion};

/// How a change of what is deployed is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ChangeQuery {
    /// Change it though calls between apps break, or entities are not of the type that the version says.
    #[serde(default)]
    #[param(required = false)]
    pub force: bool,
}

/// What a manifest says of other apps, of an app with these operators.
///
/// # Errors
/// It exports what is not there.
pub(super) fn interface(manifest: &Manifest, operators: &[OperatorSpec]) -> Result<Interface, ApiError> {
    for (name, export) in &manifest.exports {
        let Some(operator) = operators.iter().find(|operator| operator.name == *name) else {
            let known = operators.iter().map(|operator| operator.name.as_str());
            return Err(refused(
                format!("styx.toml exports operator \"{name}\", which no component implements"),
                suggestion(name, known, "there are no operators"),
            ));
        };
        for function in export.functions.iter().flatten() {
            let mut known = operator.functions.iter().map(|function| function.name.as_str());
            if !known.clone().any(|known| known == function) {
                return Err(refused(
                    format!("styx.toml: export.{name}.functions names \"{function}\", which is no function of it"),
                    suggestion(function, known.by_ref(), "the operator has no functions"),
                ));
            }
        }
    }
    let export = |(operator, export): (&String, &styx_build::manifest::Export)| Export {
        operator: operator.clone(),
        functions: export.functions.clone(),
        to: export.to.clone(),
    };
    Ok(Interface { exports: manifest.exports.iter().map(export).collect(), imports: imports(manifest) })
}

/// What a manifest says that the app needs of others.
pub(super) fn imports(manifest: &Manifest) -> Vec<Import> {
    let imported = |name: &String| ImportedFunction { name: name.clone(), signature: None };
    let imports = manifest.imports.iter().map(|(foreign, functions)| Import {
        app: foreign.app.clone(),
        operator: foreign.operator.clone(),
        functions: functions.iter().map(imported).collect(),
    });
    imports.collect()
}

/// Notes what is imported as it is now: what a later version is compared with.
pub(super) fn note_signatures(interface: &mut Interface, catalog: &Catalog) {
    for import in &mut interface.imports {
        for imported in &mut import.functions {
            let found = function(catalog, &import.app, &import.operator, &imported.name);
            imported.signature = found.map(Signature::of);
        }
    }
}

/// Whether a change leaves every agreement of its app with others as it is.
///
/// # Errors
/// 409: something that the app imports is not there, or something that others import would not be there any more.
pub(super) fn check(catalog: &Catalog, control: &Control) -> Result<(), ApiError> {
    let changed = match control {
        Control::Deploy(deployment) | Control::Rekey(deployment) => &deployment.app,
        Control::Activate(activation) | Control::RekeyTo(activation) => &activation.app,
        Control::Remove(app) => app,
        _ => return Ok(()),
    };
    let mut after = catalog.clone();
    after.apply(control);
    if let Some(app) = after.app(changed) {
        check_imports(&after, changed, &app.live().interface)?;
    }
    for importer in after.importers(changed).filter(|importer| *importer.name != **changed) {
        // What is broken already is not broken by this.
        let faults = |catalog| faults(catalog, &importer.name, &importer.live().interface, |app| app == changed);
        let before: Vec<String> = faults(catalog);
        let mut broken = faults(&after);
        broken.retain(|fault| !before.contains(fault));
        if !broken.is_empty() {
            let message = format!("app \"{}\" imports what this takes away: {}", importer.name, listed(&broken));
            return Err(conflict("BROKEN_IMPORT", message).hint(format!(
                "deploy \"{}\" without it first; with force (`--force`, `?force=true`) its calls of it abort",
                importer.name
            )));
        }
    }
    Ok(())
}

/// Whether all that an app imports is there.
///
/// # Errors
/// 409: it is not.
pub(super) fn check_imports(catalog: &Catalog, app: &str, interface: &Interface) -> Result<(), ApiError> {
    let unmet = faults(catalog, app, interface, |_| true);
    if unmet.is_empty() {
        return Ok(());
    }
    Err(conflict("UNMET_IMPORT", format!("app \"{app}\" imports what is not there: {}", listed(&unmet))).hint(
        "deploy that app first, or correct [import] in styx.toml; with force (`--force`, `?force=true`) calls of it abort until it is there",
    ))
}

fn conflict(code: &'static str, message: String) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, code, message)
}

/// The first of them, and how many there are besides.
fn listed(faults: &[String]) -> String {
    match faults {
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}; and {} more", rest.len()),
        [] => String::new(),
    }
}

/// What is wrong with the imports of an app from some apps.
fn faults(catalog: &Catalog, importer: &str, interface: &Interface, of: impl Fn(&str) -> bool) -> Vec<String> {
    let imports = interface.imports.iter().filter(|import| of(&import.app));
    let functions = imports.flat_map(|import| import.functions.iter().map(move |imported| (import, imported)));
    functions.filter_map(|(import, imported)| fault(catalog, importer, import, imported).err()).collect()
}

fn fault(catalog: &Catalog, importer: &str, import: &Import, imported: &ImportedFunction) -> Result<(), String> {
    let Import { app, operator, .. } = import;
    let name = &imported.name;
    let why = |abort: Abort| abort.message;
    catalog.find(app, operator).map_err(why)?;
    let found = function(catalog, app, operator, name)
        .ok_or_else(|| format!("operator \"{app}/{operator}\" has no function \"{name}\""))?;
    let callee = catalog.app(app).expect("it has an operator").live();
    admit_export(app, &callee.interface, operator, name, importer).map_err(why)?;
    let Some(before) = &imported.signature else { return Ok(()) };
    compatibility::check(before, &Signature::of(found)).map_err(|why| format!("{app}/{operator}.{name} {why}"))
}

fn function<'a>(catalog: &'a Catalog, app: &str, operator: &str, function: &str) -> Option<&'a Function> {
    let operator = catalog.app(app)?.live().operators.iter().find(|spec| spec.name == operator)?;
    operator.functions.iter().find(|spec| spec.name == function)
}
