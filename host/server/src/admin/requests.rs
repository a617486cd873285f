//! `/v1/requests`: what became of requests, and why one was slow or aborted.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use styx_driver::wire::{AdminQuery, Response, WorkerStatus};
use styx_protocol::ids::RequestId;
use utoipa::{IntoParams, ToSchema};

use super::queries::{Queries, unexpected};
use crate::gateway::parse_id;
use crate::http::{ApiError, Options, PathParts, shorten};
use crate::observe::{Change, Question, RequestSummary, RequestTrace, Told, Writer, merge, summary};

/// Most requests of a list.
const LIMIT_MAX: usize = 1000;

#[derive(Serialize, ToSchema)]
pub struct RequestList {
    /// Requests that wait for their epoch.
    waiting: u64,
    /// Replies that are remembered.
    remembered: u64,
    /// Of those that were watched or aborted, the newest first.
    requests: Vec<RequestSummary>,
}

/// Which of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// All, the newest first.
    #[default]
    Recent,
    /// The slowest first.
    Slow,
    /// Those that aborted.
    Aborted,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// `recent`, `slow` or `aborted`.
    #[serde(default)]
    #[param(inline)]
    kind: RequestKind,
    /// Of this app only.
    app: Option<String>,
    /// Most requests; 50 unless given.
    limit: Option<usize>,
}

impl Queries {
    /// How a request went, put together from what all workers have seen of it; `None` if nobody has watched it.
    ///
    /// # Errors
    /// No worker can say now.
    pub(crate) async fn trace(&self, id: RequestId) -> Result<Option<RequestTrace>, ApiError> {
        let told = self.observed(&Question::Trace(id.to_string())).await?;
        let parts = told.into_iter().filter_map(|told| match told {
            Told::Trace(Some(trace)) => Some(*trace),
            _ => None,
        });
        Ok(merge(parts.collect()))
    }

    /// The newest request that has written an entity, of those that were watched, and what it made of it, if that is known.
    ///
    /// # Errors
    /// No worker can say now.
    pub(super) async fn last_write(
        &self,
        app: String,
        operator: String,
        key: String,
    ) -> Result<Option<(RequestSummary, Option<Change>)>, ApiError> {
        let told = self.observed(&Question::Writers { app, operator, key }).await?;
        let mut writers: Vec<Writer> = Vec::new();
        for told in told {
            if let Told::Writers(found) = told {
                writers.extend(found);
            }
        }
        // Of a request that several have seen, whoever knows what it wrote comes first.
        writers.sort_by_key(|writer| (std::cmp::Reverse(writer.tid), writer.change.is_none()));
        writers.dedup_by(|one, other| one.request_id == other.request_id);
        for writer in writers {
            let Ok(id) = writer.request_id.parse() else { continue };
            if let Some(trace) = self.trace(id).await?.filter(|trace| trace.status == "committed") {
                return Ok(Some((summary(&trace), writer.change)));
            }
        }
        Ok(None)
    }

    /// Asks all workers what they have seen.
    pub(super) async fn observed(&self, question: &Question) -> Result<Vec<Told>, ApiError> {
        let text = serde_json::to_string(question).expect("plain data");
        match self.ask(AdminQuery::Observed(text)).await? {
            Response::Observed(told) => Ok(told.iter().filter_map(|told| serde_json::from_str(told).ok()).collect()),
            other => Err(unexpected(&other)),
        }
    }
}

/// Requests that were watched or aborted, and how many wait
///
/// One in so many is watched (`--trace-sample`), and those that ask for it by the header `styx-trace: 1` or a sampled
/// `traceparent`.
#[utoipa::path(get, path = "/v1/requests", params(ListQuery), responses((status = 200, body = RequestList)))]
pub async fn list(
    State(queries): State<Queries>,
    Options(ListQuery { kind, app, limit }): Options<ListQuery>,
) -> Result<Json<RequestList>, ApiError> {
    let limit = limit.unwrap_or(50).min(LIMIT_MAX);
    let statuses = queries.worker_statuses().await?;
    let sum = |of: fn(&WorkerStatus) -> u64| statuses.iter().map(of).sum::<u64>();
    let mut by_id: std::collections::BTreeMap<String, Vec<RequestTrace>> = Default::default();
    for told in queries.observed(&Question::Requests { limit: LIMIT_MAX }).await? {
        if let Told::Requests(traces) = told {
            traces.into_iter().for_each(|trace| by_id.entry(trace.request_id.clone()).or_default().push(trace));
        }
    }
    let merged = by_id.into_values().filter_map(merge).map(|trace| summary(&trace));
    let chosen = |one: &RequestSummary| {
        app.as_ref().is_none_or(|app| *app == one.app) && (kind != RequestKind::Aborted || one.code.is_some())
    };
    let mut requests: Vec<RequestSummary> = merged.filter(chosen).collect();
    match kind {
        RequestKind::Slow => requests.sort_by_key(|one| std::cmp::Reverse(one.duration_us)),
        RequestKind::Recent | RequestKind::Aborted => requests.sort_by_key(|one| std::cmp::Reverse(one.begun_us)),
    }
    requests.truncate(limit);
    let (waiting, remembered) = (sum(|status| status.waiting), sum(|status| status.remembered));
    Ok(Json(RequestList { waiting, remembered, requests }))
}

/// How a request went: its time by phase, its executions, their call graphs and conflicts, its log lines
#[utoipa::path(
    get,
    path = "/v1/requests/{id}/trace",
    params(("id" = String, Path)),
    responses((status = 200, body = RequestTrace))
)]
pub async fn trace(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<RequestTrace>, ApiError> {
    let id = parse_id(&id)?;
    queries.trace(id).await?.map(Json).ok_or_else(|| {
        let message = format!("request {} was not watched, or is forgotten", shorten(&id.to_string()));
        ApiError::new(StatusCode::NOT_FOUND, "NOT_TRACED", message)
            .hint("call with the header `styx-trace: 1`, or start the server with --trace-sample all")
    })
}
