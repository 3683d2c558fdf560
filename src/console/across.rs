//! A member on many boards: its ranks and scores, and where it is hidden.

use std::collections::BTreeMap;

use super::boards::{Defined, List};
use super::case::Face;
use super::members::own_page;
use super::{Frame, Parts, Visitor, if_there, unless, v1, v1_with};
use crate::domain::access::Scope;
use crate::http::problem::{FORBIDDEN, Problem};
use crate::moderation::routes::HiddenMember;
use crate::runtime::join::try_join_all;
use crate::standings::routes::across::{BoardEntry, BoardProblem, BoardStanding, MemberStandings};
use crate::standings::routes::answers::{EntryBody, StandingBody};

/// How many boards a part of the list has.
const BOARDS_MAX: &str = "50";

/// A board on which a member stands, or is hidden.
pub(super) struct Line {
    pub(super) board: Defined,
    pub(super) place: BoardEntry,
    pub(super) hide: Option<HiddenMember>,
}

/// A member on the boards that the viewer may list.
pub(super) struct Across {
    pub(super) lines: Vec<Line>,
    /// The boards on which it has no points, each with its window.
    pub(super) absent: Vec<(Defined, String)>,
    /// The boards that could not be read.
    pub(super) problems: Vec<BoardProblem>,
    pub(super) parts: Parts,
}

impl Defined {
    /// The window with the most of a board: all time, or else the first one.
    fn widest(&self) -> Option<&str> {
        let mut windows = self.windows.iter();
        let all = windows.find(|window| *window == "all");
        all.or(self.windows.first()).map(String::as_str)
    }

    /// The board's title, or its id.
    pub(super) fn name(&self) -> &str {
        match self.title.as_str() {
            "" => &self.board,
            title => title,
        }
    }
}

impl Across {
    /// Reads the boards after `after` but for `own`; `None` if the viewer may list none.
    pub(super) async fn read(
        frame: &mut Frame,
        member: &str,
        own: &str,
        after: &str,
    ) -> Result<Option<Self>, Problem> {
        let viewer = frame.visitor.clone();
        if viewer.require_anywhere(Scope::Read).is_err() {
            return Ok(None);
        }
        let listed_at = v1_with(&["boards"], &[("after", after), ("limit", BOARDS_MAX)]);
        let list: Result<List, Problem> = viewer.read(&listed_at).await;
        let Some(mut list) = unless(list, |kind| kind == FORBIDDEN)? else {
            return Ok(None);
        };
        list.boards.retain(|board| board.board != own);
        let mut across = Self {
            lines: Vec::new(),
            absent: Vec::new(),
            problems: Vec::new(),
            parts: Parts::new("boards", &own_page(member), after, list.next.take()),
        };
        let mut by_window: BTreeMap<String, Vec<Defined>> = BTreeMap::new();
        for board in list.boards {
            if let Some(window) = board.widest().map(str::to_owned) {
                by_window.entry(window).or_default().push(board);
            }
        }
        for (window, boards) in by_window {
            let named: Vec<&str> = boards.iter().map(|board| &*board.board).collect();
            let query = [
                ("boards", &*named.join(",")),
                ("window", &window),
                ("include", "profile"),
            ];
            frame.reading(&["members", member, "standings"], &query);
            let found = standings(&viewer, member, &query).await?;
            for (board, (answer, hide)) in boards.into_iter().zip(found) {
                across.add(board, &window, answer, hide);
            }
        }
        across
            .lines
            .sort_by(|a, b| a.board.board.cmp(&b.board.board));
        Ok(Some(across))
    }

    fn add(
        &mut self,
        board: Defined,
        window: &str,
        answer: BoardStanding,
        hide: Option<HiddenMember>,
    ) {
        match answer {
            BoardStanding::Entry(place) if place.entry.is_some() || hide.is_some() => {
                self.lines.push(Line { board, place, hide });
            }
            BoardStanding::Entry(_) => self.absent.push((board, window.to_owned())),
            BoardStanding::Problem(problem) => self.problems.push(problem),
        }
    }

    /// Whether the member is on none of the boards.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The name and the picture in the first entry that has a profile.
    pub(super) fn face(&self) -> Option<Face> {
        let mut entries = self
            .lines
            .iter()
            .filter_map(|line| line.place.entry.as_ref());
        entries.find_map(Face::in_entry)
    }
}

/// The standings of a member as everybody sees them; for moderators, each with its hide.
async fn standings(
    viewer: &Visitor,
    member: &str,
    query: &[(&str, &str)],
) -> Result<Vec<(BoardStanding, Option<HiddenMember>)>, Problem> {
    let path = ["members", member, "standings"];
    let found: MemberStandings = viewer.read(&v1_with(&path, query)).await?;
    let mut seen = Vec::new();
    if viewer.require_anywhere(Scope::Moderate).is_ok() {
        let read_at = v1_with(&path, &[query, &[("hidden", "include")]].concat());
        let with_hidden: MemberStandings = viewer.read(&read_at).await?;
        seen = with_hidden.standings;
    }
    // Both are in the order of the request.
    let seen = seen
        .into_iter()
        .map(Some)
        .chain(std::iter::repeat_with(|| None));
    let found = found.standings.into_iter().zip(seen);
    let found = found.map(async |(answer, seen)| {
        let hide = find_hide(viewer, member, seen.as_ref()).await?;
        Ok((answer, hide))
    });
    try_join_all(found).await
}

/// The member's hide on a board, if its entry, as moderators see it, is marked as hidden.
async fn find_hide(
    viewer: &Visitor,
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
