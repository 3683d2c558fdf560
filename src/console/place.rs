//! A member in a standing: its rank, its neighbours, its results in past periods, and its seat in a league.

use tokio::join;

use super::case::{Case, Face};
use super::history::History;
use super::movement::Moved;
use super::prelude::*;
use super::standing::{float, share};
use crate::http::problem::{BOARD_CLOSED, MEMBER_NOT_FOUND, NO_LEAGUE};
use crate::leagues::routes::LeagueMemberState;
use crate::leagues::routes::tiers::{TierBody, TiersBody};
use crate::standings::routes::answers::{EntryBody, MemberBody};
use crate::standings::routes::in_league::SeatBody;
use crate::standings::routes::summary::SummaryBody;

/// How many neighbours on each side are shown.
const AROUND: &str = "4";

/// A neighbour, and how long its bar is in percent.
pub(super) struct Neighbour {
    pub(super) entry: EntryBody,
    pub(super) share: f64,
}

/// A member in a standing.
pub(super) struct Place {
    pub(super) summary: SummaryBody,
    /// `None` if the member is not in the standing.
    pub(super) found: Option<MemberBody>,
    pub(super) around: Vec<Neighbour>,
    pub(super) history: History,
    /// In a league, what moderators may know about it.
    pub(super) player: Option<LeagueMemberState>,
    /// The tiers that it can be put into.
    pub(super) tiers: Vec<TierBody>,
    /// Whether the viewer may let it join and leave a league.
    pub(super) may_join: bool,
    /// The command that reads its entry.
    curl: String,
}

impl Place {
    /// Reads it; `None` on the page for all boards.
    pub(super) async fn read(viewer: &Visitor, case: &Case) -> Result<Option<Self>, Problem> {
        if !case.is_of_board() {
            return Ok(None);
        }
        let Case {
            member,
            board,
            window,
            key,
            hidden,
            ..
        } = case;
        let may_write = viewer.may_on(Scope::Write, board);
        let may_moderate = viewer.may_on(Scope::Moderate, board);
        let may_read = viewer.may_on(Scope::Read, board);
        let query = [
            ("key", &**key),
            ("around", AROUND),
            ("hidden", hidden),
            ("include", if may_read { "profile" } else { "" }),
        ];
        let path = ["boards", board, "standings", window, "members", member];
        let (found_at, played_at) = (v1_with(&path, &query), v1(&played_path(case)));
        let tiers_at = v1(&["boards", board, "standings", window, "tiers"]);
        let league = async {
            if !may_moderate && !may_write {
                return Ok(None);
            }
            if_there(viewer.read::<TiersBody>(&tiers_at).await)
        };
        let player = async {
            if !may_moderate {
                return Ok(None);
            }
            let player = viewer.read(&played_at).await;
            // The board may be no league, or closed.
            unless(player, |kind| [NO_LEAGUE, BOARD_CLOSED].contains(&kind))
        };
        let (found, history, summary, league, player) = join!(
            viewer.read::<MemberBody>(&found_at),
            viewer.history(board, window, member, hidden),
            viewer.summary(board),
            league,
            player,
        );
        let mut found = unless(found, |kind| kind == MEMBER_NOT_FOUND)?;
        let (history, summary, league) = (history?, summary?, league?);
        let around = found.as_mut().and_then(|found| found.around.take());
        Ok(Some(Self {
            around: neighbours(&summary, around.unwrap_or_default()),
            curl: viewer.curl(&found_at),
            summary,
            found,
            history,
            player: player?,
            may_join: may_write && league.is_some(),
            tiers: league.map_or_else(Vec::new, |league| league.tiers),
        }))
    }

    /// Adds the commands of what it shows, and of what can be done on the board.
    pub(super) fn examples(&self, frame: &mut Frame, case: &Case) {
        let Case { member, board, .. } = case;
        frame.curl.push(self.curl.clone());
        if self.player.is_some() {
            let own = played_path(case);
            frame.reading(&own, &[]);
            frame.example(&Method::PUT, &own, Some(&json!({"tier": "TIER"})));
        }
        if self.may_join {
            let own = json!({"member": member});
            for part in ["members", "leave"] {
                let path = ["boards", board, "league", part];
                frame.example(&Method::POST, &path, Some(&own));
            }
        }
        if frame.may(Scope::Admin) {
            frame.example(&Method::DELETE, &["boards", board, "members", member], None);
        }
    }

    /// Whether it shows that the member was ever there.
    pub(super) fn is_known(&self) -> bool {
        let has_seat = |player: &LeagueMemberState| {
            player.cohort.is_some() || player.order.is_some() || player.left_from.is_some()
        };
        self.found.is_some()
            || !self.history.lines.is_empty()
            || self.player.as_ref().is_some_and(has_seat)
    }

    /// Whether the viewer may know, or do, anything about its seat.
    pub(super) fn has_seat(&self) -> bool {
        self.player.is_some() || self.may_join
    }

    /// Its name and picture, if the standing shows them.
    pub(super) fn face(&self) -> Option<Face> {
        Face::in_entry(&self.found.as_ref()?.entry)
    }

    /// Its seat in the league.
    pub(super) fn seat(&self) -> Option<&SeatBody> {
        self.found.as_ref()?.league.as_ref()?.seat.as_ref()
    }

    /// How it has moved since the previous period.
    pub(super) fn moved(&self) -> Option<Moved> {
        let previous = self.found.as_ref()?.previous.as_ref()?;
        previous.rank_change.map(Moved::by)
    }
}

fn neighbours(summary: &SummaryBody, entries: Vec<EntryBody>) -> Vec<Neighbour> {
    let best = entries.first().map_or(0.0, |first| float(&first.score));
    let entries = entries.into_iter().map(|entry| Neighbour {
        share: share(summary.order, best, float(&entry.score)),
        entry,
    });
    entries.collect()
}

/// The path of what moderators may know about a member of a league.
fn played_path(case: &Case) -> [&str; 5] {
    ["boards", &case.board, "league", "members", &case.member]
}
