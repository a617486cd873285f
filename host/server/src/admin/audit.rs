//! `GET /v1/audit`: who has changed what.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::handle::Handle;
use crate::observe::AuditEntry;

#[derive(Serialize, ToSchema)]
pub struct AuditList {
    /// The newest first, the last thousand since the process began.
    entries: Vec<AuditEntry>,
}

/// Requests that were to change something, at this process's admin port, and what they came to
#[utoipa::path(get, path = "/v1/audit", responses((status = 200, body = AuditList)))]
pub async fn audit(State(handle): State<Handle>) -> Json<AuditList> {
    Json(AuditList { entries: handle.stats().observed.audit.newest() })
}
