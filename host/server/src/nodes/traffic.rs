//! What an ingress has answered, as it travels and adds up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::http::{FunctionStats, Histogram, Latencies, OUTCOMES, SERIES_MAX};

/// Codes of errors that are told apart: there are fewer, of one release.
const CODES_MAX: usize = 200;

/// A histogram of durations, by the buckets of [`crate::http::BUCKETS_US`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub buckets: Vec<u64>,
    pub sum_us: u64,
}

impl Latency {
    pub fn of(histogram: &Histogram) -> Self {
        Latency { buckets: histogram.counts(), sum_us: histogram.sum_us() }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, other: &Latency) {
        add_all(&mut self.buckets, &other.buckets);
        self.sum_us += other.sum_us;
    }
}

fn add_all(sums: &mut Vec<u64>, others: &[u64]) {
    sums.resize(sums.len().max(others.len()), 0);
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}

/// Calls of one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCounts {
    pub app: String,
    pub operator: String,
    pub function: String,
    /// By [`crate::http::Outcome`].
    pub outcomes: Vec<u64>,
    pub duration: Latency,
}

impl FunctionCounts {
    fn of(stats: &FunctionStats) -> Self {
        FunctionCounts {
            app: stats.app.clone(),
            operator: stats.operator.clone(),
            function: stats.function.clone(),
            outcomes: OUTCOMES.iter().map(|(outcome, _)| stats.ended(*outcome)).collect(),
            duration: Latency::of(&stats.duration),
        }
    }

    fn is(&self, other: &FunctionCounts) -> std::cmp::Ordering {
        (&self.app, &self.operator, &self.function).cmp(&(&other.app, &other.operator, &other.function))
    }

    fn add(&mut self, other: &FunctionCounts) {
        add_all(&mut self.outcomes, &other.outcomes);
        self.duration.add(&other.duration);
    }
}

/// Sums since the process began, or of several processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// By [`crate::http::Outcome`].
    pub outcomes: Vec<Latency>,
    /// By code.
    pub errors: BTreeMap<String, u64>,
    /// In the order of their names; then all others, as `other`.
    pub functions: Vec<FunctionCounts>,
}

impl TrafficReport {
    pub fn of(latencies: &Latencies) -> Self {
        TrafficReport {
            outcomes: OUTCOMES.iter().map(|(outcome, _)| Latency::of(latencies.of(*outcome))).collect(),
            errors: latencies.errors().into_iter().map(|(code, count)| (code.to_owned(), count)).collect(),
            functions: sorted(latencies.functions.called().into_iter().map(FunctionCounts::of).collect()),
        }
    }

    /// Adds what another process has answered.
    pub fn add(&mut self, other: &TrafficReport) {
        self.outcomes.resize_with(self.outcomes.len().max(other.outcomes.len()), Latency::default);
        self.outcomes.iter_mut().zip(&other.outcomes).for_each(|(sum, other)| sum.add(other));
        for (code, count) in &other.errors {
            if self.errors.len() < CODES_MAX || self.errors.contains_key(code) {
                *self.errors.entry(code.clone()).or_default() += count;
            }
        }
        let mut others = Vec::new();
        for function in &other.functions {
            match self.functions.binary_search_by(|known| known.is(function)) {
                Ok(at) => self.functions[at].add(function),
                Err(_) => others.push(function.clone()),
            }
        }
        if !others.is_empty() {
            self.functions.append(&mut others);
            self.functions = bounded(sorted(std::mem::take(&mut self.functions)));
        }
    }
}

fn sorted(mut functions: Vec<FunctionCounts>) -> Vec<FunctionCounts> {
    functions.sort_by(FunctionCounts::is);
    functions
}

/// As many as a process counts by themselves; the rest together.
fn bounded(mut functions: Vec<FunctionCounts>) -> Vec<FunctionCounts> {
    if functions.len() <= SERIES_MAX + 1 {
        return functions;
    }
    let rest = functions.split_off(SERIES_MAX);
    let name = || "other".to_owned();
    let empty = FunctionCounts {
        app: name(),
        operator: name(),
        function: name(),
        outcomes: Vec::new(),
        duration: Latency::default(),
    };
    functions.sort_by(FunctionCounts::is);
    let at = functions.binary_search_by(|known| known.is(&empty)).unwrap_or_else(|at| {
        functions.insert(at, empty);
        at
    });
    rest.iter().for_each(|one| functions[at].add(one));
    functions
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::Outcome;

    #[test]
    fn functions_of_many_processes_stay_bounded_and_none_is_lost() {
        let mut sum = TrafficReport::default();
        for process in 0..3 {
            let latencies = Latencies::default();
            for n in 0..SERIES_MAX {
                let function = latencies.functions.get("app", "o", &format!("f{process}-{n}"));
                function.record(Outcome::Committed, Duration::from_millis(1));
            }
            sum.add(&TrafficReport::of(&latencies));
        }
        assert!(sum.functions.len() <= SERIES_MAX + 1, "{}", sum.functions.len());
        assert!(sum.functions.is_sorted_by(|one, other| one.is(other).is_lt()), "names are there once");
        assert_eq!(sum.functions.iter().map(|function| function.duration.count()).sum::<u64>(), 3 * SERIES_MAX as u64);
    }

    #[test]
    fn a_report_of_a_busy_gateway_is_read_and_written_quickly() {
        let latencies = Latencies::default();
        for n in 0..SERIES_MAX {
            let function = latencies.functions.get("app", "operator", &format!("function-{n}"));
            (0..20).for_each(|power| function.record(Outcome::Committed, Duration::from_micros(1 << power)));
        }
        let report = TrafficReport::of(&latencies);
        let bytes = serde_json::to_vec(&report).unwrap();
        assert!(bytes.len() < 300 << 10, "{} bytes", bytes.len());
        assert_eq!(serde_json::from_slice::<TrafficReport>(&bytes).unwrap(), report);
    }
}
