//! `GET /v1/apps/{app}/export`: all entities of an app as they were at the end of one epoch, which is that of the newest
//! snapshot: read from the store, so that nothing waits for it, however much it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::poll_fn;
use serde::{Deserialize, Serialize};
use styx_driver::snapshots::NoSnapshot;
use styx_storage::snapshot::{Batch, Manifest, Sink, SnapshotStore};
use tokio::sync::{mpsc, oneshot};
use utoipa::IntoParams;

use super::apps::app_of;
use super::state::EncodedValue;
use crate::handle::Handle;
use crate::http::{ApiError, Options, PathParts};

const EPOCH: HeaderName = HeaderName::from_static("styx-epoch");

/// Bytes of lines that are sent at once, and how many such pieces may wait for the client.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 4;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// Only entities of this operator.
    operator: Option<String>,
    /// Of the newest snapshot that there is, instead of one that is taken now.
    #[serde(default)]
    #[param(required = false)]
    latest: bool,
}

/// An entity, as a line.
#[derive(Serialize)]
struct Line<'a> {
    operator: &'a str,
    key: &'a str,
    #[serde(flatten)]
    encoded: EncodedValue,
}

/// All entities of an app as they were at the end of one epoch, as lines of JSON: operator, key, value and its encoding
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/export",
    params(("app" = String, Path), ExportQuery),
    responses((status = 200, body = String, content_type = "application/x-ndjson"))
)]
pub async fn export(
    State(handle): State<Handle>,
    PathParts(app): PathParts<String>,
    Options(query): Options<ExportQuery>,
) -> Result<Response, ApiError> {
    let catalog = handle.catalog();
    let names = app_of(&catalog, &app)?.live().operators.iter().map(|operator| operator.name.as_str());
    let names: Vec<&str> = match &query.operator {
        None => names.collect(),
        Some(name) => vec![name],
    };
    let operators = names.into_iter().map(|name| Ok((catalog.find(&app, name)?.id.0, name.to_owned())));
    let operators = operators.collect::<Result<BTreeMap<_, _>, ApiError>>()?;
    let store = handle.stats().snapshots.store.get().cloned().ok_or(NoSnapshot::Off)?;
    if !query.latest {
        match handle.snapshot().await {
            // The one before says it all.
            Ok(_) | Err(NoSnapshot::NothingHappened) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let (to, mut pieces) = mpsc::channel(PIECES);
    let (found, newest) = oneshot::channel();
    // The store's calls block.
    tokio::task::spawn_blocking(move || {
        let manifest = match store.latest() {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return drop(found.send(Err(NoSnapshot::NothingHappened.into()))),
            Err(error) => return drop(found.send(Err(unreadable(&error)))),
        };
        if found.send(Ok(manifest.epoch)).is_ok()
            && let Err(error) = write(&store, &manifest, operators, &to)
        {
            // The client sees a body that breaks off.
            tracing::warn!(snapshot = manifest.sequence, "an export broke off: {error:#}");
            let _ = to.blocking_send(Err(std::io::Error::other(error.to_string())));
        }
    });
    let epoch = newest.await.map_err(|_| ApiError::shutting_down())??;
    let headers =
        [(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")), (EPOCH, HeaderValue::from(epoch))];
    Ok((headers, Body::from_stream(poll_fn(move |context| pieces.poll_recv(context)))).into_response())
}

fn unreadable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SNAPSHOT_STORE", error.to_string())
}

type Piece = Result<Bytes, std::io::Error>;

/// Writes the entities of these operators, partition by partition.
fn write(
    store: &SnapshotStore,
    manifest: &Manifest,
    operators: BTreeMap<u32, String>,
    to: &mpsc::Sender<Piece>,
) -> anyhow::Result<()> {
    let lines = Lines { operators, to, state: Mutex::default() };
    store.restore(manifest, 1, &lines)?;
    let mut state = lines.state.lock().unwrap_or_else(PoisonError::into_inner);
    lines.end_partition(&mut state)?;
    lines.send(&mut state.text)
}

/// Entities of the partition that is being read: its parts come one after the other, and what is in a later one counts.
struct Lines<'a> {
    operators: BTreeMap<u32, String>,
    to: &'a mpsc::Sender<Piece>,
    state: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    partition: Option<u16>,
    entities: BTreeMap<(u32, Vec<u8>), Vec<u8>>,
    text: Vec<u8>,
}

impl Lines<'_> {
    fn end_partition(&self, state: &mut Reading) -> anyhow::Result<()> {
        for ((operator, key), value) in std::mem::take(&mut state.entities) {
            let line = Line {
                operator: &self.operators[&operator],
                key: std::str::from_utf8(&key).context("a key is not text")?,
                encoded: EncodedValue::of(&value),
            };
            serde_json::to_writer(&mut state.text, &line)?;
            state.text.push(b'\n');
            if state.text.len() >= PIECE_BYTES {
                self.send(&mut state.text)?;
            }
        }
        Ok(())
    }

    fn send(&self, text: &mut Vec<u8>) -> anyhow::Result<()> {
        self.to.blocking_send(Ok(std::mem::take(text).into())).context("nobody reads any more")
    }
}

impl Sink for Lines<'_> {
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()> {
        // One thread reads.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.partition != Some(batch.partition()) {
            self.end_partition(&mut state)?;
            state.partition = Some(batch.partition());
        }
        for entry in batch.entries().filter(|entry| self.operators.contains_key(&entry.operator)) {
            let entity = (entry.operator, entry.key.to_vec());
            match entry.value {
                Some(value) => drop(state.entities.insert(entity, value.to_vec())),
                None => drop(state.entities.remove(&entity)),
            }
        }
        Ok(())
    }
}
