//! The clocks of this process.

use rustix::time::{ClockId, clock_gettime};
use styx_driver::time;
use styx_protocol::ids::Timestamp;

/// Microseconds since 1970, as the log and snapshots record them.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| since.as_micros() as u64))
}

/// A clock that only goes on, also while the machine is suspended: a lease that ran out meanwhile has run out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonotonicClock {
    /// Microseconds since the machine started.
    started: u64,
}

impl MonotonicClock {
    /// A clock that begins now, a microsecond after the beginning of all time.
    pub(crate) fn start() -> Self {
        MonotonicClock { started: since_boot() }
    }

    pub(crate) fn now(&self) -> time::Instant {
        time::Instant(since_boot() - self.started + 1)
    }
}

fn since_boot() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
