//! The list of boards.

use axum::http::StatusCode;
use serde::Deserialize;

use super::board::{pills, title_or_id};
use super::prelude::*;
use crate::boards::routes::UnreadableBoard;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::http::problem::FORBIDDEN;
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
    #[serde(default)]
    pub(super) history: Option<Value>,
    #[serde(default)]
    pub(super) league: Option<Value>,
    #[serde(default)]
    pub(super) keep_top: Option<Value>,
}

impl Defined {
    /// The window with the most of a board: all time, or else the first one.
    pub(super) fn widest(&self) -> Option<&str> {
        let mut windows = self.windows.iter();
        let all = windows.find(|window| *window == "all");
        all.or(self.windows.first()).map(String::as_str)
    }

    /// What people call the board.
    pub(super) fn name(&self) -> &str {
        title_or_id(&self.title, &self.board)
    }
}

/// The page.
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [query, tag, after, board] = frame.params(["q", "tag", "after", "board"])?;
    if !board.is_empty() {
        return Ok(to(&["boards", board.trim()], &[]));
    }
    let query = query.trim().to_owned();
    let found = if query.is_empty() {
        let part = [("after", &*after), ("tag", &tag), ("limit", BOARDS_MAX)];
        frame.read(&["boards"], &part).await
    } else {
        search(&mut frame, &query, &tag).await
    };
    let frame = frame.named("Boards");
    let found: List = match found {
        Err(problem) if problem.kind == FORBIDDEN => return html(&Open { frame }),
        found => found?,
    };
    let boards = found.boards.into_iter().map(|board| listed(&frame, board));
    html(&ListPage {
        boards: join_all(boards).await,
        unreadable: found.unreadable,
        is_cut: !query.is_empty() && found.next.is_some(),
        parts: Parts::new("boards", &frame, found.next.filter(|_| query.is_empty())),
        frame,
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

/// The boards whose ids begin like this, and then those that contain it in their id, title or tags. `next` says whether
/// there are more than were looked at.
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
        // The list begins after the board whose id is the query itself.
        let own: Result<Defined, _> = frame.visitor.read(&v1(&["boards", query])).await;
        let own = unless(own, |kind| {
            kind.status == StatusCode::NOT_FOUND || kind == FORBIDDEN
        })?;
        boards.extend(own.filter(|own| tag.is_empty() || own.tags.iter().any(|own| own == tag)));
        let like = [("after", query), ("tag", tag), ("limit", BOARDS_MAX)];
        let mut like: List = frame.visitor.read(&v1_with(&["boards"], &like)).await?;
        like.boards.retain(|board| board.board.starts_with(query));
        like.unreadable
            .retain(|board| board.board.starts_with(query));
        boards.extend(like.boards);
        found.unreadable = like.unreadable;
    }
    for board in found.boards.into_iter().filter(is_found).take(SHOWN_MAX) {
        if boards.iter().all(|known| known.board != board.board) {
            boards.push(board);
        }
    }
    boards.truncate(SHOWN_MAX);
    found.boards = boards;
    Ok(found)
}

/// The address of the list of the boards that have this tag.
pub(super) fn tagged(tag: &str) -> String {
    address(&["console", "boards"], &[("tag", tag)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_read_in_its_widest_window() {
        let board = |windows: &[&str]| Defined {
            windows: windows.iter().map(|window| (*window).to_owned()).collect(),
            ..Defined::default()
        };
        assert_eq!(board(&["day", "all"]).widest(), Some("all"));
        assert_eq!(board(&["week", "day"]).widest(), Some("week"));
        assert_eq!(board(&[]).widest(), None);
    }
}
