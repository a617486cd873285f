//! The recorder: which requests are watched, and what of them is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Execution, LogLevel, LogLine, place_of_call};
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{Epoch, OperatorId, RequestId, Tid, WorkerId};
use styx_protocol::interface::SEPARATOR;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Transaction;

use super::changes::Change;
use super::logs::Lines;
use super::names::Names;
use super::view::{
    LogEntry, Question, RequestTrace, Told, TraceAccess, TraceAttempt, TraceCall, TraceConflict, Writer,
};
use crate::clock::now;
use crate::http::FunctionStats;
use crate::traces::{Received, SpanContext};
use styx_engine::Profile;
use tokio::sync::mpsc;

/// Most bytes of requests that are kept.
const BYTES_MAX: usize = 16 << 20;
/// Entities, ranges and calls that are kept of one execution.
const ITEMS_MAX: usize = 256;
/// Bytes that are kept of a key or a message.
const TEXT_MAX: usize = 256;
/// Executions that are kept of one request.
const ATTEMPTS_MAX: usize = 32;
/// Requests that are kept each second because they abort or are slow.
const UNWATCHED_MAX: u32 = 50;
/// Requests that are told of those that wrote an entity: the newest may still run, or abort.
const WRITERS_MAX: usize = 8;
/// Requests under keys that were asked to be watched.
const ASKED_MAX: usize = 1024;
/// Epochs of which is known when they were durable.
const EPOCHS_MAX: usize = 1024;

/// A request that took so long is kept, where it is answered.
pub const SLOW: Duration = Duration::from_millis(100);

/// In the low half of an id that was made to be watched.
const MARK: u32 = 0x7ACE_D0E5;

/// The same id as one that is watched wherever it comes: of a request that nobody sends twice.
pub fn marked(id: RequestId) -> RequestId {
    RequestId(id.0 >> 32 << 32 | u128::from(MARK))
}

/// See the module.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Of all ids, spread over 32 bits, those below it are watched.
    below: AtomicU32,
    worker: AtomicU32,
    asked_any: AtomicUsize,
    asked: Mutex<VecDeque<RequestId>>,
    /// The second in which those are counted that nobody watches, and how many there were in it.
    unwatched: Mutex<(u64, u32)>,
    kept: Mutex<Kept>,
    /// Epochs, and when each was durable.
    durable: Mutex<VecDeque<(u64, u64)>>,
    pub lines: Lines,
    /// What administrators have changed here.
    pub audit: super::Audit,
    /// Requests that were watched.
    pub watched: AtomicU64,
    /// Who sends traces, and the spans that requests belong to which have not come yet.
    export: OnceLock<mpsc::Sender<Received>>,
    parents: Mutex<VecDeque<(RequestId, SpanContext)>>,
    traces_sent: AtomicU64,
    traces_lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    requests: HashMap<RequestId, RequestTrace>,
    order: VecDeque<(RequestId, usize)>,
    bytes: usize,
}

impl Recorder {
    /// Watches one in so many; none if 0.
    pub fn sampling(one_in: u32) -> Self {
        let below = u32::MAX.checked_div(one_in).unwrap_or(0);
        Recorder { below: AtomicU32::new(below), ..Recorder::default() }
    }

    /// Whether a request is watched.
    #[inline]
    pub fn wants(&self, id: RequestId) -> bool {
        let spread = ((id.0 as u64 ^ (id.0 >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        spread < self.below.load(Ordering::Relaxed)
            || id.0 as u32 == MARK
            || (self.asked_any.load(Ordering::Relaxed) > 0 && self.is_asked(id))
    }

    /// Watches a request whose id is given, in this process.
    pub fn ask(&self, id: RequestId) {
        let mut asked = lock(&self.asked);
        if !asked.contains(&id) {
            asked.push_back(id);
        }
        if asked.len() > ASKED_MAX {
            asked.pop_front();
        }
        self.asked_any.store(asked.len(), Ordering::Relaxed);
    }

    #[cold]
    fn is_asked(&self, id: RequestId) -> bool {
        lock(&self.asked).contains(&id)
    }

    /// Which of several workers this is.
    pub fn is_worker(&self, worker: WorkerId) {
        self.worker.store(u32::from(worker.0), Ordering::Relaxed);
    }

    fn worker(&self) -> u32 {
        self.worker.load(Ordering::Relaxed) + 1
    }

    /// Keeps a request that took long, and that nobody watched: who it was, and when.
    #[cold]
    pub fn slow(&self, reply: &Reply, took: Duration, function: Option<&FunctionStats>) {
        if !self.wants(reply.id) && self.admits_unwatched() {
            let ended = now().0;
            self.with(reply.id, |trace| {
                if let (true, Some(function)) = (trace.app.is_empty(), function) {
                    trace.app.clone_from(&function.app);
                    trace.operator.clone_from(&function.operator);
                    trace.function.clone_from(&function.function);
                }
                trace.begun_us = ended.saturating_sub(took.as_micros() as u64);
            });
            self.answered(reply.id, reply.tid, reply.epoch, reply.outcome.as_ref().err());
        }
    }

    /// Whether there is room this second for one more that nobody watches.
    pub(super) fn admits_unwatched(&self) -> bool {
        let second = now().0 / 1_000_000;
        let mut unwatched = lock(&self.unwatched);
        if unwatched.0 != second {
            *unwatched = (second, 0);
        }
        unwatched.1 += 1;
        unwatched.1 <= UNWATCHED_MAX
    }

    /// A request that is watched has come.
    pub fn received(&self, id: RequestId) {
        let at = now().0;
        self.watched.fetch_add(1, Ordering::Relaxed);
        self.with(id, |trace| trace.begun_us = at);
        if let Some(export) = self.export.get() {
            let mut parents = lock(&self.parents);
            let parent = parents.iter().position(|(of, _)| *of == id).and_then(|at| parents.remove(at));
            if export.try_send(Received { id, parent: parent.map(|(_, parent)| parent) }).is_err() {
                self.traces_lost(1);
            }
        }
    }

    /// Has whoever sends traces hear of each request that is watched.
    pub fn export(&self, to: mpsc::Sender<Received>) {
        self.export.set(to).expect("one sends traces");
    }

    /// A request that is about to come belongs to a span.
    pub fn belongs(&self, id: RequestId, parent: SpanContext) {
        if self.export.get().is_some() {
            let mut parents = lock(&self.parents);
            parents.push_back((id, parent));
            if parents.len() > ASKED_MAX {
                parents.pop_front();
            }
        }
    }

    pub fn traces_sent(&self, traces: u64) {
        self.traces_sent.fetch_add(traces, Ordering::Relaxed);
    }

    pub fn traces_lost(&self, traces: u64) {
        self.traces_lost.fetch_add(traces, Ordering::Relaxed);
    }

    /// Traces sent, and those that could not be; `None` where nobody sends any.
    pub fn traces(&self) -> Option<[u64; 2]> {
        self.export.get()?;
        Some([&self.traces_sent, &self.traces_lost].map(|counter| counter.load(Ordering::Relaxed)))
    }

    /// An execution has gone as far as it goes for now.
    pub(super) fn attempted(&self, transaction: &Transaction, catalog: &Catalog, attempt: TraceAttempt) {
        let request = &transaction.request;
        self.with(request.id, |trace| {
            if trace.app.is_empty() {
                let operator = catalog.operator(request.operator);
                trace.app = operator.map_or_else(|| "?".into(), |operator| operator.app.to_string());
                trace.operator = operator_name(catalog, request.operator);
                trace.function = request.function.to_string();
                trace.key = shown(&request.key);
            }
            if trace.begun_us == 0 {
                trace.begun_us = Some(transaction.time.0).filter(|time| *time > 0).unwrap_or(attempt.begun_us);
            }
            trace.tid = Some(transaction.tid.0);
            // What an execution would have written counts no more when there is another.
            let former = trace.attempts.iter_mut().flat_map(|former| &mut former.accesses);
            former.for_each(|access| access.change = None);
            if trace.attempts.len() < ATTEMPTS_MAX {
                trace.attempts.push(attempt);
            }
        });
    }

    /// What has touched the same is known of the last execution.
    pub(super) fn conflicts(&self, id: RequestId, conflicts: Vec<TraceConflict>) {
        self.with(id, |trace| {
            if let Some(last) = trace.attempts.last_mut() {
                last.conflicts = conflicts;
            }
        });
    }

    /// A request is answered. One that aborts may be kept though it is not watched.
    pub fn ended(&self, reply: &Reply) {
        self.ended_as(reply.id, reply.tid, reply.epoch, reply.outcome.as_ref().err());
    }

    /// The same, of an answer in other words.
    #[inline]
    pub fn ended_as(&self, id: RequestId, tid: Tid, epoch: Epoch, aborted: Option<&Abort>) {
        if self.wants(id) || aborted.is_some() && lock(&self.kept).requests.contains_key(&id) {
            self.answered(id, tid, epoch, aborted);
        }
    }

    #[cold]
    fn answered(&self, id: RequestId, tid: Tid, epoch: Epoch, aborted: Option<&Abort>) {
        let at = now().0;
        self.with(id, |trace| {
            // Who asks again for what has ended changes nothing.
            if trace.ended_us.is_some() {
                return;
            }
            (trace.tid, trace.epoch, trace.ended_us) = (Some(tid.0), Some(epoch.0), Some(at));
            trace.status = if aborted.is_some() { "aborted" } else { "committed" }.into();
            trace.code = aborted.map(|abort| abort.code.as_str().into());
            trace.message = aborted.map(|abort| shown(&abort.message));
        });
    }

    /// An epoch is durable.
    pub fn durable(&self, epoch: Epoch) {
        let mut durable = lock(&self.durable);
        durable.push_back((epoch.0, now().0));
        if durable.len() > EPOCHS_MAX {
            durable.pop_front();
        }
    }

    /// Keeps a guest's line.
    pub fn line(&self, catalog: &Catalog, tid: Tid, line: &LogLine) {
        let operator = catalog.operator(line.operator);
        let function = operator.and_then(|operator| operator.functions().nth(line.function.into()));
        self.lines.push(LogEntry {
            sequence: 0,
            worker: self.worker(),
            time_us: now().0,
            level: level(line.level).into(),
            app: operator.map_or_else(String::new, |operator| operator.app.to_string()),
            operator: operator_name(catalog, line.operator),
            function: function.map_or_else(|| "?".into(), |function| function.name.to_string()),
            key: shown(&line.key),
            request_id: line.request.to_string(),
            tid: tid.0,
            message: line.message.clone(),
        });
    }

    /// Answers a question as another process asks it.
    pub fn answer(&self, question: &str) -> String {
        let told = serde_json::from_str(question).map(|question| self.tell(question));
        told.map_or_else(|_| "null".into(), |told| serde_json::to_string(&told).expect("plain data"))
    }

    fn tell(&self, question: Question) -> Told {
        match question {
            Question::Trace(id) => {
                let found = id.parse::<RequestId>().ok().and_then(|id| lock(&self.kept).requests.get(&id).cloned());
                Told::Trace(found.map(|mut trace| {
                    trace.logs = self.lines.of(&trace.request_id);
                    Box::new(self.with_durable(trace))
                }))
            }
            Question::Requests { limit } => {
                let kept = lock(&self.kept);
                let newest = kept.order.iter().rev().filter_map(|(id, _)| kept.requests.get(id));
                let bare = |trace: &RequestTrace| {
                    let attempts = trace.attempts.iter();
                    let attempts = attempts.map(|attempt| TraceAttempt {
                        calls: attempt.calls.iter().filter(|call| call.parent.is_none()).cloned().collect(),
                        accesses: Vec::new(),
                        conflicts: Vec::new(),
                        ..attempt.clone()
                    });
                    RequestTrace { attempts: attempts.collect(), ..trace.clone() }
                };
                Told::Requests(newest.take(limit).map(bare).collect())
            }
            Question::Writers { app, operator, key } => {
                let (foreign, key) = (format!("{app}{SEPARATOR}{operator}"), shown(&key));
                let is_it = |trace: &RequestTrace, access: &TraceAccess| {
                    let named = access.operator == foreign || trace.app == app && access.operator == operator;
                    named && access.written && !access.range && access.key == key
                };
                let wrote = |trace: &RequestTrace| {
                    let write = trace.attempts.last()?.accesses.iter().find(|access| is_it(trace, access))?;
                    Some(Writer { tid: trace.tid?, request_id: trace.request_id.clone(), change: write.change.clone() })
                };
                let kept = lock(&self.kept);
                let ended = kept.requests.values().filter(|trace| trace.status != "aborted");
                let mut writers: Vec<Writer> = ended.filter_map(wrote).collect();
                writers.sort_by_key(|writer| std::cmp::Reverse(writer.tid));
                writers.truncate(WRITERS_MAX);
                Told::Writers(writers)
            }
            Question::Logs { after, limit } => {
                let worker = self.worker();
                let (lines, next) = self.lines.since(after.get(&worker).copied().unwrap_or(0), limit);
                Told::Logs { worker, lines, next }
            }
        }
    }

    /// Says when the epoch was durable in which it ended.
    fn with_durable(&self, mut trace: RequestTrace) -> RequestTrace {
        if let Some(epoch) = trace.epoch {
            let durable = lock(&self.durable);
            // What is durable with an epoch is so with all before it.
            if let Some((_, at)) = durable.iter().find(|(known, _)| *known >= epoch) {
                let phase = super::view::TracePhase { name: "durable".into(), begun_us: *at, ended_us: *at };
                trace.phases.push(phase);
            }
        }
        trace
    }

    /// Changes what is kept of a request, and forgets the oldest for it.
    fn with(&self, id: RequestId, change: impl FnOnce(&mut RequestTrace)) {
        let mut kept = lock(&self.kept);
        let kept = &mut *kept;
        let trace = kept.requests.entry(id).or_insert_with(|| {
            kept.order.push_back((id, 0));
            RequestTrace { request_id: id.to_string(), status: "pending".into(), ..RequestTrace::default() }
        });
        let before = weight(trace);
        change(trace);
        kept.bytes = kept.bytes + weight(trace) - before;
        if kept.order.back().is_some_and(|(last, noted)| *last == id && *noted == 0) {
            kept.bytes += before;
            kept.order.back_mut().expect("just seen").1 = 1;
        }
        while kept.bytes > BYTES_MAX
            && let Some((oldest, _)) = kept.order.pop_front()
        {
            if let Some(trace) = kept.requests.remove(&oldest) {
                kept.bytes -= weight(&trace);
            }
        }
    }

    /// What is told of an execution that is over.
    pub(super) fn of_execution(
        &self,
        kind: &str,
        (begun, ended): (u64, u64),
        execution: &Execution,
        profile: Option<Box<Profile>>,
        names: Names<'_>,
    ) -> TraceAttempt {
        let (outcome, abort) = match &execution.outcome {
            _ if execution.drifted => ("drifted", None),
            _ if execution.postponed => ("postponed", None),
            Ok(_) => ("ok", None),
            Err(abort) => ("aborted", Some(abort)),
        };
        let (calls, cut) = match profile {
            Some(profile) => (self.profiled(&profile, names), profile.cut),
            None => (self.recorded(execution, names), execution.calls.len() > ITEMS_MAX),
        };
        TraceAttempt {
            kind: kind.into(),
            outcome: outcome.into(),
            code: abort.map(|abort| abort.code.as_str().into()),
            message: abort.map(|abort| shown(&abort.message)),
            worker: self.worker(),
            begun_us: begun,
            ended_us: ended,
            fuel: execution.fuel,
            calls,
            accesses: accesses(execution, names),
            conflicts: Vec::new(),
            cut: cut || execution.footprint.accesses.iter().len() > ITEMS_MAX,
        }
    }

    /// Calls as somebody has watched them.
    pub(super) fn profiled(&self, profile: &Profile, names: Names<'_>) -> Vec<TraceCall> {
        let worker = self.worker();
        let calls = profile.calls.iter().map(|call| TraceCall {
            id: id_of(call.place),
            parent: None,
            operator: names.operator(call.entity.operator()),
            function: names.function(call.entity.operator(), call.function),
            key: shown(call.entity.key()),
            worker,
            asynchronous: call.asynchronous.unwrap_or(false),
            read_only: call.read_only,
            begun_us: Some(call.begun),
            ended_us: Some(call.ended),
            fuel: Some(call.fuel),
            issued: call.issued,
        });
        let mut calls: Vec<TraceCall> = calls.collect();
        // By whom each was called; where no paths are kept, one that did not run inside its caller ran after it.
        let places: HashMap<u64, usize> = profile.calls.iter().enumerate().map(|(at, call)| (call.place, at)).collect();
        for (at, call) in profile.calls.iter().enumerate() {
            for number in 1..=call.issued.min(ITEMS_MAX as u32) {
                let Some(&child) = places.get(&place_of_call(call.place, number)) else { continue };
                calls[child].parent = Some(id_of(call.place));
                let called = &profile.calls[child];
                // Calls are noted when they end: one inside its caller before it.
                let inside = child < at;
                calls[child].asynchronous = called.asynchronous.unwrap_or(!inside);
                if inside {
                    let fuel = calls[at].fuel.map(|fuel| fuel.saturating_sub(called.fuel));
                    calls[at].fuel = fuel;
                }
            }
        }
        calls.sort_by_key(|call| call.begun_us);
        calls
    }

    /// Calls as an execution itself keeps them.
    fn recorded(&self, execution: &Execution, names: Names<'_>) -> Vec<TraceCall> {
        let worker = self.worker();
        let kept = || execution.calls.iter().take(ITEMS_MAX);
        let places: HashMap<u64, usize> = kept().enumerate().map(|(at, call)| (call.place, at)).collect();
        let mut calls: Vec<TraceCall> = kept()
            .map(|call| TraceCall {
                id: id_of(call.place),
                operator: names.operator(call.entity.operator()),
                function: names.function(call.entity.operator(), call.function),
                key: shown(call.entity.key()),
                worker,
                ..TraceCall::default()
            })
            .collect();
        for call in kept() {
            for number in 1.. {
                let Some(&child) = places.get(&place_of_call(call.place, number)) else { break };
                calls[child].parent = Some(id_of(call.place));
            }
        }
        calls
    }
}

fn accesses(execution: &Execution, names: Names<'_>) -> Vec<TraceAccess> {
    let entities = execution.footprint.accesses.iter().map(|(entity, access)| TraceAccess {
        operator: names.operator(entity.operator()),
        key: shown(entity.key()),
        range: false,
        read: access.is_read(),
        written: access.is_write(),
        deleted: matches!(access.write(), Some(None)),
        bytes: access.write().flatten().map(|value| value.len() as u64),
        change: None,
    });
    let ranges = execution.footprint.ranges.iter().map(|read| TraceAccess {
        operator: names.operator(read.operator),
        key: bounds(&read.range),
        range: true,
        read: true,
        ..TraceAccess::default()
    });
    entities.chain(ranges).take(ITEMS_MAX).collect()
}

pub(super) fn accesses_of(execution: &Execution, names: Names<'_>) -> Vec<TraceAccess> {
    accesses(execution, names)
}

fn bounds(range: &styx_protocol::range::KeyRange) -> String {
    use std::ops::Bound;
    let lower = match &range.lower {
        Bound::Unbounded => "(".into(),
        Bound::Included(key) => format!("[{}", shown(key)),
        Bound::Excluded(key) => format!("({}", shown(key)),
    };
    let upper = match &range.upper {
        Bound::Unbounded => ")".into(),
        Bound::Included(key) => format!("{}]", shown(key)),
        Bound::Excluded(key) => format!("{})", shown(key)),
    };
    format!("{lower} … {upper}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn id_of(place: u64) -> String {
    format!("{place:016x}")
}

pub(super) fn level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    }
}

fn operator_name(catalog: &Catalog, operator: OperatorId) -> String {
    catalog.operator(operator).map_or_else(|| "?".into(), |operator| operator.name.to_string())
}

/// As much of a text as is kept.
pub(super) fn shown(text: &str) -> String {
    match text.len() {
        0..=TEXT_MAX => text.into(),
        _ => format!("{}…", &text[..text.floor_char_boundary(TEXT_MAX)]),
    }
}

/// About how many bytes it takes.
fn weight(trace: &RequestTrace) -> usize {
    const ITEM: usize = 300;
    let attempt = |attempt: &TraceAttempt| {
        let items = attempt.calls.len() + attempt.accesses.len() + attempt.conflicts.len();
        let keys = attempt.calls.iter().map(|call| call.key.len()).sum::<usize>()
            + attempt.accesses.iter().map(|access| access.key.len()).sum::<usize>();
        let values = attempt.accesses.iter().filter_map(|access| access.change.as_ref()).map(Change::weight);
        ITEM * (items + 1) + keys + values.sum::<usize>()
    };
    2 * ITEM + trace.key.len() + trace.attempts.iter().map(attempt).sum::<usize>()
}
