//! Quotas: what an attempt may use, and has used.

use crate::abort::{Abort, Code};
use crate::sequence::catalog::Limits;

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

/// The limits of a transaction's app, and what the transaction has used of them as far as is known here.
#[derive(Debug)]
pub(super) struct Quota {
    pub limits: Limits,
    pub used: Usage,
    log_bytes: usize,
}

impl Quota {
    pub fn new(limits: Limits) -> Self {
        Quota { limits, used: Usage::default(), log_bytes: 0 }
    }

    /// Fuel that one more invocation may use.
    pub fn fuel(&self) -> u64 {
        self.limits.fuel.min(self.limits.transaction_fuel.saturating_sub(self.used.fuel))
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

    /// Whether a scan may find so many entries.
    pub fn admit_entries(&self, entries: usize) -> Result<(), Abort> {
        let limit = self.limits.rw_set;
        if entries > limit as usize {
            return exceeded(format!("a scan found more than {limit} entries (limits.rw_set); give it a limit"));
        }
        Ok(())
    }

    /// Whether a value may have so many bytes.
    pub fn admit_value(&self, bytes: usize) -> Result<(), Abort> {
        self.admit_payload(bytes, || format!("a value of {bytes} bytes is"))
    }

    /// Whether the arguments of a call may have so many bytes.
    pub fn admit_args(&self, bytes: usize) -> Result<(), Abort> {
        self.admit_payload(bytes, || format!("arguments of {bytes} bytes are"))
    }

    /// Whether the result of a call may have so many bytes.
    pub fn admit_result(&self, bytes: usize) -> Result<(), Abort> {
        self.admit_payload(bytes, || format!("a result of {bytes} bytes is"))
    }

    fn admit_payload(&self, bytes: usize, what: impl FnOnce() -> String) -> Result<(), Abort> {
        let limit = self.limits.payload;
        if bytes > limit as usize {
            return exceeded(format!("{} over the limit of {limit} (limits.payload)", what()));
        }
        Ok(())
    }
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
