//! Rekeying: a version with which keys of operators get a prefix or lose theirs, so that entities live elsewhere. Calls wait
//! while they are placed anew, so it is done when it was asked for.

use axum::http::StatusCode;
use serde::Serialize;
use styx_protocol::abort::Abort;
use styx_protocol::deployment::Deployment;
use styx_protocol::machine::coordinator::MIGRATION_UNDER_WAY;
use utoipa::ToSchema;

use super::queries::Queries;
use crate::http::ApiError;

/// An operator whose entities are placed anew.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Rekeyed {
    operator: String,
    /// The prefix that its keys have with the version; null if they have none any more.
    key_prefix: Option<String>,
    /// How many entities it has.
    entities: u64,
}

/// Operators whose entities a version places anew, if that is `wanted`.
///
/// # Errors
/// 409: it is not, or cannot be while partitions move. Or nobody can say what is there.
pub(super) async fn of(queries: &Queries, deployment: &Deployment, wanted: bool) -> Result<Vec<Rekeyed>, ApiError> {
    let catalog = queries.handle.catalog();
    let mut rekeyed = Vec::new();
    for (id, spec) in catalog.rekeyed_by(deployment) {
        let (_, entities) = queries.sample(id, 1, 1).await?;
        rekeyed.push(Rekeyed { operator: spec.name.clone(), key_prefix: spec.key_prefix.clone(), entities });
    }
    let Some(Rekeyed { operator, key_prefix, entities }) = rekeyed.first() else { return Ok(rekeyed) };
    if !wanted {
        let now = if key_prefix.is_some() { "without" } else { "with" };
        let message = format!(
            "operator \"{operator}\" exists {now} a key prefix, and its {entities} entities are placed by that"
        );
        return Err(ApiError::new(StatusCode::CONFLICT, "KEY_PREFIX_CHANGED", message).hint(
            "keep it, or give the operator another name; or have all placed anew (`--rekey`, `?rekey=true`), for which calls wait a moment",
        ));
    }
    if queries.migrations().reports.last().is_some_and(|last| !last.state.has_ended()) {
        return Err(under_way());
    }
    Ok(rekeyed)
}

/// A change of keys was refused where it was to be sequenced, if that is why.
pub(super) fn refused(abort: &Abort) -> Option<ApiError> {
    (abort.message == MIGRATION_UNDER_WAY).then(under_way)
}

fn under_way() -> ApiError {
    let message = "a migration is under way, and entities are placed anew only where partitions stay";
    ApiError::new(StatusCode::CONFLICT, "MIGRATION_UNDER_WAY", message)
        .hint("wait for its end, or cancel it: DELETE /v1/migrations")
}
