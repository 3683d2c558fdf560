//! A board: its windows with their running periods, and its definition.

use askama::Template;
use askama::filters::{Html, escape};
use axum::response::{IntoResponse, Redirect};
use serde_json::Value;

use super::page::Tab;
use super::shown::Clock;
use super::{Answer, Frame, Path, Viewer, Visitor, address, html, unless, v1};
use crate::domain::access::Scope;
use crate::domain::board::Order;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::standings::routes::summary::{SummaryBody, WindowSummary};

/// The top of each page of a board.
#[derive(Default)]
pub(super) struct Heading {
    pub(super) board: String,
    pub(super) title: String,
    /// The other pages of the board that the visitor may see.
    pub(super) tabs: Vec<Tab>,
}

impl Heading {
    /// The heading of a board, with its summary if the visitor may read it; `current` is the page that it is on.
    fn new(visitor: &Visitor, board: &str, summary: Option<&SummaryBody>, current: &str) -> Self {
        let may = |scope| visitor.may_on(scope, board);
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
            .filter(|(.., is_for_visitor)| *is_for_visitor)
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

    /// The board's title, or its id.
    pub(super) fn name(&self) -> &str {
        match self.title.as_str() {
            "" => &self.board,
            title => title,
        }
    }
}

impl Frame {
    /// Sets the heading of a page of a board under a tab, with the board's summary if the visitor may read it.
    pub(super) fn set_board(&mut self, board: &str, summary: Option<&SummaryBody>, tab: &str) {
        self.heading = Heading::new(&self.visitor, board, summary, tab);
        self.title = format!("{tab} of {}", self.heading.name());
        if let Some(summary) = summary {
            self.clock = Clock(summary.timezone);
        }
    }

    /// Reads the summary, and sets the heading with it. `None` if the visitor may use the board, but not read it.
    pub(super) async fn read_board(
        &mut self,
        board: &str,
        tab: &str,
    ) -> Result<Option<SummaryBody>, Problem> {
        let summary = self.visitor.summary(board).await;
        let summary = unless(summary, |kind| kind == FORBIDDEN)?;
        self.set_board(board, summary.as_ref(), tab);
        Ok(summary)
    }

    /// Reads the summary of the board, and sets the heading of a page about standings; `what` it shows of them.
    pub(super) async fn read_standings(
        &mut self,
        board: &str,
        what: &str,
    ) -> Result<SummaryBody, Problem> {
        let summary = self.visitor.summary(board).await?;
        self.set_board(board, Some(&summary), "Standings");
        self.title = format!("{what}: {}", self.heading.name());
        Ok(summary)
    }
}

impl WindowSummary {
    /// Whether this is the running period of this window.
    pub(super) fn is_running(&self, window: &str, key: &str) -> bool {
        self.window.to_string() == window && self.period.key == key
    }
}

impl Visitor {
    /// The summary of a board.
    pub(super) async fn summary(&self, board: &str) -> Result<SummaryBody, Problem> {
        self.read(&v1(&["boards", board, "summary"])).await
    }
}

#[derive(Template)]
#[template(path = "console/board.html")]
struct BoardPage {
    frame: Frame,
    summary: SummaryBody,
}

/// The address of a page about a standing: the standing itself, or a part of it.
pub(super) fn standing_page(
    board: &str,
    window: &str,
    part: &[&str],
    query: &[(&str, &str)],
) -> String {
    let path = ["console", "boards", board, "standings", window];
    address(&[&path, part].concat(), query)
}

/// The address of the page of a member of a standing; `hidden` is `include` where hidden members count, too.
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
    let mut frame = Frame::new(&viewer, "");
    let summary = match frame.read(&["boards", &board, "summary"], &[]).await {
        Err(problem) if problem.kind == FORBIDDEN => {
            // A viewer that may not read it is led to what it may do.
            let heading = Heading::new(&viewer, &board, None, "");
            let tab = heading.tabs.first().ok_or(problem)?;
            return Ok(Redirect::to(&tab.address).into_response());
        }
        summary => summary?,
    };
    frame.set_board(&board, Some(&summary), "Standings");
    frame.heading.name().clone_into(&mut frame.title);
    html(&BoardPage { frame, summary })
}

#[derive(Template)]
#[template(path = "console/definition.html")]
struct DefinitionPage {
    frame: Frame,
    definition: Value,
}

impl DefinitionPage {
    /// The page that shows the first window in a frame of other pages, if the board can be shown. A league is shown by
    /// cohort, so no page is for all.
    fn embedded(&self) -> Option<String> {
        let is_shown = self.definition["public"] == true && self.definition["league"].is_null();
        let window = self.definition["windows"][0]
            .as_str()
            .filter(|_| is_shown)?;
        Some(address(&["embed", &self.frame.heading.board, window], &[]))
    }

    /// The element that frames the page, as text.
    fn frame_around(&self, page: &str) -> String {
        let Ok(title) = escape(self.frame.heading.name(), Html);
        let origin = self.frame.visitor.origin();
        format!(
            r#"<iframe src="{origin}{page}" title="{title}" width="320" height="480"></iframe>"#
        )
    }
}

/// The definition of a board.
pub(super) async fn definition(viewer: Viewer, Path(board): Path<String>) -> Answer {
    let mut frame = Frame::new(&viewer, "");
    let definition = frame.read(&["boards", &board], &[]).await?;
    frame.read_board(&board, "Definition").await?;
    html(&DefinitionPage { frame, definition })
}
