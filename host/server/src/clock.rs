//! The wall clock, as the log and snapshots record it.

use styx_protocol::ids::Timestamp;

/// Microseconds since 1970.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| since.as_micros() as u64))
}
