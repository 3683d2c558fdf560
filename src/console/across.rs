//! A member on many boards: its ranks and scores, and where it is hidden.

use std::collections::BTreeMap;

use tokio::try_join;

use super::address::member_everywhere;
use super::boards::{Defined, List};
use super::case::{Case, Face};
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
    /// The commands that read the same.
    pub(super) curl: Vec<String>,
}

/// What was found of a member on a board, and its hide there.
type Found = (Defined, (BoardStanding, Option<HiddenMember>));

impl Across {
    /// Reads the boards of a part of the list but for that of the page; `None` if the viewer may list none.
    pub(super) async fn read(visitor: &Visitor, case: &Case) -> Result<Option<Self>, Problem> {
        if visitor.require_anywhere(Scope::Read).is_err() {
            return Ok(None);
        }
        let Case { member, after, .. } = case;
        let listed_at = v1_with(&["boards"], &[("after", after), ("limit", BOARDS_MAX)]);
        let list: Result<List, Problem> = visitor.read(&listed_at).await;
        let Some(list) = unless(list, |kind| kind == FORBIDDEN)? else {
            return Ok(None);
        };
        let mut by_window: BTreeMap<String, Vec<Defined>> = BTreeMap::new();
        let others = list.boards.into_iter();
        for board in others.filter(|other| other.board != case.board) {
            if let Some(window) = board.widest().map(str::to_owned) {
                by_window.entry(window).or_default().push(board);
            }
        }
        let found = by_window
            .into_iter()
            .map(|(window, boards)| standings(visitor, member, window, boards));
        let (mut lines, mut absent, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let mut curl = Vec::new();
        for (window, read_at, found) in try_join_all(found).await? {
            curl.push(visitor.curl(&read_at));
            for (board, (answer, hide)) in found {
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
            curl,
            parts: Parts {
                listed: "boards",
                first: (!after.is_empty()).then(|| member_everywhere(member)),
                next: list.next.map(|next| {
                    let query = [("member", &**member), ("after", &*next)];
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

/// A window of boards, the address of a member's standings in it, and these as everybody sees them; for moderators, each with
/// its hide.
async fn standings(
    visitor: &Visitor,
    member: &str,
    window: String,
    boards: Vec<Defined>,
) -> Result<(String, String, Vec<Found>), Problem> {
    let path = ["members", member, "standings"];
    let named: Vec<&str> = boards.iter().map(|board| &*board.board).collect();
    let named = named.join(",");
    let query = |more| v1_with(&path, &[("boards", &*named), ("window", &window), more]);
    // Those who may read profiles get that of the member from its own route.
    let with_profile = if visitor.may(Scope::Write) {
        ""
    } else {
        "profile"
    };
    let read_at = query(("include", with_profile));
    let with_hidden_at = query(("hidden", "include"));
    let with_hidden = async {
        if visitor.require_anywhere(Scope::Moderate).is_err() {
            return Ok(None);
        }
        visitor.read(&with_hidden_at).await.map(Some)
    };
    let (found, seen): (MemberStandings, Option<MemberStandings>) =
        try_join!(visitor.read(&read_at), with_hidden)?;
    // Both are in the order of the request.
    let seen = seen.into_iter().flat_map(|seen| seen.standings);
    let seen = seen.map(Some).chain(std::iter::repeat_with(|| None));
    let found = found.standings.into_iter().zip(seen);
    let found = found.map(async |(answer, seen)| {
        let hide = find_hide(visitor, member, seen.as_ref()).await?;
        Ok::<_, Problem>((answer, hide))
    });
    let found = boards.into_iter().zip(try_join_all(found).await?);
    Ok((window, read_at, found.collect()))
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
