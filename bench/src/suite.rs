//! `styx-bench all`: the measurements that the report is made of, one after the other.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use serde_json::json;

use crate::plan::Plan;
use crate::report;
use crate::result::{Outcome, Series};
use crate::run::holds;
use crate::workload::Choice;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// A minute or two instead of ten: fewer and shorter measurements
    #[arg(long)]
    quick: bool,
    /// Where the results go
    #[arg(long, default_value = "target/results")]
    results: PathBuf,
    /// Where the report goes
    #[arg(short, long, default_value = "target/report.html")]
    output: PathBuf,
    /// Seed of the calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further flags of every measurement, such as `--styx target/release/styx`
    #[arg(last = true)]
    more: Vec<String>,
}

/// A measurement: its comparison and place, whether the quick set has it too, and its command line.
type Entry = (&'static str, &'static str, bool, &'static str);

/// Those that look for the peak.
const PEAKS: [Entry; 14] = [
    ("", "", true, "ycsb-t"),
    ("", "", true, "--system postgres ycsb-t"),
    ("", "", false, "--system two-phase ycsb-t"),
    ("", "", true, "--system inprocess ycsb-t"),
    ("", "", true, "--system native ycsb-t"),
    ("", "", false, "--guest python ycsb-t"),
    ("", "", false, "--driver http ycsb-t"),
    ("", "", false, "--driver kafka --window 4000 ycsb-t"),
    ("", "", false, "--workers 2 --threads 1 ycsb-t"),
    ("", "", false, "--connections 64 --window 2560 transfer --alpha 1.5"),
    ("", "", true, "tpcc --warehouses 10"),
    ("", "", false, "--guest python tpcc --warehouses 10"),
    ("", "", false, "deathstar-movie"),
    ("", "", false, "deathstar-travel"),
];

/// Those that answer a question together.
const COMPARISONS: [Entry; 32] = [
    ("zipf", "0", true, "--closed ycsb-t --theta 0"),
    ("zipf", "0.5", false, "--closed ycsb-t --theta 0.5"),
    ("zipf", "0.9", false, "--closed ycsb-t --theta 0.9"),
    ("zipf", "0.99", true, "--closed ycsb-t --theta 0.99"),
    ("zipf", "0.999", false, "--closed ycsb-t --theta 0.999"),
    ("zipf", "0", true, "--closed --system postgres ycsb-t --theta 0"),
    ("zipf", "0.5", false, "--closed --system postgres ycsb-t --theta 0.5"),
    ("zipf", "0.9", false, "--closed --system postgres ycsb-t --theta 0.9"),
    ("zipf", "0.99", true, "--closed --system postgres ycsb-t --theta 0.99"),
    ("zipf", "0.999", false, "--closed --system postgres ycsb-t --theta 0.999"),
    ("modes", "aria", true, "--closed --system inprocess --modes aria ycsb-t --theta 0.9"),
    ("modes", "+ reordering", true, "--closed --system inprocess --modes reordering ycsb-t --theta 0.9"),
    ("modes", "+ fallback", true, "--closed --system inprocess --modes fallback ycsb-t --theta 0.9"),
    ("modes", "+ caching", true, "--closed --system inprocess --modes caching ycsb-t --theta 0.9"),
    ("latency", "1,000/s", false, "--rate 1000 ycsb-t"),
    ("latency", "1,000/s", false, "--rate 1000 --system postgres ycsb-t"),
    ("snapshots", "none", false, "--closed --snapshots none --seconds 8 ycsb-t --accounts 200000"),
    ("snapshots", "every second", false, "--closed --snapshots 1s --seconds 8 ycsb-t --accounts 200000"),
    ("snapshots", "none, again", false, "--closed --snapshots none --seconds 8 ycsb-t --accounts 200000"),
    ("snapshots", "every second, again", false, "--closed --snapshots 1s --seconds 8 ycsb-t --accounts 200000"),
    ("scaling", "one process, 1 thread", false, "--closed --threads 1 ycsb-t"),
    ("scaling", "one process, 2 threads", false, "--closed --threads 2 ycsb-t"),
    ("scaling", "cluster of 1 worker", false, "--closed --workers 1 --threads 1 ycsb-t"),
    ("scaling", "cluster of 2 workers", false, "--closed --workers 2 --threads 1 ycsb-t"),
    ("composite", "whole keys", false, "--closed --workers 2 --threads 1 ycsb-t --groups 100"),
    ("composite", "composite keys", false, "--closed --workers 2 --threads 1 ycsb-t --groups 100 --composite"),
    ("compression", "while congested", false, "--closed --workers 2 --threads 1 ycsb-t"),
    ("compression", "always", false, "--closed --workers 2 --threads 1 --compress always ycsb-t"),
    ("recovery", "a worker of two killed after 3 s", false, "--workers 2 --rate 5000 --kill 3 --seconds 10 ycsb-t"),
    (
        "migration",
        "2 to 3 workers, online",
        false,
        "--workers 3 --rate 3000 --seconds 12 --migrate 4 --from 2 --to 3 ycsb-records --records 100000",
    ),
    (
        "migration",
        "2 to 3 workers, immediate",
        false,
        "--workers 3 --rate 3000 --seconds 12 --migrate 4 --from 2 --to 3 --mode immediate ycsb-records --records 100000",
    ),
    (
        "migration",
        "2 to 3 workers, stop and restart",
        false,
        "--workers 3 --rate 3000 --seconds 12 --migrate 4 --from 2 --to 3 --mode stop-and-restart ycsb-records --records 100000",
    ),
];

/// A command line, without the program.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    plan: Plan,
    #[command(subcommand)]
    workload: Choice,
}

/// Measures everything, writes the report, and prints where it is as one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let started = Instant::now();
    let entries: Vec<&Entry> = PEAKS.iter().chain(&COMPARISONS).filter(|entry| entry.2 || !options.quick).collect();
    let (mut outcomes, mut skipped) = (Vec::new(), Vec::new());
    for (number, &&(name, at, _, line)) in entries.iter().enumerate() {
        let series = (!name.is_empty()).then(|| Series { name: name.to_owned(), at: at.to_owned() });
        let Line { plan, workload } = line_of(line, options)?;
        let outcome: Outcome = match plan.measure(&workload, series) {
            Ok(outcome) => outcome,
            // What cannot be had here must not end the rest; Styx can be had.
            Err(error) if plan.needs_others() => {
                eprintln!("  {:2}/{} {line}: skipped: {error:#}", number + 1, entries.len());
                skipped.push(line);
                continue;
            }
            Err(error) => return Err(error.context(format!("styx-bench run {line}"))),
        };
        outcome.write(&options.results)?;
        let (usual, peak) = (outcome.usual(), outcome.peak_tps());
        let (p50, p99) = (usual.latency.p50_ms, usual.latency.p99_ms);
        eprintln!("  {:2}/{} {line}: {peak:.0}/s, p50 {p50:.1} ms, p99 {p99:.1} ms", number + 1, entries.len());
        holds(&outcome).with_context(|| format!("styx-bench run {line}"))?;
        outcomes.push(outcome);
    }
    let first = outcomes[0].summary();
    let measured = outcomes.len();
    std::fs::write(&options.output, report::page(&outcomes)?)
        .with_context(|| format!("cannot write {}", options.output.display()))?;
    let seconds = started.elapsed().as_secs();
    println!(
        "{}",
        json!({
            "workload": first["workload"], "guest": first["guest"], "driver": first["driver"],
            "peak_tps": first["peak_tps"], "p50_ms": first["p50_ms"], "p99_ms": first["p99_ms"],
            "consistent": true, "measured": measured, "skipped": skipped, "seconds": seconds, "report": options.output,
        })
    );
    Ok(())
}

fn line_of(line: &str, options: &Options) -> anyhow::Result<Line> {
    let (step, seconds) = if options.quick { ("0.5", "1.5") } else { ("1.5", "4") };
    let common = ["--step", step, "--seed"].map(str::to_owned);
    let mut words = [&common[..], &[options.seed.to_string()], &options.more].concat();
    if !line.contains("--seconds") {
        words.extend(["--seconds", seconds].map(str::to_owned));
    }
    words.extend(line.split(' ').map(str::to_owned));
    Ok(Line::try_parse_from(words)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_is_one() {
        for quick in [false, true] {
            let options = Options {
                quick,
                results: PathBuf::new(),
                output: PathBuf::new(),
                seed: 7,
                more: vec!["--styx".into(), "elsewhere".into()],
            };
            for (_, _, _, line) in PEAKS.iter().chain(&COMPARISONS) {
                let parsed = line_of(line, &options).unwrap_or_else(|error| panic!("{line}: {error}"));
                assert_eq!((parsed.plan.seed, parsed.plan.styx.to_str()), (7, Some("elsewhere")));
                parsed.workload.workload().unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}
