//! How long requests took, by outcome: histograms without locks, written on every reply.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;

use super::functions::Functions;

/// How a request ended, as far as its latency is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Outcome {
    /// A transaction committed.
    Committed,
    /// A read-only function answered.
    Answered,
    /// A send was made durable.
    Accepted,
    /// The function refused.
    Aborted,
    /// The request was refused before it ran.
    Refused,
    /// The function failed: a trap, or a limit.
    Failed,
    /// There was no room, or the server is ending.
    Overloaded,
}

/// All outcomes, and their names in metrics.
pub const OUTCOMES: [(Outcome, &str); 7] = [
    (Outcome::Committed, "committed"),
    (Outcome::Answered, "answered"),
    (Outcome::Accepted, "accepted"),
    (Outcome::Aborted, "aborted"),
    (Outcome::Refused, "refused"),
    (Outcome::Failed, "failed"),
    (Outcome::Overloaded, "overloaded"),
];

impl Outcome {
    /// The outcome behind an HTTP status that is an error.
    fn of_error(status: StatusCode) -> Self {
        match status.as_u16() {
            422 => Outcome::Aborted,
            429 | 503 => Outcome::Overloaded,
            500.. => Outcome::Failed,
            _ => Outcome::Refused,
        }
    }
}

/// Upper ends of the buckets, µs; one more is open.
pub const BUCKETS_US: [u64; 17] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000,
];

#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Upper end in seconds, and how many lie in the bucket.
    pub buckets: Vec<(f64, u64)>,
    /// How many there are.
    pub count: u64,
    /// Seconds in all.
    pub sum: f64,
}

impl Histogram {
    pub fn record(&self, took: Duration) {
        let us = took.as_micros() as u64;
        let bucket = BUCKETS_US.partition_point(|&end| end < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How many lie in each bucket.
    pub fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// µs in all.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }

    /// Copies the counters.
    pub fn read(&self) -> Reading {
        let ends = BUCKETS_US.iter().map(|&us| us as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            ends.zip(&self.buckets).map(|(end, count)| (end, count.load(Ordering::Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Reading { buckets, count, sum: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

#[derive(Debug, Default)]
pub struct Latencies {
    outcomes: [Histogram; OUTCOMES.len()],
    /// Codes are few, and of this program's own.
    errors: Mutex<BTreeMap<&'static str, u64>>,
    /// The same of single functions.
    pub functions: Arc<Functions>,
}

impl Latencies {
    /// Notes one request.
    pub fn record(&self, outcome: Outcome, took: Duration) {
        self.outcomes[outcome as usize].record(took);
    }

    pub fn of(&self, outcome: Outcome) -> &Histogram {
        &self.outcomes[outcome as usize]
    }

    /// Notes the code of a request that ended in an error, and says what that means for its latency.
    pub fn error(&self, status: StatusCode, code: &'static str) -> Outcome {
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
        Outcome::of_error(status)
    }

    /// Requests that ended in an error, by its code.
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().map(|(code, count)| (*code, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_with_its_bound() {
        let latencies = Latencies::default();
        for us in [0, 50, 51, 10_000_000, 10_000_001] {
            latencies.record(Outcome::Aborted, Duration::from_micros(us));
        }
        let reading = latencies.of(Outcome::Aborted).read();
        let filled: Vec<(f64, u64)> = reading.buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(50e-6, 2), (100e-6, 1), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((reading.count, reading.sum), (5, 20.000_102));
        assert_eq!(latencies.of(Outcome::Committed).read().count, 0);
    }

    #[test]
    fn every_outcome_has_its_place() {
        for (at, (outcome, _)) in OUTCOMES.iter().enumerate() {
            assert_eq!(*outcome as usize, at);
        }
    }
}
