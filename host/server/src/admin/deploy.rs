//! Deployments: upload, list, activate.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use styx_protocol::catalog::{Activation, Control};

use super::apps::{app_of, deployment_view, summary};
use super::upload::{Kind, Upload, refused_change};
use super::{admit_write, misdirected_error};
use crate::http::{ApiError, BodyLimits, Options, PathParts, nearest::suggestion, read_body, refuse, shorten};
use crate::services::Services;

/// What an upload may be asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployQuery {
    /// Check only.
    #[serde(default)]
    dry_run: bool,
}

/// `POST /v1/apps/{app}/deployments`
///
/// One upload is checked at a time; a few may wait in memory. Nothing changes unless all is well.
pub async fn deploy(
    State(services): State<Services>,
    PathParts(app): PathParts<String>,
    Options(query): Options<DeployQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let kind = match Kind::of(&headers) {
        Ok(kind) => kind,
        Err(error) => return Err(refuse(error, &headers, body).await),
    };
    let Some(deploys) = services.deploys.clone() else {
        return Err(refuse(misdirected_error(&services).await, &headers, body).await);
    };
    if let Err(error) = admit_write(&services) {
        return Err(refuse(error, &headers, body).await);
    }
    let Ok(held) = services.uploads.clone().try_acquire_owned() else {
        return Err(refuse(ApiError::overloaded("too many uploads are waiting to be checked"), &headers, body).await);
    };
    let bytes = match kind {
        Kind::Component => services.options.component_bytes_max,
        Kind::Bundle => services.options.bundle.archive_bytes as u64,
    };
    let body = read_body(&headers, body, "the upload", BodyLimits { bytes, silence: services.options.silence }).await?;
    let checking = services.checking.clone().acquire_owned().await.map_err(|_| ApiError::shutting_down())?;
    let upload = {
        let services = services.clone();
        blocking(move || {
            // Held for as long as the work goes on, even if the client does not wait for it.
            let _held = (held, checking);
            let upload = Upload::check(&deploys.engine, &services.options, &app, kind, &body)?;
            services.handle.catalog().check(&Control::Deploy(upload.deployment.clone())).map_err(refused_change)?;
            if !query.dry_run {
                upload.store(&deploys.components)?;
            }
            Ok(upload)
        })
        .await?
    };
    let mut told = json!({
        "app": upload.deployment.app,
        "deployment": upload.deployment.id,
        "digest": upload.digest,
        "operators": summary(&upload.deployment.operators),
        "components": upload.deployment.components,
    });
    if query.dry_run {
        told["dry_run"] = true.into();
        told.as_object_mut().expect("an object").remove("deployment");
        return Ok(Json(told).into_response());
    }
    let place = format!("/v1/apps/{}/deployments/{}", upload.deployment.app, upload.deployment.id);
    tracing::info!(app = upload.deployment.app, deployment = upload.deployment.id, "deploying");
    services.handle.control(Control::Deploy(upload.deployment)).await.map_err(refused_change)?;
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(told)).into_response())
}

/// `GET /v1/apps/{app}/deployments`
pub async fn list(
    State(services): State<Services>,
    PathParts(app): PathParts<String>,
) -> Result<Json<Value>, ApiError> {
    let catalog = services.handle.catalog();
    let app = app_of(&catalog, &app)?;
    let deployments: Vec<Value> =
        app.deployments.iter().rev().map(|deployment| deployment_view(app, deployment)).collect();
    Ok(Json(json!({ "deployments": deployments })))
}

/// `GET /v1/apps/{app}/deployments/{id}`
pub async fn get(
    State(services): State<Services>,
    PathParts((app, id)): PathParts<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let catalog = services.handle.catalog();
    let app = app_of(&catalog, &app)?;
    let deployment =
        app.deployments.iter().find(|deployment| deployment.id == id).ok_or_else(|| unknown_deployment(app, &id))?;
    Ok(Json(deployment_view(app, deployment)))
}

/// `POST /v1/apps/{app}/deployments/{id}/activate`
pub async fn activate(
    State(services): State<Services>,
    PathParts((app, id)): PathParts<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let catalog = services.handle.catalog();
    let known = app_of(&catalog, &app)?;
    if !known.deployments.iter().any(|deployment| deployment.id == id) {
        return Err(unknown_deployment(known, &id));
    }
    admit_write(&services)?;
    services.handle.control(Control::Activate(Activation { app: app.clone(), deployment: id.clone() })).await?;
    Ok(Json(json!({ "app": app, "deployment": id, "active": true })))
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
async fn blocking<T: Send + 'static>(
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
