//! `GET /v1/logs`: lines of guests, as they come, as server-sent events.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use styx_protocol::token::Scope;
use tokio::time::{MissedTickBehavior, interval};
use utoipa::{IntoParams, ToSchema};

use super::queries::Queries;
use crate::auth::Visitor;
use crate::http::{ApiError, Options};
use crate::observe::{LogEntry, Question, Told};

/// How often workers are asked.
const EVERY: Duration = Duration::from_millis(250);
/// Most lines that one answer of a worker holds.
const LINES_MAX: usize = 2000;
/// Lines that are told first, unless somebody wants more or fewer.
const TAIL: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    #[default]
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    fn of(name: &str) -> Self {
        match name {
            "debug" => Level::Debug,
            "info" => Level::Info,
            "warn" => Level::Warn,
            _ => Level::Error,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogsQuery {
    app: Option<String>,
    /// A function, as `operator.function` or its name; or all of an operator, as `operator.*`.
    function: Option<String>,
    /// The least level: `debug`, `info`, `warn` or `error`.
    #[serde(default)]
    #[param(inline)]
    level: Level,
    /// The id of a request.
    request: Option<String>,
    /// Lines from before, at most; 200 unless given.
    tail: Option<usize>,
    /// Ends with the lines from before, unless true.
    #[serde(default)]
    follow: bool,
}

impl LogsQuery {
    fn takes(&self, line: &LogEntry) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let function = self.function.as_deref().is_none_or(|wanted| {
            wanted == line.function
                || wanted.split_once('.').is_some_and(|(operator, function)| {
                    operator == line.operator && [&*line.function, "*"].contains(&function)
                })
        });
        is(&self.app, &line.app)
            && is(&self.request, &line.request_id)
            && function
            && Level::of(&line.level) >= self.level
    }
}

/// Somebody who reads.
struct Reader {
    queries: Queries,
    visitor: Visitor,
    wanted: LogsQuery,
    /// The next line of each worker.
    next: BTreeMap<u32, u64>,
    first: bool,
    ready: VecDeque<Event>,
}

impl Reader {
    /// Asks all workers for lines that are new here.
    async fn ask(&mut self) -> Result<(), ApiError> {
        let question = Question::Logs { after: self.next.clone(), limit: LINES_MAX };
        let mut lines = Vec::new();
        let mut missed = 0;
        for told in self.queries.observed(&question).await? {
            let Told::Logs { worker, lines: new, next } = told else { continue };
            let known = self.next.insert(worker, next).filter(|known| *known <= next);
            // Whoever reads too slowly is told that, not waited for.
            if let (Some(known), false) = (known, self.first) {
                missed += next - known - (new.len() as u64).min(next - known);
            }
            lines.extend(new);
        }
        lines.retain(|line| self.wanted.takes(line));
        lines.sort_by_key(|line| (line.time_us, line.worker, line.sequence));
        if std::mem::take(&mut self.first) {
            let tail = self.wanted.tail.unwrap_or(TAIL);
            lines.drain(..lines.len().saturating_sub(tail));
        }
        if missed > 0 {
            self.ready.push_back(Event::default().event("missed").data(missed.to_string()));
        }
        let event = |line: &LogEntry| Event::default().event("line").json_data(line).expect("plain data");
        self.ready.extend(lines.iter().map(event));
        Ok(())
    }
}

/// Lines that guests wrote, as server-sent events
///
/// `line`: one line. `missed`: how many were forgotten before they could be told. The last lines of each worker are kept, so that
/// whoever comes late is told those first.
#[utoipa::path(get, path = "/v1/logs", params(LogsQuery), responses((status = 200, body = LogEntry, content_type = "text/event-stream")))]
pub async fn logs(
    State(queries): State<Queries>,
    visitor: Visitor,
    Options(wanted): Options<LogsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let end = queries.shutdown.wait_owned();
    let mut reader = Reader { queries, visitor, wanted, next: BTreeMap::new(), first: true, ready: VecDeque::new() };
    reader.ask().await?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = stream::unfold((reader, ticks), |(mut reader, mut ticks)| async move {
        loop {
            if let Some(event) = reader.ready.pop_front() {
                return Some((Ok(event), (reader, ticks)));
            }
            if !reader.wanted.follow {
                return None;
            }
            ticks.tick().await;
            reader.visitor.may(Scope::Read, None, &reader.queries.handle.catalog()).ok()?;
            // While nobody serves there is nothing to tell.
            let _ = reader.ask().await;
        }
    });
    Ok(Sse::new(events.take_until(end)).keep_alive(KeepAlive::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen_by_all_that_is_asked() {
        let line = LogEntry {
            app: "shop".into(),
            operator: "stock".into(),
            function: "take".into(),
            level: "warn".into(),
            request_id: "0a".into(),
            ..LogEntry::default()
        };
        let text = |text: &str| Some(text.to_owned());
        let none = LogsQuery::default;
        for (wanted, takes) in [
            (none(), true),
            (LogsQuery { app: text("shop"), ..none() }, true),
            (LogsQuery { app: text("bank"), ..none() }, false),
            (LogsQuery { function: text("take"), ..none() }, true),
            (LogsQuery { function: text("stock.take"), ..none() }, true),
            (LogsQuery { function: text("order.take"), ..none() }, false),
            (LogsQuery { function: text("stock.*"), ..none() }, true),
            (LogsQuery { function: text("order.*"), ..none() }, false),
            (LogsQuery { level: Level::Warn, ..none() }, true),
            (LogsQuery { level: Level::Error, ..none() }, false),
            (LogsQuery { request: text("0a"), level: Level::Info, ..none() }, true),
            (LogsQuery { request: text("0b"), ..none() }, false),
        ] {
            assert_eq!(wanted.takes(&line), takes, "{wanted:?}");
        }
    }
}
