//! A standing, page by page and period by period; of a league its tiers, their cohorts, and the standing of one.

use std::str::FromStr;

use askama::Template;
use axum::response::Response;
use serde::Deserialize;

use super::address::address;
use super::board::{
    Heading, Opening, member_address, result_address, standing_address, state_name,
};
use super::movement::{Moved, Movement};
use super::page::{Frame, html};
use super::periods::periods_address;
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::access::Scope;
use crate::domain::period::Unit;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;
use crate::http::extract::{Path, Query};
use crate::http::problem::{COHORT_REQUIRED, Problem, ProblemBody};
use crate::http::standings::answers::{EntryBody, PageBody, StandingBody};
use crate::http::standings::tiers::{CohortBody, TierBody};
use crate::http::summary::SummaryBody;

/// How many entries a page has.
pub(super) const SIZE: u64 = 50;
/// How many periods can be chosen.
const PERIODS: &str = "100";

/// Which part of which standing.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    /// The key of the period; empty for the running one.
    key: String,
    /// An instant in the period.
    at: String,
    /// The number of the page; empty for the first.
    page: String,
    /// In a league, a tier of which the cohorts are wanted, or a cohort of which the standing is.
    tier: String,
    cohort: String,
    /// The cohorts begin behind this one.
    after: String,
    /// `include`: hidden members are shown, too.
    hidden: String,
}

/// The tiers of a league, or the cohorts of one.
#[derive(Deserialize)]
struct League {
    #[serde(flatten)]
    standing: StandingBody,
    #[serde(default)]
    tiers: Vec<TierBody>,
    #[serde(default)]
    cohorts: Vec<CohortBody>,
    #[serde(default)]
    next: Option<String>,
}

/// The windows of the board, the period, and the ways to others.
struct Bar {
    board: String,
    window: String,
    windows: Vec<String>,
    clock: Clock,
    standing: StandingBody,
    keys: Vec<String>,
    earlier: Option<String>,
    later: Option<String>,
    /// What else the page was asked for.
    params: Params,
    /// Whether hidden members can be shown, too.
    may_see_hidden: bool,
}

/// An instant in the period before the one that ends here: one and a half lengths before that end. So it holds for days of 23 and
/// of 25 hours and for all months, too.
fn amid_previous(unit: Unit, end: Timestamp) -> Option<Timestamp> {
    let length_and_a_half = match unit {
        Unit::Minute => Span::seconds(90),
        Unit::Hour => Span::minutes(90),
        Unit::Day => Span::hours(36),
        Unit::Week => Span::hours(36 * 7),
        Unit::Month => Span::days(45),
        Unit::Year | Unit::All | Unit::Season => return None,
    };
    Some(end.saturating_sub(length_and_a_half))
}

impl Bar {
    async fn new(
        viewer: &Viewer,
        summary: &SummaryBody,
        standing: StandingBody,
        params: Params,
    ) -> Result<Self, Problem> {
        let (board, window) = (summary.board.clone(), standing.window.clone());
        let listed = async |query: &[(&str, &str)]| {
            let periods = viewer.periods(&board, &window, query).await?;
            let keys = periods.into_iter().map(|listed| listed.period.key);
            Ok::<Vec<String>, Problem>(keys.collect())
        };
        let key = standing.key.as_str();
        let earlier = [("before", key), ("limit", "1")];
        // The running period has none behind it that has begun; `all` has no other.
        let is_running = summary
            .windows
            .iter()
            .any(|own| own.is_running(&window, key));
        let (keys, earlier, later) = match standing.ends_at {
            None => Default::default(),
            Some(end) => (
                listed(&[("limit", PERIODS)]).await?,
                listed(&earlier).await?.pop(),
                Some(end.to_rfc3339_seconds()).filter(|_| !is_running),
            ),
        };
        let to = |name: &str, value: &str| {
            let query = [(name, value), ("hidden", params.hidden.as_str())];
            standing_address(&board, &window, &query)
        };
        let to_earlier = match Window::from_str(&window) {
            Ok(Window::Rolling { unit, .. }) => {
                let at = standing.ends_at.and_then(|end| amid_previous(unit, end));
                at.map(|at| to("at", &at.to_rfc3339_seconds()))
            }
            _ => earlier.map(|key| to("key", &key)),
        };
        Ok(Self {
            earlier: to_earlier,
            later: later.map(|at| to("at", &at)),
            windows: summary
                .windows
                .iter()
                .map(|own| own.window.to_string())
                .collect(),
            clock: Clock(summary.timezone.0),
            may_see_hidden: viewer.may_on(Scope::Moderate, &board)
                && viewer.may_on(Scope::Read, &board),
            board,
            window,
            standing,
            keys,
            params,
        })
    }

    fn to_window(&self, window: &str) -> String {
        standing_address(&self.board, window, &[])
    }

    /// The page of a member.
    fn to_member(&self, member: &str) -> String {
        let chosen = (&*self.standing.key, &*self.params.hidden);
        member_address(&self.board, &self.window, member, chosen)
    }

    fn member_search(&self) -> String {
        self.to_member("")
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Another part of the same standing, or of the league.
    fn to(&self, more: &[(&str, &str)]) -> String {
        self.seen(&self.params.hidden, more)
    }

    /// The same, with hidden members or without them.
    fn seen(&self, hidden: &str, more: &[(&str, &str)]) -> String {
        let same = [("key", self.standing.key.as_str()), ("hidden", hidden)];
        standing_address(&self.board, &self.window, &[&same, more].concat())
    }

    /// Where all periods are listed; nothing for windows that have none of their own.
    fn to_periods(&self) -> Option<String> {
        let has_periods = !self.keys.is_empty();
        has_periods.then(|| periods_address(&self.board, &self.window, ""))
    }

    /// The result of the period, if that is one of those that can be chosen: others have no data, or are long past.
    fn to_result(&self) -> Option<String> {
        let (key, cohort) = (
            &self.standing.key,
            [("cohort", self.params.cohort.as_str())],
        );
        let is_listed = self.keys.contains(key);
        is_listed.then(|| result_address(&self.board, &self.window, key, &cohort))
    }

    fn first_page(&self) -> String {
        self.to(&[("cohort", &self.params.cohort)])
    }

    fn with_hidden(&self) -> String {
        self.seen("include", &[("cohort", &self.params.cohort)])
    }

    fn visible(&self) -> String {
        self.seen("", &[("cohort", &self.params.cohort)])
    }

    fn to_tier(&self, tier: &str) -> String {
        self.to(&[("tier", tier)])
    }

    fn to_cohort(&self, cohort: &str) -> String {
        self.to(&[("cohort", cohort)])
    }

    fn state(&self) -> &'static str {
        self.standing.state.map_or("", state_name)
    }

    fn is_shown_hidden(&self) -> bool {
        self.params.hidden == "include"
    }
}

#[derive(Template)]
#[template(path = "console/standing.html")]
struct StandingPage {
    frame: Frame,
    heading: Heading,
    bar: Bar,
    total: u64,
    listed: u64,
    entries: Vec<EntryBody>,
    /// Where the members stood the period before, if there is one; or why that can't be read.
    movement: Result<Option<Movement>, ProblemBody>,
    number: u64,
    previous: Option<String>,
    next: Option<String>,
    curl: String,
}

#[derive(Template)]
#[template(path = "console/league.html")]
struct LeaguePage {
    frame: Frame,
    heading: Heading,
    bar: Bar,
    tiers: Vec<TierBody>,
    cohorts: Vec<CohortBody>,
    next: Option<String>,
    curl: String,
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let path = ["v1", "boards", &board, "standings", &window];
    let size = SIZE.to_string();
    // What a public board does not show to everybody its readers see.
    let include = if viewer.may_on(Scope::Read, &board) {
        "profile"
    } else {
        ""
    };
    let query = [
        ("key", params.key.as_str()),
        ("at", &params.at),
        ("cohort", &params.cohort),
        ("page", &params.page),
        ("size", &size),
        ("hidden", &params.hidden),
        ("include", include),
    ];
    let read_at = address(&path, &query);
    let found: PageBody = match viewer.read(&read_at).await {
        Err(problem) if problem.kind == COHORT_REQUIRED => {
            return league(&viewer, &board, &window, params).await;
        }
        found => found?,
    };
    let summary = viewer.summary(&board).await?;
    let title = |name: &str| format!("{window}: {name}");
    let Opening { frame, heading, .. } = Opening::of_standings(&viewer, &summary, title);
    let number = params.page.parse().unwrap_or(1_u64);
    let cohort = params.cohort.clone();
    let bar = Bar::new(&viewer, &summary, found.standing, params).await?;
    let movement = viewer.movement(&summary, &bar.standing, &found.entries, &bar.params.hidden);
    // A fault of the period before does not keep this one from being shown.
    let movement = movement.await.map_err(|problem| problem.item());
    let to_page = |number: u64| {
        let page = number.to_string();
        bar.to(&[("cohort", &cohort), ("page", &page)])
    };
    let pages = found.listed.div_ceil(SIZE);
    html(&StandingPage {
        frame,
        previous: (number > 1).then(|| to_page((number - 1).min(pages.max(1)))),
        next: (number < pages).then(|| to_page(number + 1)),
        heading,
        bar,
        total: found.total,
        listed: found.listed,
        entries: found.entries,
        movement,
        number,
        curl: viewer.curl(&read_at),
    })
}

async fn league(
    viewer: &Viewer,
    board: &str,
    window: &str,
    params: Params,
) -> Result<Response, Problem> {
    let mut path = vec!["v1", "boards", board, "standings", window, "tiers"];
    if !params.tier.is_empty() {
        path.extend([&params.tier, "cohorts"]);
    }
    let query = [
        ("key", params.key.as_str()),
        ("at", &params.at),
        ("after", &params.after),
    ];
    let read_at = address(&path, &query);
    let found: League = viewer.read(&read_at).await?;
    let summary = viewer.summary(board).await?;
    let title = |name: &str| format!("{window}: {name}");
    let Opening { frame, heading, .. } = Opening::of_standings(viewer, &summary, title);
    let tier = params.tier.clone();
    let bar = Bar::new(viewer, &summary, found.standing, params).await?;
    html(&LeaguePage {
        frame,
        next: found
            .next
            .map(|next| bar.to(&[("tier", &tier), ("after", &next)])),
        heading,
        bar,
        tiers: found.tiers,
        cohorts: found.cohorts,
        curl: viewer.curl(&read_at),
    })
}
