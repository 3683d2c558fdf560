//! A standing, page by page and period by period; for a league its tiers, their cohorts, and the standing of one.

use serde::Deserialize;
use tokio::{join, try_join};

use super::board::{member_page, standing_page};
use super::movement::Moved;
use super::prelude::*;
use super::shown::name;
use super::tiles::{Tile, tiles};
use crate::domain::board::Order;
use crate::domain::league::zone::Zone;
use crate::domain::period::Unit;
use crate::domain::profile::Profile;
use crate::domain::score::ShownScore;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;
use crate::http::problem::{COHORT_REQUIRED, ProblemBody};
use crate::leagues::routes::tiers::{CohortBody, TierBody};
use crate::periods::results::routes::ListedPeriod;
use crate::standings::routes::answers::{EntryBody, PageBody, StandingBody};
use crate::standings::routes::summary::SummaryBody;

/// How many entries a page has.
pub(super) const SIZE: u64 = 50;
/// How many periods the menu has.
const PERIODS: &str = "31";

/// The parameters of the page: the key of the period, or an instant in it (none: the running one); the number of the page, or
/// a rank that is on it; in a league a tier, and its cohorts after one, or a cohort; `hidden=include`: with hidden members;
/// `raw=true`: without weights and initial scores.
const PARAMS: [&str; 10] = [
    "board", "key", "at", "page", "rank", "tier", "cohort", "after", "hidden", "raw",
];

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
    steps: Steps,
    /// Whether hidden members are shown, and true counts, as parameters.
    hidden: String,
    raw: String,
}

/// Other periods of a window.
#[derive(Default)]
struct Steps {
    /// The newest periods that have data.
    periods: Vec<ListedPeriod>,
    earlier: Option<String>,
    later: Option<String>,
}

/// The address of another period, which this parameter names.
fn period_page(standing: &StandingBody, hidden: &str, period: (&str, &str)) -> String {
    let query = [period, ("hidden", hidden)];
    standing_page(&standing.board, &standing.window, &[], &query)
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

impl Steps {
    async fn read(
        visitor: &Visitor,
        summary: &SummaryBody,
        standing: &StandingBody,
        hidden: &str,
    ) -> Result<Self, Problem> {
        // `all` has no other period.
        let Some(end) = standing.ends_at else {
            return Ok(Self::default());
        };
        let StandingBody {
            board, window, key, ..
        } = standing;
        let last_before = [("before", key.as_str()), ("limit", "1")];
        let (periods, before) = try_join!(
            visitor.periods(board, window, &[("limit", PERIODS)]),
            visitor.periods(board, window, &last_before),
        )?;
        let to = |period: (&str, &str)| period_page(standing, hidden, period);
        let to_instant = |at: Timestamp| to(("at", &at.to_rfc3339_seconds()));
        let earlier = match window.parse() {
            Ok(Window::Rolling { unit, .. }) => amid_previous(unit, end).map(to_instant),
            _ => before.first().map(|before| to(("key", &before.period.key))),
        };
        // No later period than the running one has begun.
        let mut windows = summary.windows.iter();
        let is_running = windows.any(|own| own.is_running(window, key));
        Ok(Self {
            periods,
            earlier,
            later: (!is_running).then(|| to_instant(end)),
        })
    }
}

impl Bar {
    fn new(summary: &SummaryBody, standing: StandingBody, steps: Steps, frame: &Frame) -> Self {
        let windows = summary.windows.iter();
        Self {
            windows: windows.map(|own| own.window.to_string()).collect(),
            standing,
            steps,
            hidden: frame.param("hidden").to_owned(),
            raw: frame.param("raw").to_owned(),
        }
    }

    /// The address of a part of the same standing, or of the league.
    fn link(&self, hidden: &str, raw: &str, more: &[(&str, &str)]) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.standing;
        let same = [("key", key.as_str()), ("hidden", hidden), ("raw", raw)];
        standing_page(board, window, &[], &[&same, more].concat())
    }

    /// The address of another part, with what is shown of it as it is.
    fn to(&self, more: &[(&str, &str)]) -> String {
        self.link(&self.hidden, &self.raw, more)
    }

    /// The parameter of the cohort.
    fn cohort(&self) -> (&'static str, &str) {
        (
            "cohort",
            self.standing.cohort.as_deref().unwrap_or_default(),
        )
    }

    /// The address of the same with or without hidden members.
    fn seen(&self, hidden: &str) -> String {
        self.link(hidden, &self.raw, &[self.cohort()])
    }

    /// The address of the scores with weights and initial scores, or without.
    fn other_scores(&self) -> String {
        self.link("", if self.raw.is_empty() { "true" } else { "" }, &[])
    }

    /// The address of another period.
    fn period(&self, key: &str) -> String {
        period_page(&self.standing, &self.hidden, ("key", key))
    }

    /// The address of the page of a member.
    fn member(&self, member: &str) -> String {
        let StandingBody {
            board, window, key, ..
        } = &self.standing;
        member_page(board, window, member, key, &self.hidden)
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
        self.hidden == "include"
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
        self.bar.to(&[self.bar.cohort(), ("page", &page)])
    }

    fn previous(&self) -> String {
        self.page((self.number - 1).min(self.last))
    }

    fn end(&self) -> String {
        self.page(self.last)
    }

    /// What movements are compared with, in words: `yesterday` for a running day.
    fn before<'a>(&self, since: &'a str) -> &'a str {
        let is_running = self.bar.steps.later.is_none();
        match self.bar.standing.window.as_str() {
            "day" if is_running => "yesterday",
            "week" if is_running => "last week",
            "month" if is_running => "last month",
            _ => since,
        }
    }

    fn has_zones(&self) -> bool {
        self.rows.iter().any(|row| row.zone.is_some())
    }

    fn has_voters(&self) -> bool {
        self.rows.iter().any(|row| row.entry.voters.is_some())
    }

    /// The address of the export, if the period is final.
    fn export(&self) -> Option<String> {
        let StandingBody {
            board, window, key, ..
        } = &self.bar.standing;
        let is_exported = self.bar.state() == "final" && self.frame.may(Scope::Read);
        let query = [("format", "csv"), self.bar.cohort()];
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

/// The number of the page that has a rank; otherwise the page that is named.
fn page_number(rank: &str, page: String) -> String {
    match rank.replace([',', ' '], "").parse::<u64>() {
        Ok(rank) => rank.div_ceil(SIZE).max(1).to_string(),
        Err(_) => page,
    }
}

/// The page.
pub(super) async fn show(frame: Frame) -> Answer {
    let window = frame.param("window").to_owned();
    of_window(frame, &window, None).await
}

/// The page of a window, with the summary of the board if it was read.
pub(super) async fn of_window(
    mut frame: Frame,
    window: &str,
    summary: Option<SummaryBody>,
) -> Answer {
    let [board, key, at, page, rank, _, cohort, _, hidden, raw] = frame.params(PARAMS)?;
    let (page, size) = (page_number(&rank, page), SIZE.to_string());
    // Callers with the scope `read` see more of a public board than others.
    let is_reader = frame.visitor.may_on(Scope::Read, &board);
    let query = [
        ("key", &*key),
        ("at", &at),
        ("cohort", &cohort),
        ("page", &page),
        ("size", &size),
        ("hidden", &hidden),
        ("raw", &raw),
        ("include", if is_reader { "profile" } else { "" }),
    ];
    let read_at = frame.reading(&["boards", &board, "standings", window], &query);
    let summary = async {
        match summary {
            Some(summary) => Ok(summary),
            None => frame.summary(&board).await,
        }
    };
    let (found, summary) = join!(frame.visitor.read::<PageBody>(&read_at), summary);
    let found = unless(found, |kind| kind == COHORT_REQUIRED)?;
    let summary = summary?;
    frame.set_standing(&summary, window, "Standings", window);
    let Some(found) = found else {
        return league(frame, &summary, window).await;
    };
    let visitor = &frame.visitor;
    let (movement, definition, zones, steps) = join!(
        visitor.movement(&summary, &found.standing, &found.entries, &hidden),
        visitor.defined(&board),
        visitor.zones(&found.standing, &found.entries),
        Steps::read(visitor, &summary, &found.standing, &hidden),
    );
    // A failure to read the previous period must not keep this one from being shown.
    let movement = movement.map_err(|problem| problem.item());
    let moved = movement.as_ref().ok().and_then(Option::as_ref);
    let (definition, zones) = (definition?, zones?);
    let defined = definition.as_ref();
    let has_uniques = defined.is_some_and(|defined| defined.uniques.is_some());
    let stats = visitor
        .stats(&found.standing, has_uniques && is_reader)
        .await;
    let tiles = tiles(&frame, &summary, &found, moved, stats.as_ref());
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
    html(&StandingPage {
        rows: rows.collect(),
        bar: Bar::new(&summary, found.standing, steps?, &frame),
        frame,
        summary,
        total: found.total,
        listed: found.listed,
        tiles,
        has_raw: defined.is_some_and(|own| own.weight.is_some() || !own.initial.is_empty()),
        since: movement.map(|movement| movement.map(|movement| movement.since)),
        number: found.page.unwrap_or(1),
        last: found.listed.div_ceil(SIZE).max(1),
    })
}

/// The page of a league: its tiers, or the cohorts of one.
async fn league(mut frame: Frame, summary: &SummaryBody, window: &str) -> Answer {
    let [board, key, at, _, _, tier, _, after, hidden, _] = frame.params(PARAMS)?;
    let mut path = vec!["boards", &board, "standings", window, "tiers"];
    if !tier.is_empty() {
        path.extend([&*tier, "cohorts"]);
    }
    frame.curl.clear();
    let query = [("key", &*key), ("at", &at), ("after", &after)];
    let found: League = frame.read(&path, &query).await?;
    let steps = Steps::read(&frame.visitor, summary, &found.standing, &hidden).await?;
    let bar = Bar::new(summary, found.standing, steps, &frame);
    let to_part = |next: String| bar.to(&[("tier", &tier), ("after", &next)]);
    html(&LeaguePage {
        next: found.next.map(to_part),
        frame,
        bar,
        tiers: found.tiers,
        cohorts: found.cohorts,
    })
}
