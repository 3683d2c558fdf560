//! Finding boards, members and pages. The palette of `assets/console.js` shows this page in a dialog.

use askama::Template;
use serde::Deserialize;

use super::boards::{Defined, SEARCHED_MAX, search};
use super::members::own_page;
use super::{Answer, Frame, Query, Viewer, address, html, unless};
use crate::domain::access::Scope;
use crate::domain::ids::MemberId;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::profiles::search::routes::NamedMembers;

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

/// The page.
pub(super) async fn show(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    let query = params.q.trim();
    let text = query.to_lowercase();
    let mut frame = Frame::new(&viewer, "Find");
    let pages = viewer.groups().into_iter().flat_map(|group| group.pages);
    let pages = pages.filter(|page| page.name.to_lowercase().contains(&text));
    let mut found: Vec<Hit> = pages
        .map(|page| Hit {
            name: page.name,
            kind: "Page".to_owned(),
            address: page.address,
        })
        .collect();
    // A viewer that may not list boards finds none.
    let boards = search(&mut frame, query, "").await;
    let boards = unless(boards, |kind| kind == FORBIDDEN)?.unwrap_or_default();
    found.extend(boards.boards.iter().map(Hit::board));
    found.extend(named(&mut frame, query).await?);
    if MemberId::parse(query).is_ok() && viewer.require_member().is_ok() {
        found.push(Hit {
            name: query.to_owned(),
            kind: "Member with this id".to_owned(),
            address: own_page(query),
        });
    }
    html(&FindPage {
        frame,
        query: query.to_owned(),
        found,
        is_partial: boards.next.is_some(),
    })
}

/// The members that are called like this, if the viewer may look for names and the service keeps an index of them.
async fn named(frame: &mut Frame, query: &str) -> Result<Vec<Hit>, Problem> {
    if query.is_empty() || !frame.may(Scope::Moderate) {
        return Ok(Vec::new());
    }
    let found = frame.read(&["members"], &[("name", query)]).await;
    let found: Option<NamedMembers> = unless(found, |kind| kind.status.is_client_error())?;
    let members = found.map_or_else(Vec::new, |found| found.members);
    let members = members.into_iter().map(|found| Hit {
        kind: format!("Member {}", found.member),
        address: own_page(&found.member),
        name: found.name,
    });
    Ok(members.collect())
}
