//! Snapshots: those there are, one more, and whether one is whole.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Serialize;
use styx_driver::snapshots::NoSnapshot;
use styx_storage::snapshot::SnapshotError;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::schemas;
use crate::handle::Handle;
use crate::http::{ApiError, shorten};
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
    let listed = listed.map_err(|error| unreadable(&error))?.map_err(|error| unreadable(&error))?;
    let snapshots = listed.iter().map(SnapshotView::from).collect();
    Ok(Json(SnapshotList { snapshots, place, log, last: Some(stats.last()) }))
}

/// Takes a snapshot and waits until it exists
#[utoipa::path(post, path = "/v1/snapshots", responses((status = 201, body = schemas::SnapshotSummary)))]
pub async fn create(State(handle): State<Handle>) -> Result<(StatusCode, Json<SnapshotSummary>), ApiError> {
    Ok((StatusCode::CREATED, Json(handle.snapshot().await?)))
}

/// What was found of a snapshot whose every byte was read.
#[derive(Serialize, ToSchema)]
pub struct SnapshotVerified {
    sequence: u64,
    /// Entries in all parts, deletions included.
    entries: u64,
    bytes: u64,
    /// All that is wrong; empty if the snapshot is whole.
    damage: Vec<String>,
}

/// Snapshots are read one at a time: who waits for another one to be read takes nothing from calls meanwhile.
static READING: Semaphore = Semaphore::const_new(1);

/// Reads and checks every byte of a snapshot
#[utoipa::path(
    post,
    path = "/v1/snapshots/{sequence}/verify",
    params(("sequence" = u64, Path)),
    responses((status = 200, body = SnapshotVerified))
)]
pub async fn verify(
    State(handle): State<Handle>,
    Path(sequence): Path<String>,
) -> Result<Json<SnapshotVerified>, ApiError> {
    let store = handle.stats().snapshots.store.get().cloned().ok_or(NoSnapshot::Off)?;
    let unknown = || {
        ApiError::new(StatusCode::NOT_FOUND, "NO_SNAPSHOTS", format!("there is no snapshot \"{}\"", shorten(&sequence)))
            .hint("GET /v1/snapshots lists those there are: old ones go when new ones are taken")
    };
    let sequence: u64 = sequence.parse().map_err(|_| unknown())?;
    let _alone = READING.acquire().await.map_err(|error| unreadable(&error))?;
    // The store's calls block.
    let read = tokio::task::spawn_blocking(move || store.verify(sequence, 1, &|_| {}));
    let (entries, bytes, damage) = match read.await.map_err(|error| unreadable(&error))? {
        Ok(read) => (read.entries, read.progress.bytes, read.damage),
        Err(SnapshotError::NoSuchSnapshot { .. }) => return Err(unknown()),
        Err(error) if error.is_damage() => (0, 0, vec![error]),
        Err(error) => return Err(unreadable(&error)),
    };
    let damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    for what in &damage {
        tracing::error!(code = "SNAPSHOT_DAMAGED", "snapshot {sequence} was read: {what}");
    }
    Ok(Json(SnapshotVerified { sequence, entries, bytes, damage }))
}

fn unreadable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SNAPSHOT_STORE", error.to_string())
}
