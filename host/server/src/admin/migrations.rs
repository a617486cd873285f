//! Migrations: partitions change their owners while everything goes on.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use styx_driver::coordinator::Goal;
use styx_protocol::ids::{NodeId, PartitionId};
use utoipa::ToSchema;

use super::Uploads;
use super::queries::Queries;
use crate::http::{ApiError, BodyLimits, read_body};

const BODY: BodyLimits = BodyLimits { bytes: 4 << 20, silence: Duration::from_secs(30) };

/// Just one of its fields.
#[derive(Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MigrationRequest {
    /// Every worker is to have as many partitions as any other, or one more.
    balance: bool,
    /// Number of a worker that is to have none any more.
    empty: Option<u32>,
    /// Partitions and who is to have each.
    moves: Vec<Move>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    partition: u16,
    /// Number of the worker that is to have it, from 1.
    worker: u32,
}

#[derive(Serialize, ToSchema)]
pub struct Migrated {
    /// True: all partitions are where they were to go.
    migrated: bool,
}

#[derive(Serialize, ToSchema)]
pub struct MigrationCancelled {
    cancelled: bool,
}

/// Moves partitions to other workers, and waits until they are there
#[utoipa::path(
    post,
    path = "/v1/migrations",
    request_body = MigrationRequest,
    responses((status = 200, body = Migrated))
)]
pub async fn start(
    State(queries): State<Queries>,
    State(uploads): State<Uploads>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Migrated>, ApiError> {
    let body = read_body(&headers, body, "the request", BODY, &uploads.options.memory).await?;
    let request: MigrationRequest = serde_json::from_slice(&body.bytes).map_err(|error| {
        ApiError::bad_request(format!("this asks for no migration: {error}")).hint("see /openapi.json")
    })?;
    let members = queries.overview().await?.members;
    let node = |number: u32| {
        let member = (number as usize).checked_sub(1).and_then(|at| members.get(at));
        member.map(|member| member.node).ok_or_else(|| {
            ApiError::bad_request(format!("there is no worker {number}")).hint("GET /v1/workers shows those there are")
        })
    };
    let goal = goal(&request, node)?;
    queries.admit_write()?;
    queries.handle.migrate(goal).await?;
    Ok(Json(Migrated { migrated: true }))
}

/// What a request asks for.
fn goal(request: &MigrationRequest, node: impl Fn(u32) -> Result<NodeId, ApiError>) -> Result<Goal, ApiError> {
    match request {
        MigrationRequest { balance: true, empty: None, moves } if moves.is_empty() => Ok(Goal::Balance),
        MigrationRequest { balance: false, empty: Some(worker), moves } if moves.is_empty() => {
            Ok(Goal::Empty(node(*worker)?))
        }
        MigrationRequest { balance: false, empty: None, moves } if !moves.is_empty() => {
            let moves = moves.iter().map(|Move { partition, worker }| Ok((PartitionId(*partition), node(*worker)?)));
            Ok(Goal::Move(moves.collect::<Result<_, ApiError>>()?))
        }
        _ => Err(ApiError::bad_request("a migration has one of balance, empty and moves").hint("see /openapi.json")),
    }
}

/// Leaves partitions where they are that are on their way to other workers
#[utoipa::path(delete, path = "/v1/migrations", responses((status = 200, body = MigrationCancelled)))]
pub async fn cancel(State(queries): State<Queries>) -> Result<Json<MigrationCancelled>, ApiError> {
    queries.handle.cancel_migration().await?;
    Ok(Json(MigrationCancelled { cancelled: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Goal, String> {
        let request = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let node =
            |number: u32| (number < 3).then_some(NodeId(number.into())).ok_or(ApiError::bad_request("no worker"));
        goal(&request, node).map_err(|_| "refused".to_owned())
    }

    #[test]
    fn a_migration_has_one_goal() {
        assert_eq!(read(r#"{"balance":true}"#), Ok(Goal::Balance));
        assert_eq!(read(r#"{"empty":2}"#), Ok(Goal::Empty(NodeId(2))));
        let moves = read(r#"{"moves":[{"partition":7,"worker":1}]}"#);
        assert_eq!(moves, Ok(Goal::Move(vec![(PartitionId(7), NodeId(1))])));
        for wrong in [
            "{}",
            r#"{"balance":true,"empty":1}"#,
            r#"{"empty":9}"#,
            r#"{"moves":[]}"#,
            r#"{"moves":[{"partition":70000,"worker":1}]}"#,
            r#"{"mode":"immediate","balance":true}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
