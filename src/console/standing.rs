//! A standing, page by page and period by period; for a league its tiers, their cohorts, and the standing of one.

use std::str::FromStr;

use askama::Template;
use serde::Deserialize;

use super::board::standing_page;
use super::movement::{Moved, Movement};
use super::shown::name;
use super::{Answer, Frame, Path, Query, Viewer, Visitor, html};
use crate::domain::access::Scope;
use crate::domain::period::Unit;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;
use crate::http::problem::{COHORT_REQUIRED, Problem, ProblemBody};
use crate::leagues::routes::tiers::{CohortBody, TierBody};
use crate::standings::routes::answers::{EntryBody, PageBody, StandingBody};
use crate::standings::routes::summary::SummaryBody;

/// How many entries a page has.
pub(super) const SIZE: u64 = 50;
/// How many periods can be selected.
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
    /// In a league, the tier whose cohorts are shown, or the cohort whose standing is shown.
    tier: String,
    cohort: String,
    /// The cohorts begin after this one.
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

/// The windows of the board, the period, and the links to others.
struct Bar {
    windows: Vec<String>,
    standing: StandingBody,
    keys: Vec<String>,
    earlier: Option<String>,
    later: Option<String>,
    /// The page's other parameters.
    params: Params,
}

/// An instant in the period before the one that ends here: one and a half lengths before that end. This works for days of
/// 23 and 25 hours and for all months, too.
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
        visitor: &Visitor,
        summary: &SummaryBody,
        standing: StandingBody,
        params: Params,
    ) -> Result<Self, Problem> {
        let StandingBody {
            board, window, key, ..
        } = &standing;
        let listed = async |query: &[(&str, &str)]| {
            let periods = visitor.periods(board, window, query).await?;
            let keys = periods.into_iter().map(|listed| listed.period.key);
            Ok::<Vec<String>, Problem>(keys.collect())
        };
        let to = |name: &str, value: &str| {
            let query = [(name, value), ("hidden", params.hidden.as_str())];
            standing_page(board, window, &[], &query)
        };
        let to_instant = |at: Timestamp| to("at", &at.to_rfc3339_seconds());
        let windows = || summary.windows.iter();
        let (mut keys, mut earlier, mut later) = Default::default();
        // `all` has no other period.
        if let Some(end) = standing.ends_at {
            keys = listed(&[("limit", PERIODS)]).await?;
            let before = listed(&[("before", key), ("limit", "1")]).await?.pop();
            earlier = match Window::from_str(window) {
                Ok(Window::Rolling { unit, .. }) => amid_previous(unit, end).map(to_instant),
                _ => before.map(|key| to("key", &key)),
            };
            // No later period than the running one has begun.
            let is_running = windows().any(|own| own.is_running(window, key));
            later = (!is_running).then(|| to_instant(end));
        }
        Ok(Self {
            earlier,
            later,
            windows: windows().map(|own| own.window.to_string()).collect(),
            standing,
            keys,
            params,
        })
    }

    /// The address of another part of the same standing, or of the league.
    fn to(&self, more: &[(&str, &str)]) -> String {
        self.seen(&self.params.hidden, more)
    }

    /// The address of another part, with or without hidden members.
    fn seen(&self, hidden: &str, more: &[(&str, &str)]) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.standing;
        let same = [("key", key.as_str()), ("hidden", hidden)];
        standing_page(board, window, &[], &[&same, more].concat())
    }

    fn state(&self) -> String {
        name(&self.standing.state)
    }

    fn is_shown_hidden(&self) -> bool {
        self.params.hidden == "include"
    }
}

#[derive(Template)]
#[template(path = "console/standing.html")]
struct StandingPage {
    frame: Frame,
    bar: Bar,
    total: u64,
    listed: u64,
    entries: Vec<EntryBody>,
    /// The ranks of the members in the previous period, if there is one; or why they can't be read.
    movement: Result<Option<Movement>, ProblemBody>,
    number: u64,
    previous: Option<String>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "console/league.html")]
struct LeaguePage {
    frame: Frame,
    bar: Bar,
    tiers: Vec<TierBody>,
    cohorts: Vec<CohortBody>,
    next: Option<String>,
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<Params>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "");
    let path = ["boards", &board, "standings", &window];
    let size = SIZE.to_string();
    // Callers with the scope `read` see more of a public board than others.
    let is_reader = viewer.may_on(Scope::Read, &board);
    let query = [
        ("key", params.key.as_str()),
        ("at", &params.at),
        ("cohort", &params.cohort),
        ("page", &params.page),
        ("size", &size),
        ("hidden", &params.hidden),
        ("include", if is_reader { "profile" } else { "" }),
    ];
    let found: PageBody = match frame.read(&path, &query).await {
        Err(problem) if problem.kind == COHORT_REQUIRED => {
            return league(&viewer, &board, &window, params).await;
        }
        found => found?,
    };
    let summary = frame.read_standings(&board, &window).await?;
    let bar = Bar::new(&viewer, &summary, found.standing, params).await?;
    let movement = viewer.movement(&summary, &bar.standing, &found.entries, &bar.params.hidden);
    // A failure to read the previous period must not keep this one from being shown.
    let movement = movement.await.map_err(|problem| problem.item());
    let number = bar.params.page.parse().unwrap_or(1_u64);
    let to_page = |number: u64| {
        let page = number.to_string();
        bar.to(&[("cohort", &bar.params.cohort), ("page", &page)])
    };
    let pages = found.listed.div_ceil(SIZE);
    html(&StandingPage {
        frame,
        previous: (number > 1).then(|| to_page((number - 1).min(pages.max(1)))),
        next: (number < pages).then(|| to_page(number + 1)),
        bar,
        total: found.total,
        listed: found.listed,
        entries: found.entries,
        movement,
        number,
    })
}

async fn league(viewer: &Viewer, board: &str, window: &str, params: Params) -> Answer {
    let mut frame = Frame::new(viewer, "");
    let mut path = vec!["boards", board, "standings", window, "tiers"];
    if !params.tier.is_empty() {
        path.extend([&params.tier, "cohorts"]);
    }
    let query = [
        ("key", params.key.as_str()),
        ("at", &params.at),
        ("after", &params.after),
    ];
    let found: League = frame.read(&path, &query).await?;
    let summary = frame.read_standings(board, window).await?;
    let bar = Bar::new(viewer, &summary, found.standing, params).await?;
    let to_part = |next: String| bar.to(&[("tier", &bar.params.tier), ("after", &next)]);
    html(&LeaguePage {
        frame,
        next: found.next.map(to_part),
        bar,
        tiers: found.tiers,
        cohorts: found.cohorts,
    })
}
