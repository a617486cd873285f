//! Requests that somebody wants to look at later.

use styx_protocol::transaction::Request;

use super::Ingress;
use crate::observe::marked;

/// Has a request watched. Under a key it keeps its id, and is watched by this process alone.
pub(super) fn watch(request: &mut Request, has_key: bool, ingress: &Ingress) {
    if has_key {
        ingress.handle.stats().observed.ask(request.id);
    } else {
        request.id = marked(request.id);
    }
}

/// Whether a `traceparent`, as W3C Trace Context has it, says that its trace is kept.
pub(super) fn is_sampled(traceparent: &str) -> bool {
    let flags = traceparent.split('-').nth(3).and_then(|flags| u8::from_str_radix(flags, 16).ok());
    flags.is_some_and(|flags| flags & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_flag_says_whether_a_trace_is_kept() {
        for (flags, kept) in [("00", false), ("01", true), ("02", false), ("03", true), ("", false), ("x", false)] {
            let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            assert_eq!(is_sampled(&parent), kept, "{parent}");
        }
        assert!(!is_sampled("") && !is_sampled("01-01"));
    }
}
