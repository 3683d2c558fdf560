//! A member on many boards: where it stands, what it is called, and where it is hidden.

use std::collections::{BTreeMap, HashSet};

use askama::Template;
use serde::Deserialize;

use super::boards::List;
use super::members::{is_for_people, own_page};
use super::{Answer, Frame, Parts, Query, Viewer, address, html, v1};
use crate::domain::access::Scope;
use crate::http::moderation::HiddenMember;
use crate::http::problem::Problem;
use crate::http::standings::across::{BoardProblem, BoardStanding, MemberStandings};
use crate::http::standings::answers::EntryBody;
use crate::join::join_all;

/// How many boards a part of the list has: as many as one request can name.
const BOARDS_MAX: &str = "100";

/// Which member, and in which standings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    member: String,
    /// Ids of boards, with commas or spaces between them. None: all boards, for who may list them.
    #[serde(default)]
    boards: String,
    /// Empty: the window that most of the boards have.
    #[serde(default)]
    window: String,
    /// The list of all boards begins behind this one.
    #[serde(default)]
    after: String,
}

impl List {
    /// The window that most boards have; of several the one that is named first by a board.
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

    /// Those that have this window.
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

    /// The board.
    fn board(&self) -> &str {
        match self {
            Self::Entry(place) => &place.standing.board,
            Self::Problem(BoardProblem { board, .. }) => board,
        }
    }
}

#[derive(Template)]
#[template(path = "console/across.html")]
struct AcrossPage {
    frame: Frame,
    member: String,
    /// What its profile calls it.
    name: Option<String>,
    boards: String,
    window: String,
    /// Whether the viewer may leave out the boards.
    may_list: bool,
    /// Its page for all boards, if there is something for the viewer.
    everywhere: Option<String>,
    /// The boards, each with how the member is hidden there, if it is, and the viewer may know.
    lines: Vec<(BoardStanding, Option<HiddenMember>)>,
    parts: Parts,
}

/// The page, for who comes from a standing of a board, if it is for the viewer.
pub(super) fn way_from(viewer: &Viewer, member: &str, board: &str, window: &str) -> Option<String> {
    // Who may list boards sees all of them.
    let may_list = viewer.may(Scope::Configure);
    let boards = if may_list { "" } else { board };
    let query = [("member", member), ("boards", boards), ("window", window)];
    let page = || address(&["console", "member", "standings"], &query);
    viewer.may_anywhere(Scope::Read).then(page)
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
    let may_list = viewer.may(Scope::Configure);
    let named = boards.split([',', ' ']).filter(|board| !board.is_empty());
    let named: Vec<&str> = named.collect();
    let list = if named.is_empty() && may_list {
        let query = [("after", after.as_str()), ("limit", BOARDS_MAX)];
        viewer.read(&address(&["v1", "boards"], &query)).await?
    } else {
        List::default()
    };
    if window.is_empty() {
        list.commonest_window()
            .unwrap_or_default()
            .clone_into(&mut window);
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
    let read = async |query: &[(&str, &str)]| {
        let read_at = address(&["v1", "members", &member, "standings"], query);
        Ok::<_, Problem>(viewer.read::<MemberStandings>(&read_at).await?.standings)
    };
    let is_asked = !asked.is_empty() && !window.is_empty();
    let answers = if is_asked {
        read(&query).await?
    } else {
        Vec::new()
    };
    // Moderators see where the member is hidden. Ranks and totals are those that everybody sees.
    let seen_by_moderators = if is_asked && viewer.may_anywhere(Scope::Moderate) {
        read(&[&query[..], &[("hidden", "include")]].concat()).await?
    } else {
        Vec::new()
    };
    let entries = seen_by_moderators.iter().chain(&answers);
    let mut entries = entries.filter_map(BoardStanding::entry);
    let profile = entries.find_map(|entry| entry.profile.as_ref()?.as_ref());
    let name = profile.map(|shown| shown.profile().name.to_string());
    let hidden_on: HashSet<&str> = seen_by_moderators
        .iter()
        .filter(|answer| answer.entry().is_some_and(|entry| entry.hidden))
        .map(BoardStanding::board)
        .collect();
    let lines = answers.into_iter().map(async |answer| {
        let hidden = if hidden_on.contains(answer.board()) {
            let hidden_at = v1(&["boards", answer.board(), "hidden", &member]);
            viewer.find(&hidden_at).await?
        } else {
            None
        };
        Ok((answer, hidden))
    });
    let lines: Result<_, Problem> = join_all(lines).await.into_iter().collect();
    let same = [("member", member.as_str()), ("window", &window)];
    let page = address(&["console", "member", "standings"], &same);
    let curl = is_asked.then(|| {
        let read_at = ["v1", "members", &member, "standings"];
        viewer.curl(&address(&read_at, &query))
    });
    html(&AcrossPage {
        frame: Frame::new(&viewer, format!("Standings of {member}")).curl(curl),
        everywhere: is_for_people(&viewer).then(|| own_page(&member)),
        parts: Parts::new("boards", &page, &after, list.next),
        name,
        boards,
        may_list,
        lines: lines?,
        window,
        member,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::console::boards::Defined;

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
