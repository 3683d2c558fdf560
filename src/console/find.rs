//! Finding boards, members and pages. The palette of `assets/console.js` shows this page in a dialog.

use askama::Template;
use serde::Deserialize;

use super::boards::{Defined, List};
use super::members::own_page;
use super::{Answer, Frame, Query, Viewer, Visitor, address, html, unless, v1_with};
use crate::domain::ids::{BoardId, MemberId};
use crate::http::problem::{FORBIDDEN, Problem};

/// How many boards are searched by title and tag, and how many hits are shown.
const BOARDS_MAX: &str = "200";
const HITS_MAX: usize = 20;

/// What is looked for.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    q: String,
}

/// Something that was found.
struct Hit {
    name: String,
    kind: String,
    address: String,
}

#[derive(Template)]
#[template(path = "console/find.html")]
struct FindPage {
    frame: Frame,
    query: String,
    found: Vec<Hit>,
    /// Whether there are more boards than were searched by title.
    is_partial: bool,
}

/// The address of the page, for what is looked for.
pub(super) fn find_page(query: &str) -> String {
    address(&["console", "find"], &[("q", query)])
}

impl Hit {
    fn board(board: &Defined) -> Self {
        Self {
            name: board.name().to_owned(),
            kind: format!("Board {}", board.board),
            address: address(&["console", "boards", &board.board], &[]),
        }
    }
}

impl Defined {
    /// Whether its title, its id or a tag has this text, in lower case.
    fn has(&self, text: &str) -> bool {
        let texts = [&self.board, &self.title].into_iter().chain(&self.tags);
        texts
            .into_iter()
            .any(|own| own.to_lowercase().contains(text))
    }
}

/// The page.
pub(super) async fn show(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    let query = params.q.trim();
    let text = query.to_lowercase();
    let pages = viewer.groups().into_iter().flat_map(|group| group.pages);
    let pages = pages.filter(|page| page.name.to_lowercase().contains(&text));
    let mut found: Vec<Hit> = pages
        .map(|page| Hit {
            name: page.name,
            kind: "Page".to_owned(),
            address: page.address,
        })
        .collect();
    let (boards, is_partial) = boards(&viewer, query, &text).await?;
    found.extend(boards.iter().map(Hit::board).take(HITS_MAX));
    if MemberId::parse(query).is_ok() && viewer.require_member().is_ok() {
        found.push(Hit {
            name: query.to_owned(),
            kind: "Member with this id".to_owned(),
            address: own_page(query),
        });
    }
    html(&FindPage {
        frame: Frame::new(&viewer, "Find"),
        query: query.to_owned(),
        found,
        is_partial,
    })
}

/// The boards that are called like this; and whether only some were searched by title and tag.
async fn boards(
    viewer: &Visitor,
    query: &str,
    text: &str,
) -> Result<(Vec<Defined>, bool), Problem> {
    let mut found = Vec::new();
    let id = BoardId::parse(query).ok().map(|id| id.to_string());
    if let Some(id) = &id
        && let Ok(summary) = viewer.summary(id).await
    {
        found.push(Defined {
            board: summary.board,
            title: summary.title,
            ..Defined::default()
        });
    }
    let Some(list) = listed(viewer, &[("limit", BOARDS_MAX)]).await? else {
        return Ok((found, false));
    };
    let is_partial = list.next.is_some() && !query.is_empty();
    found.extend(list.boards.into_iter().filter(|board| board.has(text)));
    if let Some(id) = id.filter(|_| is_partial) {
        let limit = HITS_MAX.to_string();
        let more = listed(viewer, &[("after", &id), ("limit", &limit)]).await?;
        let more = more.into_iter().flat_map(|list| list.boards);
        found.extend(more.filter(|board| board.board.starts_with(&id)));
    }
    found.sort_by_key(|board| (!board.board.starts_with(text), board.board.clone()));
    found.dedup_by(|a, b| a.board == b.board);
    Ok((found, is_partial))
}

/// A part of the list of boards; `None` if the viewer may not list them.
async fn listed(viewer: &Visitor, query: &[(&str, &str)]) -> Result<Option<List>, Problem> {
    let list = viewer.read(&v1_with(&["boards"], query)).await;
    unless(list, |kind| kind == FORBIDDEN)
}
