//! Charts: figures of periods as SVG (`templates/console/chart.html`), with a title and a description for screen readers.

use super::shown::grouped;

/// Where the figures are in the picture, in pixels. The template has these numbers, too.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 512.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 172.0;
/// How many keys fit below the chart.
const KEYS_MAX: usize = 4;
/// How many steps the scale has.
const STEPS_MAX: f64 = 4.0;
/// Half of the gap between two bars, in pixels.
const BAR_MARGIN: f64 = 1.0;

/// A chart.
#[derive(Debug)]
pub(super) struct Chart {
    /// Its id, unique in its page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What it shows, in words.
    pub(super) description: String,
    /// The newest figure next to the one before it.
    pub(super) compared: Option<String>,
    /// The keys below, with their x.
    pub(super) keys: Vec<(f64, String)>,
    /// The figures of the scale, with their y.
    pub(super) levels: Vec<(f64, String)>,
    pub(super) bars: Vec<Bar>,
    /// The points of each unbroken part of a line.
    pub(super) runs: Vec<Vec<Point>>,
}

/// A point of a line.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// What it stands for.
    pub(super) title: String,
}

/// A bar, in pixels of the picture.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// What it stands for.
    pub(super) title: String,
    /// Whether its period is running.
    pub(super) is_running: bool,
}

/// A figure of a period.
#[derive(Debug)]
pub(super) struct Figure {
    /// The name of the period, and a short one.
    pub(super) name: String,
    pub(super) key: String,
    /// `None` where there is none.
    pub(super) value: Option<f64>,
    pub(super) is_running: bool,
}

impl Figure {
    fn title(&self) -> String {
        let value = self.value.map_or_else(String::new, |value| grouped(&value));
        let running = if self.is_running { " so far" } else { "" };
        format!("{}: {value}{running}", self.name)
    }
}

/// The newest figure next to the one before it, in a sentence.
fn compared(figures: &[Figure]) -> Option<String> {
    let [.., before, last] = figures else {
        return None;
    };
    let (was, is) = (before.value?, last.value?);
    let change = match (100.0 * (is - was) / was).round() {
        _ if was <= 0.0 || last.is_running => String::new(),
        change if change < 0.0 => format!(" (↓ {} %)", -change),
        change => format!(" (↑ {change} %)"),
    };
    Some(format!("{}{change}; {}", last.title(), before.title()))
}

impl Chart {
    /// A chart of these figures, which range from `lowest` to `highest`, with these levels, and no bars or line yet.
    fn new(
        (id, title): (&'static str, &'static str),
        figures: &[Figure],
        (lowest, highest): (String, String),
        levels: Vec<(f64, String)>,
    ) -> Self {
        let ends = figures.first().zip(figures.last());
        let description = ends.map(|(first, last)| {
            let running = if last.is_running {
                ". The last one is running"
            } else {
                ""
            };
            let (first, last) = (&first.name, &last.name);
            format!("From {first} to {last}, between {lowest} and {highest}{running}")
        });
        // Some keys, equally spaced.
        let every = figures.len().div_ceil(KEYS_MAX).max(1);
        let keys = places(figures).step_by(every);
        Self {
            id,
            title,
            description: description.unwrap_or_default(),
            compared: None,
            keys: keys.map(|(x, figure)| (x, figure.key.clone())).collect(),
            levels,
            bars: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// A bar for each figure, from left to right.
    pub(super) fn bars(id: &'static str, title: &'static str, figures: &[Figure]) -> Self {
        let values = || figures.iter().filter_map(|figure| figure.value);
        let (least, greatest) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let height = if greatest > least {
            greatest - least
        } else {
            1.0
        };
        let y_of = |value: f64| BOTTOM - (value - least) / height * (BOTTOM - TOP);
        let step = round_up(height / STEPS_MAX);
        let levels = multiples(step, least, least + height);
        let levels = levels.map(|level| (y_of(level), short(level))).collect();
        let width = width_of_one(figures);
        let bars = places(figures).filter_map(|(x, figure)| {
            let value = figure.value?;
            Some(Bar {
                x: x - width / 2.0 + BAR_MARGIN,
                y: y_of(value.max(0.0)),
                width: (width - 2.0 * BAR_MARGIN).max(BAR_MARGIN),
                height: value.abs() / height * (BOTTOM - TOP),
                title: figure.title(),
                is_running: figure.is_running,
            })
        });
        Self {
            bars: bars.collect(),
            compared: compared(figures),
            ..Self::new(
                (id, title),
                figures,
                (short(least), short(greatest)),
                levels,
            )
        }
    }

    /// A line through ranks, with the best at the top; it is broken where there is none.
    pub(super) fn ranks(id: &'static str, title: &'static str, figures: &[Figure]) -> Self {
        let ranks = || figures.iter().filter_map(|figure| figure.value);
        let best = ranks().reduce(f64::min).unwrap_or(1.0);
        let worst = ranks().reduce(f64::max).unwrap_or(1.0);
        let last = worst.max(2.0);
        let y_of = |rank: f64| TOP + (rank - 1.0) / (last - 1.0) * (BOTTOM - TOP);
        let step = round_up((last - 1.0) / STEPS_MAX).max(1.0);
        let levels = std::iter::once(1.0).chain(multiples(step, 2.0, last));
        let levels = levels
            .map(|level| (y_of(level), level.to_string()))
            .collect();
        let points: Vec<_> = places(figures).collect();
        let runs = points.split(|(_, figure)| figure.value.is_none());
        let run = |run: &[(f64, &Figure)]| {
            let point = |(x, figure): &(f64, &Figure)| {
                Some(Point {
                    x: *x,
                    y: y_of(figure.value?),
                    title: figure.title(),
                })
            };
            run.iter().filter_map(point).collect()
        };
        let ends = (format!("rank {best}"), format!("rank {worst}"));
        Self {
            runs: runs.map(run).collect(),
            ..Self::new((id, title), figures, ends, levels)
        }
    }
}

/// The width available to a figure.
fn width_of_one(figures: &[Figure]) -> f64 {
    (RIGHT - LEFT) / float(figures.len().max(1) as u64)
}

/// The figures, each with the middle of its place.
fn places(figures: &[Figure]) -> impl Iterator<Item = (f64, &Figure)> {
    let width = width_of_one(figures);
    let middles = (0_u32..).map(move |place| LEFT + (f64::from(place) + 0.5) * width);
    middles.zip(figures)
}

/// The least of 1, 2, 5, 10, 20, … and 0.5, 0.2, … that is at least a value.
fn round_up(value: f64) -> f64 {
    let magnitude = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * magnitude);
    steps
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(10.0 * magnitude)
}

/// The multiples of a step between two values.
fn multiples(step: f64, from: f64, to: f64) -> impl Iterator<Item = f64> {
    let first = (from / step).ceil();
    let all = (0_u32..).map(move |index| (first + f64::from(index)) * step);
    all.take_while(move |multiple| *multiple <= to)
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

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

    fn figures(values: &[(&str, Option<f64>)]) -> Vec<Figure> {
        let figure = |(key, value): &(&str, Option<f64>)| Figure {
            name: (*key).to_owned(),
            key: (*key).to_owned(),
            value: *value,
            is_running: *key == "now",
        };
        values.iter().map(figure).collect()
    }

    fn levels(chart: &Chart) -> Vec<&str> {
        chart.levels.iter().map(|(_, level)| &**level).collect()
    }

    #[test]
    fn bars_stand_on_zero_and_each_figure_has_one() {
        let figures = [
            ("a", Some(4.0)),
            ("b", None),
            ("c", Some(8.0)),
            ("d", Some(-8.0)),
        ];
        let chart = Chart::bars("x", "Members", &self::figures(&figures));
        assert_eq!(chart.description, "From a to d, between -8 and 8");
        assert_eq!(levels(&chart), ["-5", "0", "5"]);
        let ends = chart.bars.iter().map(|bar| (bar.y, bar.y + bar.height));
        assert_eq!(
            ends.collect::<Vec<_>>(),
            [(49.0, 90.0), (8.0, 90.0), (90.0, 172.0)]
        );
        let lefts = chart.bars.iter().map(|bar| bar.x);
        assert_eq!(lefts.collect::<Vec<_>>(), [57.0, 285.0, 399.0]);
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_rank_and_its_best_is_at_the_top() {
        let figures = [
            ("a", Some(1.0)),
            ("b", Some(9.0)),
            ("c", None),
            ("d", Some(5.0)),
        ];
        let chart = Chart::ranks("x", "Rank", &self::figures(&figures));
        assert_eq!(chart.description, "From a to d, between rank 1 and rank 9");
        assert_eq!(levels(&chart), ["1", "2", "4", "6", "8"]);
        let [broken, last] = &chart.runs[..] else {
            panic!("{chart:?}");
        };
        assert_eq!((broken[0].y, broken[1].y, last[0].y), (TOP, BOTTOM, 90.0));
    }

    #[test]
    fn a_running_period_is_not_taken_for_a_whole_one() {
        let of = |values: &[_]| Chart::bars("x", "Members", &figures(values));
        let whole = of(&[("a", Some(1_000.0)), ("b", Some(1_100.0))]);
        assert_eq!(whole.compared.unwrap(), "b: 1,100 (↑ 10 %); a: 1,000");
        assert!(!whole.bars[1].is_running);
        let running = of(&[("a", Some(1_000.0)), ("now", Some(7.0))]);
        assert_eq!(running.compared.unwrap(), "now: 7 so far; a: 1,000");
        assert!(running.bars[1].is_running && running.description.ends_with("is running"));
        assert_eq!(of(&[("a", Some(1.0)), ("b", None)]).compared, None);
    }

    #[test]
    fn some_keys_are_shown() {
        let keys: Vec<String> = (1..=30).map(|day| format!("day {day}")).collect();
        let figures: Vec<_> = keys.iter().map(|key| (&**key, Some(1_000_000.0))).collect();
        let chart = Chart::bars("x", "Many", &self::figures(&figures));
        let shown = chart.keys.iter().map(|(_, key)| &**key);
        assert_eq!(
            shown.collect::<Vec<_>>(),
            ["day 1", "day 9", "day 17", "day 25"]
        );
        assert_eq!(levels(&chart), ["0", "500k", "1M"]);
    }

    #[test]
    fn a_chart_of_nothing_can_be_drawn() {
        let levels_of = |values: &[_]| Chart::bars("x", "", &figures(values)).levels.len();
        assert_eq!(levels_of(&[]), 3);
        assert_eq!(levels_of(&[("a", Some(0.0))]), 3);
        assert_eq!(levels_of(&[("a", Some(-3.0))]), 4);
        let chart = Chart::ranks("x", "Nothing", &figures(&[("a", None)]));
        assert_eq!(levels(&chart), ["1", "2"]);
        assert!(chart.runs.iter().all(Vec::is_empty));
    }
}
