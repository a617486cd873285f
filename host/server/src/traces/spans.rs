//! A request that was watched, as spans: the request, what its time went into, its executions and their calls.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use styx_protocol::ids::RequestId;
use xxhash_rust::xxh3::xxh3_64;

use super::SpanContext;
use crate::observe::{RequestTrace, TraceAttempt, TraceCall};

/// The spans of a trace: of its parent's where it has one, else of one that has the request's id.
pub fn spans(id: RequestId, parent: Option<SpanContext>, trace: &RequestTrace) -> Vec<Span> {
    let of = Trace { id: parent.map_or(id.0, |parent| parent.trace).to_be_bytes().to_vec(), request: id };
    let ended = trace.ended_us.unwrap_or(trace.begun_us);
    let root = of.span(&"request", parent.map(|parent| parent.span), (trace.begun_us, ended));
    let mut attributes = vec![
        text("styx.request_id", &trace.request_id),
        text("styx.app", &trace.app),
        text("styx.operator", &trace.operator),
        text("styx.key", &trace.key),
        text("styx.status", &trace.status),
    ];
    attributes.extend(trace.tid.map(|tid| number("styx.tid", tid)));
    attributes.extend(trace.epoch.map(|epoch| number("styx.epoch", epoch)));
    let lines = trace.logs.iter().map(|line| Event {
        time_unix_nano: line.time_us * 1000,
        name: line.message.clone(),
        attributes: vec![
            text("level", &line.level),
            text("styx.function", &line.function),
            text("styx.key", &line.key),
        ],
        ..Event::default()
    });
    let root = Span {
        name: format!("{}/{}.{}", trace.app, trace.operator, trace.function),
        kind: SpanKind::Server as i32,
        attributes,
        events: lines.collect(),
        status: status(trace.code.as_deref(), trace.message.as_deref()),
        ..root
    };
    let root_id = u64::from_be_bytes(root.span_id[..].try_into().expect("eight bytes"));
    let mut spans = vec![root];
    for (at, phase) in trace.phases.iter().enumerate() {
        let span = of.span(&("phase", at), Some(root_id), (phase.begun_us, phase.ended_us));
        spans.push(Span { name: phase.name.clone(), ..span });
    }
    for (at, attempt) in trace.attempts.iter().enumerate() {
        executed(&of, root_id, at, attempt, &mut spans);
    }
    spans
}

/// The spans of an execution.
fn executed(of: &Trace, root: u64, at: usize, attempt: &TraceAttempt, spans: &mut Vec<Span>) {
    let conflicts = attempt.conflicts.iter().map(|conflict| Event {
        time_unix_nano: attempt.ended_us * 1000,
        name: "conflict".into(),
        attributes: vec![
            number("styx.tid", conflict.tid),
            text("styx.request_id", &conflict.request_id),
            text("styx.operator", &conflict.operator),
            text("styx.key", &conflict.key),
            text("styx.did", &conflict.did),
        ],
        ..Event::default()
    });
    let span = of.span(&("attempt", at), Some(root), (attempt.begun_us, attempt.ended_us));
    spans.push(Span {
        name: format!("{} execution", attempt.kind),
        attributes: vec![
            text("styx.outcome", &attempt.outcome),
            number("styx.worker", attempt.worker.into()),
            number("styx.fuel", attempt.fuel),
        ],
        events: conflicts.collect(),
        status: status(attempt.code.as_deref(), attempt.message.as_deref()),
        ..span
    });
    for call in &attempt.calls {
        let parent = match &call.parent {
            Some(parent) => of.span_id(&("call", at, parent)),
            None => of.span_id(&("attempt", at)),
        };
        spans.push(called(of, parent, at, attempt, call));
    }
}

fn called(of: &Trace, parent: u64, at: usize, attempt: &TraceAttempt, call: &TraceCall) -> Span {
    let time = (call.begun_us.unwrap_or(attempt.begun_us), call.ended_us.unwrap_or(attempt.ended_us));
    let mut attributes = vec![
        text("styx.operator", &call.operator),
        text("styx.key", &call.key),
        number("styx.worker", call.worker.into()),
        flag("styx.asynchronous", call.asynchronous),
        flag("styx.read_only", call.read_only),
    ];
    attributes.extend(call.fuel.map(|fuel| number("styx.fuel", fuel)));
    let span = of.span(&("call", at, &call.id), Some(parent), time);
    Span { name: format!("{}.{}", call.operator, call.function), attributes, ..span }
}

/// What the spans of a trace have in common.
struct Trace {
    id: Vec<u8>,
    request: RequestId,
}

impl Trace {
    /// The id of a span, by what it is of the request: whoever tells of it again gives it the same.
    fn span_id(&self, what: &impl std::fmt::Debug) -> u64 {
        xxh3_64(format!("{} {what:?}", self.request).as_bytes()).max(1)
    }

    fn span(&self, what: &impl std::fmt::Debug, parent: Option<u64>, (begun_us, ended_us): (u64, u64)) -> Span {
        Span {
            trace_id: self.id.clone(),
            span_id: self.span_id(what).to_be_bytes().to_vec(),
            parent_span_id: parent.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: begun_us * 1000,
            end_time_unix_nano: ended_us.max(begun_us) * 1000,
            ..Span::default()
        }
    }
}

fn status(code: Option<&str>, message: Option<&str>) -> Option<Status> {
    let message = format!("{}: {}", code?, message.unwrap_or_default());
    Some(Status { code: StatusCode::Error as i32, message })
}

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
