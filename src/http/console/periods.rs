//! The periods of a window: how each stands, who has won it, and charts of what it amounts to.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::address::address;
use super::board::{
    Heading, Opening, member_address, result_address, standing_address, state_name,
};
use super::chart::{Chart, Figure, float};
use super::page::{Frame, html};
use super::session::Viewer;
use crate::domain::access::Scope;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::http::results::{ListedPeriod, PeriodsBody};
use crate::http::standings::answers::StatsBody;
use crate::http::standings::queries::{QueryResult, QueryResults};

/// How many periods a page has.
const PERIODS_MAX: &str = "20";

/// Which part of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    /// It has only periods before this one.
    before: String,
}

/// A period, and what it amounts to.
struct Line {
    listed: ListedPeriod,
    /// On a board that counts voters.
    stats: Option<StatsBody>,
}

#[derive(Template)]
#[template(path = "console/periods.html")]
struct PeriodsPage {
    frame: Frame,
    heading: Heading,
    window: String,
    lines: Vec<Line>,
    /// Whether the board counts voters.
    has_stats: bool,
    is_league: bool,
    charts: Vec<Chart>,
    is_later: bool,
    next: Option<String>,
    curl: String,
}

impl Line {
    fn state(&self) -> &'static str {
        self.listed.period.state.map_or("", state_name)
    }
}

impl PeriodsPage {
    fn to_standing(&self, key: &str) -> String {
        standing_address(&self.heading.board, &self.window, &[("key", key)])
    }

    fn to_result(&self, key: &str) -> String {
        result_address(&self.heading.board, &self.window, key, &[])
    }

    fn to_member(&self, member: &str, key: &str) -> String {
        member_address(&self.heading.board, &self.window, member, (key, ""))
    }

    fn first(&self) -> String {
        periods_address(&self.heading.board, &self.window, "")
    }
}

/// The page of the periods of a window.
pub(super) fn periods_address(board: &str, window: &str, before: &str) -> String {
    let path = ["console", "boards", board, "standings", window, "periods"];
    address(&path, &[("before", before)])
}

/// The page.
pub(super) async fn list(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(Params { before }): Query<Params>,
) -> Result<Response, Problem> {
    let path = ["v1", "boards", &board, "standings", &window, "periods"];
    let listed_at = address(&path, &[("before", &before), ("limit", PERIODS_MAX)]);
    let PeriodsBody { periods, next } = viewer.read(&listed_at).await?;
    let summary = viewer.summary(&board).await?;
    let title = |name: &str| format!("Periods of {window}: {name}");
    let Opening { frame, heading, .. } = Opening::of_standings(&viewer, &summary, title);
    let is_league = periods.iter().any(|period| period.cohorts.is_some());
    let stats = if viewer.may_on(Scope::Read, &board) && !is_league {
        viewer.stats(&board, &window, &periods).await?
    } else {
        Vec::new()
    };
    let stats = stats.into_iter().chain(std::iter::repeat_with(|| None));
    let lines = periods.into_iter().zip(stats);
    let lines: Vec<Line> = lines
        .map(|(listed, stats)| Line { listed, stats })
        .collect();
    html(&PeriodsPage {
        frame,
        heading,
        has_stats: lines.iter().any(|line| line.stats.is_some()),
        is_league,
        charts: charts(&lines),
        lines,
        is_later: !before.is_empty(),
        next: next.map(|next| periods_address(&board, &window, &next)),
        curl: viewer.curl(&listed_at),
        window,
    })
}

impl Viewer {
    /// Periods of a window, the newest first; none of a window that has no periods.
    pub(super) async fn periods(
        &self,
        board: &str,
        window: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<ListedPeriod>, Problem> {
        let path = ["v1", "boards", board, "standings", window, "periods"];
        let found = self.find::<PeriodsBody>(&address(&path, query)).await?;
        Ok(found.map_or_else(Vec::new, |found| found.periods))
    }

    /// What periods amount to, in their order.
    async fn stats(
        &self,
        board: &str,
        window: &str,
        periods: &[ListedPeriod],
    ) -> Result<Vec<Option<StatsBody>>, Problem> {
        if periods.is_empty() {
            return Ok(Vec::new());
        }
        let queries = periods.iter().map(
            |listed| json!({"type": "stats", "board": board, "window": window, "key": listed.period.key}),
        );
        let queries = json!({"queries": queries.collect::<Vec<_>>()});
        let found: QueryResults = self
            .call(Method::POST, "/v1/standings/query", Some(&queries))
            .await?;
        let stats = found.results.into_iter().map(|answer| match answer {
            QueryResult::Stats(stats) => Some(stats).filter(|stats| stats.events.is_some()),
            _ => None,
        });
        Ok(stats.collect())
    }
}

/// A figure of a line, if it has it.
type OfLine = fn(&Line) -> Option<f64>;

/// A chart of each figure that periods have, the oldest period first.
fn charts(lines: &[Line]) -> Vec<Chart> {
    let figures: [(_, _, OfLine); 4] = [
        ("members", "Members", |line| {
            line.listed.period.total.map(float)
        }),
        ("voters", "Voters", |line| {
            line.stats.as_ref()?.voters.map(float)
        }),
        ("events", "Events", |line| {
            line.stats.as_ref()?.events.map(float)
        }),
        ("points", "Sum of scores", |line| {
            line.stats.as_ref()?.score_sum?.to_string().parse().ok()
        }),
    ];
    let charts = figures.into_iter().filter_map(|(id, title, figure)| {
        let figures = lines.iter().rev();
        let figures = figures.map(|line| (line.listed.period.key.as_str(), figure(line)));
        let figures: Vec<Figure<'_, f64>> = figures.collect();
        let count = figures
            .iter()
            .filter(|(_, figure)| figure.is_some())
            .count();
        // One bar compares nothing.
        (count > 1).then(|| Chart::bars(id, title, &figures))
    });
    charts.collect()
}
