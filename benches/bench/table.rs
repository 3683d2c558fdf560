//! The results, as a table and as JSON.

use std::fmt;

use serde::Serialize;

use crate::growth::Point;
use crate::load::{Cpu, Sample, float};
use crate::rows::{Goal, Measured, Row};

/// A row with its figures.
#[derive(Debug, Serialize)]
pub struct Line {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What the figures count.
    pub unit: &'static str,
    /// What was measured.
    pub figure: Option<f64>,
    /// What the reference reached.
    pub reference: Option<f64>,
    /// The figure over that of the reference.
    pub ratio: Option<f64>,
    /// What the row shall reach.
    pub goal: Option<String>,
    /// Whether it does.
    pub is_met: Option<bool>,
    /// The load of the median round.
    pub load: Option<Sample>,
    /// That of the reference.
    pub reference_load: Option<Sample>,
}

impl Line {
    /// Judges what was measured.
    pub fn new(row: &Row, measured: &Measured) -> Self {
        let ratio = measured
            .figure
            .zip(measured.reference)
            .map(|(figure, reference)| figure / reference);
        let is_met = row.goal.and_then(|goal| {
            Some(match goal {
                Goal::RatioMin(bound) => ratio? >= bound,
                Goal::RatioMax(bound) => ratio? <= bound,
                Goal::Min(bound) => measured.figure? >= bound,
                Goal::Max(bound) => measured.figure? <= bound,
            })
        });
        Self {
            name: row.name,
            title: row.title,
            unit: row.unit,
            figure: measured.figure,
            reference: measured.reference,
            ratio,
            goal: row.goal.map(|goal| goal.to_string()),
            is_met,
            load: measured.load,
            reference_load: measured.reference_load,
        }
    }

    /// The figure and what it counts.
    pub fn shown_figure(&self) -> String {
        self.figure
            .map_or_else(none, |figure| format!("{} {}", number(figure), self.unit))
    }

    fn cells(&self) -> Vec<String> {
        let load = self.load.as_ref();
        vec![
            self.name.to_owned(),
            self.title.to_owned(),
            self.shown_figure(),
            self.reference.map_or_else(none, number),
            self.ratio.map_or_else(none, |ratio| format!("{ratio:.2}")),
            self.goal.clone().unwrap_or_else(none),
            self.is_met
                .map_or("-", |met| if met { "yes" } else { "no" })
                .to_owned(),
            load.map_or_else(none, |load| {
                format!("{:.2} / {:.2}", load.p50_ms, load.p99_ms)
            }),
            load.map_or_else(none, |load| seconds(load.cpu)),
        ]
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioMin(bound) => write!(out, "ratio ≥ {bound}"),
            Self::RatioMax(bound) => write!(out, "ratio ≤ {bound}"),
            Self::Min(bound) => write!(out, "≥ {}", number(*bound)),
            Self::Max(bound) => write!(out, "≤ {}", number(*bound)),
        }
    }
}

const HEADER: [&str; 9] = [
    "row",
    "what",
    "figure",
    "reference",
    "ratio",
    "goal",
    "met",
    "p50 / p99 ms",
    "CPU s redis/service/generator",
];

/// The table in Markdown, its columns as wide as they need to be.
pub fn markdown(lines: &[Line]) -> String {
    let rows: Vec<Vec<String>> = lines.iter().map(Line::cells).collect();
    aligned(&HEADER, &rows)
}

/// Any table in Markdown.
pub fn aligned(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max()
    };
    let widths: Vec<usize> = (0..header.len()).filter_map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let rows = rows.iter().map(|row| line(row));
    [line(&header), line(&rule)]
        .into_iter()
        .chain(rows)
        .collect()
}

fn none() -> String {
    "-".to_owned()
}

/// The CPU seconds of Redis, the service and the generator.
pub fn seconds(cpu: Cpu) -> String {
    [cpu.redis, cpu.service, cpu.generator]
        .map(|seconds| seconds.map_or_else(none, |seconds| format!("{seconds:.1}")))
        .join(" / ")
}

/// A number as people read it.
pub fn number(number: f64) -> String {
    if number.abs() < 100.0 && number.fract() != 0.0 {
        return format!("{number:.2}");
    }
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The points of a curve in Markdown.
pub fn points(title: &str, points: &[Point]) -> String {
    let header: &[&str] = match points {
        [
            Point {
                cpu_us: Some(_), ..
            },
            ..,
        ] => &[title, "Redis, µs an event", "service, µs an event"],
        [Point { pages: Some(_), .. }, ..] => &[title, "events/s", "pages/s"],
        _ => &[title, "events/s"],
    };
    let row = |point: &Point| {
        let figures = match point.cpu_us {
            Some([redis, service]) => vec![redis, service],
            None => [Some(point.events), point.pages]
                .into_iter()
                .flatten()
                .collect(),
        };
        let size = float(point.size as u64);
        let cells = std::iter::once(size).chain(figures);
        cells.map(|figure| number(figure.round())).collect()
    };
    aligned(header, &points.iter().map(row).collect::<Vec<_>>())
}
