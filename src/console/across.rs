//! A member on many boards: its ranks and scores, and where it is hidden.

use std::collections::BTreeMap;

use super::address::member_everywhere;
use super::boards::{Defined, List};
use super::case::Face;
use super::prelude::*;
use crate::http::problem::FORBIDDEN;
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

impl Across {
    /// Reads the boards after `after` but for `own`; `None` if the viewer may list none.
    pub(super) async fn read(
        frame: &mut Frame,
        member: &str,
        own: &str,
        after: &str,
    ) -> Result<Option<Self>, Problem> {
        if frame.visitor.require_anywhere(Scope::Read).is_err() {
            return Ok(None);
        }
        let listed_at = v1_with(&["boards"], &[("after", after), ("limit", BOARDS_MAX)]);
        let list: Result<List, Problem> = frame.get(&listed_at).await;
        let Some(list) = unless(list, |kind| kind == FORBIDDEN)? else {
            return Ok(None);
        };
        let mut by_window: BTreeMap<String, Vec<Defined>> = BTreeMap::new();
        for board in list.boards.into_iter().filter(|board| board.board != own) {
            if let Some(window) = board.widest().map(str::to_owned) {
                by_window.entry(window).or_default().push(board);
            }
        }
        let (mut lines, mut absent, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for (window, boards) in by_window {
            for (board, (answer, hide)) in standings(frame, member, &window, boards).await? {
                match answer {
                    BoardStanding::Entry(place) if place.entry.is_some() || hide.is_some() => {
                        lines.push(Line { board, place, hide });
                    }
                    BoardStanding::Entry(_) => absent.push((board, window.clone())),
                    BoardStanding::Problem(problem) => problems.push(problem),
                }
            }
        }
        lines.sort_by(|a, b| a.board.board.cmp(&b.board.board));
        Ok(Some(Self {
            lines,
            absent,
            problems,
            parts: Parts {
                listed: "boards",
                first: (!after.is_empty()).then(|| member_everywhere(member)),
                next: list.next.map(|next| {
                    let query = [("member", member), ("after", &*next)];
                    address(&["console", "member"], &query)
                }),
            },
        }))
    }

    /// Whether the member is on none of the boards.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The name and the picture in the first entry that has a profile.
    pub(super) fn face(&self) -> Option<Face> {
        let mut lines = self.lines.iter();
        lines.find_map(|line| Face::in_entry(line.place.entry.as_ref()?))
    }
}

/// The standings of a member as everybody sees them; for moderators, each with its hide.
async fn standings(
    frame: &mut Frame,
    member: &str,
    window: &str,
    boards: Vec<Defined>,
) -> Result<impl Iterator<Item = (Defined, (BoardStanding, Option<HiddenMember>))>, Problem> {
    let path = ["members", member, "standings"];
    let named: Vec<&str> = boards.iter().map(|board| &*board.board).collect();
    let named = named.join(",");
    let mut query = vec![
        ("boards", &*named),
        ("window", window),
        ("include", "profile"),
    ];
    let found: MemberStandings = frame.read(&path, &query).await?;
    let mut seen = Vec::new();
    if frame.visitor.require_anywhere(Scope::Moderate).is_ok() {
        query.push(("hidden", "include"));
        let with_hidden: MemberStandings = frame.get(&v1_with(&path, &query)).await?;
        seen = with_hidden.standings;
    }
    // Both are in the order of the request.
    let seen = seen
        .into_iter()
        .map(Some)
        .chain(std::iter::repeat_with(|| None));
    let visitor = &frame.visitor;
    let found = found.standings.into_iter().zip(seen);
    let found = found.map(async |(answer, seen)| {
        let hide = find_hide(visitor, member, seen.as_ref()).await?;
        Ok::<_, Problem>((answer, hide))
    });
    Ok(boards.into_iter().zip(try_join_all(found).await?))
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
