//! Pipelined connection with neither a network before it nor a worker behind it: measures what calls cost
//! in the ingress alone.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::http::HeaderMap;
use bytes::Bytes;
use crossbeam_channel::{Receiver, unbounded};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::ids::{Epoch, Tid};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::replies::Reply;

use super::Ingress;
use super::pipeline::Pipeline;
use crate::auth::{Access, Gate};
use crate::handle::{Answer, ClientMessage, Handle};
use crate::http::Shutdown;

/// Connection whose requests are answered here, in place of a worker.
pub struct Loopback {
    pipeline: Pipeline,
    handle: Handle,
    inbox: Receiver<ClientMessage>,
    answered: u64,
}

impl Loopback {
    /// A connection where `catalog` is deployed.
    pub fn new(catalog: Catalog) -> Self {
        let (to, inbox) = unbounded();
        let handle = Handle::new(to, usize::MAX, Arc::default());
        handle.show_catalog(Arc::new(catalog));
        let ingress = Ingress::new(handle.clone(), Arc::default(), Shutdown::default());
        let gate = Gate::new(handle.clone(), Access::default());
        let visitor = gate.visit(&HeaderMap::new(), None).expect("nobody is asked for a token");
        Loopback { pipeline: Pipeline::new(ingress, visitor), handle, inbox, answered: 0 }
    }

    /// Takes a message as a client sends it, one call a line; every call comes to `value`. Appends
    /// the replies, one a line, and says how many calls reached the worker's place.
    pub fn exchange(&mut self, message: Bytes, value: &Value, out: &mut Vec<u8>) -> usize {
        let before = self.answered;
        let mut context = Context::from_waker(Waker::noop());
        self.pipeline.take_message(message, out);
        while !self.pipeline.is_empty() {
            self.answer(value);
            while let Poll::Ready(1..) = self.pipeline.poll_replies(&mut context, out) {}
        }
        self.pipeline.sent();
        (self.answered - before) as usize
    }

    /// Does as a worker does.
    fn answer(&mut self, value: &Value) {
        while let Ok(message) = self.inbox.try_recv() {
            self.handle.taken(&message);
            let (id, waiter) = match message {
                ClientMessage::Request(ClientRequest::Submit { request, waiter, .. }) => (request.id, waiter),
                ClientMessage::Request(ClientRequest::Query { request, waiter }) => (request.id, waiter),
                ClientMessage::Request(ClientRequest::Await { .. }) | ClientMessage::Read(..) => continue,
            };
            self.answered += 1;
            let reply = Reply { id, tid: Tid(self.answered), epoch: Epoch(1), outcome: Ok(value.clone()) };
            waiter.answer(Answer::Reply(reply));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_an_answer() {
        let mut loopback = Loopback::new(crate::gateway::tests::shop());
        let line = |id, function| {
            format!(r#"{{"id":{id},"app":"shop","operator":"stock","key":"k","function":"{function}","args":[]}}"#)
        };
        let message = [line(1, "read"), line(2, "nothing"), line(3, "read")].join("\n");
        let mut out = Vec::new();
        let reached = loopback.exchange(message.into(), &Value::from(&b"7"[..]), &mut out);
        assert_eq!(reached, 2);
        let out = String::from_utf8(out).expect("replies are text");
        let mut replies: Vec<&str> = out.lines().collect();
        replies.sort_unstable();
        assert_eq!(replies[0], r#"{"id":1,"ok":7,"tid":1,"epoch":1}"#);
        assert!(replies[1].starts_with(r#"{"id":2,"error":{"code":"UNKNOWN_FUNCTION""#), "{out}");
        assert_eq!(replies[2], r#"{"id":3,"ok":7,"tid":2,"epoch":1}"#);
    }
}
