//! Quotas: what an attempt may use, and has used.

use crate::abort::{Abort, Code};
use crate::sequence::deployment::Limits;

/// What a transaction has used of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Usage {
    /// Fuel.
    pub fuel: u64,
    /// Calls, the first included.
    pub calls: u32,
    /// Entities touched and scans made.
    pub touched: u32,
    /// Bytes of values written and of arguments passed.
    pub bytes: u64,
}

impl Usage {
    pub(super) fn add(&mut self, other: Usage) {
        self.fuel = self.fuel.saturating_add(other.fuel);
        self.calls = self.calls.saturating_add(other.calls);
        self.touched = self.touched.saturating_add(other.touched);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// Bytes of log lines kept per attempt.
const LOG_BYTES_MAX: usize = 64 << 10;

/// Bytes of values and arguments that one transaction may make the host hold, in multiples of `limits.payload`.
const PAYLOADS_MAX: u64 = 32;

/// Bytes of what one scan finds, whatever the app's limits are.
const SCAN_BYTES_MAX: u64 = 64 << 20;

/// The limits of the app that a transaction's request calls, and what the transaction has used of them as far as is known here.
#[derive(Debug)]
pub(super) struct Quota {
    pub limits: Limits,
    pub used: Usage,
    /// Fuel that it may use inside an epoch.
    pub slice: u64,
    log_bytes: usize,
}

impl Quota {
    pub fn new(limits: Limits) -> Self {
        Quota { limits, used: Usage::default(), slice: u64::MAX, log_bytes: 0 }
    }

    /// Fuel that one more invocation may use, of an app that lets each have so much.
    pub fn fuel(&self, most: u64) -> u64 {
        most.min(self.limits.transaction_fuel.saturating_sub(self.used.fuel))
    }

    /// Fuel that is left of what it may use inside an epoch.
    pub fn slice_left(&self) -> u64 {
        self.slice.saturating_sub(self.used.fuel)
    }

    /// Whether a line of so many bytes is to be kept.
    pub fn log(&mut self, bytes: usize) -> bool {
        self.log_bytes += bytes;
        self.log_bytes <= LOG_BYTES_MAX
    }

    /// Whether so much might have met a bound in a serial run.
    pub fn is_near(&self, used: &Usage) -> bool {
        used.fuel > self.limits.transaction_fuel / 2
            || used.calls >= self.limits.calls
            || used.touched >= self.limits.rw_set
            || used.bytes >= self.bytes_max()
    }

    fn bytes_max(&self) -> u64 {
        u64::from(self.limits.payload) * PAYLOADS_MAX
    }

    /// Whether one more call, so deep, may be made.
    pub fn admit_call(&self, depth: u32) -> Result<(), Abort> {
        if depth >= self.limits.call_depth {
            return exceeded(format!("calls are nested deeper than {} (limits.call_depth)", self.limits.call_depth));
        }
        if self.used.calls >= self.limits.calls {
            return exceeded(format!("the transaction makes more than {} calls (limits.calls)", self.limits.calls));
        }
        Ok(())
    }

    /// Whether one more entity may be touched, or scan made.
    pub fn admit_access(&self) -> Result<(), Abort> {
        let limit = self.limits.rw_set;
        if self.used.touched >= limit {
            return exceeded(format!("the transaction touches more than {limit} entities (limits.rw_set)"));
        }
        Ok(())
    }

    /// Whether the transaction may have written and passed as many bytes as it has.
    pub fn admit_bytes(&self) -> Result<(), Abort> {
        let limit = self.bytes_max();
        if self.used.bytes > limit {
            return exceeded(format!(
                "the transaction writes and passes more than {limit} bytes ({PAYLOADS_MAX} times limits.payload)"
            ));
        }
        Ok(())
    }

    /// Bytes that a scan may find. They travel in one message, so that the app's limit is not the only one.
    pub fn scan_bytes_max(&self) -> usize {
        self.bytes_max().min(SCAN_BYTES_MAX) as usize
    }

    /// Whether a scan may find so many entries, of so many bytes.
    pub fn admit_entries(&self, entries: usize, bytes: usize) -> Result<(), Abort> {
        // Bytes first: an owner of entries elsewhere may have found more than it could tell.
        let limit = self.scan_bytes_max();
        if bytes > limit {
            return exceeded(format!(
                "a scan found more than {limit} bytes ({PAYLOADS_MAX} times limits.payload, {SCAN_BYTES_MAX} at most); give it a limit"
            ));
        }
        let limit = self.limits.rw_set;
        if entries > limit as usize {
            return exceeded(format!("a scan found more than {limit} entries (limits.rw_set); give it a limit"));
        }
        Ok(())
    }
}

/// Whether a value may have so many bytes, of an app with such payloads.
pub(super) fn admit_value(bytes: usize, most: u32) -> Result<(), Abort> {
    admit_payload(bytes, most, || format!("a value of {bytes} bytes is"))
}

/// Whether the arguments of a call may have so many bytes.
pub(super) fn admit_args(bytes: usize, most: u32) -> Result<(), Abort> {
    admit_payload(bytes, most, || format!("arguments of {bytes} bytes are"))
}

/// Whether the result of a call may have so many bytes.
pub(super) fn admit_result(bytes: usize, most: u32) -> Result<(), Abort> {
    admit_payload(bytes, most, || format!("a result of {bytes} bytes is"))
}

fn admit_payload(bytes: usize, most: u32, what: impl FnOnce() -> String) -> Result<(), Abort> {
    if bytes > most as usize {
        return exceeded(format!("{} over the limit of {most} (limits.payload)", what()));
    }
    Ok(())
}

/// Whether a key may have so many bytes.
pub(super) fn admit_key(bytes: usize) -> Result<(), Abort> {
    if bytes > KEY_BYTES_MAX {
        return exceeded(format!("a key of {bytes} bytes is over the limit of {KEY_BYTES_MAX}"));
    }
    Ok(())
}

#[cold]
fn exceeded(message: String) -> Result<(), Abort> {
    Err(Abort::new(Code::LimitExceeded, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(used: Usage) -> Quota {
        let limits = Limits {
            fuel: 60,
            transaction_fuel: 100,
            calls: 4,
            call_depth: 3,
            rw_set: 5,
            payload: 10,
            ..Limits::default()
        };
        Quota { used, ..Quota::new(limits) }
    }

    #[test]
    fn all_that_was_used_is_added_up_and_never_wraps() {
        let mut used = Usage { fuel: 1, calls: 2, touched: 3, bytes: 4 };
        used.add(Usage { fuel: 10, calls: 20, touched: 30, bytes: 40 });
        assert_eq!(used, Usage { fuel: 11, calls: 22, touched: 33, bytes: 44 });
        let most = Usage { fuel: u64::MAX, calls: u32::MAX, touched: u32::MAX, bytes: u64::MAX };
        used.add(most);
        assert_eq!(used, most);
    }

    #[test]
    fn an_invocation_has_its_own_fuel_or_what_is_left_of_the_transactions() {
        for (fuel, left) in [(0, 60), (40, 60), (41, 59), (100, 0), (101, 0)] {
            assert_eq!(quota(Usage { fuel, ..Usage::default() }).fuel(60), left);
        }
    }

    #[test]
    fn a_limit_may_be_met_and_not_exceeded() {
        let none = quota(Usage::default());
        assert_eq!([2, 3].map(|depth| none.admit_call(depth).is_ok()), [true, false]);
        assert_eq!([5, 6].map(|entries| none.admit_entries(entries, 0).is_ok()), [true, false]);
        assert_eq!([320, 321].map(|bytes| none.admit_entries(1, bytes).is_ok()), [true, false]);
        assert_eq!([10, 11].map(|bytes| admit_value(bytes, 10).is_ok()), [true, false]);
        assert_eq!([10, 11].map(|bytes| admit_args(bytes, 10).is_ok()), [true, false]);
        assert_eq!([10, 11].map(|bytes| admit_result(bytes, 10).is_ok()), [true, false]);
        assert_eq!([1024, 1025].map(|bytes| admit_key(bytes).is_ok()), [true, false]);
        let after = |used| quota(Usage { calls: used, touched: used, bytes: u64::from(used), ..Usage::default() });
        assert_eq!([3, 4].map(|calls| after(calls).admit_call(0).is_ok()), [true, false]);
        assert_eq!([4, 5].map(|touched| after(touched).admit_access().is_ok()), [true, false]);
        assert_eq!([320, 321].map(|bytes| after(bytes).admit_bytes().is_ok()), [true, false]);
    }

    #[test]
    fn what_may_have_met_a_limit_elsewhere_is_near_it() {
        let none = Usage::default();
        let near = |used| quota(none).is_near(&used);
        assert_eq!([50, 51].map(|fuel| near(Usage { fuel, ..none })), [false, true]);
        assert_eq!([3, 4].map(|calls| near(Usage { calls, ..none })), [false, true]);
        assert_eq!([4, 5].map(|touched| near(Usage { touched, ..none })), [false, true]);
        assert_eq!([319, 320].map(|bytes| near(Usage { bytes, ..none })), [false, true]);
    }

    #[test]
    fn lines_are_kept_up_to_a_bound_for_all_of_them() {
        let mut quota = quota(Usage::default());
        assert_eq!([LOG_BYTES_MAX - 1, 1, 1].map(|bytes| quota.log(bytes)), [true, true, false]);
    }
}
