//! The clocks of this process.

use std::time::Instant;

use styx_driver::time;
use styx_protocol::ids::Timestamp;

/// Microseconds since 1970, as the log and snapshots record them.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| since.as_micros() as u64))
}

/// A clock that only goes on, for a driver's durations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonotonicClock {
    started: Instant,
}

impl MonotonicClock {
    /// A clock that begins now, a microsecond after the beginning of all time.
    pub(crate) fn start() -> Self {
        MonotonicClock { started: Instant::now() }
    }

    /// The time now.
    pub(crate) fn now(&self) -> time::Instant {
        time::Instant(self.started.elapsed().as_micros() as u64 + 1)
    }
}
