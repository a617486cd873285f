//! A step of the driver: the time that it is, and where effects go.

use styx_protocol::abort::Abort;
use styx_protocol::ids::NodeId;

use super::io::Effect;
use crate::client::Answer;
use crate::diagnostic::Diagnostic;
use crate::time::{Instant, Now};
use crate::wire::Envelope;

/// What a step may do.
pub(super) struct Step<'a, W, R> {
    pub(super) now: Now,
    effects: &'a mut Vec<Effect<W, R>>,
}

impl<'a, W, R> Step<'a, W, R> {
    pub(super) fn new(now: Now, effects: &'a mut Vec<Effect<W, R>>) -> Self {
        Step { now, effects }
    }

    pub(super) fn time(&self) -> Instant {
        self.now.monotonic
    }

    pub(super) fn push(&mut self, effect: Effect<W, R>) {
        self.effects.push(effect);
    }

    pub(super) fn extend(&mut self, effects: impl IntoIterator<Item = Effect<W, R>>) {
        self.effects.extend(effects);
    }

    /// Tells people.
    pub(super) fn log(&mut self, diagnostic: Diagnostic) {
        self.push(Effect::Diagnostic(diagnostic));
    }

    /// Answers whoever waits for a deployment or a migration, if anybody does.
    pub(super) fn controlled(&mut self, waiter: Option<W>, result: Result<(), Abort>) {
        self.extend(waiter.map(|waiter| Effect::Answer(waiter, Answer::Controlled(result))));
    }

    /// Sends a message outside of generations.
    pub(super) fn control(&mut self, to: NodeId, envelope: Envelope) {
        self.push(Effect::SendControl { to, envelope });
    }
}
