//! `GET /v1/events`: what the system does, as server-sent events for those who watch.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use styx_driver::coordinator::Migrations;
use styx_protocol::token::Scope;
use tokio::time::{MissedTickBehavior, interval};
use utoipa::ToSchema;

use super::autoscaler::DecisionView;
use super::journal::{Journal, News};
use super::migrations::{self, MigrationView};
use super::queries::Queries;
use crate::auth::Visitor;
use crate::handle::Handle;
use crate::stats::{EpochReport, Stats};

/// At most ten summaries a second, however many epochs there are.
const EVERY: Duration = Duration::from_millis(100);
/// How long the first one who watches waits for the coordinator to say who is there, in looks.
const PATIENCE: u32 = 10;

/// Tells this life of the process from others: counters begin anew with each.
static LIFE: LazyLock<u64> = LazyLock::new(rand::random);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// What came since; none if that was after.
    fn since(&self, before: &Totals) -> Option<Totals> {
        Some(Totals {
            epochs: self.epochs.checked_sub(before.epochs)?,
            committed: self.committed.checked_sub(before.committed)?,
            fell_back: self.fell_back.checked_sub(before.fell_back)?,
            aborted: self.aborted.checked_sub(before.aborted)?,
            rescheduled: self.rescheduled.checked_sub(before.rescheduled)?,
            queries: self.queries.checked_sub(before.queries)?,
        })
    }
}

/// How far somebody is who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    totals: Totals,
    /// The number of the entry of the journal that comes next.
    journal: u64,
}

impl Cursor {
    /// The id of the event that brings its reader here; `life` is the process's.
    fn id(&self, life: u64) -> String {
        let Cursor { totals: Totals { epochs, committed, fell_back, aborted, rescheduled, queries }, journal } = self;
        format!("{life:x}-{journal:x}-{epochs:x}-{committed:x}-{fell_back:x}-{aborted:x}-{rescheduled:x}-{queries:x}")
    }

    /// What an id tells; nothing if it is of another life of the process, or no id of an event.
    fn of_id(id: &str, life: u64) -> Option<Self> {
        let mut parts = id.split('-').map(|part| u64::from_str_radix(part, 16).ok());
        let mut next = || parts.next().flatten();
        let same = next()? == life;
        let journal = next()?;
        let totals = Totals {
            epochs: next()?,
            committed: next()?,
            fell_back: next()?,
            aborted: next()?,
            rescheduled: next()?,
            queries: next()?,
        };
        (same && parts.next().is_none()).then_some(Cursor { totals, journal })
    }
}

/// Somebody who watches.
struct Watch {
    queries: Queries,
    visitor: Visitor,
    journal: Journal,
    /// The entry of the journal that comes next.
    next: u64,
    /// The totals that were told last.
    seen: Option<Totals>,
    told: Option<Status>,
    migrations: Arc<Migrations>,
    /// The decision of the autoscaler that was told last.
    decided: Option<DecisionView>,
    status: Status,
    /// For so many looks the journal may not know yet who is there.
    patience: u32,
}

impl Watch {
    /// What is new, if anything is.
    fn look(&mut self) -> Option<Event> {
        if let Some(overview) = self.journal.overview() {
            self.status.generation = overview.generation.0;
            self.status.live = overview.live;
            self.status.workers = if overview.single { 1 } else { overview.members.len() };
        } else if self.patience > 0 {
            // Nobody has watched before: a moment.
            self.patience -= 1;
            return None;
        }
        self.status.read(&self.queries.handle);
        if self.told.as_ref() != Some(&self.status) {
            self.told = Some(self.status.clone());
            return Some(Event::default().event("status").json_data(&self.status).expect("plain data"));
        }
        if let Some((news, next)) = self.journal.entry(self.next) {
            self.next = next;
            // Totals that were not told yet are told from the beginning, by the event that has them.
            let event = self.seen.map_or(Event::default(), |totals| Event::default().id(self.id(totals)));
            return Some(event.event(news.name()).json_data(&*news).expect("news can be written as JSON"));
        }
        let stats = self.queries.handle.stats();
        let migrations = stats.migrations();
        if !Arc::ptr_eq(&self.migrations, &migrations) {
            self.migrations = migrations;
            if let Some(newest) = self.migrations.reports.last() {
                let event = Event::default().event("migration").json_data(migrations::shown(newest));
                return Some(event.expect("a migration can be written as JSON"));
            }
        }
        let decided = stats.autoscaling.known().decisions.back().map(DecisionView::from);
        if decided != self.decided {
            self.decided = decided;
            let event = Event::default().event("autoscaler").json_data(&self.decided);
            return Some(event.expect("a decision can be written as JSON"));
        }
        let now = Totals::of(stats);
        if self.seen == Some(now) {
            return None;
        }
        let news = self.seen.and_then(|seen| now.since(&seen)).unwrap_or(now);
        self.seen = Some(now);
        let event = Event::default().event("epochs").id(self.id(now));
        Some(event.json_data(EpochEvent::of(stats, news)).expect("counters can be written as JSON"))
    }

    fn id(&self, totals: Totals) -> String {
        Cursor { totals, journal: self.next }.id(*LIFE)
    }
}

/// What the system does, as server-sent events
///
/// `epochs`: sums over the epochs since the last event, and the last of them. The first one
/// comes at once, with the totals so far; or with what came since the event that `Last-Event-ID` names, if this process
/// has sent it. `status`: who is there and how much has changed, once at the beginning and whenever it is another: what is shown of
/// it is to be read again. `migration`: a migration that begins, goes on or ends, as `/v1/migrations` has it; four in a second
/// at most while it goes on. `autoscaler`: a decision that there should be another number of workers, and what has become of
/// its command, as `/v1/autoscaler` has it. `member`, `deployment`, `snapshot`, `quarantine`: each of these that has happened
/// since, also while the connection was lost, if `Last-Event-ID` is given; the last 512 are kept, from when somebody watched first.
#[utoipa::path(get, path = "/v1/events", responses((status = 200, body = WatchEvent, content_type = "text/event-stream")))]
pub async fn events(
    State(queries): State<Queries>,
    State(journal): State<Journal>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    journal.begin(&queries);
    let last = headers.get(LAST_EVENT_ID).and_then(|id| Cursor::of_id(id.to_str().ok()?, *LIFE));
    let watch = Watch {
        visitor,
        next: last.map_or_else(|| journal.next(), |last| last.journal),
        journal,
        seen: last.map(|last| last.totals),
        told: None,
        migrations: queries.handle.stats().migrations(),
        decided: queries.handle.stats().autoscaling.known().decisions.back().map(DecisionView::from),
        status: Status::default(),
        patience: PATIENCE,
        queries: queries.clone(),
    };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = queries.shutdown.wait_owned();
    let events = stream::unfold((watch, ticks), |(mut watch, mut ticks)| async move {
        loop {
            ticks.tick().await;
            watch.visitor.may(Scope::Read, None, &watch.queries.handle.catalog()).ok()?;
            if let Some(event) = watch.look() {
                return Some((Ok(event), (watch, ticks)));
            }
        }
    });
    Sse::new(events.take_until(end)).keep_alive(KeepAlive::default())
}

/// Data of an event, by its name.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a shape that only the document needs")]
pub enum WatchEvent {
    Epochs(EpochEvent),
    Status(Status),
    Migration(MigrationView),
    Autoscaler(DecisionView),
    News(News),
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
    fn of(stats: &Stats, news: Totals) -> Self {
        let Totals { epochs, committed, fell_back, aborted, rescheduled, queries } = news;
        EpochEvent {
            epochs,
            committed,
            fell_back,
            aborted,
            rescheduled,
            queries,
            entities: stats.entities.load(Ordering::Relaxed),
            state_bytes: stats.state_bytes.load(Ordering::Relaxed),
            last: stats.recent().pop(),
        }
    }
}

/// Data of the event `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Status {
    generation: u64,
    /// True while all partitions are served.
    live: bool,
    workers: usize,
    /// Counts changes of what is deployed, of tokens and of the quarantine.
    catalog: u64,
    apps: usize,
    quarantined: usize,
    /// Snapshots taken since the process began.
    snapshots: u64,
    /// The disk of the log is nearly full: nothing that may write is taken.
    disk_full: bool,
    /// The log waits for its brokers: nothing is taken.
    log_stalled: bool,
    /// A worker has as much state as it may: nothing that may write is taken.
    state_full: bool,
    /// Apps that have as much state as they may: nothing of them that may write is taken.
    full_apps: Vec<String>,
}

impl Status {
    /// Reads what this process knows by itself.
    fn read(&mut self, handle: &Handle) {
        let (catalog, condition) = (handle.catalog(), handle.admission().condition());
        self.catalog = catalog.version();
        self.apps = catalog.apps().count();
        self.quarantined = catalog.quarantine().len();
        self.snapshots = handle.stats().snapshots.taken.load(Ordering::Relaxed);
        self.disk_full = condition.full;
        self.log_stalled = condition.stalled;
        let full = handle.admission().full_state();
        (self.state_full, self.full_apps) = (full.all, full.apps.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back_to_their_counters_within_a_life() {
        let totals = Totals { epochs: 30, committed: 400, fell_back: 5, aborted: 6, rescheduled: 7, queries: u64::MAX };
        let cursor = Cursor { totals, journal: 8 };
        let id = cursor.id(9);
        assert_eq!(Cursor::of_id(&id, 9), Some(cursor));
        assert_eq!(Cursor::of_id(&id, 8), None);
        for wrong in ["", "9", "9-1-2-3-4-5-6", "9-1-2-3-4-5-6-7-8", "9-x-2-3-4-5-6-7"] {
            assert_eq!(Cursor::of_id(wrong, 9), None, "{wrong}");
        }
        let before = Totals { committed: 390, ..totals };
        assert_eq!(totals.since(&before), Some(Totals { committed: 10, ..Totals::default() }));
        assert_eq!(before.since(&totals), None);
    }
}
