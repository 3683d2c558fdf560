//! The list of boards.

use askama::Template;
use axum::response::Redirect;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, Frame, Parts, Query, Viewer, address, html, if_there, to, v1};
use crate::boards::routes::UnreadableBoard;
use crate::domain::access::Scope;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::runtime::join::join_all;
use crate::standings::routes::summary::WindowSummary;

/// How many boards a page has: the totals of each are read.
const BOARDS_MAX: &str = "25";

#[derive(Template)]
#[template(path = "console/boards.html")]
struct ListPage {
    frame: Frame,
    prefix: String,
    tag: String,
    /// The boards, each with its windows and how many members their running periods have; without windows if unreadable.
    boards: Vec<(Defined, Vec<WindowSummary>)>,
    unreadable: Vec<UnreadableBoard>,
    parts: Parts,
}

/// The page for viewers that may not list boards, but can open one.
#[derive(Template)]
#[template(path = "console/open.html")]
struct Open {
    frame: Frame,
}

#[derive(Default, Deserialize)]
pub(super) struct List {
    pub(super) boards: Vec<Defined>,
    pub(super) unreadable: Vec<UnreadableBoard>,
    pub(super) next: Option<String>,
}

/// The fields of a definition that pages need.
#[derive(Default, Deserialize)]
pub(super) struct Defined {
    pub(super) board: String,
    pub(super) title: String,
    pub(super) tags: Vec<String>,
    pub(super) public: bool,
    pub(super) windows: Vec<String>,
    pub(super) closes_at: Option<Timestamp>,
    pub(super) finalize: Option<Value>,
    #[serde(default)]
    pub(super) timezone: Option<Zone>,
    #[serde(default)]
    pub(super) weight: Option<Value>,
    #[serde(default)]
    pub(super) initial: Vec<String>,
    #[serde(default)]
    pub(super) uniques: Option<Value>,
    #[serde(default)]
    pub(super) quotas: Vec<Value>,
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

/// Redirects to the list.
pub(super) async fn enter(_: Viewer) -> Redirect {
    Redirect::to("/console/boards")
}

/// The page.
pub(super) async fn list(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    if !params.board.is_empty() {
        return Ok(to(&["boards", params.board.trim()], &[]));
    }
    let mut frame = Frame::new(&viewer, "Boards").done(&params.done);
    if !viewer.may(Scope::Configure) {
        return html(&Open { frame });
    }
    let prefix = params.prefix.trim().to_owned();
    let (tag, after) = (params.tag, params.after);
    let behind = if after.is_empty() { &prefix } else { &after };
    let query = [
        ("after", behind.as_str()),
        ("tag", &tag),
        ("limit", BOARDS_MAX),
    ];
    let listed_at = frame.reading(&["boards"], &query);
    let mut found = match BoardId::parse(&prefix) {
        // No board id begins like this.
        Err(_) if !prefix.is_empty() => List::default(),
        _ => viewer.read(&listed_at).await?,
    };
    found.begin_with(&prefix);
    if !prefix.is_empty() && after.is_empty() && BoardId::parse(&prefix).is_ok() {
        // The list begins after the board whose id is the prefix itself.
        let own: Option<Defined> = if_there(viewer.read(&v1(&["boards", &prefix])).await)?;
        let own = own.filter(|board| tag.is_empty() || board.tags.contains(&tag));
        found.boards.splice(0..0, own);
    }
    let boards = found.boards.into_iter().map(async |board| {
        let summary = viewer.summary(&board.board).await;
        // The board is listed even if the shards of its members do not answer, or the key may not read it.
        let windows = summary.map_or_else(|_| Vec::new(), |summary| summary.windows);
        (board, windows)
    });
    html(&ListPage {
        frame,
        boards: join_all(boards).await,
        unreadable: found.unreadable,
        parts: Parts::new("boards", &tagged(&prefix, &tag), &after, found.next),
        prefix,
        tag,
    })
}

impl List {
    /// Keeps the boards that begin like this. They are consecutive in the list.
    fn begin_with(&mut self, prefix: &str) {
        self.boards.retain(|board| board.board.starts_with(prefix));
        self.unreadable
            .retain(|board| board.board.starts_with(prefix));
        self.next = self.next.take().filter(|next| next.starts_with(prefix));
    }
}

/// The address of the list of the boards that begin like this and have this tag.
pub(super) fn tagged(prefix: &str, tag: &str) -> String {
    let query = [("prefix", prefix), ("tag", tag)];
    address(&["console", "boards"], &query)
}
