//! The periods of a window: the state of each, who has won it, and charts of its totals.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::board::standing_page;
use super::chart::{Chart, Figure, float};
use super::page::Tab;
use super::shown::{self, Clock};
use super::{Answer, Frame, Path, Query, Viewer, Visitor, html, if_there, v1_with};
use crate::domain::access::Scope;
use crate::domain::state::PeriodState;
use crate::domain::window::Window;
use crate::http::problem::Problem;
use crate::periods::results::routes::{ListedPeriod, PeriodsBody};
use crate::standings::routes::answers::StatsBody;
use crate::standings::routes::queries::{QueryResult, QueryResults};
use crate::standings::routes::summary::{PeriodBody, SummaryBody};

/// How many periods a page has, and how many charts have by default and by choice.
const PERIODS_MAX: &str = "20";
const CHARTED: &str = "30";
const RANGES: [&str; 3] = ["10", CHARTED, "100"];

/// Which part of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    /// The list has only periods before this one.
    before: String,
    /// How many periods charts have.
    last: String,
}

/// What is shown of the state of a period: a class and a word.
pub(super) fn state_of(
    state: Option<PeriodState>,
    summary: &SummaryBody,
    clock: Clock,
) -> Option<(String, String)> {
    let opens_at = summary.opens_at.filter(|at| *at > clock.now);
    if let (Some(PeriodState::Live), Some(at)) = (state, opens_at) {
        return Some((
            "warn".to_owned(),
            format!("Opens in {}", clock.distance(&at)),
        ));
    }
    let class = shown::name(&state?);
    Some((class.clone(), shown::window(&class)))
}

/// A period, and its totals on a board that counts voters.
type Line = (ListedPeriod, Option<StatsBody>);

#[derive(Template)]
#[template(path = "console/periods.html")]
struct PeriodsPage {
    frame: Frame,
    summary: SummaryBody,
    window: String,
    lines: Vec<Line>,
    /// Whether the board counts voters.
    has_stats: bool,
    is_league: bool,
    is_later: bool,
    /// The next part has only periods before this one.
    next: Option<String>,
}

/// The page.
pub(super) async fn list(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(Params { before, .. }): Query<Params>,
) -> Answer {
    let part = [("before", before.as_str()), ("limit", PERIODS_MAX)];
    let Found {
        frame,
        summary,
        lines,
        next,
    } = lines((&viewer, &board, &window), &part, "Results").await?;
    html(&PeriodsPage {
        summary,
        has_stats: lines.iter().any(|(_, stats)| stats.is_some()),
        is_league: is_league(&lines),
        frame,
        lines,
        is_later: !before.is_empty(),
        next,
        window,
    })
}

#[derive(Template)]
#[template(path = "console/charts.html")]
struct ChartsPage {
    frame: Frame,
    summary: SummaryBody,
    window: String,
    /// How many periods they have at most.
    last: String,
    charts: Vec<Chart>,
}

/// Charts of the newest periods.
pub(super) async fn charts(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(Params { last, .. }): Query<Params>,
) -> Answer {
    let last = RANGES
        .into_iter()
        .find(|range| *range == last)
        .unwrap_or(CHARTED);
    let found = lines((&viewer, &board, &window), &[("limit", last)], "Charts").await?;
    let Found {
        frame,
        summary,
        lines,
        ..
    } = found;
    html(&ChartsPage {
        charts: of_lines(&lines, &window, frame.clock),
        frame,
        summary,
        last: last.to_owned(),
        window,
    })
}

/// The windows of a board that have periods, each with the address of a page about it.
fn windows(summary: &SummaryBody, current: &str, page: &str, last: &str) -> Vec<Tab> {
    let names = summary.windows.iter().map(|own| own.window);
    let of_periods = names.filter(|window| !window.is_rolling());
    let tab = |window: Window| Tab {
        name: shown::window(&window.to_string()),
        address: standing_page(
            &summary.board,
            &window.to_string(),
            &[page],
            &[("last", last)],
        ),
        is_current: window.to_string() == current,
    };
    of_periods.map(tab).collect()
}

fn is_league(lines: &[Line]) -> bool {
    lines.iter().any(|(period, _)| period.cohorts.is_some())
}

/// Some periods of a window, with the frame of a page about them.
struct Found {
    frame: Frame,
    summary: SummaryBody,
    lines: Vec<Line>,
    /// The next part has only periods before this one.
    next: Option<String>,
}

/// The periods of a part of the list.
async fn lines(
    (viewer, board, window): (&Viewer, &str, &str),
    query: &[(&str, &str)],
    part: &str,
) -> Result<Found, Problem> {
    let mut frame = Frame::new(viewer, "");
    let path = ["boards", board, "standings", window, "periods"];
    let PeriodsBody { periods, next } = frame.read(&path, query).await?;
    let what = format!("{part} of {window}");
    let summary = frame.read_window((board, window), part, &what).await?;
    let is_league = periods.iter().any(|period| period.cohorts.is_some());
    let mut answers = Vec::new();
    if viewer.may_on(Scope::Read, board) && !is_league && !periods.is_empty() {
        let query = json!({"type": "stats", "board": board, "window": window});
        answers = viewer.ask_each(&periods, &query).await?;
    }
    let stats = answers.into_iter().map(|answer| match answer {
        QueryResult::Stats(stats) => Some(stats).filter(|stats| stats.events.is_some()),
        _ => None,
    });
    let stats = stats.chain(std::iter::repeat_with(|| None));
    Ok(Found {
        frame,
        summary,
        lines: periods.into_iter().zip(stats).collect(),
        next,
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
        let queries = json!({"queries": queries.collect::<Vec<_>>()});
        let asked = self.call(Method::POST, "/v1/standings/query", Some(&queries));
        let QueryResults { results } = asked.await?;
        Ok(results)
    }
}

/// A figure of a line, if the line has it.
type OfLine = fn(&Line) -> Option<f64>;

/// A chart of each figure that periods have, oldest period first.
fn of_lines(lines: &[Line], window: &str, clock: Clock) -> Vec<Chart> {
    let figures: [(_, _, OfLine); 4] = [
        ("members", "Members", |(listed, _)| {
            listed.period.total.map(float)
        }),
        ("voters", "Voters", |(_, stats)| {
            stats.as_ref()?.voters.map(float)
        }),
        ("events", "Events", |(_, stats)| {
            stats.as_ref()?.events.map(float)
        }),
        ("points", "Sum of scores", |(_, stats)| {
            stats.as_ref()?.score_sum?.to_string().parse().ok()
        }),
    ];
    let charts = figures.into_iter().filter_map(|(id, title, figure)| {
        let lines = lines.iter().rev();
        let figures = lines.map(|line| {
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
