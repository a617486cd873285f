//! Shutdown: the way of the process to its end, once it was told to stop.

use std::time::Duration;

use crate::time::Instant;

/// How far the process is on the way to its end.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    stopping_since: Option<Instant>,
    /// What was sent is awaited to arrive.
    is_awaiting: bool,
    has_ended: bool,
}

impl Shutdown {
    /// The process was told to stop; false if it was told before.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let first = self.stopping_since.is_none();
        self.stopping_since.get_or_insert(now);
        first
    }

    /// It was told to stop.
    pub(super) fn has_begun(&self) -> bool {
        self.stopping_since.is_some()
    }

    /// Nothing more will be said: what was is to arrive. False if it is awaited already.
    pub(super) fn await_delivery(&mut self) -> bool {
        !std::mem::replace(&mut self.is_awaiting, true)
    }

    /// What was sent is awaited to arrive.
    pub(super) fn is_awaiting(&self) -> bool {
        self.is_awaiting
    }

    /// It was told to stop so long ago that nothing is waited for any more.
    pub(super) fn is_overdue(&self, patience: Duration, now: Instant) -> bool {
        self.stopping_since.is_some_and(|since| now.since(since) >= patience)
    }

    /// The process ends; false if it has been said before.
    pub(super) fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.has_ended, true)
    }

    /// The end was said.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_to_the_end_is_taken_once() {
        let patience = Duration::from_micros(10);
        let mut shutdown = Shutdown::default();
        assert!(!shutdown.has_begun() && !shutdown.is_overdue(patience, Instant(99)) && !shutdown.is_awaiting());
        assert!(shutdown.begin(Instant(5)) && !shutdown.begin(Instant(8)) && shutdown.has_begun());
        assert!(!shutdown.is_overdue(patience, Instant(14)) && shutdown.is_overdue(patience, Instant(15)));
        assert!(shutdown.await_delivery() && shutdown.is_awaiting() && !shutdown.await_delivery());
        assert!(!shutdown.has_ended() && shutdown.end() && shutdown.has_ended() && !shutdown.end());
    }
}
