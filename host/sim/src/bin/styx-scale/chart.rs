//! Charts as SVG files: lines with their names beside them, and stacked bars.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

/// Colours that people with any eyes tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

const FONT: (&str, u32) = ("sans-serif", 15);
const SIZE: (u32, u32) = (860, 400);
/// Beside the lines, for their names.
const NAMES: u32 = 230;

/// How a line looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// With a mark at each point.
    Line,
    /// Only marks.
    Marks,
    /// Thin, without marks.
    Thin,
}

/// A line of a chart.
pub struct Line {
    /// What it stands for.
    pub name: String,
    /// Index of its colour.
    pub colour: usize,
    /// How it looks.
    pub style: Style,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// A line with marks.
    pub fn new(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.into(), colour, style: Style::Line, points }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn title(area: &Area<'_>, text: &str) -> Result<(), Box<dyn Error>> {
    area.fill(&WHITE)?;
    area.draw(&Text::new(text.to_owned(), (14, 12), ("sans-serif", 17).into_font()))?;
    Ok(())
}

/// Lines; on both axes a step is a factor, but at the left only with `log`.
pub fn lines(path: &Path, text: &str, [x, y]: [&str; 2], log: bool, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    title(&area, text)?;
    let (left, right) = area.margin(36, 4, 4, 4).split_horizontally(SIZE.0 - NAMES);
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let across = span(points().map(|point| point.0));
    let mut builder = ChartBuilder::on(&left);
    builder.margin(8).x_label_area_size(42).y_label_area_size(74);
    macro_rules! draw {
        ($up:expr) => {{
            let mut chart = builder.build_cartesian_2d(across.log_scale(), $up)?;
            let mut mesh = chart.configure_mesh();
            mesh.x_desc(x).y_desc(y).label_style(FONT).light_line_style(BLACK.mix(0.04));
            mesh.x_label_formatter(&short).y_label_formatter(&short).y_labels(7).draw()?;
            for line in lines {
                let colour = COLOURS[line.colour % COLOURS.len()];
                let points = line.points.iter().copied();
                match line.style {
                    Style::Line => {
                        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
                    }
                    Style::Thin => {
                        chart.draw_series(LineSeries::new(points, colour.mix(0.6).stroke_width(1)))?;
                    }
                    Style::Marks => {
                        chart.draw_series(points.map(|point| Circle::new(point, 5, colour.stroke_width(2))))?;
                    }
                }
            }
        }};
    }
    match log {
        true => draw!(span(points().map(|point| point.1)).log_scale()),
        false => draw!(0.0..points().map(|point| point.1).fold(0.0, f64::max) * 1.05),
    }
    for (at, line) in lines.iter().enumerate() {
        let (colour, top) = (COLOURS[line.colour % COLOURS.len()], 18 + 24 * at as i32);
        match line.style {
            Style::Marks => right.draw(&Circle::new((12, top), 5, colour.stroke_width(2)))?,
            Style::Line => right.draw(&Rectangle::new([(4, top - 2), (22, top + 2)], colour.filled()))?,
            Style::Thin => right.draw(&PathElement::new([(4, top), (22, top)], colour.mix(0.6).stroke_width(1)))?,
        }
        right.draw(&Text::new(line.name.clone(), (30, top - 8), FONT.into_font()))?;
    }
    area.present()?;
    Ok(())
}

/// Horizontal bars of the same length, made of parts; behind each, what all of it is.
pub fn shares(
    path: &Path,
    text: &str,
    parts: &[&str],
    bars: &[(String, Vec<f64>, String)],
) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (SIZE.0, 96 + 32 * bars.len() as u32)).into_drawing_area();
    title(&area, text)?;
    let (left, width) = (200, f64::from(SIZE.0) - 200.0 - 110.0);
    let mut at = left;
    for (part, name) in parts.iter().enumerate() {
        area.draw(&Rectangle::new([(at, 48), (at + 14, 60)], COLOURS[part].filled()))?;
        area.draw(&Text::new((*name).to_owned(), (at + 20, 46), FONT.into_font()))?;
        at += 34 + 7 * name.len() as i32;
    }
    for (row, (name, values, all)) in bars.iter().enumerate() {
        let top = 80 + 32 * row as i32;
        area.draw(&Text::new(name.clone(), (14, top + 4), FONT.into_font()))?;
        let (sum, mut from) = (values.iter().sum::<f64>(), 0.0);
        for (part, value) in values.iter().enumerate() {
            let corner = |sum_to: f64, y: i32| (left + (sum_to / sum * width) as i32, y);
            area.draw(&Rectangle::new([corner(from, top), corner(from + value, top + 22)], COLOURS[part].filled()))?;
            from += value;
        }
        area.draw(&Text::new(all.clone(), (left + width as i32 + 8, top + 4), FONT.into_font()))?;
    }
    area.present()?;
    Ok(())
}

/// A little more than what is there.
fn span(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let most = values.clone().fold(f64::MIN_POSITIVE, f64::max);
    let least = values.filter(|value| *value > 0.0).fold(most, f64::min);
    least / 1.3..most * 1.3
}

/// A number as people write it on an axis.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as the library calls it")]
fn short(number: &f64) -> String {
    let (number, unit) = match number.abs() {
        most if most >= 1e9 => (number / 1e9, " G"),
        most if most >= 1e6 => (number / 1e6, " M"),
        most if most >= 1e3 => (number / 1e3, " k"),
        _ => (*number, ""),
    };
    format!("{}{unit}", (number * 100.0).round() / 100.0)
}
