//! The clocks of this process.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use styx_driver::time;
use styx_protocol::ids::Timestamp;

use crate::error::ServerError;

/// Microseconds since 1970, as the log and snapshots record them.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| since.as_micros() as u64))
}

/// Checks that the clock shows a time that there can be: dates of HTTP begin with 1970, and a server that answers with none
/// would look as if it had failed.
///
/// # Errors
/// It does not.
pub(crate) fn check(now: SystemTime) -> Result<(), ServerError> {
    match now.duration_since(UNIX_EPOCH) {
        Ok(_) => Ok(()),
        Err(before) => {
            let years = before.duration().as_secs() / (365 * 24 * 60 * 60);
            let message = format!("the machine's clock shows a time before 1970, by {years} years");
            Err(ServerError::new("START", message, "set the clock, and start again"))
        }
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_1970_is_refused_in_one_line() {
        assert!(check(SystemTime::now()).is_ok() && check(UNIX_EPOCH).is_ok());
        let error = check(UNIX_EPOCH - Duration::from_secs(10 * 365 * 24 * 60 * 60)).unwrap_err();
        assert!(error.code == "START" && error.message.ends_with("by 10 years"), "{error}");
    }
}
