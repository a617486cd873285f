//! What an ingress has answered and what functions have used, as it travels and adds up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use styx_engine::FunctionUse;

use crate::http::{BUCKETS_US, FunctionStats, Histogram, Latencies, OUTCOMES, Outcome, SERIES_MAX};

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

    pub(crate) fn add(&mut self, other: &Latency) {
        add_all(&mut self.buckets, &other.buckets);
        self.sum_us += other.sum_us;
    }

    /// What came since `before`; all, if that was of more.
    pub fn since(&self, before: &Latency) -> Latency {
        let buckets = self.buckets.iter().enumerate();
        let buckets = buckets.map(|(at, count)| count.checked_sub(before.buckets.get(at).copied().unwrap_or_default()));
        match (buckets.collect::<Option<_>>(), self.sum_us.checked_sub(before.sum_us)) {
            (Some(buckets), Some(sum_us)) => Latency { buckets, sum_us },
            _ => self.clone(),
        }
    }

    /// In how many seconds so much of them was over, if there are any; within a bucket they are taken to be spread evenly.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let all = self.count();
        let (mut rest, mut start) = (all as f64 * share, 0.0);
        for (&end_us, &count) in BUCKETS_US.iter().zip(&self.buckets) {
            let (end, count) = (end_us as f64 / 1e6, count as f64);
            if count > 0.0 && rest <= count {
                return Some(start + (end - start) * rest / count);
            }
            (rest, start) = (rest - count, end);
        }
        // The last one is open.
        (all > 0).then_some(start)
    }
}

fn add_all(sums: &mut Vec<u64>, others: &[u64]) {
    sums.resize(sums.len().max(others.len()), 0);
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}

/// Calls of one function, and what it has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCounts {
    pub app: String,
    pub operator: String,
    pub function: String,
    /// By [`crate::http::Outcome`].
    pub outcomes: Vec<u64>,
    pub duration: Latency,
    /// How often guests have run it, for whoever called, and the fuel that it used by itself.
    pub invocations: u64,
    pub fuel: u64,
}

impl FunctionCounts {
    fn of(stats: &FunctionStats) -> Self {
        FunctionCounts {
            app: stats.app.clone(),
            operator: stats.operator.clone(),
            function: stats.function.clone(),
            outcomes: OUTCOMES.iter().map(|(outcome, _)| stats.ended(*outcome)).collect(),
            duration: Latency::of(&stats.duration),
            ..FunctionCounts::default()
        }
    }

    fn used(function: FunctionUse) -> Self {
        let FunctionUse { app, operator, function, invocations, fuel } = function;
        FunctionCounts { app, operator, function, invocations, fuel, ..FunctionCounts::default() }
    }

    fn is(&self, other: &FunctionCounts) -> std::cmp::Ordering {
        (&self.app, &self.operator, &self.function).cmp(&(&other.app, &other.operator, &other.function))
    }

    fn add(&mut self, other: &FunctionCounts) {
        add_all(&mut self.outcomes, &other.outcomes);
        self.duration.add(&other.duration);
        self.invocations += other.invocations;
        self.fuel += other.fuel;
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

    /// What functions have used, where they are executed.
    pub fn used(functions: Vec<FunctionUse>) -> Self {
        let functions = sorted(functions.into_iter().map(FunctionCounts::used).collect());
        TrafficReport { functions, ..TrafficReport::default() }
    }

    /// How long everything took that was executed.
    pub fn executed(&self) -> Latency {
        use Outcome::{Aborted, Accepted, Answered, Committed};
        let mut sum = Latency::default();
        for outcome in [Committed, Answered, Accepted, Aborted] {
            self.outcomes.get(outcome as usize).into_iter().for_each(|latency| sum.add(latency));
        }
        sum
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
    let empty = FunctionCounts { app: name(), operator: name(), function: name(), ..FunctionCounts::default() };
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
    fn what_a_function_has_used_joins_what_was_answered_of_it() {
        let latencies = Latencies::default();
        latencies.functions.get("app", "o", "f").record(Outcome::Committed, Duration::from_millis(1));
        let mut sum = TrafficReport::of(&latencies);
        let used = |function: &str, invocations, fuel| FunctionUse {
            app: "app".into(),
            operator: "o".into(),
            function: function.into(),
            invocations,
            fuel,
        };
        sum.add(&TrafficReport::used(vec![used("f", 2, 30), used("inner", 5, 50)]));
        sum.add(&TrafficReport::used(vec![used("f", 1, 10)]));
        let seen = sum.functions.iter().map(|one| (&*one.function, one.duration.count(), one.invocations, one.fuel));
        assert_eq!(seen.collect::<Vec<_>>(), [("f", 1, 3, 40), ("inner", 0, 5, 50)]);
        assert_eq!(sum.executed(), TrafficReport::of(&latencies).executed());
    }

    #[test]
    fn percentiles_are_of_what_came_in_between() {
        let latencies = Latencies::default();
        let record = |outcome, ms, times| {
            (0..times).for_each(|_| latencies.record(outcome, Duration::from_millis(ms)));
            TrafficReport::of(&latencies).executed()
        };
        let before = record(Outcome::Committed, 9000, 50);
        record(Outcome::Answered, 2, 98);
        record(Outcome::Refused, 9000, 500);
        let window = record(Outcome::Aborted, 60, 2).since(&before);
        assert_eq!(window.count(), 100);
        let (p50, p99) = (window.percentile(0.5).unwrap(), window.percentile(0.99).unwrap());
        assert!((p50 - (0.001 + 0.001 * 50.0 / 98.0)).abs() < 1e-9, "{p50}");
        assert!((p99 - 0.075).abs() < 1e-9, "half of those up to 100 ms: {p99}");
        assert_eq!(
            record(Outcome::Committed, 60_000, 9).since(&record(Outcome::Committed, 1, 0)).percentile(0.5),
            None
        );
        let slow = Latency { buckets: [vec![0; BUCKETS_US.len()], vec![3]].concat(), sum_us: 1 };
        assert_eq!(slow.percentile(0.5), Some(10.0), "as much as is known");
        // Whoever counts anew has less than before.
        assert_eq!(slow.since(&window), slow);
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
