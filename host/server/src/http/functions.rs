//! How often functions were called, how that ended and how long it took: for each, as far as their number is bounded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::latency::{Histogram, OUTCOMES, Outcome};

/// Most functions that are counted by themselves; all others together are `other`.
pub const SERIES_MAX: usize = styx_engine::COUNTED_MAX;

/// Counters of one function.
#[derive(Debug)]
pub struct FunctionStats {
    pub app: String,
    pub operator: String,
    pub function: String,
    outcomes: [AtomicU64; OUTCOMES.len()],
    pub duration: Histogram,
}

impl FunctionStats {
    fn of(app: &str, operator: &str, function: &str) -> &'static Self {
        // Connections hold it for as long as they like, and there are few.
        Box::leak(Box::new(FunctionStats {
            app: app.to_owned(),
            operator: operator.to_owned(),
            function: function.to_owned(),
            outcomes: Default::default(),
            duration: Histogram::default(),
        }))
    }

    /// Notes one call.
    pub fn record(&self, outcome: Outcome, took: Duration) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.duration.record(took);
    }

    /// Calls that ended so.
    pub fn ended(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }
}

/// Functions that were deployed here since the process began.
#[derive(Debug)]
pub struct Functions {
    known: Mutex<BTreeMap<[String; 3], &'static FunctionStats>>,
    other: &'static FunctionStats,
}

impl Default for Functions {
    fn default() -> Self {
        Functions { known: Mutex::default(), other: FunctionStats::of("other", "other", "other") }
    }
}

impl Functions {
    /// Counters of a function, kept from one version of its app to the next.
    pub fn get(&self, app: &str, operator: &str, function: &str) -> &'static FunctionStats {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = [app, operator, function].map(str::to_owned);
        if known.len() >= SERIES_MAX && !known.contains_key(&name) {
            return self.other;
        }
        known.entry(name).or_insert_with(|| FunctionStats::of(app, operator, function))
    }

    /// All that were called, in the order of their names.
    pub fn called(&self) -> Vec<&'static FunctionStats> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let all = known.values().copied().chain([self.other]);
        all.filter(|stats| OUTCOMES.iter().any(|(outcome, _)| stats.ended(*outcome) > 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_series_is_bounded() {
        let functions = Functions::default();
        let name = |n: usize| format!("f{n}");
        (0..2 * SERIES_MAX).for_each(|n| {
            functions.get("app", "o", &name(n)).record(Outcome::Committed, Duration::from_millis(1));
        });
        // Again: those that are known stay what they are.
        functions.get("app", "o", &name(0)).record(Outcome::Aborted, Duration::ZERO);
        let called = functions.called();
        assert_eq!(called.len(), SERIES_MAX + 1);
        let other = called.last().unwrap();
        assert_eq!((&*other.app, other.ended(Outcome::Committed)), ("other", SERIES_MAX as u64));
        let first = called.iter().find(|stats| stats.function == "f0").unwrap();
        assert_eq!((first.ended(Outcome::Committed), first.ended(Outcome::Aborted)), (1, 1));
    }
}
