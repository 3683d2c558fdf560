//! A board: its windows with their running periods, and its definition.

use askama::Template;
use askama::filters::{Html, escape};
use axum::response::{IntoResponse, Redirect};
use chrono_tz::Tz;
use serde_json::Value;

use super::page::Tab;
use super::shown::Clock;
use super::{Answer, Frame, Path, Viewer, address, html, v1};
use crate::domain::access::Scope;
use crate::domain::board::Order;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::http::summary::{SummaryBody, WindowSummary};

/// What stands at the top of each page of a board.
#[derive(Default)]
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
            .filter(|(.., is_for_viewer)| *is_for_viewer)
            .map(|(name, page, _)| Tab {
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

impl Frame {
    /// That of the page of a board behind a tab, with the board's summary if the viewer may read it.
    pub(super) fn of_board(
        viewer: &Viewer,
        board: &str,
        summary: Option<&SummaryBody>,
        tab: &str,
    ) -> Self {
        let heading = Heading::new(viewer, board, summary, tab);
        let title = format!("{tab} of {}", heading.name());
        Self {
            heading,
            clock: Clock(summary.map_or(Tz::UTC, |summary| summary.timezone.0)),
            ..Self::new(viewer, title)
        }
    }

    /// The same; the summary is read.
    pub(super) async fn read(viewer: &Viewer, board: &str, tab: &str) -> Result<Self, Problem> {
        let summary = viewer.summary_if_shown(board).await?;
        Ok(Self::of_board(viewer, board, summary.as_ref(), tab))
    }

    /// That of a page about standings; `what` it shows of the board.
    pub(super) fn of_standings(viewer: &Viewer, summary: &SummaryBody, what: &str) -> Self {
        let mut frame = Self::of_board(viewer, &summary.board, Some(summary), "Standings");
        frame.title = format!("{what}: {}", frame.heading.name());
        frame
    }
}

impl WindowSummary {
    /// Whether this is the running period of this window.
    pub(super) fn is_running(&self, window: &str, key: &str) -> bool {
        self.window.to_string() == window && self.period.key == key
    }
}

impl Viewer {
    /// The summary of a board.
    pub(super) async fn summary(&self, board: &str) -> Result<SummaryBody, Problem> {
        self.read(&v1(&["boards", board, "summary"])).await
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
    summary: SummaryBody,
}

/// A page about a standing: the standing itself, or a part of it.
pub(super) fn standing_page(
    board: &str,
    window: &str,
    part: &[&str],
    query: &[(&str, &str)],
) -> String {
    let path = ["console", "boards", board, "standings", window];
    address(&[&path, part].concat(), query)
}

/// The page of a member of a standing; `hidden` is `include` where that counts hidden members, too.
pub(super) fn member_page(
    board: &str,
    window: &str,
    member: &str,
    key: &str,
    hidden: &str,
) -> String {
    let query = [("member", member), ("key", key), ("hidden", hidden)];
    standing_page(board, window, &["member"], &query)
}

/// The windows of a board.
pub(super) async fn show(viewer: Viewer, Path(board): Path<String>) -> Answer {
    let summary = match viewer.summary(&board).await {
        Err(problem) if problem.kind == FORBIDDEN => {
            // Whoever may not read it is led to what there is to do.
            let heading = Heading::new(&viewer, &board, None, "");
            let tab = heading.tabs.first().ok_or(problem)?;
            return Ok(Redirect::to(&tab.address).into_response());
        }
        summary => summary?,
    };
    let mut frame = Frame::of_standings(&viewer, &summary, "");
    frame.heading.name().clone_into(&mut frame.title);
    let curl = viewer.curl(&v1(&["boards", &board, "summary"]));
    html(&BoardPage {
        frame: frame.curl([curl]),
        summary,
    })
}

#[derive(Template)]
#[template(path = "console/definition.html")]
struct DefinitionPage {
    frame: Frame,
    definition: Value,
    origin: String,
}

impl DefinitionPage {
    /// The page that shows the first window in pages of others, if they can show the board. Of a league cohorts are shown, and none
    /// is for all.
    fn embedded(&self) -> Option<String> {
        let is_shown = self.definition["public"] == true && self.definition["league"].is_null();
        let window = self.definition["windows"][0]
            .as_str()
            .filter(|_| is_shown)?;
        Some(address(&["embed", &self.frame.heading.board, window], &[]))
    }

    /// The element that shows the page in a frame, as text.
    fn frame_around(&self, page: &str) -> String {
        let Ok(title) = escape(self.frame.heading.name(), Html);
        let origin = &self.origin;
        format!(
            r#"<iframe src="{origin}{page}" title="{title}" width="320" height="480"></iframe>"#
        )
    }
}

/// The definition of a board.
pub(super) async fn definition(viewer: Viewer, Path(board): Path<String>) -> Answer {
    let defined_at = v1(&["boards", &board]);
    let definition = viewer.read(&defined_at).await?;
    let frame = Frame::read(&viewer, &board, "Definition").await?;
    html(&DefinitionPage {
        frame: frame.curl([viewer.curl(&defined_at)]),
        definition,
        origin: viewer.visitor.origin(),
    })
}
