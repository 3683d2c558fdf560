//! The periods of a window: the state of each, who has won it, and charts of its totals.

use super::board::standing_page;
use super::chart::{Chart, Figure, float};
use super::page::Tab;
use super::prelude::*;
use super::shown::{self, Clock};
use crate::domain::state::PeriodState;
use crate::periods::results::routes::{ListedPeriod, PeriodsBody};
use crate::standings::routes::answers::StatsBody;
use crate::standings::routes::queries::QueryResult;
use crate::standings::routes::summary::{PeriodBody, SummaryBody};

/// How many periods a page has, and how many charts have by default and by choice.
const PERIODS_MAX: &str = "20";
const CHARTED: &str = "30";
const RANGES: [&str; 3] = ["10", CHARTED, "100"];

/// What is shown of the state of a period: a class and a word.
pub(super) fn state_of(
    state: Option<PeriodState>,
    summary: &SummaryBody,
    clock: Clock,
) -> Option<(String, String)> {
    let opens_at = summary.opens_at.filter(|at| *at > clock.now);
    if let (Some(PeriodState::Live), Some(at)) = (state, opens_at) {
        let opens = format!("Opens in {}", clock.distance(&at));
        return Some(("warn".to_owned(), opens));
    }
    let class = shown::name(&state?);
    Some((class.clone(), shown::window(&class)))
}

/// A period, and its totals on a board that counts voters.
type Line = (ListedPeriod, Option<StatsBody>);

/// Some periods of a window.
struct Periods {
    summary: SummaryBody,
    window: String,
    lines: Vec<Line>,
    parts: Parts,
}

impl Periods {
    /// Reads the periods that the parameter says, for this part of the pages of a window.
    async fn read(frame: &mut Frame, query: &[(&str, &str)], part: &str) -> Result<Self, Problem> {
        let [board, window] = ["board", "window"].map(|name| frame.param(name).to_owned());
        let path = ["boards", &board, "standings", &window, "periods"];
        let PeriodsBody { periods, next } = frame.read(&path, query).await?;
        let what = format!("{part} of {window}");
        let summary = frame.read_window((&board, &window), part, &what).await?;
        let is_league = periods.iter().any(|period| period.cohorts.is_some());
        let mut answers = Vec::new();
        if frame.may(Scope::Read) && !periods.is_empty() && !is_league {
            let query = json!({"type": "stats", "board": board, "window": window});
            answers = frame.visitor.ask_each(&periods, &query).await?;
        }
        let stats = answers.into_iter().map(|answer| match answer {
            QueryResult::Stats(stats) => Some(stats).filter(|stats| stats.events.is_some()),
            _ => None,
        });
        let stats = stats.chain(std::iter::repeat_with(|| None));
        Ok(Self {
            summary,
            window,
            lines: periods.into_iter().zip(stats).collect(),
            parts: Parts::by("before", "periods", frame, next),
        })
    }

    /// Whether the board counts voters.
    fn has_stats(&self) -> bool {
        self.lines.iter().any(|(_, stats)| stats.is_some())
    }

    fn is_league(&self) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|(period, _)| period.cohorts.is_some())
    }

    /// The windows of the board that have periods, each with the address of its page `page`.
    fn windows(&self, page: &str, last: &str) -> Vec<Tab> {
        let names = self.summary.windows.iter().map(|own| own.window);
        let names = names.filter(|window| !window.is_rolling());
        let names = names.map(|window| window.to_string());
        let tab = |name: String| {
            let address = standing_page(&self.summary.board, &name, &[page], &[("last", last)]);
            Tab {
                is_current: name == self.window,
                ..Tab::new(shown::window(&name), address)
            }
        };
        names.map(tab).collect()
    }
}

#[derive(Template)]
#[template(path = "console/periods.html")]
struct PeriodsPage {
    frame: Frame,
    found: Periods,
}

/// The page.
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [before] = frame.params(["before"])?;
    let part = [("before", &*before), ("limit", PERIODS_MAX)];
    html(&PeriodsPage {
        found: Periods::read(&mut frame, &part, "Results").await?,
        frame,
    })
}

#[derive(Template)]
#[template(path = "console/charts.html")]
struct ChartsPage {
    frame: Frame,
    found: Periods,
    /// How many periods they have at most.
    last: &'static str,
    charts: Vec<Chart>,
}

/// Charts of the newest periods.
pub(super) async fn charts(mut frame: Frame) -> Answer {
    let [last] = frame.params(["last"])?;
    let mut ranges = RANGES.into_iter();
    let last = ranges.find(|range| *range == last).unwrap_or(CHARTED);
    let found = Periods::read(&mut frame, &[("limit", last)], "Charts").await?;
    html(&ChartsPage {
        charts: of_lines(&found.lines, &found.window, frame.clock),
        frame,
        found,
        last,
    })
}

impl Visitor {
    /// Periods of a window, newest first; none for a window that has no periods.
    pub(super) async fn periods(
        &self,
        board: &str,
        window: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<ListedPeriod>, Problem> {
        let path = ["boards", board, "standings", window, "periods"];
        let found = if_there(self.read::<PeriodsBody>(&v1_with(&path, query)).await)?;
        Ok(found.map_or_else(Vec::new, |found| found.periods))
    }

    /// Makes one call for each period, and returns the results in their order.
    pub(super) async fn ask_each(
        &self,
        periods: &[ListedPeriod],
        query: &Value,
    ) -> Result<Vec<QueryResult>, Problem> {
        let queries = periods.iter().map(|listed| {
            let mut query = query.clone();
            query["key"] = listed.period.key.as_str().into();
            query
        });
        self.ask_all(queries.collect()).await
    }
}

/// A figure of a line, if the line has it.
type OfLine = fn(&Line) -> Option<f64>;

/// A chart of each figure that periods have, oldest period first.
fn of_lines(lines: &[Line], window: &str, clock: Clock) -> Vec<Chart> {
    let figures: [(_, _, OfLine); 4] = [
        ("members", "Members", |(listed, _)| {
            Some(float(listed.period.total?))
        }),
        ("voters", "Voters", |(_, stats)| {
            Some(float(stats.as_ref()?.voters?))
        }),
        ("events", "Events", |(_, stats)| {
            Some(float(stats.as_ref()?.events?))
        }),
        ("points", "Sum of scores", |(_, stats)| {
            stats.as_ref()?.score_sum?.to_string().parse().ok()
        }),
    ];
    let charts = figures.into_iter().filter_map(|(id, title, figure)| {
        let figures = lines.iter().rev().map(|line| {
            let PeriodBody {
                key,
                starts_at,
                state,
                ..
            } = &line.0.period;
            Figure {
                name: clock.period(window, key, starts_at.as_ref()),
                key: clock.short(window, key, starts_at.as_ref()),
                value: figure(line),
                is_running: *state == Some(PeriodState::Live),
            }
        });
        let figures: Vec<Figure> = figures.collect();
        let count = figures
            .iter()
            .filter(|figure| figure.value.is_some())
            .count();
        // A single bar compares nothing.
        (count > 1).then(|| Chart::bars(id, title, &figures))
    });
    charts.collect()
}
