//! Committed state, read between two epochs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::ops::Bound;
use std::sync::Arc;
use styx_protocol::abort::Code;
use styx_protocol::catalog::{Catalog, Operator};
use styx_protocol::entity::{Entity, Key, Value};
use styx_protocol::range::KeyRange;

use super::apps::app_of;
use crate::http::{ApiError, Options, PathParts, nearest::suggestion, shorten, status_of};
use crate::services::Services;

/// Entries of one page.
const LIMIT_MAX: usize = 1000;
const LIMIT_DEFAULT: usize = 100;
/// Bytes of values on one page, the last one's excepted.
const PAGE_BYTES_MAX: usize = 8 << 20;

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
    let key: Key = key.into();
    let (names, wanted) = ((app.clone(), operator.clone()), key.clone());
    let seen = services.handle.inspect(move |machine| {
        let found = operator_of(machine.catalog(), &names.0, &names.1)?;
        let state = machine.state();
        let entity = Entity::new(&state.layout(), found.id, found.composite, wanted);
        Ok::<_, ApiError>((state.get(&entity).cloned(), entity.partition().0, machine.position().0.0))
    });
    let (value, partition, epoch) = seen.await.ok_or_else(ApiError::shutting_down)??;
    let value = value.ok_or_else(|| {
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
    let seen = services.handle.inspect(move |machine| {
        let found = operator_of(machine.catalog(), &app, &operator)?;
        let state = machine.state();
        let lower = page.after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.into()));
        let partition = state.layout().partition_of_prefix(&page.prefix, found.composite);
        let range = KeyRange::new(&page.prefix, lower, Bound::Unbounded);
        // One more than asked for tells whether there is a next page.
        Ok::<_, ApiError>((state.scan(found.id, &range, partition, limit + 1, false), machine.position().0.0))
    });
    let (mut found, epoch) = seen.await.ok_or_else(ApiError::shutting_down)??;
    let mut bytes = 0;
    let fits = found.iter().take(limit).take_while(|(_, value)| {
        let fits = bytes < PAGE_BYTES_MAX;
        bytes += value.len();
        fits
    });
    let fits = fits.count();
    let next = (fits < found.len()).then(|| found[fits - 1].0.clone());
    found.truncate(fits);
    let entries = found.into_iter().map(|(key, value)| Entry { shown: Shown::of(&value), key }).collect();
    Ok(Json(Entries { entries, next, epoch }))
}

fn operator_of<'a>(catalog: &'a Catalog, app: &str, operator: &str) -> Result<&'a Arc<Operator>, ApiError> {
    let known = app_of(catalog, app)?;
    catalog.find(app, operator).map_err(|_| {
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
