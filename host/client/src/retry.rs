//! How often, and after which pauses, a request is repeated.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::Error;

/// A policy of repetition: exponential pauses with randomness, for a bounded time.
///
/// A server's `Retry-After` is a lower bound of the next pause.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    first: Duration,
    longest: Duration,
    patience: Duration,
    impatient: bool,
}

impl Default for Retry {
    /// 20 ms at first, two seconds at most, for a minute in all.
    fn default() -> Retry {
        Retry {
            first: Duration::from_millis(20),
            longest: Duration::from_secs(2),
            patience: Duration::from_secs(60),
            impatient: false,
        }
    }
}

impl Retry {
    /// Never: the first error is the caller's.
    pub fn never() -> Retry {
        Retry { patience: Duration::ZERO, ..Retry::default() }
    }

    /// Sets for how long attempts are begun, counted from the first.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Retry {
        Retry { patience, ..self }
    }

    /// Sets the first pause and the longest one.
    #[must_use]
    pub fn pauses(self, first: Duration, longest: Duration) -> Retry {
        Retry { first, longest: longest.max(first), ..self }
    }

    /// Leaves `Retry-After` out of account: for programs that find out how long a server is away.
    #[must_use]
    pub fn impatient(self) -> Retry {
        Retry { impatient: true, ..self }
    }

    pub(crate) fn begin(self) -> Attempts {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.longest)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        Attempts { until: Instant::now() + self.patience, pauses: pauses.build(), impatient: self.impatient }
    }
}

/// The attempts at one request.
#[derive(Debug)]
pub(crate) struct Attempts {
    until: Instant,
    pauses: ExponentialBackoff,
    impatient: bool,
}

impl Attempts {
    /// The pause before the next attempt; none if this error is the end.
    pub(crate) fn pause(&mut self, error: &Error, has_key: bool) -> Option<Duration> {
        let pause = if error.is_repeatable(has_key) { self.next()? } else { return None };
        let pause = if self.impatient { pause } else { pause.max(error.retry_after.unwrap_or_default()) };
        (Instant::now() + pause < self.until).then_some(pause)
    }

    /// The next pause, if there is time for one.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let pause = self.pauses.next()?;
        (Instant::now() + pause < self.until).then_some(pause)
    }
}
