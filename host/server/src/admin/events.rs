//! `GET /v1/events`: what the system does, as server-sent events for those who watch.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use styx_protocol::token::Scope;
use tokio::time::{MissedTickBehavior, interval};
use utoipa::ToSchema;

use super::migrations::MigrationView;
use super::queries::Queries;
use crate::auth::Visitor;
use crate::stats::{EpochReport, Stats};

/// At most ten summaries a second, however many epochs there are.
const EVERY: Duration = Duration::from_millis(100);

/// Counters at one moment.
#[derive(Clone, Copy, Default)]
struct Totals {
    epochs: u64,
    committed: u64,
    fell_back: u64,
    aborted: u64,
    rescheduled: u64,
    queries: u64,
}

impl Totals {
    fn of(stats: &Stats) -> Self {
        Totals {
            epochs: stats.epochs.load(Ordering::Relaxed),
            committed: stats.committed.load(Ordering::Relaxed),
            fell_back: stats.fell_back.load(Ordering::Relaxed),
            aborted: stats.aborted.load(Ordering::Relaxed),
            rescheduled: stats.rescheduled.load(Ordering::Relaxed),
            queries: stats.queries.load(Ordering::Relaxed),
        }
    }
}

/// What the system does, as server-sent events
///
/// `epochs`: sums over the epochs since the last event, and the last of them. The first event
/// comes at once, with the totals so far. `migration`: a migration that begins, goes on or ends, as `/v1/migrations` has
/// it; four in a second at most while it goes on.
#[utoipa::path(get, path = "/v1/events", responses((status = 200, body = EpochEvent, content_type = "text/event-stream")))]
pub async fn events(
    State(queries): State<Queries>,
    visitor: Visitor,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let told = queries.handle.stats().migrations();
    let end = queries.shutdown.wait_owned();
    let events = stream::unfold(
        (queries, visitor, ticks, None, told),
        |(queries, mut visitor, mut ticks, before, mut told)| async move {
            loop {
                ticks.tick().await;
                visitor.may(Scope::Read, None, &queries.handle.catalog()).ok()?;
                let migrations = queries.handle.stats().migrations();
                if !Arc::ptr_eq(&told, &migrations) {
                    told = migrations;
                    if let Some(newest) = told.reports.last() {
                        let event = Event::default()
                            .event("migration")
                            .json_data(MigrationView::from(newest))
                            .expect("a migration can be written as JSON");
                        return Some((Ok(event), (queries, visitor, ticks, before, told)));
                    }
                }
                let now = Totals::of(queries.handle.stats());
                if before.is_none_or(|before: Totals| before.epochs != now.epochs) {
                    let event = Event::default()
                        .event("epochs")
                        .json_data(EpochEvent::of(queries.handle.stats(), before.unwrap_or_default(), now))
                        .expect("counters can be written as JSON");
                    return Some((Ok(event), (queries, visitor, ticks, Some(now), told)));
                }
            }
        },
    );
    Sse::new(events.take_until(end)).keep_alive(KeepAlive::default())
}

/// Data of the event `epochs`.
#[derive(Serialize, ToSchema)]
pub struct EpochEvent {
    epochs: u64,
    committed: u64,
    fell_back: u64,
    aborted: u64,
    rescheduled: u64,
    queries: u64,
    /// In the committed state, now.
    entities: u64,
    state_bytes: u64,
    last: Option<EpochReport>,
}

impl EpochEvent {
    fn of(stats: &Stats, before: Totals, now: Totals) -> Self {
        EpochEvent {
            epochs: now.epochs - before.epochs,
            committed: now.committed - before.committed,
            fell_back: now.fell_back - before.fell_back,
            aborted: now.aborted - before.aborted,
            rescheduled: now.rescheduled - before.rescheduled,
            queries: now.queries - before.queries,
            entities: stats.entities.load(Ordering::Relaxed),
            state_bytes: stats.state_bytes.load(Ordering::Relaxed),
            last: stats.recent().pop(),
        }
    }
}
