//! One picture of a request from what several workers have seen of it.

use std::collections::HashMap;

use styx_protocol::attempt::place_of_call;

use super::view::{RequestSummary, RequestTrace, TraceAttempt, TracePhase};

/// Puts together what workers have seen of one request.
pub fn merge(parts: Vec<RequestTrace>) -> Option<RequestTrace> {
    let mut parts = parts.into_iter();
    let mut trace = parts.next()?;
    for part in parts {
        // Who has run only calls of it knows what was asked for, and not of which entity.
        if trace.app.is_empty() || trace.key.is_empty() && !part.key.is_empty() {
            (trace.app, trace.operator) = (part.app, part.operator);
            (trace.function, trace.key) = (part.function, part.key);
        }
        trace.begun_us = [trace.begun_us, part.begun_us].into_iter().filter(|at| *at > 0).min().unwrap_or(0);
        trace.tid = trace.tid.or(part.tid);
        if part.ended_us.is_some() {
            (trace.status, trace.code, trace.message) = (part.status, part.code, part.message);
            (trace.epoch, trace.ended_us) = (part.epoch, part.ended_us);
        }
        trace.phases.extend(part.phases);
        trace.attempts.extend(part.attempts);
        trace.logs.extend(part.logs);
    }
    trace.attempts = rounds(trace.attempts);
    trace.attempts.iter_mut().for_each(connect);
    trace.logs.sort_by_key(|line| (line.time_us, line.worker, line.sequence));
    // Nobody here has answered it: what it came to last is what is known.
    if trace.ended_us.is_none()
        && let Some(last) = trace.attempts.last()
        && last.outcome == "aborted"
    {
        (trace.code, trace.message) = (last.code.clone(), last.message.clone());
    }
    trace.phases = phases(&trace);
    Some(trace)
}

/// Executions, each of all of its parts: a part belongs to the one under way if that is of its kind and has not ended.
fn rounds(mut parts: Vec<TraceAttempt>) -> Vec<TraceAttempt> {
    parts.sort_by_key(|part| (part.begun_us, part.worker));
    let mut rounds: Vec<TraceAttempt> = Vec::new();
    for part in parts {
        let open = rounds.last_mut().filter(|last| {
            let goes_on = last.outcome == "open" || part.begun_us < last.ended_us || is_beside(last, &part);
            last.kind == part.kind && goes_on && part_of(last, &part)
        });
        match open {
            None => rounds.push(part),
            Some(last) => {
                last.begun_us = last.begun_us.min(part.begun_us);
                last.ended_us = last.ended_us.max(part.ended_us);
                last.fuel = last.fuel.max(part.fuel);
                last.cut |= part.cut;
                for call in part.calls {
                    if !last.calls.iter().any(|known| known.id == call.id) {
                        last.calls.push(call);
                    }
                }
                for access in part.accesses {
                    match last.accesses.iter_mut().find(|known| {
                        known.operator == access.operator && known.key == access.key && known.range == access.range
                    }) {
                        Some(known) => {
                            known.read |= access.read;
                            known.written |= access.written;
                            known.deleted = access.deleted;
                            known.bytes = access.bytes.or(known.bytes);
                        }
                        None => last.accesses.push(access),
                    }
                }
                last.conflicts.extend(part.conflicts);
                if part.outcome != "open" {
                    (last.outcome, last.code, last.message) = (part.outcome, part.code, part.message);
                }
            }
        }
    }
    rounds
}

/// Asynchronous calls run when their caller has ended. An execution that begins anew has the same calls once more.
fn is_beside(last: &TraceAttempt, part: &TraceAttempt) -> bool {
    part.calls.iter().all(|call| last.calls.iter().all(|known| known.id != call.id))
}

/// What is whole is no part of another.
fn part_of(last: &TraceAttempt, part: &TraceAttempt) -> bool {
    last.outcome == "open" || part.outcome == "open"
}

/// Says who called whom, across workers.
fn connect(attempt: &mut TraceAttempt) {
    const CALLS_MAX: u32 = 1024;
    let places: HashMap<String, usize> =
        attempt.calls.iter().enumerate().map(|(at, call)| (call.id.clone(), at)).collect();
    for at in 0..attempt.calls.len() {
        let call = &attempt.calls[at];
        let Ok(place) = u64::from_str_radix(&call.id, 16) else { continue };
        let caller = call.id.clone();
        for number in 1..=call.issued.min(CALLS_MAX) {
            let child = super::recording::id_of(place_of_call(place, number));
            if let Some(&child) = places.get(&child) {
                attempt.calls[child].parent = Some(caller.clone());
            }
        }
    }
    attempt.calls.sort_by_key(|call| (call.begun_us, call.parent.is_some()));
}

/// What the time went into: executions, and what lies between them.
fn phases(trace: &RequestTrace) -> Vec<TracePhase> {
    let mut phases: Vec<TracePhase> = Vec::new();
    let mut at = trace.begun_us;
    let mut until = |name: &str, end: u64| {
        if end > at {
            phases.push(TracePhase { name: name.into(), begun_us: at, ended_us: end });
            at = end;
        }
    };
    for (number, attempt) in trace.attempts.iter().enumerate() {
        until(if number == 0 { "queued" } else { "validate" }, attempt.begun_us);
        until(if attempt.kind == "lock_free" { "execute" } else { "fallback" }, attempt.ended_us);
    }
    let durable = trace.phases.iter().filter(|phase| phase.name == "durable").map(|phase| phase.ended_us).max();
    if let Some(ended) = trace.ended_us {
        if let Some(durable) = durable {
            until("durable", durable.min(ended));
        }
        until("reply", ended);
    }
    phases
}

/// A request in a list.
pub fn summary(trace: &RequestTrace) -> RequestSummary {
    RequestSummary {
        request_id: trace.request_id.clone(),
        tid: trace.tid,
        app: trace.app.clone(),
        operator: trace.operator.clone(),
        function: trace.function.clone(),
        key: trace.key.clone(),
        status: trace.status.clone(),
        code: trace.code.clone(),
        message: trace.message.clone(),
        epoch: trace.epoch,
        begun_us: trace.begun_us,
        duration_us: trace.ended_us.map(|ended| ended.saturating_sub(trace.begun_us)),
        attempts: trace.attempts.len() as u32,
        fuel: trace.attempts.last().map(|attempt| attempt.fuel).filter(|fuel| *fuel > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::TraceCall;
    use super::*;

    fn part(worker: u32, begun: u64, ended: u64, kind: &str, outcome: &str, calls: &[(u64, u32)]) -> TraceAttempt {
        let calls = calls.iter().map(|(place, issued)| TraceCall {
            id: super::super::recording::id_of(*place),
            issued: *issued,
            worker,
            begun_us: Some(begun),
            ..TraceCall::default()
        });
        TraceAttempt {
            kind: kind.into(),
            outcome: outcome.into(),
            worker,
            begun_us: begun,
            ended_us: ended,
            calls: calls.collect(),
            ..TraceAttempt::default()
        }
    }

    #[test]
    fn parts_of_workers_become_one_graph() {
        let (root, child) = (77, place_of_call(77, 1));
        let here = vec![part(1, 10, 12, "lock_free", "open", &[]), part(1, 20, 22, "lock_free", "ok", &[(root, 1)])];
        let there = vec![part(2, 14, 18, "lock_free", "open", &[(child, 0)])];
        let trace = |attempts| RequestTrace { begun_us: 5, app: "shop".into(), attempts, ..RequestTrace::default() };
        let ended = RequestTrace { ended_us: Some(40), status: "committed".into(), key: "both".into(), ..trace(here) };
        let merged = merge(vec![trace(there), ended]).unwrap();
        assert_eq!((merged.attempts.len(), &*merged.status), (1, "committed"));
        assert_eq!(&*merged.key, "both", "one of them knows the entity");
        let attempt = &merged.attempts[0];
        assert_eq!((&*attempt.outcome, attempt.begun_us, attempt.ended_us), ("ok", 10, 22));
        let of = |place| attempt.calls.iter().find(|call| call.id == super::super::recording::id_of(place)).unwrap();
        assert_eq!((of(root).parent.clone(), of(child).parent.clone()), (None, Some(of(root).id.clone())));
        let told: Vec<_> = merged.phases.iter().map(|phase| (&*phase.name, phase.begun_us, phase.ended_us)).collect();
        assert_eq!(told, [("queued", 5, 10), ("execute", 10, 22), ("reply", 22, 40)]);
    }

    #[test]
    fn asynchronous_calls_elsewhere_belong_to_the_execution_that_has_issued_them() {
        let (root, [first, second]) = (77, [place_of_call(77, 1), place_of_call(77, 2)]);
        let attempts = vec![
            part(1, 10, 22, "lock_free", "ok", &[(root, 2), (first, 0)]),
            part(2, 25, 26, "lock_free", "open", &[(second, 0)]),
            part(1, 30, 31, "lock_free", "ok", &[(root, 2), (first, 0)]),
            part(2, 33, 34, "lock_free", "open", &[(second, 0)]),
        ];
        let merged = merge(vec![RequestTrace { begun_us: 9, attempts, ..RequestTrace::default() }]).unwrap();
        let calls: Vec<usize> = merged.attempts.iter().map(|attempt| attempt.calls.len()).collect();
        assert_eq!(calls, [3, 3]);
        assert!(merged.attempts.iter().all(|attempt| attempt.outcome == "ok" && attempt.calls[2].parent.is_some()));
    }

    #[test]
    fn a_list_tells_the_fuel_of_the_last_execution() {
        let attempt = |fuel| TraceAttempt { fuel, ..TraceAttempt::default() };
        let of = |attempts| summary(&RequestTrace { attempts, ..RequestTrace::default() }).fuel;
        assert_eq!(of(vec![attempt(7), attempt(5)]), Some(5));
        assert_eq!((of(vec![attempt(0)]), of(Vec::new())), (None, None));
    }

    #[test]
    fn executions_one_after_the_other_stay_apart() {
        let attempts = vec![
            part(1, 10, 12, "lock_free", "ok", &[(1, 0)]),
            part(1, 15, 16, "fallback", "drifted", &[(1, 0)]),
            part(1, 30, 31, "lock_free", "ok", &[(1, 0)]),
        ];
        let merged = merge(vec![RequestTrace { begun_us: 9, attempts, ..RequestTrace::default() }]).unwrap();
        assert_eq!(merged.attempts.len(), 3);
        let names: Vec<_> = merged.phases.iter().map(|phase| &*phase.name).collect();
        assert_eq!(names, ["queued", "execute", "validate", "fallback", "validate", "execute"]);
        assert_eq!(merge(Vec::new()), None);
    }
}
