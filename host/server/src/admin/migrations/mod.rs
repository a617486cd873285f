//! Migrations: partitions change their owners while everything goes on.

pub(super) mod course;
mod plan;
mod view;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use styx_driver::coordinator::{
    Goal, MigrationMode, MigrationOptions, MigrationReport, Migrations, NO_ROOM, NONE_TO_CANCEL, PLACEMENT_CHANGED,
    PaceChange,
};
use styx_driver::wire::Overview;
use styx_protocol::abort::Abort;
use styx_protocol::ids::{NodeId, PartitionId};
use styx_protocol::machine::coordinator::MIGRATION_UNDER_WAY;
use utoipa::ToSchema;

pub(super) use self::course::Courses;
pub use self::plan::Plan;
use self::plan::{Ground, Terms, named_placement, placement_name};
pub use self::view::MigrationView;
use super::Uploads;
use super::queries::Queries;
use crate::http::{ApiError, PathParts, read_request};

/// Moves of all partitions there can be.
const BODY_BYTES_MAX: u64 = 8 << 20;

/// Just one of `balance`, `empty`, `workers`, `only`, `moves` and `partitions`, and how.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MigrationRequest {
    /// Workers are to have about as much to hold and to do.
    balance: bool,
    /// Number of a worker that is to have none any more.
    empty: Option<u32>,
    /// The first so many workers are to have all.
    workers: Option<u32>,
    /// Numbers of the workers that are to have all.
    only: Vec<u32>,
    /// Partitions and who is to have each.
    moves: Vec<Move>,
    /// The number of partitions that there are to be: a multiple of that with which the cluster was created, at most 65,536.
    partitions: Option<u32>,
    /// What a balance goes by: `load`, which is bytes and calls, or `partitions`, which is their number.
    by: By,
    /// Says what it would do, and does nothing.
    dry_run: bool,
    /// The placement that it was planned on, as the plan names it: it is refused if another one is in force.
    placement: Option<String>,
    /// Most bytes a second that each worker copies [default: the coordinator's `--migration-rate`].
    rate: Option<u64>,
    /// Answers at its end, otherwise when it has begun.
    wait: bool,
    /// How partitions get to their new owners.
    mode: Mode,
}

impl Default for MigrationRequest {
    fn default() -> Self {
        MigrationRequest {
            balance: false,
            empty: None,
            workers: None,
            only: Vec::new(),
            moves: Vec::new(),
            partitions: None,
            by: By::Load,
            dry_run: false,
            placement: None,
            rate: None,
            wait: true,
            mode: Mode::Online,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    #[default]
    Load,
    Partitions,
}

/// How partitions get to their new owners: `online`, when these have followed them, while everything goes on;
/// `immediate`, at once, and what is in them afterwards, first what is called; or `stop-and-restart`, with everything at
/// rest, from a snapshot, to compare the others with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    Online,
    Immediate,
    StopAndRestart,
}

impl From<MigrationMode> for Mode {
    fn from(mode: MigrationMode) -> Self {
        match mode {
            MigrationMode::Online => Mode::Online,
            MigrationMode::Immediate => Mode::Immediate,
            MigrationMode::StopAndRestart => Mode::StopAndRestart,
        }
    }
}

impl From<Mode> for MigrationMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Online => MigrationMode::Online,
            Mode::Immediate => MigrationMode::Immediate,
            Mode::StopAndRestart => MigrationMode::StopAndRestart,
        }
    }
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
    /// What it was, if it is still known.
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<MigrationView>,
}

#[derive(Serialize, ToSchema)]
pub struct MigrationCancelled {
    cancelled: bool,
}

#[derive(Serialize, ToSchema)]
pub struct MigrationList {
    /// The one under way, and the last that ended; the newest first. They are forgotten when the coordinator ends.
    migrations: Vec<MigrationView>,
}

impl Queries {
    pub(super) fn migrations(&self) -> Arc<Migrations> {
        self.handle.stats().migrations()
    }

    fn migration(&self, id: &str) -> Result<MigrationReport, ApiError> {
        let all = self.migrations();
        all.reports.iter().find(|report| report.id.to_string() == id).cloned().ok_or_else(|| unknown(id))
    }

    /// The same, if it is under way.
    fn running(&self, id: &str) -> Result<(), ApiError> {
        let report = self.migration(id)?;
        if report.state.has_ended() {
            let message = format!("migration {id} has ended");
            return Err(ApiError::new(StatusCode::CONFLICT, "MIGRATION_ENDED", message)
                .hint("GET /v1/migrations shows what is under way"));
        }
        Ok(())
    }
}

/// As it is now.
pub(super) fn shown(report: &MigrationReport) -> MigrationView {
    MigrationView::at(crate::clock::now(), report)
}

fn unknown(id: &str) -> ApiError {
    let message = format!("no migration \"{}\" is known", crate::http::shorten(id));
    ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_MIGRATION", message)
        .hint("GET /v1/migrations lists those there are; a coordinator that was started anew knows none of before")
}

/// Moves partitions to other workers
///
/// Answers when they are there; with `"wait": false` when it has begun (202); with `"dry_run": true` what it would do.
#[utoipa::path(
    post,
    path = "/v1/migrations",
    request_body = MigrationRequest,
    responses((status = 200, body = MigratedOrPlan), (status = 202, body = MigrationView))
)]
pub async fn start(
    State(queries): State<Queries>,
    State(uploads): State<Uploads>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let request: MigrationRequest =
        read_request(&headers, body, "migration", BODY_BYTES_MAX, &uploads.options.memory).await?;
    if request.rate == Some(0) {
        return Err(ApiError::bad_request("a rate of 0 copies nothing").hint("pause the migration instead"));
    }
    let overview = queries.overview().await?;
    if overview.single {
        let why = "this process has all partitions: there is nobody to migrate to";
        return Err(ApiError::bad_arguments(why).hint("a cluster has workers: docs/operate/cluster.md"));
    }
    let goal = goal(&request, &overview)?;
    let planned_on = planned_on(&request, &overview)?;
    let past = queries.migrations();
    let stats = queries.partition_stats().await?;
    let ground = Ground { overview: &overview, stats: &stats, past: &past.reports };
    let terms = Terms { by_number: request.by == By::Partitions, rate: request.rate };
    let plan = ground.plan(&goal, terms).map_err(ApiError::bad_request)?;
    let members: Vec<NodeId> = overview.members.iter().map(|member| member.node).collect();
    let gains = plan.gains(&members);
    if request.dry_run {
        let options = MigrationOptions { dry_run: true, ..MigrationOptions::default() };
        if !gains.is_empty() {
            queries.handle.migrate(plan.goal(&members), options, gains).await.map_err(refused)?;
        }
        return Ok(Json(MigratedOrPlan::Plan(plan)).into_response());
    }
    queries.admit_write()?;
    if let Some(current) = past.reports.last().filter(|last| !last.state.has_ended()) {
        return Err(under_way(format!("another migration is under way: {}", current.id)));
    }
    if plan.is_empty() {
        return Err(
            ApiError::bad_request("every partition is where it is to be").hint("GET /v1/partitions shows where")
        );
    }
    let ticket = queries.handle.stats().ticket();
    let planned_on = planned_on.or(Some((overview.generation, overview.placement)));
    let options = MigrationOptions {
        ticket,
        planned_on,
        rate: request.rate,
        wait: request.wait,
        dry_run: false,
        mode: request.mode.into(),
    };
    queries.handle.migrate(plan.goal(&members), options, gains).await.map_err(refused)?;
    let known = queries.migrations();
    let migration = known.reports.iter().find(|report| report.ticket == ticket).map(shown);
    Ok(match migration {
        Some(migration) if !request.wait => (StatusCode::ACCEPTED, Json(migration)).into_response(),
        migration => Json(MigratedOrPlan::Migrated(Migrated { migrated: true, migration })).into_response(),
    })
}

/// What has been done, or what would be.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum MigratedOrPlan {
    Migrated(Migrated),
    Plan(Plan),
}

fn refused(abort: Abort) -> ApiError {
    match &*abort.message {
        PLACEMENT_CHANGED => changed(),
        MIGRATION_UNDER_WAY => under_way("another migration is under way".to_owned()),
        NONE_TO_CANCEL => ApiError::new(StatusCode::CONFLICT, "MIGRATION_ENDED", NONE_TO_CANCEL)
            .hint("GET /v1/migrations shows what is under way; one that is arriving goes on"),
        message if message.contains(NO_ROOM) => {
            ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "STATE_FULL", message.to_owned())
                .hint("give it fewer partitions, add workers, or raise its --state-memory")
        }
        _ => abort.into(),
    }
}

fn under_way(message: String) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "MIGRATION_UNDER_WAY", message)
        .hint("wait for its end, or cancel it: DELETE /v1/migrations")
}

fn changed() -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "PLACEMENT_CHANGED", PLACEMENT_CHANGED).hint("plan it again")
}

/// The placement that it says it was planned on.
fn planned_on(
    request: &MigrationRequest,
    overview: &Overview,
) -> Result<Option<(styx_protocol::ids::Generation, styx_protocol::ids::PlacementVersion)>, ApiError> {
    let Some(text) = &request.placement else { return Ok(None) };
    let named = named_placement(text).ok_or_else(|| {
        let message = format!("\"{}\" names no placement", crate::http::shorten(text));
        ApiError::bad_request(message).hint("give the one that the plan has, such as \"7.3\"")
    })?;
    let now = (overview.generation, overview.placement);
    if named != now {
        let hint = format!("plan it again: the placement is {} now", placement_name(now.0, now.1));
        return Err(changed().hint(hint));
    }
    Ok(Some(named))
}

/// What a request asks for.
fn goal(request: &MigrationRequest, overview: &Overview) -> Result<Goal, ApiError> {
    let members = &overview.members;
    let node = |number: u32| {
        let member = (number as usize).checked_sub(1).and_then(|at| members.get(at));
        member.map(|member| member.node).ok_or_else(|| {
            ApiError::bad_request(format!("there is no worker {number}")).hint("GET /v1/workers shows those there are")
        })
    };
    let MigrationRequest { balance, empty, workers, only, moves, partitions, .. } = request;
    let lists = [!only.is_empty(), !moves.is_empty()];
    let named = [*balance, empty.is_some(), workers.is_some(), lists[0], lists[1], partitions.is_some()];
    if named.into_iter().filter(|named| *named).count() != 1 {
        let why = "a migration has one of balance, empty, workers, only, moves and partitions";
        return Err(ApiError::bad_request(why).hint("see /openapi.json"));
    }
    if let Some(worker) = empty {
        return Ok(Goal::Empty(node(*worker)?));
    }
    if let Some(count) = workers {
        if *count == 0 || *count as usize > members.len() {
            let (why, hint) = if *count == 0 {
                ("0 workers cannot have the partitions: somebody must".to_owned(), "scale to 1 worker at least")
            } else {
                let why = format!("{count} workers cannot have the partitions: the cluster has {}", members.len());
                (why, "start the missing ones first; GET /v1/workers shows those there are")
            };
            return Err(ApiError::bad_request(why).hint(hint));
        }
        return Ok(Goal::Only((1..=*count).map(node).collect::<Result<_, _>>()?));
    }
    if !only.is_empty() {
        return Ok(Goal::Only(only.iter().map(|number| node(*number)).collect::<Result<_, _>>()?));
    }
    if !moves.is_empty() {
        let moves = moves.iter().map(|Move { partition, worker }| Ok((PartitionId(*partition), node(*worker)?)));
        return Ok(Goal::Move(moves.collect::<Result<_, ApiError>>()?));
    }
    Ok(partitions.map_or(Goal::Balance, Goal::Repartition))
}

/// The migration under way, and the last that ended
#[utoipa::path(get, path = "/v1/migrations", responses((status = 200, body = MigrationList)))]
pub async fn list(State(queries): State<Queries>) -> Json<MigrationList> {
    Json(MigrationList { migrations: queries.migrations().reports.iter().rev().map(shown).collect() })
}

/// One migration
#[utoipa::path(
    get,
    path = "/v1/migrations/{id}",
    params(("id" = String, Path)),
    responses((status = 200, body = MigrationView))
)]
pub async fn get(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<MigrationView>, ApiError> {
    Ok(Json(shown(&queries.migration(&id)?)))
}

/// Copies no further pieces until it is resumed
#[utoipa::path(
    post,
    path = "/v1/migrations/{id}/pause",
    params(("id" = String, Path)),
    responses((status = 200, body = MigrationView))
)]
pub async fn pause(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<MigrationView>, ApiError> {
    pace(queries, &id, PaceChange::Pause).await
}

/// Copies pieces again
#[utoipa::path(
    post,
    path = "/v1/migrations/{id}/resume",
    params(("id" = String, Path)),
    responses((status = 200, body = MigrationView))
)]
pub async fn resume(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<MigrationView>, ApiError> {
    pace(queries, &id, PaceChange::Resume).await
}

async fn pace(queries: Queries, id: &str, change: PaceChange) -> Result<Json<MigrationView>, ApiError> {
    queries.running(id)?;
    queries.handle.pace_migration(change).await?;
    Ok(Json(shown(&queries.migration(id)?)))
}

/// Leaves partitions where they are that are on their way to other workers
#[utoipa::path(delete, path = "/v1/migrations", responses((status = 200, body = MigrationCancelled)))]
pub async fn cancel(State(queries): State<Queries>) -> Result<Json<MigrationCancelled>, ApiError> {
    queries.handle.cancel_migration().await.map_err(refused)?;
    Ok(Json(MigrationCancelled { cancelled: true }))
}

/// The same, if it is this one that is under way
#[utoipa::path(
    delete,
    path = "/v1/migrations/{id}",
    params(("id" = String, Path)),
    responses((status = 200, body = MigrationCancelled))
)]
pub async fn cancel_one(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<MigrationCancelled>, ApiError> {
    queries.running(&id)?;
    queries.handle.cancel_migration().await.map_err(refused)?;
    Ok(Json(MigrationCancelled { cancelled: true }))
}

#[cfg(test)]
mod tests {
    use styx_driver::wire::Member;
    use styx_protocol::ids::{EngineHash, Epoch, Generation, PlacementVersion};

    use super::*;

    /// Of two workers, at nodes 1 and 2.
    pub(super) fn overview() -> Overview {
        Overview {
            single: false,
            generation: Generation(7),
            live: true,
            epoch: Epoch(1),
            chain: Default::default(),
            members: [1, 2].map(|node| Member { node: NodeId(node), address: String::new() }).to_vec(),
            placement: PlacementVersion(3),
            partitions: 4,
            created: 4,
            engine: EngineHash(1),
            admin: None,
        }
    }

    fn read(text: &str) -> Result<Goal, String> {
        let request = serde_json::from_str(text).map_err(|error| error.to_string())?;
        goal(&request, &overview()).map_err(|_| "refused".to_owned())
    }

    #[test]
    fn a_migration_has_one_goal() {
        assert_eq!(read(r#"{"balance":true}"#), Ok(Goal::Balance));
        assert_eq!(read(r#"{"empty":2}"#), Ok(Goal::Empty(NodeId(2))));
        assert_eq!(read(r#"{"workers":1}"#), Ok(Goal::Only(vec![NodeId(1)])));
        assert_eq!(read(r#"{"only":[2]}"#), Ok(Goal::Only(vec![NodeId(2)])));
        assert_eq!(read(r#"{"partitions":8}"#), Ok(Goal::Repartition(8)));
        let moves = read(r#"{"moves":[{"partition":7,"worker":1}]}"#);
        assert_eq!(moves, Ok(Goal::Move(vec![(PartitionId(7), NodeId(1))])));
        for wrong in [
            "{}",
            r#"{"balance":true,"empty":1}"#,
            r#"{"balance":true,"partitions":8}"#,
            r#"{"empty":9}"#,
            r#"{"workers":0}"#,
            r#"{"workers":3}"#,
            r#"{"only":[1,3]}"#,
            r#"{"moves":[]}"#,
            r#"{"moves":[{"partition":70000,"worker":1}]}"#,
            r#"{"mode":"at-once","balance":true}"#,
            r#"{"balance":true,"by":"luck"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plan_of_another_placement_is_refused() {
        let ask = |placement: &str| {
            let request = MigrationRequest { placement: Some(placement.to_owned()), ..MigrationRequest::default() };
            planned_on(&request, &overview()).map(|_| ()).map_err(|error| error.code)
        };
        assert_eq!(ask("7.3"), Ok(()));
        assert_eq!(ask("7.2"), Err("PLACEMENT_CHANGED"));
        assert_eq!(ask("6.3"), Err("PLACEMENT_CHANGED"));
        assert_eq!(ask("seven"), Err("BAD_REQUEST"));
    }
}
