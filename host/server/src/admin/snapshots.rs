//! Snapshots: those there are, and one more.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::schemas;
use crate::handle::Handle;
use crate::http::ApiError;
use crate::snapshots::{SnapshotSummary, SnapshotView};
use crate::stats::Stats;

#[derive(Serialize, ToSchema)]
pub struct SnapshotList {
    /// Oldest first, with what is wrong with those that cannot be read.
    snapshots: Vec<SnapshotView>,
    /// Directory or URL of the store; null if no snapshots are taken.
    place: Option<String>,
    log: LogView,
    /// The last one that this process took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schemas::SnapshotSummary>)]
    last: Option<Option<SnapshotSummary>>,
}

/// The log that snapshots shorten.
#[derive(Serialize, ToSchema)]
pub struct LogView {
    /// Position of the first record that it has: those before it were trimmed, since a snapshot has what they did. A log
    /// of files is trimmed file by file.
    first: u64,
    /// Position of the next record.
    next: u64,
    /// Bytes appended since the process began.
    appended_bytes: u64,
}

impl LogView {
    fn of(stats: &Stats) -> Self {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogView { first: of(&stats.log_first), next: of(&stats.log_next), appended_bytes: of(&stats.log_bytes) }
    }
}

/// Snapshots, oldest first
#[utoipa::path(get, path = "/v1/snapshots", responses((status = 200, body = SnapshotList)))]
pub async fn list(State(handle): State<Handle>) -> Result<Json<SnapshotList>, ApiError> {
    let log = LogView::of(handle.stats());
    let stats = handle.stats().snapshots.clone();
    let Some(store) = stats.store.get().cloned() else {
        return Ok(Json(SnapshotList { snapshots: Vec::new(), place: None, log, last: None }));
    };
    let place = Some(store.location().url().to_owned());
    // The store's calls block.
    let listed = tokio::task::spawn_blocking(move || store.list()).await;
    let failed = |error: &dyn std::fmt::Display| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SNAPSHOT_STORE", error.to_string())
    };
    let listed = listed.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let snapshots = listed.iter().map(SnapshotView::from).collect();
    Ok(Json(SnapshotList { snapshots, place, log, last: Some(stats.last()) }))
}

/// Takes a snapshot and waits until it exists
#[utoipa::path(post, path = "/v1/snapshots", responses((status = 201, body = schemas::SnapshotSummary)))]
pub async fn create(State(handle): State<Handle>) -> Result<(StatusCode, Json<SnapshotSummary>), ApiError> {
    Ok((StatusCode::CREATED, Json(handle.snapshot().await?)))
}
