//! What is deployed, for people and programs to read; and its removal.

use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use styx_protocol::abort::Code;
use styx_protocol::catalog::{App, Catalog, Control, Deployment, OperatorSpec};
use styx_protocol::ids::Timestamp;

use super::{admit_write, openapi};
use crate::http::{ApiError, PathParts, nearest::suggestion, shorten, status_of};
use crate::services::Services;

/// `GET /v1/apps`
pub async fn list(State(services): State<Services>) -> Json<Value> {
    let catalog = services.handle.catalog();
    let apps: Vec<Value> = catalog
        .apps()
        .map(|app| {
            let live = app.live();
            json!({
                "name": app.name,
                "active": app.active,
                "created": instant(live.created),
                "deployments": app.deployments.len(),
                "operators": summary(&live.operators),
            })
        })
        .collect();
    Json(json!({ "apps": apps }))
}

/// `GET /v1/apps/{app}`
pub async fn get(State(services): State<Services>, PathParts(app): PathParts<String>) -> Result<Json<Value>, ApiError> {
    let catalog = services.handle.catalog();
    let app = app_of(&catalog, &app)?;
    let live = app.live();
    Ok(Json(json!({
        "name": app.name,
        "active": app.active,
        "limits": live.limits,
        "operators": live.operators.iter().map(operator_view).collect::<Vec<_>>(),
        "deployments": app.deployments.iter().rev().map(|deployment| deployment_view(app, deployment)).collect::<Vec<_>>(),
    })))
}

/// `DELETE /v1/apps/{app}`: the app, all its deployments, and the state of its operators.
pub async fn remove(
    State(services): State<Services>,
    PathParts(app): PathParts<String>,
) -> Result<Json<Value>, ApiError> {
    app_of(&services.handle.catalog(), &app)?;
    admit_write(&services)?;
    services.handle.control(Control::Remove(app.clone())).await?;
    tracing::info!(app, "removed");
    Ok(Json(json!({ "app": app, "removed": true })))
}

/// `GET /v1/apps/{app}/openapi.json`
pub async fn document(
    State(services): State<Services>,
    PathParts(app): PathParts<String>,
) -> Result<Json<Value>, ApiError> {
    let catalog = services.handle.catalog();
    Ok(Json(openapi::document(app_of(&catalog, &app)?)))
}

/// The app called `name`.
///
/// # Errors
/// 404 if there is none.
pub fn app_of<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a App, ApiError> {
    catalog.app(name).ok_or_else(|| {
        let known = catalog.apps().map(|app| &*app.name);
        let code = Code::UnknownApp;
        ApiError::new(status_of(code), code.as_str(), format!("no app \"{}\"", shorten(name))).hint(suggestion(
            name,
            known,
            "nothing is deployed: `styx deploy <dir>`",
        ))
    })
}

/// A deployment as an object.
pub fn deployment_view(app: &App, deployment: &Deployment) -> Value {
    json!({
        "deployment": deployment.id,
        "active": deployment.id == app.active,
        "created": instant(deployment.created),
        "components": deployment.components,
        "operators": summary(&deployment.operators),
        "limits": deployment.limits,
    })
}

/// Operators by name, each with the names of its functions.
pub fn summary(operators: &[OperatorSpec]) -> Vec<Value> {
    operators.iter().map(|operator| json!({ "name": operator.name, "functions": operator.functions.iter().map(|function| &function.name).collect::<Vec<_>>() })).collect()
}

fn operator_view(operator: &OperatorSpec) -> Value {
    let functions: Vec<Value> = operator
        .functions
        .iter()
        .map(|function| {
            json!({
                "name": function.name,
                "doc": function.doc,
                "read_only": function.read_only,
                "consistency": function.consistency,
                "parameters": function.parameters.iter().map(|parameter| json!({
                    "name": parameter.name,
                    "required": parameter.required,
                    "schema": schema(&parameter.schema),
                })).collect::<Vec<_>>(),
                "returns": schema(&function.returns),
            })
        })
        .collect();
    json!({ "name": operator.name, "doc": operator.doc, "key_prefix": operator.key_prefix, "isolation": operator.isolation, "functions": functions })
}

/// A schema that was checked at upload; one that this version cannot read says nothing.
pub fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({}))
}

/// A time as people and programs read it.
pub fn instant(time: Timestamp) -> String {
    humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + Duration::from_micros(time.0)).to_string()
}
