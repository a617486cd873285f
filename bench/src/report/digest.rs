//! The report in a few lines, for a page that shows more than measurements: a table of peaks as Markdown,
//! and latency over throughput of one workload as a picture.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};
use plotters::prelude::*;

use crate::result::Outcome;

/// The workload that the picture is of.
const PICTURED: &str = "ycsb-t";

/// Colours that people with any eyes tell apart.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(150, 120, 0),
    RGBColor(0, 0, 0),
];

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
    for (workload, label, outcome) in &rows {
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
    let mut lines: Vec<_> = rows.iter().filter(|row| row.0 == PICTURED).map(|row| (&*row.1, points(row.2))).collect();
    ensure!(!lines.is_empty(), "NO_RESULTS: {PICTURED} was not measured");
    lines.sort_by_key(|line| line.0);
    for (name, text) in [("measured.md", table), ("measured.svg", picture(&lines)?)] {
        let file = directory.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
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

/// Answers a second and their 99th percentile, up to the peak.
fn points(outcome: &Outcome) -> Vec<(f64, f64)> {
    // Steps of the search come too close to each other to be told apart.
    let told = |at: &usize| *at >= outcome.usual || Some(*at) == outcome.peak;
    let runs = (0..outcome.runs.len()).filter(told).map(|at| &outcome.runs[at]);
    let borne = runs.filter(|run| run.latency.p99_ms < 1000.0 && run.tps <= outcome.peak_tps());
    let mut points: Vec<(f64, f64)> = borne.map(|run| (run.tps, run.latency.p99_ms)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Lines with their names above them, both axes logarithmic.
fn picture(lines: &[(&str, Vec<(f64, f64)>)]) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let head = 16 + 22 * lines.len().div_ceil(2) as i32;
        let area = SVGBackend::with_string(&mut text, (760, 380 + head as u32)).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, below) = area.split_vertically(head);
        let font = ("sans-serif", 14);
        let range = |of: fn(&(f64, f64)) -> f64| {
            let values = || lines.iter().flat_map(|line| &line.1).map(of).filter(|value| *value > 0.0);
            let most = values().fold(f64::MIN_POSITIVE, f64::max);
            (10f64.powf(values().fold(most, f64::min).log10().floor())..most * 1.8).log_scale()
        };
        let mut chart = ChartBuilder::on(&below);
        chart.margin(12).x_label_area_size(44).y_label_area_size(70);
        let mut chart = chart.build_cartesian_2d(range(|point| point.0), range(|point| point.1))?;
        let short = |number: &f64| if *number >= 1e3 { format!("{} k", number / 1e3) } else { format!("{number}") };
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("answers per second").y_desc("p99, ms").label_style(font).light_line_style(BLACK.mix(0.05));
        mesh.x_label_formatter(&short).y_label_formatter(&short).draw()?;
        for (at, (name, points)) in lines.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?;
            let (x, y) = (70 + 345 * (at % 2) as i32, 16 + 22 * (at / 2) as i32);
            above.draw(&Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()))?;
            above.draw(&Text::new((*name).to_owned(), (x + 20, y - 8), font.into_font()))?;
        }
        area.present()?;
    }
    Ok(text)
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
