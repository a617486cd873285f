//! Snapshots: those there are, and one more.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::ApiError;
use crate::services::Services;
use crate::snapshots::{SnapshotSummary, describe};

/// `GET /v1/snapshots`: newest last, with what is wrong with those that cannot be read.
pub async fn list(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let stats = services.handle.stats().snapshots.clone();
    let Some(store) = stats.store.get().cloned() else {
        return Ok(Json(json!({ "snapshots": [], "place": null })));
    };
    let place = store.location().url().to_owned();
    // The store's calls block.
    let listed = tokio::task::spawn_blocking(move || store.list()).await;
    let failed = |error: &dyn std::fmt::Display| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SNAPSHOT_STORE", error.to_string())
    };
    let listed = listed.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let last = stats.last().map(|taken| json!(taken));
    let snapshots: Vec<Value> = listed.iter().map(describe).collect();
    Ok(Json(json!({ "snapshots": snapshots, "place": place, "last": last })))
}

/// `POST /v1/snapshots`: takes one now, and answers when it exists.
pub async fn create(State(services): State<Services>) -> Result<(StatusCode, Json<SnapshotSummary>), ApiError> {
    match services.handle.snapshot().await {
        Ok(taken) => Ok((StatusCode::CREATED, Json(taken))),
        Err(why) => Err(ApiError::new(StatusCode::CONFLICT, "NO_SNAPSHOT", why)),
    }
}
