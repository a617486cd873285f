//! Time as drivers know it: what came with the step.

use std::fmt;
use std::time::Duration;

use styx_protocol::ids::Timestamp;

/// Microseconds of a monotonic clock since some start of its own. Instants of two processes have
/// nothing to do with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The time since `earlier`; nothing if that is later.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// So much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(micros(duration)))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs", self.0)
    }
}

/// Both clocks, as they were read just before a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For how long something takes, and what is due.
    pub monotonic: Instant,
    /// For what is written down.
    pub wall: Timestamp,
}

/// A duration in microseconds, as the protocol counts.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The earlier of two times at which something is due.
pub fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
