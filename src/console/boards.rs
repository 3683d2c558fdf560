//! The list of boards.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::board::pills;
use super::{Answer, Frame, Parts, Query, Viewer, address, html, to, unless, v1, v1_with};
use crate::boards::routes::UnreadableBoard;
use crate::domain::access::Scope;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::runtime::join::join_all;

/// How many boards a page has: the totals of each are read.
const BOARDS_MAX: &str = "25";

/// How many boards a search shows at most.
const SHOWN_MAX: usize = 50;
/// How many boards a search goes through for their titles and tags.
pub(super) const SEARCHED_MAX: &str = "1000";

/// A board of the list.
struct ListedBoard {
    defined: Defined,
    /// What the board is at the moment, each with its class.
    pills: Vec<(&'static str, String)>,
    /// How many members the running period of its first window has; `None` for a league, or if that can't be read.
    total: Option<u64>,
}

#[derive(Template)]
#[template(path = "console/boards.html")]
struct ListPage {
    frame: Frame,
    query: String,
    tag: String,
    boards: Vec<ListedBoard>,
    unreadable: Vec<UnreadableBoard>,
    /// Whether there are more boards than a search goes through.
    is_cut: bool,
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
    /// What their ids begin with, or what their titles or tags contain.
    q: String,
    tag: String,
    after: String,
    /// The board to open.
    board: String,
    /// What was done before the page was shown.
    done: String,
    /// The name of what it was done to.
    name: String,
}

/// The page.
pub(super) async fn list(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    if !params.board.is_empty() {
        return Ok(to(&["boards", params.board.trim()], &[]));
    }
    let mut frame = Frame::new(&viewer, "Boards").done_to(&params.done, &params.name);
    let Params { q, tag, after, .. } = params;
    let query = q.trim().to_owned();
    let part = [
        ("after", after.as_str()),
        ("tag", &tag),
        ("limit", BOARDS_MAX),
    ];
    let found = if query.is_empty() {
        frame.read(&["boards"], &part).await
    } else {
        search(&mut frame, &query, &tag).await
    };
    let found: List = match found {
        Err(problem) if problem.kind == FORBIDDEN => return html(&Open { frame }),
        found => found?,
    };
    let is_cut = !query.is_empty() && found.next.is_some();
    let next = found.next.filter(|_| query.is_empty());
    let boards = found.boards.into_iter().map(|board| listed(&frame, board));
    html(&ListPage {
        boards: join_all(boards).await,
        frame,
        unreadable: found.unreadable,
        is_cut,
        parts: Parts::new("boards", &tagged(&query, &tag), &after, next),
        query,
        tag,
    })
}

/// A board with its state. It is listed even if the shards of its members do not answer, or the key may not read it.
async fn listed(frame: &Frame, defined: Defined) -> ListedBoard {
    let summary = frame.visitor.summary(&defined.board).await.ok();
    let pills = summary.as_ref().map(|summary| pills(summary, frame.clock));
    let first = summary.as_ref().and_then(|summary| summary.windows.first());
    ListedBoard {
        pills: pills.unwrap_or_default(),
        total: first.and_then(|first| first.period.total),
        defined,
    }
}

/// The boards whose ids begin like this, and then those that contain it in their id, title or tags. `next` says whether there are more
/// than were looked at.
pub(super) async fn search(frame: &mut Frame, query: &str, tag: &str) -> Result<List, Problem> {
    let all = [("tag", tag), ("limit", SEARCHED_MAX)];
    let mut found: List = frame.read(&["boards"], &all).await?;
    let words = query.to_lowercase();
    let contains = |text: &String| text.to_lowercase().contains(&words);
    let is_found = |board: &Defined| {
        contains(&board.board) || contains(&board.title) || board.tags.iter().any(contains)
    };
    let mut boards: Vec<Defined> = Vec::new();
    if BoardId::parse(query).is_ok() {
        let visitor = frame.visitor.clone();
        // The list begins after the board whose id is the query itself.
        let own: Option<Defined> = unless(visitor.read(&v1(&["boards", query])).await, |kind| {
            kind.status == StatusCode::NOT_FOUND || kind == FORBIDDEN
        })?;
        boards
            .extend(own.filter(|board| tag.is_empty() || board.tags.iter().any(|own| own == tag)));
        let like = [("after", query), ("tag", tag), ("limit", BOARDS_MAX)];
        let like: List = visitor.read(&v1_with(&["boards"], &like)).await?;
        let mut unreadable = like.unreadable;
        unreadable.retain(|board| board.board.starts_with(query));
        found.unreadable = unreadable;
        boards.extend(
            like.boards
                .into_iter()
                .filter(|board| board.board.starts_with(query)),
        );
    }
    let others = found.boards.into_iter().filter(is_found);
    for board in others.take(SHOWN_MAX) {
        if boards.iter().all(|known| known.board != board.board) {
            boards.push(board);
        }
    }
    boards.truncate(SHOWN_MAX);
    found.boards = boards;
    Ok(found)
}

/// The address of the list of the boards that are found like this and have this tag.
pub(super) fn tagged(query: &str, tag: &str) -> String {
    address(&["console", "boards"], &[("q", query), ("tag", tag)])
}
