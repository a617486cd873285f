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
use super::ask;
use crate::http::{ApiError, Options, PathParts, nearest::suggestion, shorten, status_of};
use crate::services::Services;
use styx_driver::wire::{AdminQuery, Bytes, Response};

/// Entries of one page.
const LIMIT_MAX: usize = 1000;
const LIMIT_DEFAULT: usize = 100;
/// Bytes of values on one page, the last one's excepted.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// A value as JSON if it is JSON, else in base64.
#[derive(Debug, Serialize)]
struct Shown {
    value: Box<RawValue>,
    encoding: &'static str,
}

impl Shown {
    fn of(value: &Value) -> Self {
        // Numbers keep their digits.
        let json = std::str::from_utf8(value).ok().and_then(|text| RawValue::from_string(text.trim().to_owned()).ok());
        match json {
            Some(value) => Shown { value, encoding: "json" },
            None => Shown {
                value: RawValue::from_string(format!("\"{}\"", STANDARD.encode(value)))
                    .expect("base64 needs no escapes"),
                encoding: "base64",
            },
        }
    }
}

/// One entity.
#[derive(Debug, Serialize)]
pub struct Entry {
    key: Key,
    #[serde(flatten)]
    shown: Shown,
}

/// An entity and the epoch as of which it was read.
#[derive(Debug, Serialize)]
pub struct One {
    app: String,
    operator: String,
    key: Key,
    #[serde(flatten)]
    shown: Shown,
    partition: u16,
    epoch: u64,
}

/// `GET /v1/state/{app}/{operator}/{key}`
pub async fn get(
    State(services): State<Services>,
    PathParts((app, operator, key)): PathParts<(String, String, String)>,
) -> Result<Json<One>, ApiError> {
    let found = operator_of(&services.handle.catalog(), &app, &operator)?;
    let key: Key = key.into();
    let (value, partition, epoch) =
        match ask(&services, AdminQuery::Get { operator: found, key: key.to_string() }).await? {
            Response::Value { value, partition, epoch } => (value, partition, epoch.0),
            other => return Err(super::unexpected_answer(&other)),
        };
    let Bytes(value) = value.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "UNKNOWN_ENTITY",
            format!("operator \"{operator}\" has no entity \"{}\"", shorten(&key)),
        )
        .hint(format!("GET /v1/state/{app}/{operator} lists those there are"))
    })?;
    Ok(Json(One { app, operator, key, shown: Shown::of(&value), partition, epoch }))
}

/// Which page of a scan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    #[serde(default)]
    prefix: String,
    after: Option<String>,
    limit: Option<usize>,
}

/// A page of entities in key order.
#[derive(Debug, Serialize)]
pub struct Entries {
    entries: Vec<Entry>,
    /// What to give as `after` for the next page; none if this is the last.
    next: Option<Key>,
    epoch: u64,
}

/// `GET /v1/state/{app}/{operator}?prefix=&after=&limit=`
pub async fn scan(
    State(services): State<Services>,
    PathParts((app, operator)): PathParts<(String, String)>,
    Options(page): Options<Page>,
) -> Result<Json<Entries>, ApiError> {
    let limit = page.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(ApiError::bad_request(format!("limit is {limit}, and it may be 1 to {LIMIT_MAX}"))
            .hint("for more, go on with after=<next>"));
    }
    let found = operator_of(&services.handle.catalog(), &app, &operator)?;
    let scan = AdminQuery::Scan {
        operator: found,
        prefix: page.prefix,
        after: page.after,
        limit: limit as u32,
        bytes: PAGE_BYTES_MAX,
    };
    let (found, more, epoch) = match ask(&services, scan).await? {
        Response::Entries { entries, more, epoch } => (entries, more, epoch.0),
        other => return Err(super::unexpected_answer(&other)),
    };
    let next = found.last().filter(|_| more).map(|found| found.0.clone());
    let entries = found.into_iter().map(|found| Entry { shown: Shown::of(&found.1), key: found.0 }).collect();
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
