//! What is told of a request, as JSON: between processes of a cluster, and to whoever asks the admin port.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::changes::Change;

/// A request as it went: what is known of it here, or of all workers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestTrace {
    pub request_id: String,
    pub tid: Option<u64>,
    pub app: String,
    pub operator: String,
    pub function: String,
    pub key: String,
    /// `pending`, `committed` or `aborted`.
    pub status: String,
    /// Why it aborted.
    pub code: Option<String>,
    pub message: Option<String>,
    /// The epoch in which it ended.
    pub epoch: Option<u64>,
    /// When it came, µs since 1970; where nobody has noted that, when its epoch was cut.
    pub begun_us: u64,
    /// When it was answered.
    pub ended_us: Option<u64>,
    /// What the time went into, in order.
    pub phases: Vec<TracePhase>,
    pub attempts: Vec<TraceAttempt>,
    pub logs: Vec<LogEntry>,
}

/// A part of a request's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TracePhase {
    /// `queued`, `execute`, `validate`, `fallback`, `durable` or `reply`.
    pub name: String,
    /// µs since 1970.
    pub begun_us: u64,
    pub ended_us: u64,
}

/// One execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceAttempt {
    /// `lock_free`, `fallback`, `cached`, `strict` or `long`.
    pub kind: String,
    /// `ok`, `aborted`, `drifted`, `postponed`, or `open` while other workers are waited for.
    pub outcome: String,
    pub code: Option<String>,
    pub message: Option<String>,
    /// Where it began, counted from 1.
    pub worker: u32,
    pub begun_us: u64,
    pub ended_us: u64,
    pub fuel: u64,
    pub calls: Vec<TraceCall>,
    pub accesses: Vec<TraceAccess>,
    pub conflicts: Vec<TraceConflict>,
    /// There was more than is kept.
    pub cut: bool,
}

/// A call of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceCall {
    /// Its place in the graph, in hexadecimal digits.
    pub id: String,
    /// Who called it; absent for the first.
    pub parent: Option<String>,
    pub operator: String,
    pub function: String,
    pub key: String,
    /// Where it ran, counted from 1.
    pub worker: u32,
    pub asynchronous: bool,
    pub read_only: bool,
    /// When it ran, µs since 1970; absent where nobody watched.
    pub begun_us: Option<u64>,
    pub ended_us: Option<u64>,
    /// Fuel that it used by itself.
    pub fuel: Option<u64>,
    /// Calls that it issued.
    pub issued: u32,
}

/// An entity or a range of the RW set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceAccess {
    pub operator: String,
    /// Of an entity; of a range, its bounds.
    pub key: String,
    pub range: bool,
    pub read: bool,
    pub written: bool,
    pub deleted: bool,
    /// Bytes written.
    pub bytes: Option<u64>,
    /// What it made of the entity; told by [`Question::Writers`] only.
    #[serde(skip)]
    pub change: Option<Change>,
}

/// A transaction that came before this one and has touched the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceConflict {
    /// Its TID, which is lower.
    pub tid: u64,
    pub request_id: String,
    pub operator: String,
    pub key: String,
    /// What it did: `wrote` or `read`.
    pub did: String,
}

/// A line that a guest wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Counts lines of one worker.
    pub sequence: u64,
    /// Where it was written, counted from 1.
    pub worker: u32,
    /// µs since 1970.
    pub time_us: u64,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    pub app: String,
    pub operator: String,
    pub function: String,
    pub key: String,
    pub request_id: String,
    pub tid: u64,
    pub message: String,
}

/// A request in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestSummary {
    pub request_id: String,
    pub tid: Option<u64>,
    pub app: String,
    pub operator: String,
    pub function: String,
    pub key: String,
    pub status: String,
    pub code: Option<String>,
    pub message: Option<String>,
    pub epoch: Option<u64>,
    pub begun_us: u64,
    /// From when it came to its answer.
    pub duration_us: Option<u64>,
    /// How often it was executed.
    pub attempts: u32,
    /// Fuel that its last execution took, with all that it called; absent where nobody watched.
    pub fuel: Option<u64>,
}

/// A request that wrote an entity, as one worker has seen it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Writer {
    pub tid: u64,
    pub request_id: String,
    /// What it made of it, as far as it is known.
    pub change: Option<Change>,
}

/// A question to all workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    Trace(String),
    /// The newest of them.
    Requests {
        limit: usize,
    },
    /// The newest of those that wrote an entity, and did not abort.
    Writers {
        app: String,
        operator: String,
        key: String,
    },
    /// Lines after those that are known of each worker, the newest of them.
    Logs {
        after: std::collections::BTreeMap<u32, u64>,
        limit: usize,
    },
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Trace(Option<Box<RequestTrace>>),
    Requests(Vec<RequestTrace>),
    /// The newest first.
    Writers(Vec<Writer>),
    Logs {
        worker: u32,
        lines: Vec<LogEntry>,
        next: u64,
    },
}
