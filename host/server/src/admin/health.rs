//! Liveness and readiness of the process.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use styx_driver::wire::{AdminQuery, Response};
use utoipa::ToSchema;

use super::queries::{Queries, unexpected};
use crate::http::ApiError;

/// How long the worker may take to say that it is there.
const ANSWER_MAX: Duration = Duration::from_secs(2);

#[derive(Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    status: &'static str,
}

/// Returns true if the process lives
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// `ready`.
    status: &'static str,
    epoch: Option<u64>,
}

/// Returns true if it serves
///
/// The workers answer, and no shutdown has begun.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Readiness)))]
pub async fn readyz(State(queries): State<Queries>) -> Result<Json<Readiness>, ApiError> {
    if queries.shutdown.begun() {
        return Err(ApiError::shutting_down());
    }
    match tokio::time::timeout(ANSWER_MAX, queries.ask(AdminQuery::Workers)).await {
        Ok(Ok(Response::Workers(statuses))) => {
            let epoch = statuses.iter().map(|status| status.epoch.0).max();
            Ok(Json(Readiness { status: "ready", epoch }))
        }
        Ok(Ok(other)) => Err(unexpected(&other)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "NOT_READY",
            "the workers do not answer yet: they are busy, recover, or are missing",
        )
        .hint("see /v1/epochs for what they do, and /v1/cluster for who is there")),
    }
}
