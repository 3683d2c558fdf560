//! The periods of a window: the state of each, who has won it, and charts of its totals.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chart::{Chart, Figure, float};
use super::{Answer, Frame, Path, Query, Viewer, Visitor, html, if_there, v1_with};
use crate::domain::access::Scope;
use crate::http::problem::Problem;
use crate::periods::results::routes::{ListedPeriod, PeriodsBody};
use crate::standings::routes::answers::StatsBody;
use crate::standings::routes::queries::{QueryResult, QueryResults};

/// How many periods a page has.
const PERIODS_MAX: &str = "20";

/// Which part of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    /// The list has only periods before this one.
    before: String,
}

/// A period, and its totals on a board that counts voters.
type Line = (ListedPeriod, Option<StatsBody>);

#[derive(Template)]
#[template(path = "console/periods.html")]
struct PeriodsPage {
    frame: Frame,
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
    Query(Params { before }): Query<Params>,
) -> Answer {
    let (frame, lines, next) = lines(&viewer, &board, &window, &before, "Results").await?;
    html(&PeriodsPage {
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
    window: String,
    windows: Vec<String>,
    charts: Vec<Chart>,
}

/// Charts of the newest periods.
pub(super) async fn charts(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
) -> Answer {
    let (frame, lines, _) = lines(&viewer, &board, &window, "", "Charts").await?;
    let windows = viewer.summary(&board).await?.windows.into_iter();
    html(&ChartsPage {
        frame,
        windows: windows.map(|own| own.window.to_string()).collect(),
        charts: of_lines(&lines),
        window,
    })
}

fn is_league(lines: &[Line]) -> bool {
    lines.iter().any(|(period, _)| period.cohorts.is_some())
}

/// Periods before one, or the newest, with the frame of a page about them, and what the next part begins before.
async fn lines(
    viewer: &Viewer,
    board: &str,
    window: &str,
    before: &str,
    part: &str,
) -> Result<(Frame, Vec<Line>, Option<String>), Problem> {
    let mut frame = Frame::new(viewer, "");
    let path = ["boards", board, "standings", window, "periods"];
    let query = [("before", before), ("limit", PERIODS_MAX)];
    let PeriodsBody { periods, next } = frame.read(&path, &query).await?;
    let what = format!("{part} of {window}");
    frame.read_window((board, window), part, &what).await?;
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
    let lines = periods.into_iter().zip(stats).collect();
    Ok((frame, lines, next))
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
fn of_lines(lines: &[Line]) -> Vec<Chart> {
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
        let figures: Vec<Figure<'_>> = lines
            .map(|line| (line.0.period.key.as_str(), figure(line)))
            .collect();
        let count = figures.iter().filter(|(_, value)| value.is_some()).count();
        // A single bar compares nothing.
        (count > 1).then(|| Chart::bars(id, title, &figures))
    });
    charts.collect()
}
