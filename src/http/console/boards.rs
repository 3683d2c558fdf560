//! The list of boards.

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::Value;

use super::address::address;
use super::page::{Frame, html};
use super::parts::Parts;
use super::session::Viewer;
use super::shown::done;
use crate::domain::access::Scope;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::http::boards::UnreadableBoard;
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::http::summary::WindowSummary;
use crate::join::join_all;

/// How many boards a page has: each is asked for its totals.
const BOARDS_MAX: &str = "25";

#[derive(Template)]
#[template(path = "console/boards.html")]
struct ListPage {
    frame: Frame,
    done: Option<&'static str>,
    prefix: String,
    tag: String,
    boards: Vec<Line>,
    unreadable: Vec<UnreadableBoard>,
    /// Whether this is not the first part of the list.
    parts: Parts,
    curl: String,
}

/// Who may not list boards can open one.
#[derive(Template)]
#[template(path = "console/open.html")]
struct Open {
    frame: Frame,
    done: Option<&'static str>,
}

/// A board of the list.
struct Line {
    board: Defined,
    /// Its windows, each with how many members the running period has; empty if they can't be told.
    windows: Vec<WindowSummary>,
}

#[derive(Default, Deserialize)]
pub(super) struct List {
    pub(super) boards: Vec<Defined>,
    pub(super) unreadable: Vec<UnreadableBoard>,
    pub(super) next: Option<String>,
}

/// What pages need of a definition.
#[derive(Default, Deserialize)]
pub(super) struct Defined {
    pub(super) board: String,
    pub(super) title: String,
    pub(super) tags: Vec<String>,
    pub(super) public: bool,
    pub(super) windows: Vec<String>,
    pub(super) closes_at: Option<Timestamp>,
    pub(super) finalize: Option<Value>,
}

/// Which boards.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    prefix: String,
    tag: String,
    after: String,
    /// The board to open.
    board: String,
    /// What was done before the page was shown.
    done: String,
}

/// The way to the list.
pub(super) async fn enter(_: Viewer) -> Redirect {
    Redirect::to("/console/boards")
}

/// The page.
pub(super) async fn list(
    viewer: Viewer,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    if !params.board.is_empty() {
        let to = address(&["console", "boards", params.board.trim()], &[]);
        return Ok(Redirect::to(&to).into_response());
    }
    if !viewer.may(Scope::Configure) {
        let frame = Frame::new(&viewer, "Boards");
        let done = done(&params.done);
        return html(&Open { frame, done });
    }
    let Params {
        prefix,
        tag,
        after,
        done: what,
        ..
    } = params;
    let prefix = prefix.trim().to_owned();
    let behind = if after.is_empty() { &prefix } else { &after };
    let query = [
        ("after", behind.as_str()),
        ("tag", &tag),
        ("limit", BOARDS_MAX),
    ];
    let listed_at = address(&["v1", "boards"], &query);
    let mut found = match BoardId::parse(&prefix) {
        // No board begins like this.
        Err(_) if !prefix.is_empty() => List::default(),
        _ => viewer.read::<List>(&listed_at).await?,
    };
    found.begin_with(&prefix);
    if !prefix.is_empty() && after.is_empty() {
        // The list begins behind the board that is called just so.
        let own = address(&["v1", "boards", &prefix], &[]);
        let own = match BoardId::parse(&prefix) {
            Ok(_) => viewer.find::<Defined>(&own).await?,
            Err(_) => None,
        };
        let own = own.filter(|board| tag.is_empty() || board.tags.contains(&tag));
        found.boards.splice(0..0, own);
    }
    let query = [("prefix", prefix.as_str()), ("tag", &tag)];
    let path = ["console", "boards"];
    let parts = Parts::new("boards", &path, &query, &after, found.next.as_deref());
    let lines = found.boards.into_iter().map(async |board| {
        let summary = viewer.summary(&board.board).await;
        // The board is listed, even if the shards of its members do not answer, or the key may not read it.
        let windows = summary.map_or_else(|_| Vec::new(), |summary| summary.windows);
        Line { board, windows }
    });
    html(&ListPage {
        frame: Frame::new(&viewer, "Boards"),
        done: done(&what),
        boards: join_all(lines).await,
        unreadable: found.unreadable,
        parts,
        curl: viewer.curl(&listed_at),
        prefix,
        tag,
    })
}

impl List {
    /// Keeps the boards that begin like this. They stand together in the list.
    fn begin_with(&mut self, prefix: &str) {
        self.boards.retain(|board| board.board.starts_with(prefix));
        self.unreadable
            .retain(|board| board.board.starts_with(prefix));
        self.next = self.next.take().filter(|next| next.starts_with(prefix));
    }
}

impl ListPage {
    fn tagged(&self, tag: &str) -> String {
        let query = [("prefix", self.prefix.as_str()), ("tag", tag)];
        address(&["console", "boards"], &query)
    }
}
