//! `GET /v1/events`: what the system does, as server-sent events for those who watch.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::services::Services;
use crate::stats::Stats;

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

/// `GET /v1/events`
///
/// `epochs`: sums over the epochs since the last event, and the last of them. The first event
/// comes at once, with the totals so far.
pub async fn events(State(services): State<Services>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = services.shutdown.wait_owned();
    let events = stream::unfold((services, ticks, None), |(services, mut ticks, before)| async move {
        loop {
            ticks.tick().await;
            let now = Totals::of(services.handle.stats());
            if before.is_none_or(|before: Totals| before.epochs != now.epochs) {
                let event = Event::default()
                    .event("epochs")
                    .data(summary(services.handle.stats(), before.unwrap_or_default(), now).to_string());
                return Some((Ok(event), (services, ticks, Some(now))));
            }
        }
    });
    Sse::new(events.take_until(end)).keep_alive(KeepAlive::default())
}

fn summary(stats: &Stats, before: Totals, now: Totals) -> Value {
    json!({
        "epochs": now.epochs - before.epochs,
        "committed": now.committed - before.committed,
        "fell_back": now.fell_back - before.fell_back,
        "aborted": now.aborted - before.aborted,
        "rescheduled": now.rescheduled - before.rescheduled,
        "queries": now.queries - before.queries,
        "entities": stats.entities.load(Ordering::Relaxed),
        "state_bytes": stats.state_bytes.load(Ordering::Relaxed),
        "last": stats.recent().pop(),
    })
}
