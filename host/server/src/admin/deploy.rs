//! Deployments: upload, list, activate.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use styx_build::error::Code;
use styx_protocol::catalog::App;
use styx_protocol::control::{Activation, Control};
use styx_protocol::deployment::{self, Deployment, Digest};
use utoipa::{IntoParams, ToSchema};

use super::agreements;
use super::apps::{DeploymentView, OperatorSummary, app_of, summary};
use super::changes::Changes;
use super::queries::Queries;
use super::rekey::{self, Rekeyed};
use super::survey::{self, StateSurvey};
use super::upload::{self, Kind, Upload, refused_change};
use super::{Uploads, schemas};
use crate::handle::Handle;
use crate::http::{ApiError, BodyLimits, Options, PathParts, nearest::suggestion, read_body, refuse, shorten};

/// The largest `styx.toml` that is read by itself.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DeployQuery {
    /// Check only; change nothing.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
    /// Deploy it though calls between apps break, or entities are not of the type that it says.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
    /// Keys of an operator may get a prefix with it, or lose theirs: its entities are placed anew, and calls wait as long.
    #[serde(default)]
    #[param(required = false)]
    rekey: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ActivateQuery {
    /// Change it though calls between apps break, or entities are not of the type that the version says.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
    /// Keys of an operator may get a prefix with it, or lose theirs: its entities are placed anew, and calls wait as long.
    #[serde(default)]
    #[param(required = false)]
    rekey: bool,
}

#[derive(Serialize, ToSchema)]
pub struct Deployed {
    app: String,
    /// Id of the deployment; absent if nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<String>,
    /// SHA-256 of the uploaded bytes.
    #[schema(value_type = String)]
    digest: Digest,
    operators: Vec<OperatorSummary>,
    #[schema(value_type = Vec<schemas::Component>)]
    components: Vec<deployment::Component>,
    /// Of operators that say of what type their entities are, and have some: whether they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state: Vec<StateSurvey>,
    /// Operators whose entities are placed anew, since their keys get a prefix or lose it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rekeyed: Vec<Rekeyed>,
    /// What it would change of the version that is live, if it was only checked; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    /// True if it was only checked; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
}

#[derive(Serialize, ToSchema)]
pub struct DeploymentList {
    /// Newest first.
    deployments: Vec<DeploymentView>,
}

#[derive(Serialize, ToSchema)]
pub struct Activated {
    app: String,
    deployment: String,
    active: bool,
    /// Of operators that say of what type their entities are, and have some: whether they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state: Vec<StateSurvey>,
    /// Operators whose entities were placed anew, since their keys got a prefix or lost it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rekeyed: Vec<Rekeyed>,
}

/// Deploys a component or a bundle
///
/// One upload is checked at a time; a few may wait in memory. Nothing changes unless all is well. A `styx.toml` alone can
/// be checked, with `dry_run=true`, before what it is of is built.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/deployments",
    params(("app" = String, Path), DeployQuery),
    request_body(content((Vec<u8> = "application/wasm"), (Vec<u8> = "application/zip"), (String = "application/toml"))),
    responses((status = 201, body = Deployed), (status = 200, description = "checked only", body = Deployed))
)]
pub async fn deploy(
    State(queries): State<Queries>,
    State(uploads): State<Uploads>,
    PathParts(app): PathParts<String>,
    Options(query): Options<DeployQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let kind = match Kind::of(&headers) {
        Ok(kind) => kind,
        Err(error) => return Err(refuse(error, &headers, body).await),
    };
    if kind == Kind::Manifest {
        return check_manifest(&queries, &uploads, &app, &query, &headers, body).await;
    }
    let Some(deploys) = uploads.deploys.clone() else {
        return Err(refuse(queries.misdirected().await, &headers, body).await);
    };
    if let Err(error) = queries.admit_write() {
        return Err(refuse(error, &headers, body).await);
    }
    let Ok(held) = uploads.waiting.clone().try_acquire_owned() else {
        return Err(refuse(ApiError::overloaded("too many uploads are waiting to be checked"), &headers, body).await);
    };
    let bytes = match kind {
        Kind::Component | Kind::Manifest => uploads.options.component_bytes_max,
        Kind::Bundle => uploads.options.bundle.archive_bytes as u64,
    };
    let limits = BodyLimits { bytes, silence: uploads.options.silence };
    let body = read_body(&headers, body, "the upload", limits, &uploads.options.memory).await?;
    let checking = uploads.checking.clone().acquire_owned().await.map_err(|_| ApiError::shutting_down())?;
    // What is agreed between apps holds from the look at it until it takes effect.
    let _changing = uploads.changing.lock().await;
    let upload = {
        let (handle, options) = (queries.handle.clone(), uploads.options.clone());
        blocking(move || {
            // Held for as long as the work goes on, even if the client does not wait for it.
            let _held = (held, checking);
            let mut upload = Upload::check(&deploys.engine, &options, &app, kind, &body.bytes)?;
            let catalog = handle.catalog();
            agreements::note_signatures(&mut upload.deployment.interface, &catalog);
            // Whether keys stay as they are is looked at below.
            let control = Control::Rekey(upload.deployment.clone());
            catalog.check(&control).map_err(refused_change)?;
            if !query.force {
                agreements::check(&catalog, &control)?;
            }
            Ok(upload)
        })
        .await?
    };
    let rekeyed = rekey::of(&queries, &upload.deployment, query.rekey).await?;
    let state = survey(&queries, &upload.deployment, query.force).await?;
    let upload = if query.dry_run {
        upload
    } else {
        blocking(move || upload.store(&deploys.components).map(|()| upload)).await?
    };
    let mut deployed = Deployed {
        app: upload.deployment.app.clone(),
        deployment: None,
        digest: upload.digest,
        operators: summary(&upload.deployment.operators),
        components: upload.deployment.components.clone(),
        state,
        rekeyed,
        changes: None,
        dry_run: None,
    };
    if query.dry_run {
        let catalog = queries.handle.catalog();
        let live = catalog.apps().find(|app| *app.name == *upload.deployment.app).map(App::live);
        deployed.changes = Some(Changes::of(live.map(|live| &**live), &upload.deployment));
        deployed.dry_run = Some(true);
        return Ok(Json(deployed).into_response());
    }
    deployed.deployment = Some(upload.deployment.id.clone());
    let location = format!("/v1/apps/{}/deployments/{}", upload.deployment.app, upload.deployment.id);
    tracing::info!(app = upload.deployment.app, deployment = upload.deployment.id, "deploying");
    let control = if deployed.rekeyed.is_empty() {
        Control::Deploy(upload.deployment)
    } else {
        Control::Rekey(upload.deployment)
    };
    queries
        .handle
        .control(control)
        .await
        .map_err(|abort| rekey::refused(&abort).unwrap_or_else(|| refused_change(abort)))?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(deployed)).into_response())
}

/// Checks what can be checked of an app before it is built.
async fn check_manifest(
    queries: &Queries,
    uploads: &Uploads,
    app: &str,
    query: &DeployQuery,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    if !query.dry_run {
        let error = ApiError::new(
            StatusCode::BAD_REQUEST,
            Code::BadBundle.as_str(),
            "a manifest has no components that could be deployed",
        );
        return Err(refuse(error.hint("add dry_run=true to have it checked, or send a bundle"), headers, body).await);
    }
    if let Err(error) = queries.admit_write() {
        return Err(refuse(error, headers, body).await);
    }
    let limits = BodyLimits { bytes: MANIFEST_BYTES_MAX, silence: uploads.options.silence };
    let body = read_body(headers, body, "the manifest", limits, &uploads.options.memory).await?;
    let interface = upload::check_manifest(&uploads.options, app, &body.bytes)?;
    if !query.force {
        agreements::check_imports(&queries.handle.catalog(), app, &interface)?;
    }
    Ok(Json(serde_json::json!({ "app": app, "dry_run": true })).into_response())
}

/// Versions of an app, newest first
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/deployments",
    params(("app" = String, Path)),
    responses((status = 200, body = DeploymentList))
)]
pub async fn list(
    State(handle): State<Handle>,
    PathParts(app): PathParts<String>,
) -> Result<Json<DeploymentList>, ApiError> {
    let catalog = handle.catalog();
    let app = app_of(&catalog, &app)?;
    let deployments = app.deployments.iter().rev().map(|deployment| DeploymentView::of(app, deployment)).collect();
    Ok(Json(DeploymentList { deployments }))
}

/// One version of an app
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/deployments/{id}",
    params(("app" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = DeploymentView))
)]
pub async fn get(
    State(handle): State<Handle>,
    PathParts((app, id)): PathParts<(String, String)>,
) -> Result<Json<DeploymentView>, ApiError> {
    let catalog = handle.catalog();
    let app = app_of(&catalog, &app)?;
    let deployment =
        app.deployments.iter().find(|deployment| deployment.id == id).ok_or_else(|| unknown_deployment(app, &id))?;
    Ok(Json(DeploymentView::of(app, deployment)))
}

/// Rolls an app back or forward
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/deployments/{id}/activate",
    params(("app" = String, Path), ("id" = String, Path), ActivateQuery),
    responses((status = 200, body = Activated))
)]
pub async fn activate(
    State(queries): State<Queries>,
    State(uploads): State<Uploads>,
    PathParts((app, id)): PathParts<(String, String)>,
    Options(query): Options<ActivateQuery>,
) -> Result<Json<Activated>, ApiError> {
    let _changing = uploads.changing.lock().await;
    let catalog = queries.handle.catalog();
    let known = app_of(&catalog, &app)?;
    let Some(deployment) = known.deployments.iter().find(|deployment| deployment.id == id) else {
        return Err(unknown_deployment(known, &id));
    };
    queries.admit_write()?;
    let rekeyed = rekey::of(&queries, deployment, query.rekey).await?;
    let activation = Activation { app: app.clone(), deployment: id.clone() };
    let control = if rekeyed.is_empty() { Control::Activate(activation) } else { Control::RekeyTo(activation) };
    if !query.force {
        agreements::check(&catalog, &control)?;
    }
    let state = survey(&queries, deployment, query.force).await?;
    queries.handle.control(control).await.map_err(|abort| rekey::refused(&abort).unwrap_or_else(|| abort.into()))?;
    Ok(Json(Activated { app, deployment: id, active: true, state, rekeyed }))
}

/// What a version would meet; by force it takes effect whatever that is, and though nobody can say.
async fn survey(queries: &Queries, deployment: &Deployment, force: bool) -> Result<Vec<StateSurvey>, ApiError> {
    let surveyed = survey::of(queries, deployment).await;
    if force {
        return Ok(surveyed.unwrap_or_default());
    }
    let state = surveyed?;
    survey::check(&state)?;
    Ok(state)
}

fn unknown_deployment(app: &styx_protocol::catalog::App, id: &str) -> ApiError {
    let known = app.deployments.iter().rev().map(|deployment| deployment.id.as_str());
    ApiError::new(
        StatusCode::NOT_FOUND,
        "UNKNOWN_DEPLOYMENT",
        format!("app \"{}\" has no deployment \"{}\"", app.name, shorten(id)),
    )
    .hint(suggestion(id, known, "it has none"))
}

/// Runs work that blocks on a thread for such.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "the check of an upload crashed");
            Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "HOST_FAILURE",
                "the server could not check the upload",
            )
            .hint("this is a fault of the server; its log says more"))
        }
    }
}
