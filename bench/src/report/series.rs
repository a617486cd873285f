//! Comparisons: results that answer one question together, such as what skew costs.

use std::collections::BTreeMap;

use super::chart::{self, Axes, Line};
use super::{Page, label};
use crate::result::Outcome;

/// A comparison and how it is drawn.
struct Question {
    title: &'static str,
    note: &'static str,
    x: &'static str,
    /// True if answers over time are shown.
    over_time: bool,
    /// True if latency is what counts, not throughput.
    latency: bool,
}

fn question(name: &str) -> Question {
    let question = |title, note, x, over_time| Question { title, note, x, over_time, latency: false };
    match name {
        "zipf" => question(
            "Skew",
            "Answers per second in a closed loop, as more and more calls go to the same few accounts.",
            "exponent of the Zipf distribution of the credited account",
            false,
        ),
        "modes" => question(
            "What the parts of the protocol bring",
            "In process, skewed transfers; each step adds one part: Aria alone, deterministic reordering, the fallback \
             in the same epoch, call graphs that are cached.",
            "answers per second in a closed loop",
            false,
        ),
        "latency" => Question {
            latency: true,
            ..question(
                "Latency far below the peak",
                "A thousand calls a second: the 99th percentile.",
                "p99, ms",
                false,
            )
        },
        "snapshots" => question(
            "Snapshots under load",
            "A closed loop over 200,000 accounts without snapshots and with one every second, in turn.",
            "answers per second in a closed loop",
            true,
        ),
        "scaling" => question(
            "Scaling",
            "Answers per second in a closed loop. Client, gateway and coordinator share the cores with the workers, so \
             a machine with few cores shows the cost of distribution, not its gain.",
            "answers per second in a closed loop",
            false,
        ),
        "composite" => question(
            "Composite keys",
            "Two workers, transfers between accounts of one group: with keys whose group says where they live, all of a \
             transfer is in one place; without, half of the transfers cross from worker to worker.",
            "answers per second in a closed loop",
            false,
        ),
        "compression" => question(
            "Compressed messages",
            "Two workers on one machine: messages of more than 4 KiB compressed only while the network is slower than the \
             processes, which loopback hardly ever is, and always.",
            "answers per second in a closed loop",
            false,
        ),
        "recovery" => {
            question("Recovery", "A worker is killed under load, and the others take over.", "answers per second", true)
        }
        _ => question("Comparison", "Answers per second.", "answers per second", false),
    }
}

/// A section for each comparison.
pub(super) fn sections(page: &mut Page, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut all: BTreeMap<&str, Vec<(&Outcome, &str)>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(series) = &outcome.series {
            all.entry(&series.name).or_default().push((outcome, &series.at));
        }
    }
    for (name, places) in all {
        let Question { title, note, x, over_time, latency } = question(name);
        let title = if title == "Comparison" { format!("{title}: {name}") } else { title.to_owned() };
        page.section(&title, note);
        let numbers: Option<Vec<f64>> = places.iter().map(|(_, at)| at.parse().ok()).collect();
        match numbers {
            Some(numbers) => {
                let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
                for ((outcome, _), number) in places.iter().zip(numbers) {
                    let name = format!("{}: {}", outcome.workload, label(outcome));
                    lines.entry(name).or_default().push((number, outcome.peak_tps()));
                }
                let line = |(name, mut points): (String, Vec<(f64, f64)>)| {
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    Line { name, points }
                };
                let lines: Vec<Line> = lines.into_iter().map(line).collect();
                page.lines(&Axes { x, y: "answers per second", log: false, marks: 3 }, &lines)?;
            }
            None => {
                let several = places.iter().any(|(outcome, _)| outcome.system != places[0].0.system);
                let bar = |(outcome, at): &(&Outcome, &str)| {
                    let value = if latency { outcome.usual().latency.p99_ms } else { outcome.peak_tps() };
                    let system = if several { format!("{}, ", outcome.system) } else { String::new() };
                    (format!("{system}{at}"), vec![value])
                };
                let bars: Vec<(String, Vec<f64>)> = places.iter().map(bar).collect();
                page.chart(&chart::bars(x, &[], &bars)?);
            }
        }
        if over_time {
            timelines(page, &places)?;
        }
        let rows: Vec<Vec<String>> = places.iter().map(|(outcome, at)| row(outcome, at)).collect();
        page.table(&["at", "what", "answers /s", "p50 ms", "p99 ms", "fell back %", "moved on %", "retries %"], &rows);
    }
    Ok(())
}

fn row(outcome: &Outcome, at: &str) -> Vec<String> {
    let run = outcome.usual();
    let answered = (run.tps * run.seconds).max(1.0);
    let share = |count: f64| format!("{:.1}", count / answered * 100.0);
    let total = |name: &str| run.totals.get(name).copied().unwrap_or(0.0);
    vec![
        at.to_owned(),
        format!("{} · {}", outcome.workload, label(outcome)),
        format!("{:.0}", outcome.peak_tps()),
        format!("{:.2}", run.latency.p50_ms),
        format!("{:.2}", run.latency.p99_ms),
        share(total("transactions{phase=\"fallback\"}")),
        share(total("rescheduled")),
        share(run.counts.retries as f64),
    ]
}

/// Answers, and the longest latency, over time.
fn timelines(page: &mut Page, places: &[(&Outcome, &str)]) -> anyhow::Result<()> {
    for (y, longest) in [("answers per second", false), ("longest latency, ms", true)] {
        let line = |(outcome, at): &(&Outcome, &str)| {
            let timeline = &outcome.usual().timeline;
            let slot = timeline.slot_ms as f64 / 1e3;
            let values: Vec<f64> = if longest {
                timeline.longest_ms.clone()
            } else {
                timeline.answered.iter().map(|count| f64::from(*count) / slot).collect()
            };
            let points = values.into_iter().enumerate().map(|(at, value)| (at as f64 * slot, value)).collect();
            Line { name: (*at).to_owned(), points }
        };
        let lines: Vec<Line> = places.iter().map(line).collect();
        page.lines(&Axes { x: "seconds", y, log: false, marks: 0 }, &lines)?;
    }
    Ok(())
}
