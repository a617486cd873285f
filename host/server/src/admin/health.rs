//! Whether the process lives, and whether it serves.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::ask;
use crate::http::ApiError;
use crate::services::Services;
use styx_driver::wire::{AdminQuery, Response};

/// How long the worker may take to say that it is there.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process answers.
pub async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /readyz`: the workers answer, and no shutdown has begun.
pub async fn readyz(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    if services.shutdown.begun() {
        return Err(ApiError::shutting_down());
    }
    match tokio::time::timeout(ANSWER_MAX, ask(&services, AdminQuery::Workers)).await {
        Ok(Ok(Response::Workers(standings))) => {
            let epoch = standings.iter().map(|standing| standing.epoch).max();
            Ok(Json(json!({ "status": "ready", "epoch": epoch })))
        }
        Ok(Ok(other)) => Err(super::unexpected_answer(&other)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "NOT_READY",
            "the workers do not answer yet: they are busy, recover, or are missing",
        )
        .hint("see /v1/epochs for what they do, and /v1/cluster for who is there")),
    }
}
