//! Charts: SVG that is drawn here, with a title and a description for who does not see it.
//!
//! The stylesheet gives its colours others where the ground is dark: it knows them by their values.

use std::fmt;

use askama::filters::HtmlSafe;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, SegmentedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordi32;
use plotters::prelude::*;

use crate::http::problem::Problem;

/// Width and height in pixels of a page of middle width; the picture is as wide as its place.
const SIZE: (u32, u32) = (480, 180);
/// The colours of bars and lines, of text, and of what lies behind. `console.css` names them, too.
const FIGURES: RGBColor = RGBColor(0x1F, 0x5F, 0x8B);
const TEXT: RGBColor = RGBColor(0x57, 0x60, 0x6A);
const GRID: RGBColor = RGBColor(0xC9, 0xD1, 0xD9);
const MARGIN: u32 = 8;
const LABELS_LEFT: u32 = 52;
const LABELS_BELOW: u32 = 26;
/// Half of the last label below: it may lie under the right end.
const LABELS_RIGHT: u32 = 40;
/// As plotters counts: a font of 13 pixels.
const FONT: (&str, u32) = ("sans-serif", 16);
/// How many labels fit below, and beside.
const LABELS_MAX: (usize, usize) = (4, 5);
/// The part of the height that the greatest figure has.
const GREATEST: f64 = 0.95;
const LINE_WIDTH: u32 = 2;
const POINT_RADIUS: u32 = 3;
/// The room between two bars: twice as many pixels.
const BAR_MARGIN: u32 = 1;

/// A drawn picture, as an element `<svg>` without its beginning.
#[derive(Debug)]
pub(super) struct Picture(String);

/// A chart.
#[derive(Debug)]
pub(super) struct Chart {
    /// What tells it apart from other charts of its page.
    pub(super) id: &'static str,
    pub(super) title: String,
    /// What is to be seen in it, in words.
    pub(super) description: String,
    pub(super) picture: Picture,
}

/// A figure of a period; `None` where there is none.
pub(super) type Figure<'a, T> = (&'a str, Option<T>);

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failed = Box<dyn std::error::Error>;

impl Chart {
    /// A bar for each figure, from left to right.
    pub(super) fn bars(
        id: &'static str,
        title: impl Into<String>,
        figures: &[Figure<'_, f64>],
    ) -> Result<Self, Problem> {
        let values = || figures.iter().filter_map(|(_, value)| *value);
        let (least, greatest) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let description = describe(figures, (short(least), short(greatest)));
        let greatest = if greatest > least {
            greatest
        } else {
            least + 1.0
        };
        let range = least / GREATEST..greatest / GREATEST;
        let draw = |canvas: &Canvas<'_>| {
            let mut chart = axes(canvas, figures, range.clone(), &|value| short(*value))?;
            let bars = (0..).zip(figures).filter_map(|(place, (_, value))| {
                let (left, right) = (SegmentValue::Exact(place), SegmentValue::Exact(place + 1));
                let mut bar = Rectangle::new([(left, 0.0), (right, (*value)?)], FIGURES.filled());
                bar.set_margin(0, 0, BAR_MARGIN, BAR_MARGIN);
                Some(bar)
            });
            chart.draw_series(bars)?;
            Ok(())
        };
        Ok(Self {
            id,
            title: title.into(),
            description,
            picture: Picture::draw(draw)?,
        })
    }

    /// A line through ranks, the best of which is at the top; it is broken where there is none.
    pub(super) fn ranks(
        id: &'static str,
        title: impl Into<String>,
        figures: &[Figure<'_, u64>],
    ) -> Result<Self, Problem> {
        let ranks = || figures.iter().filter_map(|(_, rank)| *rank);
        let (best, worst) = (ranks().min().unwrap_or(1), ranks().max().unwrap_or(1));
        let description = describe(figures, (format!("rank {best}"), format!("rank {worst}")));
        let range = i64::try_from(worst).unwrap_or(i64::MAX).max(2)..1;
        let draw = |canvas: &Canvas<'_>| {
            let mut chart = axes(canvas, figures, range.clone(), &ToString::to_string)?;
            let points: Vec<_> = (0..).zip(figures).collect();
            for run in points.split(|(_, (_, rank))| rank.is_none()) {
                let run = run.iter().filter_map(|(place, (_, rank))| {
                    Some((
                        SegmentValue::CenterOf(*place),
                        i64::try_from((*rank)?).ok()?,
                    ))
                });
                let line = LineSeries::new(run, FIGURES.stroke_width(LINE_WIDTH));
                chart.draw_series(line.point_size(POINT_RADIUS))?;
            }
            Ok(())
        };
        Ok(Self {
            id,
            title: title.into(),
            description,
            picture: Picture::draw(draw)?,
        })
    }
}

/// Over which periods figures go, and between which.
fn describe<T>(figures: &[Figure<'_, T>], (lowest, highest): (String, String)) -> String {
    let ends = figures.first().zip(figures.last());
    let Some(((first, _), (last, _))) = ends else {
        return String::new();
    };
    format!("From {first} to {last}, between {lowest} and {highest}")
}

type Drawn<'a, 'b, T> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<SegmentedCoord<RangedCoordi32>, T>>;

/// Draws the axes, with periods below and figures beside.
fn axes<'a, 'b, T, F>(
    canvas: &'a Canvas<'b>,
    figures: &[Figure<'_, F>],
    range: T,
    shown: &dyn Fn(&T::Value) -> String,
) -> Result<Drawn<'a, 'b, T::CoordDescType>, Failed>
where
    T: AsRangedCoord,
    T::CoordDescType: ValueFormatter<T::Value>,
{
    let count = i32::try_from(figures.len()).unwrap_or(i32::MAX).max(1);
    let mut chart = ChartBuilder::on(canvas)
        .margin(MARGIN)
        .margin_right(LABELS_RIGHT)
        .x_label_area_size(LABELS_BELOW)
        .y_label_area_size(LABELS_LEFT)
        .build_cartesian_2d((0..count - 1).into_segmented(), range)?;
    let key_at = |place: &SegmentValue<i32>| match place {
        SegmentValue::CenterOf(place) => {
            let figure = usize::try_from(*place).ok().and_then(|at| figures.get(at));
            figure.map_or_else(String::new, |(key, _)| (*key).to_owned())
        }
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(FONT.into_font().color(&TEXT))
        .x_labels(LABELS_MAX.0)
        .y_labels(LABELS_MAX.1)
        .x_label_formatter(&key_at)
        .y_label_formatter(shown)
        .draw()?;
    Ok(chart)
}

impl Picture {
    fn draw(draw: impl Fn(&Canvas<'_>) -> Result<(), Failed>) -> Result<Self, Problem> {
        let mut svg = String::new();
        let drawn = {
            let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            draw(&canvas).and_then(|()| Ok(canvas.present()?))
        };
        drawn.map_err(|error| Problem::internal(format!("a chart: {error}")))?;
        // The template begins the element, since it has more to say of it.
        let (_, inside) = svg.split_once('\n').unwrap_or_default();
        Ok(Self(inside.to_owned()))
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// plotters has escaped its texts.
impl HtmlSafe for Picture {}

/// A figure in few characters: three digits and its magnitude.
fn short(value: f64) -> String {
    const MAGNITUDES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let magnitude = MAGNITUDES.iter().find(|(size, _)| value.abs() >= *size);
    let (value, unit) = magnitude.map_or((value, ""), |(size, unit)| (value / size, *unit));
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, shown) in [
            (0.0, "0"),
            (-0.001, "0"),
            (7.0, "7"),
            (0.25, "0.25"),
            (999.0, "999"),
            (1_250.0, "1.25k"),
            (-20_000_000.0, "-20M"),
            (3e12, "3T"),
        ] {
            assert_eq!(short(value), shown);
        }
    }

    #[test]
    fn bars_stand_on_zero_and_each_figure_has_one() {
        let figures = [("a", Some(4.0)), ("b", None), ("<c>", Some(8.0))];
        let chart = Chart::bars("x", "Members", &figures).unwrap();
        assert_eq!(chart.description, "From a to <c>, between 0 and 8");
        let picture = chart.picture.to_string();
        let bars = picture.matches("fill=\"#1F5F8B\"").count();
        assert_eq!(bars, 2, "{picture}");
        assert!(picture.contains("&lt;c&gt;"), "{picture}");
        assert!(!picture.contains("<svg") && picture.ends_with("</svg>\n"));
        assert!(!picture.contains("style="), "{picture}");
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_rank_and_its_best_is_at_the_top() {
        let figures = [("a", Some(1)), ("b", Some(9)), ("c", None), ("d", Some(4))];
        let chart = Chart::ranks("x", "Rank", &figures).unwrap();
        assert_eq!(chart.description, "From a to d, between rank 1 and rank 9");
        let picture = chart.picture.to_string();
        let circles: Vec<u32> = picture
            .lines()
            .filter(|line| line.starts_with("<circle"))
            .map(|line| {
                let (_, rest) = line.split_once("cy=\"").unwrap();
                rest.split_once('"').unwrap().0.parse().unwrap()
            })
            .collect();
        let [first, worst, last] = circles[..] else {
            panic!("{picture}");
        };
        assert!(first < last && last < worst, "{picture}");
    }

    #[test]
    fn a_chart_of_nothing_can_be_drawn() {
        Chart::bars("x", "Nothing", &[]).unwrap();
        Chart::ranks("x", "Nothing", &[("a", None)]).unwrap();
        Chart::bars("x", "Equal", &[("a", Some(0.0))]).unwrap();
        Chart::bars("x", "Less", &[("a", Some(-3.0))]).unwrap();
    }
}
