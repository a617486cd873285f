//! Responses to clients: each is checked against the history, and may be delayed or lost.

use styx_driver::wire::{AdminQuery, Response as Told, TicketedResponse};
use styx_protocol::abort::Abort;
use styx_protocol::attempt::LogLine;
use styx_protocol::ids::{Epoch, Generation, Tid};
use styx_protocol::machine::worker::ClientResponse;

use super::Environment;
use crate::check::looks::Look;
use crate::check::{Checked, ensure};
use crate::event::{Event, Life, Response, Waiter};

impl Environment {
    /// The client of an attempt sees its connection break.
    pub fn break_connection(&mut self, attempt: usize) {
        let delay = self.random.between(10, 1_000);
        self.after(delay, Event::Response(None, attempt, Response::Broken));
    }

    /// Answers leave a worker: of each, what it rests on must be durable.
    pub fn leaves(&mut self, _: Life, responses: &[TicketedResponse]) -> Checked {
        for TicketedResponse { response, .. } in responses {
            match response {
                Told::Reply(reply) => {
                    let aborted: Option<&Abort> = reply.outcome.as_ref().err();
                    self.history.leaves(reply.id, (reply.tid, reply.epoch), aborted, &self.checker, self.durable)?;
                }
                Told::Accepted(id) => self.history.accepted(*id, &self.checker, self.durable)?,
                Told::Value { epoch, .. } | Told::Entries { epoch, .. } => self.seen(*epoch)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The same of a single process.
    pub fn leaves_alone(&mut self, responses: &[ClientResponse<Waiter>]) -> Checked {
        for response in responses {
            match response {
                ClientResponse::Reply { reply, .. } | ClientResponse::Replayed { reply, .. } => {
                    let aborted = reply.outcome.as_ref().err();
                    self.history.leaves(reply.id, (reply.tid, reply.epoch), aborted, &self.checker, self.durable)?;
                }
                ClientResponse::Accepted { id, .. } => self.history.accepted(*id, &self.checker, self.durable)?,
                ClientResponse::Unknown { .. } | ClientResponse::Returned { .. } => {}
            }
        }
        Ok(())
    }

    /// Somebody is shown the state as of an epoch.
    fn seen(&self, epoch: Epoch) -> Checked {
        ensure(epoch <= self.durable, "durable before told", || {
            format!("a look shows epoch {epoch}; durable is {}", self.durable)
        })
    }

    /// A client is shown what it asked for.
    fn shown(&mut self, attempt: usize, shown: &Told) -> Checked {
        let query = self.history.seen(attempt)?;
        let (Some((query, told)), Told::Value { epoch, .. } | Told::Entries { epoch, .. }) = (query, shown) else {
            return Ok(());
        };
        self.seen(*epoch)?;
        ensure(told <= *epoch, "looks", || format!("epoch {told} had been told of, and a look shows epoch {epoch}"))?;
        // Several workers may have answered a scan, each after its own epoch.
        let of_several = self.plan.cluster.workers > 1 && matches!(query, AdminQuery::Scan { .. });
        let last = if of_several { self.durable } else { *epoch };
        self.checker.shown(Look { query, shown: shown.clone(), epochs: *epoch..=last })
    }

    /// A worker shows what guests have logged.
    pub fn logged(&mut self, generation: Generation, tid: Tid, lines: &[LogLine]) {
        self.checker.lines.shown(generation, tid, lines);
    }

    /// Answers the client of an attempt.
    pub fn answer(&mut self, life: Life, attempt: usize, response: Response, spent: u64) -> Checked {
        let now = self.queue.now();
        self.trace.event(now, [2, attempt as u64], || format!("{life} answers {attempt}: {response:?}"));
        match &response {
            Response::Reply(reply) => self.history.reply(attempt, reply, &self.checker, &self.poison)?,
            Response::Accepted => self.history.receipt(attempt)?,
            Response::Unknown => self.history.unknown(attempt, &self.checker)?,
            Response::Controlled(result) => {
                self.history.controlled(attempt, result.as_ref().err(), &self.checker, self.durable)?;
            }
            Response::Failed(_) | Response::Broken => self.history.failed(attempt)?,
            Response::Seen(seen) => self.shown(attempt, seen)?,
        }
        if !self.calm && self.random.chance(self.plan.loss) {
            self.figures.lost += 1;
            self.history.attempts[attempt].lost = true;
            return Ok(());
        }
        let delay = spent + self.delay(self.plan.network);
        self.after(delay, Event::Response(Some(life), attempt, response));
        Ok(())
    }
}
