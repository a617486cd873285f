//! The report in a few lines, for a page that shows more than measurements: a table of peaks as Markdown,
//! and latency over throughput of one workload as a picture.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};

use super::chart::{self, Axes};
use super::{curves_of, label};
use crate::result::Outcome;

/// The workload that the picture is of.
const PICTURED: &str = "ycsb-t";

/// Writes `measured.md` and `measured.svg` into a directory.
pub(super) fn write(outcomes: &[Outcome], directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut rows: Vec<(&str, String, &Outcome)> = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.peak.is_some() && outcome.series.is_none()) {
        let (workload, label) = (&*outcome.workload, label(outcome));
        // Of several measurements of the same, the newest, where the first stood.
        match rows.iter_mut().find(|row| (row.0, &row.1) == (workload, &label)) {
            Some(row) => row.2 = outcome,
            None => rows.push((workload, label, outcome)),
        }
    }
    ensure!(!rows.is_empty(), "NO_RESULTS: no peak was looked for: `styx-bench all` does");
    let mut table = String::from(
        "| workload | system | peak /s | p50 at 80 % of it | p99 | system, µs of processor per call |\n|---|---|--:|--:|--:|--:|\n",
    );
    for (workload, label, outcome) in rows {
        let usual = outcome.usual();
        let system = usual.cpu.system_us.map_or("–".to_owned(), |us| format!("{us:.1}"));
        writeln!(
            table,
            "| {workload} | {label} | {} | {} | {} | {system} |",
            thousands(outcome.peak_tps()),
            milliseconds(usual.latency.p50_ms),
            milliseconds(usual.latency.p99_ms)
        )?;
    }
    let curves = curves_of(outcomes);
    let systems = curves.get(PICTURED).with_context(|| format!("NO_RESULTS: {PICTURED} was not measured"))?;
    let axes = Axes { x: "answers per second", y: "p99, ms", log: true, marks: 3 };
    let picture = chart::titled(&axes, &chart::curves(systems, chart::Percentile::P99))?;
    for (name, text) in [("measured.md", &table), ("measured.svg", &picture)] {
        let file = directory.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// To three digits, with commas.
fn thousands(number: f64) -> String {
    let unit = 10f64.powi((number.max(1.0).log10().floor() as i32 - 2).max(0));
    let digits = ((number / unit).round() * unit).to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn milliseconds(number: f64) -> String {
    match number {
        large if large >= 10.0 => format!("{large:.0} ms"),
        small => format!("{small:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_people_write_them() {
        for (number, expected) in [(0.0, "0"), (999.6, "1,000"), (12_345.0, "12,300"), (1_219_000.0, "1,220,000")] {
            assert_eq!(thousands(number), expected);
        }
        assert_eq!((milliseconds(0.84), milliseconds(37.6)), ("0.8 ms".into(), "38 ms".into()));
    }
}
