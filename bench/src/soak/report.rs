//! What a soak has seen: a table with lines for the eye, and files with all samples.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::sample::Figure;
use super::trend::{Tolerance, Trend};
use crate::machine::{Machine, commit};
use crate::report::fill;

/// Characters of a line in the table.
const WIDTH: usize = 32;

/// All that is known of one figure.
#[derive(Debug, Serialize)]
struct Series {
    name: String,
    unit: &'static str,
    tolerance: Tolerance,
    /// Its second, and what it was then.
    samples: Vec<(f64, f64)>,
    trend: Option<Trend>,
}

/// All figures, in the order in which they came first.
#[derive(Debug, Default)]
pub(super) struct Report {
    series: Vec<Series>,
    at: BTreeMap<String, usize>,
}

/// What is written down beside the series.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) workers: usize,
    pub(super) seconds: f64,
    pub(super) warm_up: f64,
    pub(super) calls: u64,
    /// Why it ended before its time.
    pub(super) failure: Option<String>,
}

#[derive(Serialize)]
struct Written<'a> {
    machine: Machine,
    commit: String,
    #[serde(flatten)]
    run: &'a Run,
    series: &'a [Series],
}

impl Report {
    pub(super) fn add(&mut self, second: f64, figure: Figure) {
        let Figure { name, unit, tolerance, value } = figure;
        let at = *self.at.entry(name.clone()).or_insert_with(|| {
            self.series.push(Series { name, unit, tolerance, samples: Vec::new(), trend: None });
            self.series.len() - 1
        });
        self.series[at].samples.push((second, value));
    }

    /// Looks for what grows after the warm-up, with so many times what it may grow by; gives a line for each.
    pub(super) fn judge(&mut self, warm_up: f64, tolerance: f64) -> Vec<String> {
        let mut growing = Vec::new();
        for Series { name, unit, tolerance: of, samples, trend } in &mut self.series {
            let after: Vec<(f64, f64)> = samples.iter().copied().filter(|sample| sample.0 >= warm_up).collect();
            let of = Tolerance { absolute: of.absolute * tolerance, share: of.share * tolerance };
            *trend = Trend::of(&after, of);
            if let Some(trend) = trend.filter(Trend::is_leak) {
                let Trend { growth, per_minute, allowed, .. } = trend;
                growing.push(format!(
                    "{name} grows by {growth:.1} {unit} ({per_minute:.2} a minute), and may by {allowed:.1}"
                ));
            }
        }
        growing
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["  series", "", "", "median", "last", "a minute", "grows by", "may"]);
        for Series { name, unit, samples, trend, .. } in &self.series {
            let numbers = trend.map_or([const { String::new() }; 5], |trend| {
                [trend.median, trend.last, trend.per_minute, trend.growth, trend.allowed]
                    .map(|number| format!("{number:.1}"))
            });
            let line = sparkline(samples, WIDTH);
            table.add_row([format!("  {name}"), line, (*unit).to_owned()].into_iter().chain(numbers));
        }
        for at in 3..8 {
            table.column_mut(at).expect("the table has eight").set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// Writes `soak.json` and `soak.html` into a directory; gives the page.
    pub(super) fn write(&self, run: &Run, directory: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let written = Written { machine: Machine::here(), commit: commit(), run, series: &self.series };
        let page = directory.join("soak.html");
        for (file, text) in [
            (&directory.join("soak.json"), serde_json::to_string(&written)?),
            (&page, fill(include_str!("page.html"), &written)?),
        ] {
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(page)
    }
}

/// Samples as a line of so many characters, from the least to the most.
fn sparkline(samples: &[(f64, f64)], width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let chunk = samples.len().div_ceil(width).max(1);
    let means: Vec<f64> =
        samples.chunks(chunk).map(|chunk| chunk.iter().map(|it| it.1).sum::<f64>() / chunk.len() as f64).collect();
    let (least, most) = means.iter().fold((f64::MAX, f64::MIN), |(least, most), it| (least.min(*it), most.max(*it)));
    let level = |mean: &f64| if most > least { ((mean - least) / (most - least) * 7.0).round() as usize } else { 0 };
    means.iter().map(|mean| LEVELS[level(mean).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, value: f64) -> Figure {
        Figure { name: name.into(), unit: "MiB", tolerance: Tolerance { absolute: 5.0, share: 0.1 }, value }
    }

    #[test]
    fn what_grows_is_named_and_all_of_it_written() {
        let mut report = Report::default();
        for second in 0..100u32 {
            // Much in the beginning, which is warm-up.
            report.add(second.into(), figure("one", f64::from(second.min(20)) * 10.0));
            report.add(second.into(), figure("other", f64::from(second)));
        }
        let growing = report.judge(20.0, 1.0);
        assert_eq!(growing, ["other grows by 79.0 MiB (60.00 a minute), and may by 10.9"]);
        assert_eq!(report.judge(20.0, 10.0), [""; 0]);
        let place = tempfile::tempdir().unwrap();
        let run = Run { workers: 0, seconds: 100.0, warm_up: 20.0, calls: 7, failure: None };
        let page = std::fs::read_to_string(report.write(&run, place.path()).unwrap()).unwrap();
        assert!(["STYLE", "RESULTS", "CHARTS"].iter().all(|place| !page.contains(place)) && page.contains("\"other\""));
        let json = std::fs::read_to_string(place.path().join("soak.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["series"][1]["samples"].as_array().unwrap().len(), 100);
        assert!(report.table().to_string().contains("other"));
    }

    #[test]
    fn a_line_goes_from_the_least_to_the_most() {
        let samples: Vec<(f64, f64)> = (0..16).map(|at| (f64::from(at), f64::from(at))).collect();
        assert_eq!(sparkline(&samples, 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[(0.0, 3.0); 4], 8), "▁▁▁▁");
        assert_eq!(sparkline(&[], 8), "");
    }
}
