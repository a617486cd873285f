//! Responses to clients: each is checked against the history, and may be delayed or lost.

use styx_protocol::abort::Abort;
use styx_protocol::machine::worker::ClientResponse;

use super::Environment;
use crate::check::Checked;
use crate::event::{Event, Life, Response};

impl Environment {
    /// The client of an attempt sees its connection break.
    pub fn break_connection(&mut self, attempt: usize) {
        let delay = self.random.between(10, 1_000);
        self.queue.after(&mut self.random, delay, Event::Response(None, attempt, Response::Broken));
    }

    /// Tells a client what a machine says.
    ///
    /// # Errors
    /// It must not be told.
    pub fn tell(&mut self, life: Life, response: ClientResponse<u64>) -> Checked {
        let now = self.queue.now();
        let durable = self.disk.durable();
        let (waiter, answer) = match response {
            ClientResponse::Reply { waiter, reply } => {
                let value = reply.outcome.as_ref().map_or(u64::MAX, |value| value[0].into());
                self.trace.event(now, [2, waiter, reply.tid.0, reply.epoch.0, value], || {
                    format!("{} tells {waiter}: {reply:?}", life)
                });
                self.history.reply(waiter as usize, &reply, &self.checker, durable)?;
                (waiter, Response::Reply(reply))
            }
            ClientResponse::Accepted { waiter, id } => {
                self.trace.event(now, [3, waiter], || format!("{life} gives {waiter} a receipt for {id}"));
                self.history.receipt(waiter as usize, &self.checker, durable)?;
                (waiter, Response::Accepted)
            }
            ClientResponse::Unknown { waiter } => {
                let known = self.history.is_known(waiter as usize, &self.checker);
                return self.respond_unknown(life, waiter, known);
            }
            ClientResponse::Returned { waiter } => {
                self.trace.event(now, [18, waiter], || format!("{life} gives {waiter} its request back"));
                self.history.returned(waiter as usize)?;
                (waiter, Response::Returned)
            }
        };
        self.answer(life, waiter, answer);
        Ok(())
    }

    /// Tells a client how its deployment ended.
    ///
    /// # Errors
    /// It must not be told.
    pub fn respond_controlled(&mut self, life: Life, waiter: u64, result: &Result<(), Abort>) -> Checked {
        let now = self.queue.now();
        self.trace
            .event(now, [5, waiter, u64::from(result.is_ok())], || format!("{life} deployed for {waiter}: {result:?}"));
        self.history.controlled(waiter as usize, result.is_ok(), &self.checker, self.disk.durable())?;
        self.answer(life, waiter, Response::Controlled);
        Ok(())
    }

    /// Tells a client that nothing is known of its request, which was to be known or not when it asked.
    ///
    /// # Errors
    /// It was.
    pub fn respond_unknown(&mut self, life: Life, waiter: u64, known: bool) -> Checked {
        let now = self.queue.now();
        self.trace.event(now, [4, waiter], || format!("{life} knows nothing for {waiter}"));
        self.history.unknown(waiter as usize, known)?;
        self.answer(life, waiter, Response::Unknown);
        Ok(())
    }

    fn answer(&mut self, life: Life, waiter: u64, answer: Response) {
        if !self.calm && self.random.chance(self.plan.loss) {
            self.figures.lost += 1;
            self.history.attempts[waiter as usize].lost = true;
            return;
        }
        let delay = self.delay(self.plan.network);
        let event = Event::Response(Some(life), waiter as usize, answer);
        self.queue.after(&mut self.random, delay, event);
    }
}
