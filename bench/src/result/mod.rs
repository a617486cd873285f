//! The outcome of a measurement, as one JSON file: everything that is needed to repeat it, to judge
//! it and to draw it.

mod event;
mod migration;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::load::{Counts, Measured, SLOT};
use crate::machine::{Machine, Surroundings, commit};
use crate::system::Disturbance;

pub use event::Event;
pub use migration::Migration;

/// The format of the files.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub format: u32,
    /// When it was made, seconds since 1970.
    pub at: u64,
    /// The commit that was measured.
    pub commit: String,
    pub machine: Machine,
    /// What else the machine was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
    pub system: String,
    /// How the calls got there.
    pub driver: String,
    pub workload: String,
    /// The language of its functions.
    pub guest: String,
    /// Everything else that was chosen, the seed as well.
    pub configuration: BTreeMap<String, Value>,
    /// For comparisons: the question that this answers a part of, and which part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    pub runs: Vec<Run>,
    /// The run at the highest rate that the system bore, if it was looked for.
    pub peak: Option<usize>,
    /// The run that latency is told of.
    pub usual: usize,
    /// Claims about the state, and how they were found.
    pub checks: Vec<Checked>,
}

/// A place in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The question, such as `zipf`.
    pub name: String,
    /// The place in it, such as `0.99`.
    pub at: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checked {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One run at one pace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Calls offered a second; none in a closed loop.
    pub offered: Option<f64>,
    pub seconds: f64,
    pub tps: f64,
    /// It ended early: the system was over its peak.
    pub early: bool,
    /// Ends of what was due.
    pub counts: Counts,
    /// From when a call was due to its answer.
    pub latency: Latency,
    pub by_function: BTreeMap<String, Latency>,
    pub timeline: Timeline,
    pub cpu: Cpu,
    /// Memory of the system at the end, MiB.
    pub rss_mb: u64,
    /// The system's counters, by name.
    pub totals: BTreeMap<String, f64>,
    /// How long clients waited when a worker was lost, and when one joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// Migrations, and what they came to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<Migration>,
    /// Examples of what went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// All, to two digits: a latency in µs and how often it was met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
}

impl Latency {
    fn of(seen: &Histogram<u64>, whole: bool) -> Latency {
        let at = |quantile| seen.value_at_quantile(quantile) as f64 / 1e3;
        let mut histogram: Vec<(u64, u64)> = Vec::new();
        if whole {
            for step in seen.iter_recorded() {
                let us = rounded(step.value_iterated_to());
                match histogram.last_mut() {
                    Some((last, count)) if *last == us => *count += step.count_at_value(),
                    _ => histogram.push((us, step.count_at_value())),
                }
            }
        }
        Latency {
            count: seen.len(),
            mean_ms: (seen.mean() * 10.0).round() / 1e4,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: seen.max() as f64 / 1e3,
            histogram,
        }
    }
}

/// A number to two digits.
fn rounded(number: u64) -> u64 {
    let unit = 10u64.pow(number.max(1).ilog10().saturating_sub(1));
    (number + unit / 2) / unit * unit
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    pub slot_ms: u64,
    pub answered: Vec<u32>,
    /// The longest latency of each, ms.
    pub longest_ms: Vec<f64>,
    /// What happened meanwhile, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// A worker that was lost, or joined, and the longest latency of the answers until the next such event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stall {
    /// Milliseconds from the beginning of the span.
    pub at_ms: u64,
    pub join: bool,
    pub longest_ms: f64,
}

impl Stall {
    fn all(measured: &Measured, longest_ms: &[f64]) -> Vec<Stall> {
        let slot = |at: Duration| (at.as_millis() / SLOT.as_millis()) as usize;
        let until = measured.events.iter().skip(1).map(|(range, _)| slot(range.start)).chain([longest_ms.len()]);
        let stalls =
            measured.events.iter().zip(until).filter(|((_, what), _)| !matches!(what, Disturbance::Migrate(..)));
        let stalls = stalls.map(|((range, what), until)| Stall {
            at_ms: range.start.as_millis() as u64,
            join: !what.is_loss(),
            longest_ms: longest_ms
                .get(slot(range.start)..until)
                .unwrap_or_default()
                .iter()
                .copied()
                .fold(0.0, f64::max),
        });
        stalls.collect()
    }
}

/// Processor time per answer, in µs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    pub system_us: Option<f64>,
    pub client_us: f64,
}

impl From<&Measured> for Run {
    fn from(measured: &Measured) -> Run {
        let tally = &measured.tally;
        let each = |seconds: f64| (seconds * 1e6 / tally.answered.max(1) as f64 * 100.0).round() / 100.0;
        let by_function = tally.by_function.iter();
        let totals = measured.figures.totals.iter().filter(|(_, total)| **total != 0.0);
        let longest_ms: Vec<f64> = tally.longest_us.iter().map(|us| (*us as f64 / 100.0).round() / 10.0).collect();
        Run {
            offered: measured.offered(),
            seconds: measured.seconds,
            tps: (measured.tps() * 10.0).round() / 10.0,
            early: measured.early,
            counts: tally.counts,
            latency: Latency::of(&tally.latency_us, true),
            by_function: by_function.map(|(name, seen)| (name.clone(), Latency::of(seen, false))).collect(),
            timeline: Timeline {
                slot_ms: SLOT.as_millis() as u64,
                answered: tally.slots.clone(),
                longest_ms: longest_ms.clone(),
                events: Event::all(&measured.events, &measured.migrated, &measured.snapshots, &tally.slots),
            },
            stalls: Stall::all(measured, &longest_ms),
            migrations: Migration::all(measured),
            cpu: Cpu {
                system_us: measured.figures.cpu.map(|cpu| each(cpu.as_secs_f64())),
                client_us: each(measured.client_cpu.as_secs_f64()),
            },
            rss_mb: measured.figures.rss_mb,
            totals: totals.map(|(name, total)| (name.clone(), *total)).collect(),
            examples: tally.examples.clone(),
        }
    }
}

impl Outcome {
    /// A measurement that was made now, here.
    pub fn new(system: &str, driver: &str, workload: &str, guest: &str) -> Outcome {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Outcome {
            format: FORMAT,
            at: since.map_or(0, |since| since.as_secs()),
            commit: commit(),
            machine: Machine::here(),
            surroundings: None,
            system: system.to_owned(),
            driver: driver.to_owned(),
            workload: workload.to_owned(),
            guest: guest.to_owned(),
            configuration: BTreeMap::new(),
            series: None,
            runs: Vec::new(),
            peak: None,
            usual: 0,
            checks: Vec::new(),
        }
    }

    /// The run that latency is told of.
    pub fn usual(&self) -> &Run {
        &self.runs[self.usual]
    }

    /// Answers a second at the highest rate borne, or in the only run.
    pub fn peak_tps(&self) -> f64 {
        self.peak.map_or(self.usual().tps, |peak| self.runs[peak].tps)
    }

    /// True if everything holds that must.
    pub fn is_consistent(&self) -> bool {
        self.checks.iter().all(|check| check.error.is_none())
    }

    /// The figures on one line.
    pub fn summary(&self) -> Value {
        let usual = self.usual();
        let (load_average, stolen) =
            (self.surroundings.map(|seen| seen.load_average), self.surroundings.map(|seen| seen.stolen));
        let mut line = json!({
            "load_average": load_average, "stolen_percent": stolen,
            "workload": self.workload, "guest": self.guest, "system": self.system, "driver": self.driver,
            "peak_tps": self.peak_tps(), "offered": usual.offered, "tps": usual.tps,
            "p50_ms": usual.latency.p50_ms, "p99_ms": usual.latency.p99_ms, "p999_ms": usual.latency.p999_ms,
            "aborted": usual.counts.aborted, "unexpected": usual.counts.unexpected, "refused": usual.counts.refused,
            "retries": usual.counts.retries, "system_cpu_us": usual.cpu.system_us, "client_cpu_us": usual.cpu.client_us,
            "rss_mb": usual.rss_mb, "consistent": self.is_consistent(),
        });
        for (name, join) in [("stall_ms", false), ("join_stall_ms", true)] {
            let stalls: Vec<f64> =
                usual.stalls.iter().filter(|stall| stall.join == join).map(|stall| stall.longest_ms).collect();
            if !stalls.is_empty() {
                line[name] = json!(stalls);
            }
        }
        for (name, shown) in usual.totals.iter().filter(|(name, _)| name.starts_with("viewed_")) {
            line[name] = json!(shown);
        }
        if !usual.migrations.is_empty() {
            let one = |one: &Migration| {
                json!({
                    "state": one.state, "took_ms": one.took_ms, "bytes": one.bytes, "least_bytes": one.least_bytes,
                    "p50_ms": [one.before.p50_ms, one.during.p50_ms, one.after.p50_ms],
                    "p99_ms": [one.before.p99_ms, one.during.p99_ms, one.after.p99_ms],
                    "longest_ms": [one.before.max_ms, one.during.max_ms, one.after.max_ms],
                    "longest_epoch_ms": one.longest_epoch_ms,
                })
            };
            line["migrations"] = usual.migrations.iter().map(one).collect();
        }
        line
    }

    /// Writes it into a directory, under a name of its own.
    pub fn write(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let parts = [&self.workload, &self.system, &self.driver, &self.guest];
        let stem = parts.map(|part| part.replace(|char: char| !char.is_ascii_alphanumeric(), "-")).join("_");
        let mut number = 0;
        loop {
            let file = directory.join(format!("{stem}_{}_{number}.json", self.at));
            // Two that end in the same second both keep theirs.
            match std::fs::File::options().write(true).create_new(true).open(&file) {
                Ok(opened) => {
                    serde_json::to_writer(std::io::BufWriter::new(opened), self)?;
                    return Ok(file);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error).with_context(|| format!("cannot write {}", file.display())),
            }
        }
    }

    pub fn read(file: &Path) -> anyhow::Result<Outcome> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let read: Outcome =
            serde_json::from_str(&text).with_context(|| format!("{} is no result of a measurement", file.display()))?;
        anyhow::ensure!(
            read.format <= FORMAT && read.usual < read.runs.len() && read.peak.is_none_or(|at| at < read.runs.len()),
            "{} is of a newer version, or incomplete",
            file.display()
        );
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_keeps_its_counts_in_few_numbers() {
        let mut seen = Histogram::new_with_bounds(1, 600_000_000, 3).unwrap();
        (1..=100_000).for_each(|us| seen.record(us).unwrap());
        let latency = Latency::of(&seen, true);
        assert!(latency.histogram.len() < 500, "{}", latency.histogram.len());
        assert_eq!(latency.histogram.iter().map(|(_, count)| count).sum::<u64>(), 100_000);
        assert!(latency.histogram.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!((latency.p99_ms - 99.0).abs() < 0.1, "{}", latency.p99_ms);
    }

    #[test]
    fn what_was_written_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut outcome = Outcome::new("styx", "websocket", "ycsb-t", "rust");
        let counts = Counts { committed: 99, ..Counts::default() };
        outcome.runs.push(Run { offered: Some(100.0), seconds: 1.0, tps: 99.5, counts, ..Run::default() });
        let (first, second) = (outcome.write(directory.path()).unwrap(), outcome.write(directory.path()).unwrap());
        assert_ne!(first, second);
        let read = Outcome::read(&first).unwrap();
        assert_eq!((read.peak_tps(), read.usual().counts.committed), (99.5, 99));
        outcome.format += 1;
        assert!(Outcome::read(&outcome.write(directory.path()).unwrap()).is_err());
        std::fs::write(&first, "{}").unwrap();
        assert!(Outcome::read(&first).unwrap_err().to_string().contains("is no result"));
    }
}
