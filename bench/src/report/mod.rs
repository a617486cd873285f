//! `styx-bench report`: results of measurements as one page that needs nothing else.

mod breakdown;
mod chart;
mod digest;
mod page;
mod series;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::result::Outcome;
use chart::{Axes, Percentile};
use page::Page;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Files of results, or directories of them
    #[arg(default_value = "target/results")]
    results: Vec<PathBuf>,
    /// Where the page goes
    #[arg(short, long, default_value = "target/report.html")]
    output: PathBuf,
    /// Also writes measured.md, a table of the peaks, and measured.svg, a picture of one workload, into this directory
    #[arg(long)]
    digest: Option<PathBuf>,
}

/// Writes the page and says where it is.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for path in &options.results {
        if path.is_dir() {
            let entries = std::fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
            let found = entries.into_iter().map(|entry| entry.path());
            files.extend(found.filter(|path| path.extension().is_some_and(|extension| extension == "json")));
        } else {
            files.push(path.clone())
        }
    }
    files.sort();
    let mut outcomes = files.iter().map(|file| Outcome::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    outcomes.sort_by_key(|outcome| outcome.at);
    ensure!(!outcomes.is_empty(), "NO_RESULTS: there are no results: `styx-bench all` measures and keeps some");
    if let Some(directory) = &options.digest {
        digest::write(&outcomes, directory)?;
    }
    let page = page(outcomes)?;
    std::fs::write(&options.output, page).with_context(|| format!("cannot write {}", options.output.display()))?;
    println!("{}", options.output.display());
    Ok(())
}

/// The page of these results, oldest first.
pub fn page(outcomes: Vec<Outcome>) -> anyhow::Result<String> {
    let newest = outcomes.last().context("a report needs a result")?;
    let mut page = Page::new("Styx, measured");
    let machine = &newest.machine;
    page.note(&format!(
        "{} · {} cores · {} GiB · kernel {} · commit {}",
        machine.cpu,
        machine.cores,
        machine.memory_mb.div_ceil(1024),
        machine.kernel,
        newest.commit
    ));
    if outcomes.iter().any(|outcome| outcome.machine != *machine) {
        page.note("Some results are of another machine: machines do not compare.");
    }
    page.note(
        "Latency counts from the moment a call was due, whenever it was sent. The peak is the highest rate whose 99th \
         percentile stays below a second while 99 % of what is offered is answered; latencies are told at 80 % of it. \
         Client and system share the machine.",
    );
    summary(&mut page, &outcomes);
    curves(&mut page, &outcomes)?;
    series::sections(&mut page, &outcomes)?;
    breakdown::section(&mut page, &outcomes)?;
    Ok(page.finish())
}

/// The name of a result among others of its workload.
fn label(outcome: &Outcome) -> String {
    let system = match (&*outcome.system, &*outcome.driver) {
        ("styx", driver) => format!("styx, {driver}"),
        (system, _) => system.to_owned(),
    };
    let workers = outcome.configuration.get("workers").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let workers = if workers > 0 { format!(", {workers} workers") } else { String::new() };
    format!("{system}, {}{workers}", outcome.guest)
}

fn summary(page: &mut Page, outcomes: &[Outcome]) {
    page.section("Results", "One line per measurement; µs are processor time per answer, the client's apart.");
    let head = [
        "what",
        "peak /s",
        "at /s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "system µs",
        "client µs",
        "MiB",
        "retries",
        "state",
    ];
    let row = |outcome: &Outcome| {
        let usual = outcome.usual();
        let place = outcome.series.as_ref().map_or(String::new(), |series| format!(" · {} {}", series.name, series.at));
        let failed = usual.counts.unexpected + usual.counts.refused + usual.counts.unanswered;
        let state = match (outcome.is_consistent(), failed) {
            (true, 0) => "consistent".to_owned(),
            (true, failed) => format!("!{failed} calls failed"),
            (false, _) => "!NOT CONSISTENT".to_owned(),
        };
        let figure = |number: f64| format!("{number:.2}");
        vec![
            format!("{} · {}{place}", outcome.workload, label(outcome)),
            outcome.peak.map_or("–".into(), |_| format!("{:.0}", outcome.peak_tps())),
            format!("{:.0}", usual.tps),
            figure(usual.latency.p50_ms),
            figure(usual.latency.p99_ms),
            figure(usual.latency.p999_ms),
            usual.cpu.system_us.map_or("–".into(), figure),
            figure(usual.cpu.client_us),
            usual.rss_mb.to_string(),
            usual.counts.retries.to_string(),
            state,
        ]
    };
    page.table(&head, &outcomes.iter().map(row).collect::<Vec<_>>());
}

/// Curves of each system, by workload: of several measurements of the same, the newest.
fn curves_of(outcomes: &[Outcome]) -> BTreeMap<&str, BTreeMap<String, &Outcome>> {
    let mut workloads: BTreeMap<&str, BTreeMap<String, &Outcome>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.peak.is_some() && outcome.series.is_none()) {
        workloads.entry(&outcome.workload).or_default().insert(label(outcome), outcome);
    }
    workloads
}

/// Latency over throughput, a chart for each workload.
fn curves(page: &mut Page, outcomes: &[Outcome]) -> anyhow::Result<()> {
    for (workload, systems) in curves_of(outcomes) {
        page.section(
            &format!("{workload}: latency over throughput"),
            "99th percentile above, median below; a line ends at the peak.",
        );
        for (y, percentile) in [("p99, ms", Percentile::P99), ("p50, ms", Percentile::P50)] {
            let axes = Axes { x: "answers per second", y, log: true, marks: 3 };
            page.lines(&axes, &chart::curves(&systems, percentile))?;
        }
    }
    Ok(())
}
