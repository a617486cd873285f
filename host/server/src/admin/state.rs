//! Committed state, read between two epochs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use styx_protocol::abort::Code;
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::{Key, Value};

use super::apps::app_of;
use super::queries::{Queries, unexpected};
use crate::http::{ApiError, Options, PathParts, nearest::suggestion, shorten, status_of};
use crate::observe::{Change, RequestSummary};
use styx_driver::wire::{AdminQuery, Bytes, Response};
use utoipa::{IntoParams, ToSchema};

/// Entries of one page.
const LIMIT_MAX: usize = 1000;
const LIMIT_DEFAULT: usize = 100;
/// Bytes of values on one page, the last one's excepted.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// A value as JSON if it is JSON, else in base64.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EncodedValue {
    #[schema(value_type = serde_json::Value)]
    value: Box<RawValue>,
    /// `json` or `base64`.
    encoding: &'static str,
}

impl EncodedValue {
    pub(super) fn of(value: &[u8]) -> Self {
        // Numbers keep their digits.
        let json = std::str::from_utf8(value).ok().and_then(|text| RawValue::from_string(text.trim().to_owned()).ok());
        match json {
            Some(value) => EncodedValue { value, encoding: "json" },
            None => EncodedValue {
                value: RawValue::from_string(format!("\"{}\"", STANDARD.encode(value)))
                    .expect("base64 needs no escapes"),
                encoding: "base64",
            },
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Entry {
    #[schema(value_type = String)]
    key: Key,
    #[serde(flatten)]
    encoded: EncodedValue,
}

/// An entity and the epoch as of which it was read.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntityView {
    app: String,
    operator: String,
    #[schema(value_type = String)]
    key: Key,
    #[serde(flatten)]
    encoded: EncodedValue,
    partition: u16,
    epoch: u64,
}

/// One entity
#[utoipa::path(
    get,
    path = "/v1/state/{app}/{operator}/{key}",
    params(("app" = String, Path), ("operator" = String, Path), ("key" = String, Path)),
    responses((status = 200, body = EntityView))
)]
pub async fn get(
    State(queries): State<Queries>,
    PathParts((app, operator, key)): PathParts<(String, String, String)>,
) -> Result<Json<EntityView>, ApiError> {
    let found = operator_of(&queries.handle.catalog(), &app, &operator)?;
    let key: Key = key.into();
    let (value, partition, epoch) = match queries.ask(AdminQuery::Get { operator: found, key: key.to_string() }).await?
    {
        Response::Value { value, partition, epoch } => (value, partition, epoch.0),
        other => return Err(unexpected(&other)),
    };
    let Bytes(value) = value.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "UNKNOWN_ENTITY",
            format!("operator \"{operator}\" has no entity \"{}\"", shorten(&key)),
        )
        .hint(format!("`styx state scan {app}/{operator}`, or GET /v1/state/{app}/{operator}, lists those there are"))
    })?;
    Ok(Json(EntityView { app, operator, key, encoded: EncodedValue::of(&value), partition, epoch }))
}

/// Who wrote an entity last, as far as anybody has watched.
#[derive(Debug, Serialize, ToSchema)]
pub struct LastWrite {
    /// Null if no request that was watched has written it, or those are forgotten. One that nobody watched may have come since.
    recorded: Option<RequestSummary>,
    /// Null if nothing is recorded.
    change: Option<EntityChange>,
}

/// What a write has made of an entity.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntityChange {
    known: ChangeKnown,
    /// Null if it was not there, or that is not known.
    before: Option<EncodedValue>,
    /// Null if it was deleted, or that is not known. If it is not what the entity is now, somebody whom nobody watched has
    /// written it since.
    after: Option<EncodedValue>,
}

/// Whether it is known what a write has made of an entity.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKnown {
    Yes,
    /// A value is larger than 4 KiB, or all that the request has changed is larger than 64 KiB.
    TooLarge,
    /// It is not known.
    No,
}

impl EntityChange {
    fn of(change: Option<Change>) -> Self {
        let encoded = |value: Option<Value>| value.map(|value| EncodedValue::of(&value));
        match change {
            Some(Change::Kept { before, after }) => {
                EntityChange { known: ChangeKnown::Yes, before: encoded(before), after: encoded(after) }
            }
            Some(Change::TooLarge) => EntityChange { known: ChangeKnown::TooLarge, before: None, after: None },
            None => EntityChange { known: ChangeKnown::No, before: None, after: None },
        }
    }
}

/// Who wrote an entity last, of the requests that were watched, and what it was before
///
/// Nothing is noted of others: with `--trace-sample all` every request is watched.
#[utoipa::path(
    get,
    path = "/v1/state/{app}/{operator}/{key}/last-write",
    params(("app" = String, Path), ("operator" = String, Path), ("key" = String, Path)),
    responses((status = 200, body = LastWrite))
)]
pub async fn last_write(
    State(queries): State<Queries>,
    PathParts((app, operator, key)): PathParts<(String, String, String)>,
) -> Result<Json<LastWrite>, ApiError> {
    operator_of(&queries.handle.catalog(), &app, &operator)?;
    let (recorded, change) = queries.last_write(app, operator, key).await?.unzip();
    Ok(Json(LastWrite { recorded, change: change.map(EntityChange::of) }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ScanQuery {
    /// Only keys that start with this.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// Only keys after this one.
    after: Option<String>,
    /// At most so many.
    limit: Option<usize>,
}

/// A page of entities in key order.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entries {
    entries: Vec<Entry>,
    /// What to give as `after` for the next page; none if this is the last.
    #[schema(value_type = Option<String>)]
    next: Option<Key>,
    epoch: u64,
}

/// A page of entities in key order
#[utoipa::path(
    get,
    path = "/v1/state/{app}/{operator}",
    params(("app" = String, Path), ("operator" = String, Path), ScanQuery),
    responses((status = 200, body = Entries))
)]
pub async fn scan(
    State(queries): State<Queries>,
    PathParts((app, operator)): PathParts<(String, String)>,
    Options(page): Options<ScanQuery>,
) -> Result<Json<Entries>, ApiError> {
    let limit = page.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(ApiError::bad_request(format!("limit is {limit}, and it may be 1 to {LIMIT_MAX}"))
            .hint("for more, go on with after=<next>"));
    }
    let found = operator_of(&queries.handle.catalog(), &app, &operator)?;
    let scan = AdminQuery::Scan {
        operator: found,
        prefix: page.prefix,
        after: page.after,
        limit: limit as u32,
        bytes: PAGE_BYTES_MAX,
    };
    let (found, more, epoch) = match queries.ask(scan).await? {
        Response::Entries { entries, more, epoch } => (entries, more, epoch.0),
        other => return Err(unexpected(&other)),
    };
    let next = found.last().filter(|_| more).map(|found| found.0.clone());
    let entries = found.into_iter().map(|found| Entry { encoded: EncodedValue::of(&found.1), key: found.0 }).collect();
    Ok(Json(Entries { entries, next, epoch }))
}

/// The id of an operator.
fn operator_of(catalog: &Catalog, app: &str, operator: &str) -> Result<u32, ApiError> {
    let known = app_of(catalog, app)?;
    let found = catalog.find(app, operator).map(|found| found.id.0);
    found.map_err(|_| {
        let names = known.live().operators.iter().map(|operator| operator.name.as_str());
        let code = Code::UnknownOperator;
        ApiError::new(
            status_of(code),
            code.as_str(),
            format!("app \"{app}\" has no operator \"{}\"", shorten(operator)),
        )
        .hint(suggestion(operator, names, "it has none"))
    })
}
