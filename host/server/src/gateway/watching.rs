//! Requests that somebody wants to look at later.

use styx_protocol::transaction::Request;

use super::Ingress;
use crate::observe::marked;
use crate::traces::SpanContext;

/// Has a request watched if its client asks for that: by name, or because it is part of a trace that is kept. Under a key it
/// keeps its id, and is watched by this process alone.
pub(crate) fn watch(request: &mut Request, asked: bool, traceparent: Option<&str>, has_key: bool, ingress: &Ingress) {
    let parent = traceparent.and_then(SpanContext::parse);
    if !asked && !parent.is_some_and(|parent| parent.sampled) {
        return;
    }
    let recorder = &ingress.handle.stats().observed;
    if has_key {
        recorder.ask(request.id);
    } else {
        request.id = marked(request.id);
    }
    if let Some(parent) = parent {
        recorder.belongs(request.id, parent);
    }
}
