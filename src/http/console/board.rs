//! A board: its windows with their running periods, and its definition.

use askama::Template;
use askama::filters::{Html, escape};
use axum::response::{IntoResponse, Redirect, Response};
use chrono_tz::Tz;
use serde_json::Value;

use super::address::address;
use super::page::{Frame, Tab, html};
use super::session::Viewer;
use super::shown::Clock;
use crate::domain::access::Scope;
use crate::domain::board::Order;
use crate::domain::state::PeriodState;
use crate::http::extract::Path;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::http::summary::{SummaryBody, WindowSummary};

/// What stands at the top of each page of a board.
pub(super) struct Heading {
    pub(super) board: String,
    pub(super) title: String,
    /// The other pages of the board, as far as the viewer may see them.
    pub(super) tabs: Vec<Tab>,
}

impl Heading {
    /// That of a board, with its summary if the viewer may read it; `current` is the page that it stands on.
    fn new(viewer: &Viewer, board: &str, summary: Option<&SummaryBody>, current: &str) -> Self {
        let may = |scope| viewer.may_on(scope, board);
        let may_configure = may(Scope::Configure);
        let pages = [
            ("Standings", "", summary.is_some()),
            ("Hidden members", "/hidden", may(Scope::Moderate)),
            ("Definition", "/definition", may_configure),
            ("Initial scores", "/initial-scores", may_configure),
            ("Quotas", "/quotas", may(Scope::Read)),
            ("Events", "/events", may(Scope::Write)),
            ("Queue", "/queue", may_configure),
            ("Upkeep", "/upkeep", may_configure),
        ];
        let own = address(&["console", "boards", board], &[]);
        let tabs = pages
            .into_iter()
            .filter(|(.., is_for_viewer)| *is_for_viewer);
        let tabs = tabs.map(|(name, page, _)| Tab {
            name,
            address: format!("{own}{page}"),
            is_current: name == current,
        });
        Self {
            board: board.to_owned(),
            title: summary.map_or_else(String::new, |summary| summary.title.clone()),
            tabs: tabs.collect(),
        }
    }

    /// What the board is called.
    pub(super) fn name(&self) -> &str {
        match self.title.as_str() {
            "" => &self.board,
            title => title,
        }
    }
}

/// How a page of a board begins: what stands around it and above it, and the clocks of the board's time zone.
pub(super) struct Opening {
    pub(super) frame: Frame,
    pub(super) heading: Heading,
    pub(super) clock: Clock,
}

impl Opening {
    /// That of the page behind a tab, with the board's summary if the viewer may read it.
    pub(super) fn new(
        viewer: &Viewer,
        board: &str,
        summary: Option<&SummaryBody>,
        tab: &str,
    ) -> Self {
        Self::titled(viewer, board, summary, tab, |name| {
            format!("{tab} of {name}")
        })
    }

    /// The same; the summary is read.
    pub(super) async fn read(viewer: &Viewer, board: &str, tab: &str) -> Result<Self, Problem> {
        let summary = viewer.summary_if_shown(board).await?;
        Ok(Self::new(viewer, board, summary.as_ref(), tab))
    }

    /// That of a page about standings; `title` says from the board's name what the page is called.
    pub(super) fn of_standings(
        viewer: &Viewer,
        summary: &SummaryBody,
        title: impl FnOnce(&str) -> String,
    ) -> Self {
        Self::titled(viewer, &summary.board, Some(summary), "Standings", title)
    }

    /// That of a page that belongs to a tab, and has a title of its own.
    pub(super) fn titled(
        viewer: &Viewer,
        board: &str,
        summary: Option<&SummaryBody>,
        tab: &str,
        title: impl FnOnce(&str) -> String,
    ) -> Self {
        let heading = Heading::new(viewer, board, summary, tab);
        Self {
            frame: Frame::new(viewer, title(heading.name())),
            heading,
            clock: Clock(summary.map_or(Tz::UTC, |summary| summary.timezone.0)),
        }
    }
}

impl WindowSummary {
    fn state(&self) -> &'static str {
        self.period.state.map_or("", state_name)
    }

    /// Whether this is the running period of this window.
    pub(super) fn is_running(&self, window: &str, key: &str) -> bool {
        self.window.to_string() == window && self.period.key == key
    }
}

impl Viewer {
    /// The summary of a board.
    pub(super) async fn summary(&self, board: &str) -> Result<SummaryBody, Problem> {
        self.read(&address(&["v1", "boards", board, "summary"], &[]))
            .await
    }

    /// The same; `None` for who may do other things with the board than read it.
    pub(super) async fn summary_if_shown(
        &self,
        board: &str,
    ) -> Result<Option<SummaryBody>, Problem> {
        match self.summary(board).await {
            Ok(summary) => Ok(Some(summary)),
            Err(problem) if problem.kind == FORBIDDEN => Ok(None),
            Err(problem) => Err(problem),
        }
    }
}

#[derive(Template)]
#[template(path = "console/board.html")]
struct BoardPage {
    frame: Frame,
    heading: Heading,
    clock: Clock,
    summary: SummaryBody,
    curl: String,
}

impl BoardPage {
    fn standing(&self, window: &str) -> String {
        standing_address(&self.summary.board, window, &[])
    }
}

/// The page of a standing.
pub(super) fn standing_address(board: &str, window: &str, query: &[(&str, &str)]) -> String {
    let path = ["console", "boards", board, "standings", window];
    address(&path, query)
}

/// The page of a member of a standing; `hidden` is `include` where that counts hidden members, too.
pub(super) fn member_address(
    board: &str,
    window: &str,
    member: &str,
    (key, hidden): (&str, &str),
) -> String {
    let path = ["console", "boards", board, "standings", window, "member"];
    address(
        &path,
        &[("member", member), ("key", key), ("hidden", hidden)],
    )
}

/// The page of a period and its result.
pub(super) fn result_address(
    board: &str,
    window: &str,
    key: &str,
    query: &[(&str, &str)],
) -> String {
    let path = [
        "console",
        "boards",
        board,
        "standings",
        window,
        "periods",
        key,
    ];
    address(&path, query)
}

/// How a state is called.
pub(super) fn state_name(state: PeriodState) -> &'static str {
    match state {
        PeriodState::Upcoming => "upcoming",
        PeriodState::Live => "live",
        PeriodState::Closing => "closing",
        PeriodState::Ended => "ended",
        PeriodState::Final => "final",
    }
}

/// The windows of a board.
pub(super) async fn show(viewer: Viewer, Path(board): Path<String>) -> Result<Response, Problem> {
    let summary = match viewer.summary(&board).await {
        Err(problem) if problem.kind == FORBIDDEN => {
            // Whoever may not read it is led to what there is to do.
            let heading = Heading::new(&viewer, &board, None, "");
            let tab = heading.tabs.first().ok_or(problem)?;
            return Ok(Redirect::to(&tab.address).into_response());
        }
        summary => summary?,
    };
    let Opening {
        frame,
        heading,
        clock,
    } = Opening::of_standings(&viewer, &summary, ToOwned::to_owned);
    html(&BoardPage {
        frame,
        heading,
        clock,
        curl: viewer.curl(&address(&["v1", "boards", &board, "summary"], &[])),
        summary,
    })
}

#[derive(Template)]
#[template(path = "console/definition.html")]
struct DefinitionPage {
    frame: Frame,
    heading: Heading,
    json: String,
    /// The first window, if pages of others can show the board.
    embedded: Option<String>,
    origin: String,
    curl: String,
}

impl DefinitionPage {
    fn to_embed(&self, window: &str) -> String {
        address(&["embed", &self.heading.board, window], &[])
    }

    /// The element that shows the board in a frame, as text.
    fn frame_around(&self, window: &str) -> String {
        let (origin, page) = (&self.origin, self.to_embed(window));
        let Ok(title) = escape(self.heading.name(), Html);
        format!(
            r#"<iframe src="{origin}{page}" title="{title}" width="320" height="480"></iframe>"#
        )
    }
}

/// The definition of a board.
pub(super) async fn definition(
    viewer: Viewer,
    Path(board): Path<String>,
) -> Result<Response, Problem> {
    let defined_at = address(&["v1", "boards", &board], &[]);
    let definition: Value = viewer.read(&defined_at).await?;
    let Opening { frame, heading, .. } = Opening::read(&viewer, &board, "Definition").await?;
    let json = serde_json::to_string_pretty(&definition);
    // Of a league cohorts are shown, and none is for all.
    let is_shown = definition["public"] == true && definition["league"].is_null();
    let window = definition["windows"][0].as_str().filter(|_| is_shown);
    html(&DefinitionPage {
        frame,
        heading,
        json: json.unwrap_or_default(),
        embedded: window.map(ToOwned::to_owned),
        origin: viewer.visitor.origin(),
        curl: viewer.curl(&defined_at),
    })
}
