//! A board: its windows with their running periods, and its definition.

use axum::response::{IntoResponse, Redirect};
use tokio::join;

use super::page::Tab;
use super::prelude::*;
use super::settings::{NONE, PARTS, Part, Setting};
use super::shown::{Clock, grouped};
use super::standing;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::http::problem::FORBIDDEN;
use crate::standings::routes::summary::{SummaryBody, WindowSummary};

/// The top of each page of a board.
#[derive(Default)]
pub(super) struct Heading {
    pub(super) board: String,
    title: String,
    /// What the board is at the moment, each with its class.
    pub(super) pills: Vec<(&'static str, String)>,
    /// What can be done with the board; the last one is what one does most.
    pub(super) actions: Vec<Tab>,
    /// The pages of the board that the visitor may see.
    pub(super) tabs: Vec<Tab>,
    /// The parts of the tab that this page belongs to, if there are several.
    pub(super) parts: Vec<Tab>,
}

/// The tabs that also have a count.
const MODERATION: &str = "Moderation";
const QUEUE: &str = "Events & queue";

/// The pages of a board: the tab, the part of it, its address below the board, and what a visitor needs to see it. A page
/// of a window has that of the window instead of `{}`.
const PAGES: [(&str, &str, &str, Scope); 11] = [
    ("Standings", "Standings", "", Scope::Read),
    ("Results", "Results", "/standings/{}/periods", Scope::Read),
    ("Charts", "Charts", "/standings/{}/charts", Scope::Read),
    (MODERATION, "Hidden members", "/hidden", Scope::Moderate),
    (
        MODERATION,
        "Revoked events",
        "/revocations",
        Scope::Moderate,
    ),
    (QUEUE, "Events", "/events", Scope::Write),
    (QUEUE, "Queue", "/queue", Scope::Configure),
    (QUEUE, "Quotas", "/quotas", Scope::Read),
    ("Settings", "Definition", "/definition", Scope::Configure),
    (
        "Settings",
        "Initial scores",
        "/initial-scores",
        Scope::Configure,
    ),
    ("Settings", "Maintenance", "/upkeep", Scope::Configure),
];

impl Heading {
    /// The heading of a board, with its summary if the visitor may read it; `current` is the part that the page is, of
    /// this window or else of the first one.
    fn new(
        frame: &Frame,
        board: &str,
        summary: Option<&SummaryBody>,
        current: &str,
        window: &str,
    ) -> Self {
        let own = address(&["console", "boards", board], &[]);
        let window = of_periods(summary, window);
        // Everybody who is signed in may read a public board.
        let may = |page: &str, scope| match scope {
            Scope::Read if page.contains("{}") => !window.is_empty(),
            Scope::Read if page != "/quotas" => summary.is_some(),
            scope => frame.visitor.may_on(scope, board),
        };
        let pages = || PAGES.iter().filter(|(.., page, scope)| may(page, *scope));
        let to = |name: &str, page: &str, is_current| Tab {
            is_current,
            ..Tab::new(name, format!("{own}{}", page.replace("{}", &window)))
        };
        let tab = pages().find(|(_, part, ..)| *part == current);
        let tab = tab.map_or("", |(tab, ..)| *tab);
        let mut tabs: Vec<Tab> = Vec::new();
        for (name, _, page, _) in pages() {
            if tabs.last().is_none_or(|last| last.name != *name) {
                tabs.push(to(name, page, *name == tab));
            }
        }
        for (name, count) in [(MODERATION, frame.hidden()), (QUEUE, frame.queued(board))] {
            if let Some(tab) = tabs.iter_mut().find(|tab| tab.name == name && count > 0) {
                tab.name = format!("{name} · {}", grouped(&count));
            }
        }
        let parts = pages().filter(|(name, ..)| *name == tab);
        let parts = parts.map(|(_, part, page, _)| to(part, page, *part == current));
        let parts = Some(parts.collect()).filter(|parts: &Vec<_>| parts.len() > 1);
        let mut actions = Vec::new();
        if frame.visitor.may_on(Scope::Configure, board) {
            if summary.is_some_and(|summary| summary.public) {
                actions.push(to("Embed", "/embed", false));
            }
            let edit = address(&["console", "define"], &[("board", board)]);
            actions.push(Tab::new("Edit board", edit));
        }
        Self {
            board: board.to_owned(),
            title: summary.map_or_else(String::new, |summary| summary.title.clone()),
            pills: summary.map_or_else(Vec::new, |summary| pills(summary, frame.clock)),
            actions,
            tabs,
            parts: parts.unwrap_or_default(),
        }
    }

    /// The board's title, or its id.
    pub(super) fn name(&self) -> &str {
        title_or_id(&self.title, &self.board)
    }

    /// The name of the tab that the page belongs to.
    pub(super) fn tab(&self) -> &str {
        let current = self.tabs.iter().find(|tab| tab.is_current);
        current.map_or("", |tab| &tab.name)
    }
}

/// What people call a board.
pub(super) fn title_or_id<'a>(title: &'a str, id: &'a str) -> &'a str {
    if title.is_empty() { id } else { title }
}

/// What a board is at the moment, each with its class.
pub(super) fn pills(summary: &SummaryBody, clock: Clock) -> Vec<(&'static str, String)> {
    let is_over = |at: &Option<Timestamp>| at.is_some_and(|at| at <= clock.now);
    let state = match &summary.opens_at {
        Some(at) if *at > clock.now => ("warn", format!("Opens in {}", clock.distance(at))),
        _ if is_over(&summary.closes_at) => ("", "Closed".to_owned()),
        _ => ("live", "Live".to_owned()),
    };
    let public = summary.public.then(|| ("", "Public".to_owned()));
    let closing = summary.closes_at.filter(|at| *at > clock.now);
    let closing = closing.map(|at| ("warn", format!("Closes in {}", clock.distance(&at))));
    [Some(state), public, closing]
        .into_iter()
        .flatten()
        .collect()
}

/// The window, or the first one that has periods, which rolling ones have not; empty if there is none.
fn of_periods(summary: Option<&SummaryBody>, window: &str) -> String {
    let windows = summary.into_iter().flat_map(|summary| &summary.windows);
    let with_periods = windows.filter(|own| !own.window.is_rolling());
    let names: Vec<String> = with_periods.map(|own| own.window.to_string()).collect();
    let own = names.iter().find(|name| *name == window);
    own.or(names.first()).cloned().unwrap_or_default()
}

impl Frame {
    /// Sets the heading of a page of a board, with the board's summary if the visitor may read it; `part` says which page.
    pub(super) fn set_board(&mut self, board: &str, summary: Option<&SummaryBody>, part: &str) {
        self.set_window(board, summary, part, "");
    }

    fn set_window(&mut self, board: &str, summary: Option<&SummaryBody>, part: &str, window: &str) {
        if let Some(summary) = summary {
            self.clock.zone = summary.timezone;
        }
        self.heading = Heading::new(self, board, summary, part, window);
        self.title = format!("{part} of {}", self.heading.name());
    }

    /// Reads the summary, and sets the heading with it. `None` if the visitor may use the board, but not read it.
    pub(super) async fn read_board(
        &mut self,
        board: &str,
        part: &str,
    ) -> Result<Option<SummaryBody>, Problem> {
        let summary = unless(self.summary(board).await, |kind| kind == FORBIDDEN)?;
        self.set_board(board, summary.as_ref(), part);
        Ok(summary)
    }

    /// Sets the heading of a page about a window; `what` it shows of it.
    pub(super) fn set_standing(
        &mut self,
        summary: &SummaryBody,
        window: &str,
        part: &str,
        what: &str,
    ) {
        self.set_window(&summary.board, Some(summary), part, window);
        self.title = format!("{what}: {}", self.heading.name());
    }

    /// Reads the summary of the board, and sets the heading of a page about a window with it.
    pub(super) async fn read_window(
        &mut self,
        (board, window): (&str, &str),
        part: &str,
        what: &str,
    ) -> Result<SummaryBody, Problem> {
        let summary = self.summary(board).await?;
        self.set_standing(&summary, window, part, what);
        Ok(summary)
    }

    /// The summary of a board; next to it, what is around the page is read.
    pub(super) async fn summary(&self, board: &str) -> Result<SummaryBody, Problem> {
        let (summary, _) = join!(self.visitor.summary(board), self.look_around());
        summary
    }
}

impl WindowSummary {
    /// Whether this is the running period of this window.
    pub(super) fn is_running(&self, window: &str, key: &str) -> bool {
        self.window.to_string() == window && self.period.key == key
    }
}

impl Visitor {
    /// The time zone in which pages of a board show times, and read them from forms: UTC if the visitor may not read it.
    pub(super) async fn zone(&self, board: &str) -> Result<Zone, Problem> {
        if let Some(defined) = self.defined(board).await? {
            return Ok(defined.timezone.unwrap_or(Zone::UTC));
        }
        let summary = self.summary(board).await;
        let summary: Option<SummaryBody> = unless(summary, |kind| kind == FORBIDDEN)?;
        Ok(summary.map_or(Zone::UTC, |summary| summary.timezone))
    }

    /// The summary of a board.
    pub(super) async fn summary(&self, board: &str) -> Result<SummaryBody, Problem> {
        self.read(&v1(&["boards", board, "summary"])).await
    }
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

/// The page of a board: the standing of its first window.
pub(super) async fn show(frame: Frame) -> Answer {
    let board = frame.param("board").to_owned();
    let summary = match frame.summary(&board).await {
        Err(problem) if problem.kind == FORBIDDEN => {
            // A viewer that may not read it is led to what it may do.
            let heading = Heading::new(&frame, &board, None, "", "");
            let tab = heading.tabs.first().ok_or(problem)?;
            return Ok(Redirect::to(&tab.address).into_response());
        }
        summary => summary?,
    };
    let first = summary.windows.first();
    let window = first.map_or_else(String::new, |first| first.window.to_string());
    standing::of_window(frame, &window, Some(summary)).await
}

#[derive(Template)]
#[template(path = "console/definition.html")]
struct DefinitionPage {
    frame: Frame,
    definition: Value,
}

impl DefinitionPage {
    /// The settings of a part in words, without those that are empty.
    fn facts(&self, part: &'static Part) -> Vec<(&'static str, String)> {
        let words = |setting: &'static Setting| {
            let words = setting.words(setting.of(&self.definition), self.frame.clock.zone);
            (words != NONE).then_some((setting.label.as_str(), words))
        };
        part.settings.iter().filter_map(words).collect()
    }
}

/// The definition of a board.
pub(super) async fn definition(mut frame: Frame) -> Answer {
    let [board] = frame.params(["board"])?;
    let definition: Value = frame.read(&["boards", &board], &[]).await?;
    frame.read_board(&board, "Definition").await?;
    frame.clock.zone = zone_of(&definition);
    html(&DefinitionPage { frame, definition })
}

/// The time zone of a definition; UTC if it names none that is known.
pub(super) fn zone_of(definition: &Value) -> Zone {
    let name = definition["timezone"].as_str();
    name.and_then(|name| name.parse().ok()).unwrap_or(Zone::UTC)
}
