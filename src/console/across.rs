//! A member on many boards: its ranks, its names, and where it is hidden.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use super::boards::List;
use super::members::own_page;
use super::{Answer, Frame, Parts, Query, Viewer, Visitor, address, html, if_there, v1, v1_with};
use crate::domain::access::Scope;
use crate::http::problem::Problem;
use crate::moderation::routes::HiddenMember;
use crate::runtime::join::join_all;
use crate::standings::routes::across::{BoardEntry, BoardProblem, BoardStanding, MemberStandings};
use crate::standings::routes::answers::{EntryBody, StandingBody};

/// How many boards a part of the list has, the most that one request can name.
const BOARDS_MAX: &str = "100";

/// Which member, and in which standings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    member: String,
    /// Ids of boards, separated by commas or spaces. If empty, all boards, for viewers that may list them.
    #[serde(default)]
    boards: String,
    /// If empty, the window that most of the boards have.
    #[serde(default)]
    window: String,
    /// The list of all boards begins after this one.
    #[serde(default)]
    after: String,
}

impl List {
    /// The window that most boards have; of several the one that comes first in the boards.
    fn commonest_window(&self) -> Option<&str> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let windows = || self.boards.iter().flat_map(|board| &board.windows);
        for window in windows() {
            *counts.entry(window).or_default() += 1;
        }
        let most = counts.values().max()?;
        let mut windows = windows().map(String::as_str);
        windows.find(|window| counts.get(window) == Some(most))
    }

    /// The boards that have this window.
    fn with_window(&self, window: &str) -> Vec<&str> {
        let boards = self.boards.iter();
        let boards = boards.filter(|board| board.windows.iter().any(|own| own == window));
        boards.map(|board| board.board.as_str()).collect()
    }
}

impl BoardStanding {
    /// The entry, if the member has one there.
    fn entry(&self) -> Option<&EntryBody> {
        match self {
            Self::Entry(place) => place.entry.as_ref(),
            Self::Problem(_) => None,
        }
    }
}

#[derive(Template)]
#[template(path = "console/across.html")]
struct AcrossPage {
    frame: Frame,
    member: String,
    /// The name in its profile.
    name: Option<String>,
    boards: String,
    window: String,
    /// Its page for all boards, if the viewer may do anything there.
    /// The boards, each with the member's hide there, if it has one and the viewer may know.
    lines: Vec<(BoardStanding, Option<HiddenMember>)>,
    parts: Parts,
}

/// The address of the page, coming from a standing of a board, if the viewer may see it.
pub(super) fn way_from(
    visitor: &Visitor,
    member: &str,
    board: &str,
    window: &str,
) -> Option<String> {
    // A visitor that may list boards sees all of them.
    let may_list = visitor.may(Scope::Configure);
    let boards = if may_list { "" } else { board };
    let query = [("member", member), ("boards", boards), ("window", window)];
    let may_read = visitor.require_anywhere(Scope::Read).is_ok();
    may_read.then(|| address(&["console", "member", "standings"], &query))
}

/// The page.
pub(super) async fn show(
    viewer: Viewer,
    Query(Params {
        member,
        boards,
        mut window,
        after,
    }): Query<Params>,
) -> Answer {
    viewer.require_anywhere(Scope::Read)?;
    let named = boards.split([',', ' ']).filter(|board| !board.is_empty());
    let named: Vec<&str> = named.collect();
    let list = if named.is_empty() && viewer.may(Scope::Configure) {
        let query = [("after", after.as_str()), ("limit", BOARDS_MAX)];
        viewer.read(&v1_with(&["boards"], &query)).await?
    } else {
        List::default()
    };
    if window.is_empty() {
        window = list.commonest_window().unwrap_or_default().to_owned();
    }
    let asked = if named.is_empty() {
        list.with_window(&window)
    } else {
        named
    };
    let joined = asked.join(",");
    let query = [
        ("boards", joined.as_str()),
        ("window", &window),
        ("include", "profile"),
    ];
    let mut frame = Frame::new(&viewer, format!("Standings of {member}"))
        .under("Members", "/console/members")
        .under(&member, own_page(&member));
    let (mut answers, mut seen_by_moderators) = (Vec::new(), Vec::new());
    if !asked.is_empty() && !window.is_empty() {
        (answers, seen_by_moderators) = read(&mut frame, &viewer, &member, &query).await?;
    }
    let name = name_in(seen_by_moderators.iter().chain(&answers));
    // Both are in the order of the request.
    let seen = seen_by_moderators.into_iter().map(Some);
    let seen = seen.chain(std::iter::repeat_with(|| None));
    let lines = answers.into_iter().zip(seen).map(async |(answer, seen)| {
        let hidden = find_hide(&viewer, &member, seen.as_ref()).await?;
        Ok((answer, hidden))
    });
    let lines: Result<_, Problem> = join_all(lines).await.into_iter().collect();
    let same = [("member", member.as_str()), ("window", &window)];
    let page = address(&["console", "member", "standings"], &same);
    html(&AcrossPage {
        frame,
        parts: Parts::new("boards", &page, &after, list.next),
        name,
        boards,
        lines: lines?,
        window,
        member,
    })
}

/// Reads the standings of a member, and for moderators also those in which it may be hidden. Ranks and totals of the page
/// are the public ones.
async fn read(
    frame: &mut Frame,
    viewer: &Viewer,
    member: &str,
    query: &[(&str, &str)],
) -> Result<(Vec<BoardStanding>, Vec<BoardStanding>), Problem> {
    let path = ["members", member, "standings"];
    let answers: MemberStandings = frame.read(&path, query).await?;
    if viewer.require_anywhere(Scope::Moderate).is_err() {
        return Ok((answers.standings, Vec::new()));
    }
    let read_at = v1_with(&path, &[query, &[("hidden", "include")]].concat());
    let seen: MemberStandings = viewer.read(&read_at).await?;
    Ok((answers.standings, seen.standings))
}

/// The name in the first entry that has a profile.
fn name_in<'a>(standings: impl Iterator<Item = &'a BoardStanding>) -> Option<String> {
    let mut entries = standings.filter_map(BoardStanding::entry);
    let profile = entries.find_map(|entry| entry.profile.as_ref()?.as_ref())?;
    Some(profile.profile().name.to_string())
}

/// The member's hide on a board, if its entry, as moderators see it, is marked as hidden.
async fn find_hide(
    viewer: &Viewer,
    member: &str,
    seen: Option<&BoardStanding>,
) -> Result<Option<HiddenMember>, Problem> {
    let Some(BoardStanding::Entry(BoardEntry {
        standing: StandingBody { board, .. },
        entry: Some(EntryBody { hidden: true, .. }),
        ..
    })) = seen
    else {
        return Ok(None);
    };
    let hidden_at = v1(&["boards", board, "hidden", member]);
    if_there(viewer.read(&hidden_at).await)
}

#[cfg(test)]
mod tests {
    use super::super::boards::Defined;
    use super::*;

    #[test]
    fn the_window_is_the_one_that_most_boards_have() {
        let defined = |(board, windows): (&str, [&str; 2])| Defined {
            board: board.to_owned(),
            windows: windows.map(str::to_owned).into(),
            ..Defined::default()
        };
        let list = |boards: Vec<Defined>| List {
            boards,
            ..List::default()
        };
        let boards = [
            ("a", ["week", "all"]),
            ("b", ["day", "all"]),
            ("c", ["day", "week"]),
        ];
        let boards = list(boards.map(defined).into());
        assert_eq!(boards.commonest_window(), Some("week"));
        assert_eq!(boards.with_window("week"), ["a", "c"]);
        assert_eq!(list(Vec::new()).commonest_window(), None);
    }
}
