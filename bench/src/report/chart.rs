//! Charts as SVG text: lines, bars, stacked bars.

use std::collections::BTreeMap;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use crate::result::{Outcome, Run};

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

const SIZE: (u32, u32) = (760, 380);
const FONT: (&str, u32) = ("sans-serif", 14);

/// One line of a chart.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// The axes of a chart.
pub struct Axes<'a> {
    pub x: &'a str,
    pub y: &'a str,
    /// True if a step is a factor, on both.
    pub log: bool,
    /// Size of the mark at each point; 0 for none.
    pub marks: u32,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn drawn(height: u32, draw: impl FnOnce(&Area<'_>) -> anyhow::Result<()>) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (SIZE.0, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    // So that it shrinks with the page.
    Ok(text.replacen("<svg ", "<svg class=\"chart\" ", 1))
}

/// Lines with a mark at each point.
pub fn lines(axes: &Axes<'_>, lines: &[Line]) -> anyhow::Result<String> {
    drawn(SIZE.1, |area| draw_lines(area, axes, lines))
}

fn draw_lines(area: &Area<'_>, axes: &Axes<'_>, lines: &[Line]) -> anyhow::Result<()> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = span(points().map(|point| point.0), axes.log);
    let y = span(points().map(|point| point.1), axes.log);
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).x_label_area_size(44).y_label_area_size(70);
    // The two kinds of axes are two types.
    if axes.log {
        draw(builder.build_cartesian_2d(x.log_scale(), y.log_scale())?, axes, lines)
    } else {
        draw(builder.build_cartesian_2d(x, y)?, axes, lines)
    }
}

type Chart<'a, X> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, X>>;

fn draw<'a, X>(mut chart: Chart<'a, X>, axes: &Axes<'_>, lines: &[Line]) -> anyhow::Result<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes.x).y_desc(axes.y).label_style(FONT).light_line_style(BLACK.mix(0.05));
    mesh.x_label_formatter(&short).y_label_formatter(&short).draw()?;
    for (at, line) in lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)).point_size(axes.marks))?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    P50,
    P99,
}

/// Latency over throughput, a line for each system, up to its peak.
pub fn curves(systems: &BTreeMap<String, &Outcome>, percentile: Percentile) -> Vec<Line> {
    let line = |(name, outcome): (&String, &&Outcome)| {
        let latency = |run: &Run| match percentile {
            Percentile::P50 => run.latency.p50_ms,
            Percentile::P99 => run.latency.p99_ms,
        };
        // Steps of the search come too close to each other to be told apart.
        let told = |at: &usize| *at >= outcome.usual || Some(*at) == outcome.peak;
        let runs = (0..outcome.runs.len()).filter(told).map(|at| &outcome.runs[at]);
        let borne = runs.filter(|run| run.latency.p99_ms < 1000.0 && run.tps <= outcome.peak_tps());
        let mut points: Vec<(f64, f64)> = borne.map(|run| (run.tps, latency(run))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name: name.clone(), points }
    };
    systems.iter().map(line).collect()
}

/// Lines, with what their colours mean above them: a picture that stands alone.
pub fn titled(axes: &Axes<'_>, lines: &[Line]) -> anyhow::Result<String> {
    let (columns, step) = (2, 22);
    let head = 16 + step * lines.len().div_ceil(columns) as i32;
    drawn(SIZE.1 + head as u32, |area| {
        let (above, below) = area.split_vertically(head);
        for (at, line) in lines.iter().enumerate() {
            let (x, y) = (70 + 345 * (at % columns) as i32, 16 + step * (at / columns) as i32);
            above.draw(&key(x, y, COLOURS[at % COLOURS.len()]))?;
            above.draw(&Text::new(line.name.clone(), (x + 20, y - 8), FONT.into_font()))?;
        }
        draw_lines(&below, axes, lines)
    })
}

/// The legend of lines, beside the chart: inside, it would cover some of them.
pub fn legend(lines: &[Line]) -> Vec<(String, String)> {
    let entry = |(at, line): (usize, &Line)| {
        let RGBColor(red, green, blue) = COLOURS[at % COLOURS.len()];
        (format!("#{red:02x}{green:02x}{blue:02x}"), line.name.clone())
    };
    lines.iter().enumerate().map(entry).collect()
}

fn key(x: i32, y: i32, colour: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled())
}

/// Horizontal bars made of parts, each part with its own colour; the legend names the parts.
pub fn bars(x: &str, parts: &[String], bars: &[(String, Vec<f64>)]) -> anyhow::Result<String> {
    let longest = bars.iter().map(|(_, values)| values.iter().sum::<f64>()).fold(0.0, f64::max);
    anyhow::ensure!(longest > 0.0, "a chart without a value");
    let legend = if parts.len() > 1 { 40 } else { 0 };
    drawn(60 + legend + 34 * bars.len() as u32, |area| {
        let (left, scale) = (250, f64::from(SIZE.0 - 250 - 90) / longest);
        let style = FONT.into_font();
        let text = |text: String, x: i32, y: i32| Text::new(text, (x, y), style.clone());
        let mut at = 12;
        for (part, name) in parts.iter().enumerate().filter(|_| parts.len() > 1) {
            area.draw(&key(at, 18, COLOURS[part % COLOURS.len()]))?;
            area.draw(&text(name.clone(), at + 20, 10))?;
            at += 40 + 8 * name.chars().count() as i32;
        }
        for (row, (name, values)) in bars.iter().enumerate() {
            let top = 20 + legend as i32 + 34 * row as i32;
            area.draw(&text(name.clone(), 12, top + 5))?;
            let mut from = 0.0;
            for (part, value) in values.iter().enumerate() {
                let corner = |sum: f64, y: i32| (left + (sum * scale) as i32, y);
                let colour = COLOURS[if parts.len() > 1 { part } else { 0 } % COLOURS.len()];
                area.draw(&Rectangle::new([corner(from, top), corner(from + value, top + 24)], colour.filled()))?;
                from += value;
            }
            area.draw(&text(short(&from), left + (from * scale) as i32 + 6, top + 5))?;
        }
        area.draw(&text(x.to_owned(), left, 34 + legend as i32 + 34 * bars.len() as i32))?;
        Ok(())
    })
}

/// The range of an axis: from nothing, or from the least power of ten, to a little more than the most.
fn span(values: impl Iterator<Item = f64> + Clone, log: bool) -> Range<f64> {
    let most = values.clone().fold(f64::MIN_POSITIVE, f64::max);
    if log {
        let least = values.filter(|value| *value > 0.0).fold(most, f64::min);
        10f64.powf(least.log10().floor())..most * 1.8
    } else {
        0.0..most * 1.08
    }
}

/// A number as people write it on an axis.
#[allow(clippy::trivially_copy_pass_by_ref)] // as the library calls it
fn short(number: &f64) -> String {
    let (number, unit) = match number.abs() {
        most if most >= 1e6 => (number / 1e6, " M"),
        most if most >= 1e3 => (number / 1e3, " k"),
        _ => (*number, ""),
    };
    let text = match number.abs() {
        most if most >= 100.0 => format!("{number:.0}"),
        most if most >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [(0.0, "0"), (0.25, "0.25"), (12.0, "12"), (260_000.0, "260 k"), (1.5e6, "1.5 M")] {
            assert_eq!(short(&number), expected);
        }
    }

    #[test]
    fn charts_show_what_they_are_given() {
        let axes = Axes { x: "calls", y: "ms", log: true, marks: 3 };
        let line = |name: &str| Line { name: name.into(), points: vec![(1.0, 1.0), (2.0, 100.0)] };
        let two = [line("one"), line("two")];
        let text = lines(&axes, &two).unwrap();
        for part in ["<svg class=\"chart\"", "calls", "polyline", "</svg>"] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        let colours = legend(&two);
        assert!(text.to_lowercase().contains(&colours[0].0) && text.to_lowercase().contains(&colours[1].0), "{text}");
        let parts = ["cut".to_owned(), "execute".to_owned()];
        let text = bars("ms", &parts, &[("styx".into(), vec![1.0, 2.0])]).unwrap();
        for part in ["cut", "execute", "styx", "<rect", "</svg>"] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        assert!(bars("ms", &parts, &[]).is_err());
    }
}
