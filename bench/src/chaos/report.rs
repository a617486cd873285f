//! The report in the end: a table for people, a line for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{Table, presets};
use hdrhistogram::Histogram;
use serde_json::json;

use super::Options;
use super::check::Findings;
use super::fault::ms;

#[derive(Default)]
pub(super) struct Report {
    /// Longest times without an answer, by kind of fault, ms.
    stalls: BTreeMap<&'static str, Histogram<u64>>,
    pub(super) requests: usize,
    pub(super) answers: u64,
    pub(super) doubtful: usize,
    pub(super) happened: usize,
    pub(super) asked_again: usize,
    pub(super) judged: usize,
    /// Coordinators that have ended because another one led.
    pub(super) replaced: usize,
    pub(super) findings: Findings,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000, 3).expect("the bounds are right")
}

impl Report {
    /// A round has ended well.
    pub(super) fn round(&mut self, kind: &'static str, stall: Duration) {
        let stalls = self.stalls.entry(kind).or_insert_with(histogram);
        stalls.saturating_record(stall.as_millis() as u64);
    }

    fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.stalls.values().for_each(|stalls| all.add(stalls).expect("all have the same bounds"));
        all
    }

    /// How long nobody was answered, by what was done.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["  without any answer", "rounds", "p50", "p90", "p99", "longest"]);
        let row = |name: &str, stalls: &Histogram<u64>| {
            let at = |quantile| ms(Duration::from_millis(stalls.value_at_quantile(quantile)));
            let longest = ms(Duration::from_millis(stalls.max()));
            [format!("  {name}"), stalls.len().to_string(), at(0.5), at(0.9), at(0.99), longest]
        };
        for (kind, stalls) in &self.stalls {
            table.add_row(row(kind, stalls));
        }
        table.add_row(row("all", &self.all()));
        table
    }

    pub(super) fn json(&self, options: &Options, took: Duration) -> String {
        let all = self.all();
        let kinds: BTreeMap<_, _> = self.stalls.iter().map(|(kind, stalls)| (kind, stalls.len())).collect();
        let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        json!({
            "rounds": all.len(),
            "seed": options.seed,
            "log": name(&options.log),
            "store": name(&options.store),
            "workers": options.workers,
            "kinds": kinds,
            "requests": self.requests,
            "answers": self.answers,
            "doubtful": self.doubtful,
            "doubtful_that_happened": self.happened,
            "asked_again": self.asked_again,
            "judged": self.judged,
            "coordinators_replaced": self.replaced,
            "stall_p50_ms": all.value_at_quantile(0.5),
            "stall_p99_ms": all.value_at_quantile(0.99),
            "stall_max_ms": all.max(),
            "seconds": took.as_secs(),
            "lost": self.findings.lost,
            "doubled": self.findings.doubled,
            "changed": self.findings.changed,
            "anomalies": self.findings.anomalies,
        })
        .to_string()
    }
}
