//! What is deployed, for people and programs to read; and its removal.

use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use styx_protocol::abort::Code;
use styx_protocol::catalog::{App, Catalog};
use styx_protocol::control::Control;
use styx_protocol::deployment::{self, Consistency, Deployment, Isolation, OperatorSpec};
use styx_protocol::ids::Timestamp;
use styx_protocol::interface::{Export, Import, SEPARATOR};
use utoipa::ToSchema;

use super::Uploads;
use super::agreements::{self, ChangeQuery};
use super::openapi::{self, schema};
use super::queries::Queries;
use super::schemas;
use crate::handle::Handle;
use crate::http::{ApiError, Options, PathParts, nearest::suggestion, shorten, status_of};

#[derive(Serialize, ToSchema)]
pub struct AppList {
    apps: Vec<AppSummary>,
}

#[derive(Serialize, ToSchema)]
pub struct AppSummary {
    name: String,
    /// Id of the deployment in force.
    active: String,
    created: String,
    /// How many deployments there are.
    deployments: usize,
    operators: Vec<OperatorSummary>,
}

#[derive(Serialize, ToSchema)]
pub struct OperatorSummary {
    name: String,
    functions: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub struct AppView {
    name: String,
    /// Id of the deployment in force.
    active: String,
    #[schema(value_type = schemas::Limits)]
    limits: deployment::Limits,
    operators: Vec<OperatorView>,
    /// What other apps may call.
    exports: Vec<ExportView>,
    /// What it calls of other apps.
    imports: Vec<ImportView>,
    /// Apps that import something of it.
    imported_by: Vec<String>,
    /// Newest first.
    deployments: Vec<DeploymentView>,
}

#[derive(Serialize, ToSchema)]
pub struct ExportView {
    operator: String,
    /// Absent: all of its functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<String>>,
    /// Apps that may call them; absent: all apps.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Vec<String>>,
}

#[derive(Serialize, ToSchema)]
pub struct ImportView {
    /// As calls name it: `app/operator`.
    operator: String,
    functions: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub struct OperatorView {
    name: String,
    doc: String,
    /// What the part of a key before the first colon names; all keys with the same live together.
    key_prefix: Option<String>,
    #[schema(value_type = schemas::Isolation)]
    isolation: Isolation,
    /// SDK that built it, as it says itself: it tells the language.
    sdk: String,
    functions: Vec<FunctionView>,
    /// JSON Schema of its entities' values; absent if it says nothing of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
    /// Whether it makes such values of others, by `styx.migrate`.
    migrates: bool,
}

#[derive(Serialize, ToSchema)]
pub struct FunctionView {
    name: String,
    doc: String,
    read_only: bool,
    #[schema(value_type = schemas::Consistency)]
    consistency: Consistency,
    parameters: Vec<ParameterView>,
    /// JSON Schema of the result.
    returns: Value,
}

#[derive(Serialize, ToSchema)]
pub struct ParameterView {
    name: String,
    required: bool,
    /// JSON Schema of the argument.
    schema: Value,
}

#[derive(Serialize, ToSchema)]
pub struct DeploymentView {
    deployment: String,
    active: bool,
    created: String,
    #[schema(value_type = Vec<schemas::Component>)]
    components: Vec<deployment::Component>,
    operators: Vec<OperatorSummary>,
    #[schema(value_type = schemas::Limits)]
    limits: deployment::Limits,
}

impl DeploymentView {
    pub(super) fn of(app: &App, deployment: &Deployment) -> Self {
        DeploymentView {
            deployment: deployment.id.clone(),
            active: deployment.id == app.active,
            created: instant(deployment.created),
            components: deployment.components.clone(),
            operators: summary(&deployment.operators),
            limits: deployment.limits,
        }
    }
}

impl OperatorView {
    fn of(operator: &OperatorSpec, components: &[deployment::Component]) -> Self {
        let sdk = components.get(operator.component as usize).map(|component| component.sdk.clone());
        let parameter = |parameter: &deployment::Parameter| ParameterView {
            name: parameter.name.clone(),
            required: parameter.required,
            schema: schema(&parameter.schema),
        };
        let function = |function: &deployment::Function| FunctionView {
            name: function.name.clone(),
            doc: function.doc.clone(),
            read_only: function.read_only,
            consistency: function.consistency,
            parameters: function.parameters.iter().map(parameter).collect(),
            returns: schema(&function.returns),
        };
        OperatorView {
            name: operator.name.clone(),
            doc: operator.doc.clone(),
            key_prefix: operator.key_prefix.clone(),
            isolation: operator.isolation,
            sdk: sdk.unwrap_or_default(),
            functions: operator.functions.iter().map(function).collect(),
            state: operator.state.schema.as_deref().map(schema),
            migrates: operator.state.migrates,
        }
    }
}

impl ExportView {
    fn of(export: &Export) -> Self {
        ExportView { operator: export.operator.clone(), functions: export.functions.clone(), to: export.to.clone() }
    }
}

impl ImportView {
    fn of(import: &Import) -> Self {
        ImportView {
            operator: format!("{}{SEPARATOR}{}", import.app, import.operator),
            functions: import.functions.iter().map(|imported| imported.name.clone()).collect(),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct Removed {
    app: String,
    removed: bool,
}

/// What is deployed
#[utoipa::path(get, path = "/v1/apps", responses((status = 200, body = AppList)))]
pub async fn list(State(handle): State<Handle>) -> Json<AppList> {
    let catalog = handle.catalog();
    let view = |app: &App| AppSummary {
        name: app.name.to_string(),
        active: app.active.clone(),
        created: instant(app.live().created),
        deployments: app.deployments.len(),
        operators: summary(&app.live().operators),
    };
    Json(AppList { apps: catalog.apps().map(view).collect() })
}

/// An app: operators, functions, deployments
#[utoipa::path(get, path = "/v1/apps/{app}", params(("app" = String, Path)), responses((status = 200, body = AppView)))]
pub async fn get(State(handle): State<Handle>, PathParts(app): PathParts<String>) -> Result<Json<AppView>, ApiError> {
    let catalog = handle.catalog();
    let app = app_of(&catalog, &app)?;
    let live = app.live();
    Ok(Json(AppView {
        name: app.name.to_string(),
        active: app.active.clone(),
        limits: live.limits,
        operators: live.operators.iter().map(|operator| OperatorView::of(operator, &live.components)).collect(),
        exports: live.interface.exports.iter().map(ExportView::of).collect(),
        imports: live.interface.imports.iter().map(ImportView::of).collect(),
        imported_by: catalog.importers(&app.name).map(|importer| importer.name.to_string()).collect(),
        deployments: app.deployments.iter().rev().map(|deployment| DeploymentView::of(app, deployment)).collect(),
    }))
}

/// Removes an app, all its deployments and the state of its operators
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}",
    params(("app" = String, Path), ChangeQuery),
    responses((status = 200, body = Removed))
)]
pub async fn remove(
    State(queries): State<Queries>,
    State(uploads): State<Uploads>,
    PathParts(app): PathParts<String>,
    Options(query): Options<ChangeQuery>,
) -> Result<Json<Removed>, ApiError> {
    let _changing = uploads.changing.lock().await;
    let (handle, control) = (&queries.handle, Control::Remove(app.clone()));
    let catalog = handle.catalog();
    app_of(&catalog, &app)?;
    queries.admit_write()?;
    if !query.force {
        agreements::check(&catalog, &control)?;
    }
    handle.control(control).await?;
    tracing::info!(app, "removed");
    Ok(Json(Removed { app, removed: true }))
}

/// The app's functions as an OpenAPI document
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/openapi.json",
    params(("app" = String, Path)),
    responses((status = 200, body = schemas::Document))
)]
pub async fn document(
    State(handle): State<Handle>,
    PathParts(app): PathParts<String>,
) -> Result<Json<Value>, ApiError> {
    let catalog = handle.catalog();
    Ok(Json(openapi::document(app_of(&catalog, &app)?)))
}

/// The app called `name`.
///
/// # Errors
/// 404 if there is none.
pub(super) fn app_of<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a App, ApiError> {
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

/// Operators by name, each with the names of its functions.
pub(super) fn summary(operators: &[OperatorSpec]) -> Vec<OperatorSummary> {
    let functions = |operator: &OperatorSpec| operator.functions.iter().map(|function| function.name.clone()).collect();
    let summary =
        |operator: &OperatorSpec| OperatorSummary { name: operator.name.clone(), functions: functions(operator) };
    operators.iter().map(summary).collect()
}

/// A time as people and programs read it.
pub(super) fn instant(time: Timestamp) -> String {
    humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + Duration::from_micros(time.0)).to_string()
}
