//! Whether the process lives, and whether it serves.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::ApiError;
use crate::services::Services;

/// How long the worker may take to say that it is there.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process answers.
pub async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /readyz`: the worker answers, and no shutdown has begun.
pub async fn readyz(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    if services.shutdown.begun() {
        return Err(ApiError::shutting_down());
    }
    match tokio::time::timeout(ANSWER_MAX, services.handle.inspect(|machine| machine.position().0)).await {
        Ok(Some(epoch)) => Ok(Json(json!({ "status": "ready", "epoch": epoch }))),
        Ok(None) => Err(ApiError::shutting_down()),
        Err(_) => {
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", "the worker is busy and does not answer")
                .hint("see /v1/epochs for what it does"))
        }
    }
}
