//! The picture of how cost grows: one panel for each curve.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::growth::{Curve, Point};
use crate::load::float;
use crate::{Failure, Result, table};

/// Width and height of the picture.
const SIZE: (u32, u32) = (1_080, 340);
/// Room beside the axes.
const MARGIN: u32 = 16;
const LABELS_LEFT: u32 = 64;
const LABELS_BELOW: u32 = 44;
/// The part of the height that the highest point reaches.
const HIGHEST: f64 = 0.9;
const FONT: (&str, u32) = ("sans-serif", 13);
const CAPTION_FONT: (&str, u32) = ("sans-serif", 16);
const EVENTS_COLOUR: RGBColor = RGBColor(31, 95, 168);
const PAGES_COLOUR: RGBColor = RGBColor(200, 90, 25);
const POINT_RADIUS: u32 = 4;
/// Room for the mark in front of a name.
const LEGEND_MARK: u32 = 12;
/// From this growth on the steps of the axis are decades, and otherwise doublings.
const DECADES_FROM: f64 = 100.0;

/// Draws all curves of speed into an SVG file.
pub fn draw(curves: &[Curve], path: &Path) -> Result<()> {
    let has_speed = |curve: &&Curve| curve.points.iter().all(|point| point.cpu_us.is_none());
    let curves: Vec<&Curve> = curves.iter().filter(has_speed).collect();
    let picture = SVGBackend::new(path, SIZE).into_drawing_area();
    picture.fill(&WHITE)?;
    let panels = picture.split_evenly((1, curves.len()));
    for (panel, curve) in panels.iter().zip(curves) {
        draw_curve(panel, curve)?;
    }
    picture.present()?;
    Ok(())
}

fn draw_curve(panel: &DrawingArea<SVGBackend<'_>, Shift>, curve: &Curve) -> Result<()> {
    let sizes = curve.points.iter().map(|point| float(point.size as u64));
    let (first, last) = (
        sizes.clone().fold(f64::INFINITY, f64::min),
        sizes.fold(0.0, f64::max),
    );
    let base = if last / first < DECADES_FROM {
        2.0
    } else {
        10.0
    };
    let figures = curve
        .points
        .iter()
        .flat_map(|point| [Some(point.events), point.pages])
        .flatten();
    let highest = figures.fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("by {}", curve.title), CAPTION_FONT)
        .margin(MARGIN)
        .x_label_area_size(LABELS_BELOW)
        .y_label_area_size(LABELS_LEFT)
        .build_cartesian_2d((first..last).log_scale().base(base), 0.0..highest / HIGHEST)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(curve.title)
        .y_desc("in a second")
        .label_style(FONT)
        .axis_desc_style(FONT)
        .x_label_formatter(&|size| table::number(*size))
        .y_label_formatter(&|figure| table::number(*figure))
        .draw()?;
    let events: fn(&Point) -> Option<f64> = |point| Some(point.events);
    let lines = [
        ("events", EVENTS_COLOUR, events),
        ("pages", PAGES_COLOUR, |point| point.pages),
    ];
    for (name, colour, figure) in lines {
        let points: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter_map(|point| Some((float(point.size as u64), figure(point)?)))
            .collect();
        if points.is_empty() {
            continue;
        }
        let line = LineSeries::new(points, colour.stroke_width(2)).point_size(POINT_RADIUS);
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| Circle::new((x, y), POINT_RADIUS, colour.filled()));
    }
    let legend = chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .legend_area_size(LEGEND_MARK)
        .label_font(FONT)
        .border_style(TRANSPARENT)
        .draw();
    legend.map_err(Failure::from)
}
