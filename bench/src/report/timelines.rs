//! What clients noticed while partitions moved, as a picture: a run of each mode, one below the other on the same axes.

use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::result::{Migration, Outcome, Timeline};

/// As the modes of a migration are named in results, from the one that is noticed least.
const MODES: [&str; 3] = ["online", "immediate", "stop-and-restart"];

const LATENCY: RGBColor = RGBColor(0, 114, 178);
const ANSWERS: RGBColor = RGBColor(213, 94, 0);
const MIGRATION: RGBColor = RGBColor(230, 159, 0);

/// Pixels: the picture's width, what is left and right of its axes, and left of their names; of each panel, its heading, the
/// chart of latency with the gap below it, and that of answers; and what the axis of seconds takes below the last.
const WIDTH: u32 = 760;
const LEFT: u32 = 76;
const RIGHT: u32 = 16;
const EDGE: u32 = 6;
const HEADING: u32 = 28;
const LATENCIES: u32 = 124;
const GAP: u32 = 14;
const RATES: u32 = 70;
const SECONDS: u32 = 44;

/// A run of one mode.
struct Panel<'a> {
    mode: &'a str,
    timeline: &'a Timeline,
    migration: &'a Migration,
}

/// Draws the newest result of each mode into a file.
pub(super) fn write(outcomes: &[Outcome], file: &Path) -> anyhow::Result<()> {
    let text = picture(&panels(outcomes)?)?;
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The newest results, which stand last, of migrations that came to their end.
fn panels(outcomes: &[Outcome]) -> anyhow::Result<Vec<Panel<'_>>> {
    let panel = |mode| {
        let of_mode =
            outcomes.iter().rev().filter(|outcome| outcome.configuration.get("mode").is_some_and(|of| of == mode));
        let mut found = of_mode.filter_map(|outcome| {
            let run = outcome.usual();
            let migration = run.migrations.iter().find(|migration| migration.state == "done")?;
            Some(Panel { mode, timeline: &run.timeline, migration })
        });
        found.next().with_context(|| {
            format!("NO_RESULTS: no migration was measured in mode {mode}: `styx-bench run --migrate 4 --mode {mode} …` does")
        })
    };
    MODES.into_iter().map(panel).collect()
}

impl Panel<'_> {
    /// When the migration began and ended, in seconds.
    fn migration_s(&self) -> (f64, f64) {
        let Migration { at_ms, took_ms, .. } = self.migration;
        (*at_ms as f64 / 1e3, (at_ms + took_ms) as f64 / 1e3)
    }

    fn label(&self) -> String {
        let took = self.migration.took_ms as f64 / 1e3;
        let moved = match self.migration.bytes {
            // Whoever reads it from a snapshot is sent nothing.
            0 => String::new(),
            bytes => format!(", {} MB moved", megabytes(bytes)),
        };
        format!("{}: took {took:.1} s{moved}", self.mode)
    }

    fn seconds(&self, slot: usize) -> f64 {
        (slot as u64 * self.timeline.slot_ms) as f64 / 1e3
    }

    /// Lines of latencies, one for each time without a slot in which nothing was answered.
    fn latencies(&self) -> Vec<Vec<(f64, f64)>> {
        let points: Vec<_> = self.timeline.longest_ms.iter().enumerate().collect();
        let lines = points.split(|(_, ms)| **ms <= 0.0).filter(|line| !line.is_empty());
        lines.map(|line| line.iter().map(|(slot, ms)| (self.seconds(*slot), **ms)).collect()).collect()
    }

    /// Answers a second.
    fn rates(&self) -> Vec<(f64, f64)> {
        let by = self.timeline.slot_ms.max(1) as f64 / 1e3;
        self.timeline
            .answered
            .iter()
            .enumerate()
            .map(|(slot, count)| (self.seconds(slot), f64::from(*count) / by))
            .collect()
    }
}

/// What is common to all panels.
struct Axes {
    seconds: f64,
    ms: (f64, f64),
    /// Twice the usual: when all that waited is answered at once, that is many times as much, beside which nothing else
    /// could be seen.
    rate: f64,
}

impl Axes {
    fn of(panels: &[Panel<'_>]) -> Axes {
        let seconds = panels.iter().map(|panel| panel.seconds(panel.timeline.answered.len()));
        let latencies = || panels.iter().flat_map(|panel| &panel.timeline.longest_ms).copied().filter(|ms| *ms > 0.0);
        let most = latencies().fold(1.0, f64::max);
        let least = 10_f64.powf(latencies().fold(most, f64::min).log10().floor());
        let mut rates: Vec<f64> =
            panels.iter().flat_map(Panel::rates).map(|(_, rate)| rate).filter(|rate| *rate > 0.0).collect();
        rates.sort_by(f64::total_cmp);
        let usual = rates.get(rates.len() / 2).copied().unwrap_or(1.0);
        Axes { seconds: seconds.fold(1.0, f64::max), ms: (least, most.max(10.0 * least) * 1.5), rate: usual * 2.0 }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn picture(panels: &[Panel<'_>]) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let panel_height = HEADING + LATENCIES + RATES;
        let size = (WIDTH, panels.len() as u32 * panel_height + SECONDS);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        let axes = Axes::of(panels);
        let mut rest = area.clone();
        for (at, panel) in panels.iter().enumerate() {
            let below = if at + 1 == panels.len() { SECONDS } else { 0 };
            let (upper, others) = rest.split_vertically(panel_height + below);
            draw(panel, &axes, &upper, below)?;
            rest = others;
        }
        area.present()?;
    }
    Ok(text)
}

/// Draws one panel; `below` is what its axis of seconds takes, if it has one.
fn draw(panel: &Panel<'_>, axes: &Axes, area: &Area<'_>, below: u32) -> anyhow::Result<()> {
    let (heading, charts) = area.split_vertically(HEADING);
    let (upper, lower) = charts.split_vertically(LATENCIES);
    let (began, ended) = panel.migration_s();
    let font = ("sans-serif", 13);
    // Where the migration is, but not so far to the right that it does not fit.
    let x = LEFT + ((WIDTH - LEFT - RIGHT) as f64 * (began / axes.seconds).min(0.6)) as u32;
    let label = TextStyle::from(("sans-serif", 15).into_font()).pos(Pos::new(HPos::Left, VPos::Bottom));
    heading.draw(&Text::new(panel.label(), (x as i32, HEADING as i32 - 4), label))?;

    let mut builder = ChartBuilder::on(&upper);
    builder.margin_left(EDGE).margin_right(RIGHT).margin_bottom(GAP).y_label_area_size(LEFT - EDGE);
    let mut chart = builder.build_cartesian_2d(0.0..axes.seconds, (axes.ms.0..axes.ms.1).log_scale())?;
    let shade = Rectangle::new([(began, axes.ms.0), (ended, axes.ms.1)], MIGRATION.mix(0.25).filled());
    chart.draw_series([shade])?;
    let mut mesh = chart.configure_mesh();
    mesh.y_desc("longest, ms")
        .y_labels(4)
        .label_style(font)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12));
    mesh.y_label_formatter(&|ms| format!("{ms}")).draw()?;
    for line in panel.latencies() {
        chart.draw_series(LineSeries::new(line, LATENCY.stroke_width(1)))?;
    }

    let mut builder = ChartBuilder::on(&lower);
    builder
        .margin_left(EDGE)
        .margin_right(RIGHT)
        .margin_bottom(EDGE)
        .x_label_area_size(below)
        .y_label_area_size(LEFT - EDGE);
    let mut chart = builder.build_cartesian_2d(0.0..axes.seconds, 0.0..axes.rate)?;
    chart.draw_series([Rectangle::new([(began, 0.0), (ended, axes.rate)], MIGRATION.mix(0.25).filled())])?;
    let mut mesh = chart.configure_mesh();
    mesh.y_desc("calls/s").y_labels(3).label_style(font).light_line_style(TRANSPARENT).bold_line_style(BLACK.mix(0.12));
    mesh.x_labels(12).x_label_formatter(&|seconds| format!("{seconds}")).y_label_formatter(&|rate| format!("{rate}"));
    if below > 0 {
        mesh.x_desc("seconds");
    }
    mesh.draw()?;
    let rates = panel.rates().into_iter().map(|(at, rate)| (at, rate.min(axes.rate)));
    chart.draw_series(LineSeries::new(rates, ANSWERS.stroke_width(1)))?;
    Ok(())
}

/// To whole ones, where they are many.
fn megabytes(bytes: u64) -> String {
    let digits = if bytes < 10_000_000 { 1 } else { 0 };
    format!("{:.digits$}", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Run;

    /// Three seconds, in one of which nothing is answered; the migration begins after the first.
    fn outcome(mode: &str, took_ms: u64, bytes: u64, state: &str) -> Outcome {
        let mut outcome = Outcome::new("styx", "websocket", "ycsb-records", "rust");
        outcome.configuration.insert("mode".into(), mode.into());
        let answered = [[30; 10], [0; 10], [30; 10]].concat();
        let longest_ms = answered.iter().map(|count| f64::from(*count) / 6.0).collect();
        let timeline = Timeline { slot_ms: 100, answered, longest_ms, ..Timeline::default() };
        let migration = Migration { at_ms: 1000, took_ms, state: state.into(), bytes, ..Migration::default() };
        outcome.runs.push(Run { timeline, migrations: vec![migration], ..Run::default() });
        outcome
    }

    fn of_each_mode() -> Vec<Outcome> {
        vec![
            outcome("online", 900, 1, "done"),
            outcome("stop-and-restart", 600, 0, "done"),
            outcome("immediate", 1240, 2_340_000, "done"),
            outcome("online", 1500, 329_000_000, "done"),
            outcome("online", 100, 0, "failed"),
        ]
    }

    #[test]
    fn the_newest_of_each_mode_is_drawn() {
        let outcomes = of_each_mode();
        let panels = panels(&outcomes).unwrap();
        let expected =
            ["online: took 1.5 s, 329 MB moved", "immediate: took 1.2 s, 2.3 MB moved", "stop-and-restart: took 0.6 s"];
        assert_eq!(panels.iter().map(Panel::label).collect::<Vec<_>>(), expected);
        let picture = picture(&panels).unwrap();
        let places = expected.map(|label| picture.find(label).unwrap_or_else(|| panic!("{label} is not in {picture}")));
        assert!(places.is_sorted(), "one below the other");
        assert!(!picture.contains("0.9 s"));
        let error = super::panels(&outcomes[..2]).err().unwrap().to_string();
        assert!(error.contains("NO_RESULTS") && error.contains("--mode immediate"), "{error}");
    }

    #[test]
    fn migrations_are_shaded_from_beginning_to_end_on_the_same_axes() {
        let picture = picture(&panels(&of_each_mode()).unwrap()).unwrap();
        let shades: Vec<(f64, f64)> = picture
            .lines()
            .filter(|line| line.starts_with("<rect") && line.contains("#E69F00"))
            .map(|line| {
                let number = |name: &str| line.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok();
                (number("x").unwrap(), number("width").unwrap())
            })
            .collect();
        let second = f64::from(WIDTH - LEFT - RIGHT) / 3.0;
        for (shade, took) in shades.iter().zip([1.5, 1.5, 1.24, 1.24, 0.6, 0.6]) {
            let (x, width) = (f64::from(LEFT) + second, second * took);
            assert!((shade.0 - x).abs() < 2.0 && (shade.1 - width).abs() < 2.0, "{shade:?}, not {x} and {width}");
        }
        assert_eq!(shades.len(), 6, "latency and answers of each mode");
    }

    #[test]
    fn where_nothing_was_answered_there_is_no_latency() {
        let outcomes = of_each_mode();
        let panels = panels(&outcomes).unwrap();
        let lines = panels[0].latencies();
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10]);
        assert_eq!((lines[0][0], lines[1][0]), ((0.0, 5.0), (2.0, 5.0)));
        assert_eq!(Axes::of(&panels).rate, 600.0);
        assert_eq!(panels[0].rates()[9..11], [(0.9, 300.0), (1.0, 0.0)]);
    }
}
