//! Finding boards, members and pages. The palette of `assets/console.js` shows this page in a dialog.

use super::address::member_everywhere;
use super::boards::{Defined, SEARCHED_MAX, search};
use super::prelude::*;
use crate::domain::ids::MemberId;
use crate::http::problem::FORBIDDEN;
use crate::profiles::search::routes::{NamedMember, NamedMembers};

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

    fn member(member: &str, name: &str, kind: String) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            address: member_everywhere(member),
        }
    }
}

/// The page.
pub(super) async fn show(mut frame: Frame) -> Answer {
    let [query] = frame.params(["q"])?;
    let (query, text) = (query.trim(), query.trim().to_lowercase());
    let pages = frame
        .visitor
        .groups()
        .into_iter()
        .flat_map(|group| group.pages);
    let pages = pages.filter(|page| page.name.to_lowercase().contains(&text));
    let pages = pages.map(|page| Hit {
        name: page.name,
        kind: "Page".to_owned(),
        address: page.address,
    });
    let mut found: Vec<Hit> = pages.collect();
    // A viewer that may not list boards finds none.
    let boards = search(&mut frame, query, "").await;
    let boards = unless(boards, |kind| kind == FORBIDDEN)?.unwrap_or_default();
    found.extend(boards.boards.iter().map(Hit::board));
    found.extend(named(&mut frame, query).await?);
    if MemberId::parse(query).is_ok() && frame.visitor.require_member().is_ok() {
        found.push(Hit::member(query, query, "Member with this id".to_owned()));
    }
    html(&FindPage {
        frame: frame.named("Find"),
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
    let members = found.into_iter().flat_map(|found| found.members);
    let hit = |found: NamedMember| {
        Hit::member(
            &found.member,
            &found.name,
            format!("Member {}", found.member),
        )
    };
    Ok(members.map(hit).collect())
}
