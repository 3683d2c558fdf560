//! A standing, page by page and period by period; for a league its tiers, their cohorts, and the standing of one.

use std::str::FromStr;

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::board::{member_page, standing_page};
use super::movement::Moved;
use super::shown::name;
use super::tiles::{Tile, tiles};
use super::{Answer, Frame, Path, Query, Viewer, Visitor, html};
use crate::domain::access::Scope;
use crate::domain::board::Order;
use crate::domain::league::zone::Zone;
use crate::domain::period::Unit;
use crate::domain::profile::Profile;
use crate::domain::score::ShownScore;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;
use crate::http::problem::{COHORT_REQUIRED, Problem, ProblemBody};
use crate::leagues::routes::tiers::{CohortBody, TierBody};
use crate::standings::routes::answers::{EntryBody, PageBody, StandingBody};
use crate::standings::routes::summary::{PeriodBody, SummaryBody};

/// How many entries a page has.
pub(super) const SIZE: u64 = 50;
/// How many periods the menu has.
const PERIODS: &str = "31";

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
    /// The rank whose page is shown, instead of a number.
    rank: String,
    /// In a league, the tier whose cohorts are shown, or the cohort whose standing is shown.
    tier: String,
    cohort: String,
    /// The cohorts begin after this one.
    after: String,
    /// `include`: hidden members are shown, too.
    hidden: String,
    /// `true`: scores are shown without weights and initial scores.
    raw: String,
    /// What was done before the page was shown.
    done: String,
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
    /// The newest periods that have data.
    periods: Vec<PeriodBody>,
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
            let periods = periods.into_iter().map(|listed| listed.period);
            Ok::<Vec<PeriodBody>, Problem>(periods.collect())
        };
        let to = |name: &str, value: &str| {
            let query = [(name, value), ("hidden", params.hidden.as_str())];
            standing_page(board, window, &[], &query)
        };
        let to_instant = |at: Timestamp| to("at", &at.to_rfc3339_seconds());
        let windows = || summary.windows.iter();
        let (mut periods, mut earlier, mut later) = Default::default();
        // `all` has no other period.
        if let Some(end) = standing.ends_at {
            periods = listed(&[("limit", PERIODS)]).await?;
            let before = listed(&[("before", key), ("limit", "1")]).await?.pop();
            earlier = match Window::from_str(window) {
                Ok(Window::Rolling { unit, .. }) => amid_previous(unit, end).map(to_instant),
                _ => before.map(|before| to("key", &before.key)),
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
            periods,
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
        let same = [
            ("key", key.as_str()),
            ("hidden", hidden),
            ("raw", &self.params.raw),
        ];
        standing_page(board, window, &[], &[&same, more].concat())
    }

    /// The address of another period.
    fn period(&self, key: &str) -> String {
        let StandingBody { board, window, .. } = &self.standing;
        let query = [("key", key), ("hidden", self.params.hidden.as_str())];
        standing_page(board, window, &[], &query)
    }

    /// The address of the page of a member.
    fn member(&self, member: &str) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.standing;
        member_page(board, window, member, key, &self.params.hidden)
    }

    fn state(&self) -> String {
        name(&self.standing.state)
    }

    /// The cohort's tier, of this league.
    fn tier(&self) -> Option<&str> {
        let (tier, _) = self.standing.cohort.as_deref()?.rsplit_once('-')?;
        Some(tier)
    }

    fn is_shown_hidden(&self) -> bool {
        self.params.hidden == "include"
    }
}

/// An entry, how long its bar is in percent, and how it has moved.
struct Row {
    entry: EntryBody,
    share: f64,
    moved: Option<Moved>,
    /// In a cohort of a league.
    zone: Option<Zone>,
    /// The class of a row after which another zone begins.
    edge: &'static str,
}

/// The class of a row of one zone before a row of another.
fn edge(own: Option<Zone>, next: Option<Zone>) -> &'static str {
    match (own, next) {
        (Some(own), Some(next)) if own == next => "",
        (Some(Zone::Promotion), Some(_)) => "zone",
        (Some(_), Some(Zone::Demotion)) => "zone fall",
        _ => "",
    }
}

impl EntryBody {
    /// The profile that is shown.
    pub(super) fn shown(&self) -> Option<&Profile> {
        Some(self.profile.as_ref()?.as_ref()?.profile())
    }
}

#[derive(Template)]
#[template(path = "console/standing.html")]
struct StandingPage {
    frame: Frame,
    bar: Bar,
    summary: SummaryBody,
    total: u64,
    listed: u64,
    tiles: Vec<Tile>,
    rows: Vec<Row>,
    /// Whether scores can also be shown without weights and initial scores.
    has_raw: bool,
    /// The period that movements are compared with, if there is one; or why it can't be read.
    since: Result<Option<String>, ProblemBody>,
    /// The number of this page, and of the last one.
    number: u64,
    last: u64,
}

impl StandingPage {
    fn page(&self, number: u64) -> String {
        let page = number.to_string();
        let cohort = self.bar.params.cohort.as_str();
        self.bar.to(&[("cohort", cohort), ("page", &page)])
    }

    fn previous(&self) -> String {
        self.page((self.number - 1).min(self.last))
    }

    fn following(&self) -> String {
        self.page(self.number + 1)
    }

    fn end(&self) -> String {
        self.page(self.last)
    }

    /// What movements are compared with, in words: `yesterday` for a running day.
    fn before<'a>(&self, since: &'a str) -> &'a str {
        match self.bar.standing.window.as_str() {
            "day" if self.bar.later.is_none() => "yesterday",
            "week" if self.bar.later.is_none() => "last week",
            "month" if self.bar.later.is_none() => "last month",
            _ => since,
        }
    }

    fn has_zones(&self) -> bool {
        self.rows.iter().any(|row| row.zone.is_some())
    }

    fn has_voters(&self) -> bool {
        self.rows.iter().any(|row| row.entry.voters.is_some())
    }

    /// The address of the scores with weights and initial scores, or without.
    fn other_scores(&self) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.bar.standing;
        let raw = if self.bar.params.raw.is_empty() {
            "true"
        } else {
            ""
        };
        standing_page(board, window, &[], &[("key", key), ("raw", raw)])
    }

    /// The address of the export, if the period is final.
    fn export(&self) -> Option<String> {
        let StandingBody {
            board, window, key, ..
        } = &self.bar.standing;
        let is_exported = self.bar.state() == "final" && self.frame.may(Scope::Read);
        let query = [("format", "csv"), ("cohort", &self.bar.params.cohort)];
        is_exported.then(|| standing_page(board, window, &["periods", key, "export"], &query))
    }
}

pub(super) fn float(score: &ShownScore) -> f64 {
    score.to_string().parse().unwrap_or_default()
}

/// How long the bar of a score is next to that of the best one, in percent.
pub(super) fn share(order: Order, best: f64, score: f64) -> f64 {
    let (part, whole) = match order {
        Order::Desc => (score, best),
        Order::Asc => (best, score),
    };
    if part > 0.0 && whole > 0.0 {
        (100.0 * part / whole).clamp(0.0, 100.0)
    } else {
        0.0
    }
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

/// The number of the page that is asked for.
fn page_number(params: &Params) -> String {
    match params.rank.replace([',', ' '], "").parse::<u64>() {
        Ok(rank) => rank.div_ceil(SIZE).max(1).to_string(),
        Err(_) => params.page.clone(),
    }
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<Params>,
) -> Answer {
    let mut frame = Frame::new(&viewer, "").done(&params.done);
    let path = ["boards", &board, "standings", &window];
    let (page, size) = (page_number(&params), SIZE.to_string());
    // Callers with the scope `read` see more of a public board than others.
    let is_reader = viewer.may_on(Scope::Read, &board);
    let query = [
        ("key", params.key.as_str()),
        ("at", &params.at),
        ("cohort", &params.cohort),
        ("page", &page),
        ("size", &size),
        ("hidden", &params.hidden),
        ("raw", &params.raw),
        ("include", if is_reader { "profile" } else { "" }),
    ];
    let found: PageBody = match frame.read(&path, &query).await {
        Err(problem) if problem.kind == COHORT_REQUIRED => {
            return league(&viewer, &board, &window, params).await;
        }
        found => found?,
    };
    let summary = frame
        .read_window((&board, &window), "Standings", &window)
        .await?;
    let movement = viewer.movement(&summary, &found.standing, &found.entries, &params.hidden);
    // A failure to read the previous period must not keep this one from being shown.
    let movement = movement.await.map_err(|problem| problem.item());
    let moved = movement.as_ref().ok().and_then(Option::as_ref);
    let definition = viewer.defined(&board).await?;
    let has_uniques = definition
        .as_ref()
        .is_some_and(|defined| defined.uniques.is_some());
    let stats = viewer
        .stats(&found.standing, has_uniques && is_reader)
        .await;
    let tiles = tiles(&frame, &summary, &found, moved, stats.as_ref());
    let zones = viewer.zones(&found.standing, &found.entries).await?;
    if found.total == 0 && frame.may(Scope::Write) {
        let event = json!({"id": "1", "member": "ann", "score": 1});
        frame.example(&Method::POST, &["boards", &board, "events"], Some(&event));
    }
    let best = found
        .entries
        .first()
        .map_or(0.0, |first| float(&first.score));
    let zone = |index: usize| zones.get(index).copied().flatten();
    let entries = found.entries.into_iter().enumerate();
    let rows = entries.map(|(index, entry)| Row {
        share: share(summary.order, best, float(&entry.score)),
        moved: moved.and_then(|movement| movement.of(&entry)),
        zone: zone(index),
        edge: edge(zone(index), zone(index + 1)),
        entry,
    });
    let rows = rows.collect();
    html(&StandingPage {
        frame,
        bar: Bar::new(&viewer, &summary, found.standing, params).await?,
        summary,
        total: found.total,
        listed: found.listed,
        tiles,
        rows,
        has_raw: definition
            .is_some_and(|defined| defined.weight.is_some() || !defined.initial.is_empty()),
        since: movement.map(|movement| movement.map(|movement| movement.since)),
        number: found.page.unwrap_or(1),
        last: found.listed.div_ceil(SIZE).max(1),
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
    let summary = frame
        .read_window((board, window), "Standings", window)
        .await?;
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
