//! The admin surface: deploying apps, reading state, watching the system.
//!
//! Everything that changes what is deployed goes through the log; everything that is read is read
//! between two epochs. Nothing here calls a function.

mod api;
mod apps;
mod cluster;
mod deploy;
mod events;
mod health;
mod metrics;
mod openapi;
mod snapshots;
mod standby;
mod state;
mod upload;

pub use api::{ENDPOINTS, Endpoint};
pub use standby::StandbyProxy;
pub use upload::{Kind, Upload};

use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde_json::{Value, json};

use crate::handle::Failure;
use crate::http::{ApiError, check_origin, method_not_allowed, not_found, refuse};
use crate::services::Services;
use styx_driver::wire::{AdminQuery, Overview, Response};

/// The admin port's routes.
pub fn router(services: Services) -> Router {
    let origins = services.options.origins.clone();
    Router::new()
        .route("/", get(index))
        .route("/v1/apps", get(apps::list))
        .route("/v1/apps/{app}", get(apps::get).delete(apps::remove))
        .route("/v1/apps/{app}/openapi.json", get(apps::document))
        .route("/v1/apps/{app}/deployments", get(deploy::list).post(deploy::deploy))
        .route("/v1/apps/{app}/deployments/{id}", get(deploy::get))
        .route("/v1/apps/{app}/deployments/{id}/activate", post(deploy::activate))
        .route("/v1/state/{app}/{operator}", get(state::scan))
        .route("/v1/state/{app}/{operator}/{key}", get(state::get))
        .route("/v1/cluster", get(cluster::cluster))
        .route("/v1/workers", get(cluster::workers))
        .route("/v1/partitions", get(cluster::partitions))
        .route("/v1/epochs", get(cluster::epochs))
        .route("/v1/requests", get(cluster::requests))
        .route("/v1/snapshots", get(snapshots::list).post(snapshots::create))
        .route("/v1/events", get(events::events))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/openapi.json", get(api::document))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(origins, check_origin))
        .with_state(services)
}

/// The routes of a gateway's admin port: how it is. Everything else is the coordinator's.
pub fn gateway_router(services: Services) -> Router {
    let origins = services.options.origins.clone();
    Router::new()
        .route("/", get(index))
        .route("/v1/cluster", get(cluster::cluster))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .fallback(misdirected)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(origins, check_origin))
        .with_state(services)
}

/// The routes of a worker's admin port: how it is. Everything else is the coordinator's.
pub fn worker_router(services: Services) -> Router {
    let origins = services.options.origins.clone();
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .fallback(misdirected_to_worker)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(origins, check_origin))
        .with_state(services)
}

async fn misdirected_to_worker(headers: HeaderMap, body: Body) -> ApiError {
    let error = ApiError::new(StatusCode::MISDIRECTED_REQUEST, "NOT_HERE", "this is a worker: it only executes");
    refuse(error.hint("ask the coordinator's admin port"), &headers, body).await
}

async fn misdirected(State(services): State<Services>, headers: HeaderMap, body: Body) -> ApiError {
    refuse(misdirected_error(&services).await, &headers, body).await
}

/// This is a gateway, and the coordinator is asked for what only it can do.
async fn misdirected_error(services: &Services) -> ApiError {
    let hint = match services.handle.read(AdminQuery::Cluster).await {
        Some(Response::Cluster(Overview { admin: Some(admin), .. })) => {
            format!("ask the coordinator, at http://{admin}")
        }
        _ => "ask the coordinator's admin port".to_owned(),
    };
    ApiError::new(StatusCode::MISDIRECTED_REQUEST, "NOT_HERE", "this is a gateway: it only takes calls").hint(hint)
}

/// How often whoever waits looks whether there is still something to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Asks how things are.
///
/// # Errors
/// Nobody can say: the process ends, or no worker serves.
async fn ask(services: &Services, query: AdminQuery) -> Result<Response, ApiError> {
    let mut answer = pin!(services.handle.read(query));
    loop {
        match tokio::time::timeout(POLL_INTERVAL, &mut answer).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) if services.shutdown.begun() => return Err(ApiError::shutting_down()),
            Ok(None) => return Err(Failure::Unavailable.into()),
            // What is not durable is not shown, and that may take as long as the brokers are away.
            Err(_) => {
                services.handle.admission().refuses_reads().map_or(Ok(()), |failure| Err(ApiError::from(failure)))?
            }
        }
    }
}

/// What changes what is deployed is appended to the log, which must take it.
///
/// # Errors
/// It does not.
fn admit_write(services: &Services) -> Result<(), ApiError> {
    services.handle.admission().refuses_writes().map_or(Ok(()), |failure| Err(failure.into()))
}

/// An answer to something that was not asked.
fn unexpected_answer(answer: &Response) -> ApiError {
    tracing::error!(?answer, "an query was answered with something else");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "HOST_FAILURE", "another node answered what was not asked")
        .hint("run the same release on all nodes")
}

async fn index() -> Json<Value> {
    Json(json!({ "styx": env!("CARGO_PKG_VERSION"), "api": "/openapi.json", "apps": "/v1/apps", "health": "/readyz" }))
}
