//! What is read of standings: entries, their positions, and parts of a standing.

use std::iter::Sum;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::core::read::voters::Voters;
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::export::ExportLine;
use crate::domain::ids::{MemberId, shown_member};
use crate::domain::include::{Include, Includes};
use crate::domain::profile::Profiles;
use crate::domain::score::Score;
use crate::domain::state::PeriodState;
use crate::domain::ties::{TIE_KEY_BYTES, TieKey};
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::args::{shown_score, stored_score};

/// One line of a standing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// From 1, as the board's ranking counts; `None` after the last listed entry.
    pub rank: Option<u64>,
    pub member: Arc<str>,
    pub score: Score,
    /// When that score was reached; `None` on boards with `ties: member`.
    pub reached_at: Option<Timestamp>,
    /// The data of the event that gave it `reached_at`, if requested.
    pub data: Option<EntryData>,
}

impl Entry {
    /// Its line in an export, without its profile; only for a listed entry.
    pub fn export_line(&self, board: &Board) -> ExportLine<'_> {
        ExportLine {
            rank: self.rank.unwrap_or(0),
            member: shown_member(&*self.member),
            score: self.score.shown(board.definition.decimals),
            reached_at: self.reached_at,
            hidden: None,
            profile: None,
        }
    }
}

/// A part of a standing, and what requests that share it make of it once.
#[derive(Debug, Default)]
pub struct Page {
    /// How many members the standing has.
    pub total: u64,
    /// How many entries its list has.
    pub listed: u64,
    pub entries: Arc<[Entry]>,
    /// The entry of the requested member, if it has one.
    pub me: Option<Entry>,
    /// The voters of its entries and of its `me`.
    pub voters: OnceCell<Voters>,
    pub profiles: OnceCell<Profiles>,
    /// The page as it is sent.
    pub memo: PageMemo,
}

impl Page {
    /// The same page for other requests, without what is stored elsewhere.
    pub(crate) fn again(&self, keeps_rendered: bool) -> Self {
        let rendered = keeps_rendered.then(|| Arc::clone(&self.memo.of_entries));
        Self {
            total: self.total,
            listed: self.listed,
            entries: Arc::clone(&self.entries),
            me: self.me.clone(),
            voters: OnceCell::new(),
            profiles: OnceCell::new(),
            memo: PageMemo {
                of_entries: rendered.unwrap_or_default(),
                with_profiles: Renderings::default(),
            },
        }
    }
}

/// A rendered answer, for all requests that share it, with the same fields and state: the text, and a hash of the content.
#[derive(Debug, Default)]
pub struct PageMemo {
    /// Without profiles, which may change at any time.
    of_entries: Arc<Renderings>,
    with_profiles: Renderings,
}

/// By the state, and whether entries have data.
type Renderings = [[OnceLock<(Bytes, u128)>; 2]; PeriodState::COUNT + 1];

/// What a rendering depends on: the fields that entries have in addition to scores, and the state of the standing.
pub type MadeWith = (Includes, Option<PeriodState>);

impl PageMemo {
    /// The place of that rendering.
    pub fn place(&self, (includes, state): MadeWith) -> &OnceLock<(Bytes, u128)> {
        let renderings = if includes.has(Include::Profile) {
            &self.with_profiles
        } else {
            &*self.of_entries
        };
        let state = state.map_or(PeriodState::COUNT, PeriodState::index);
        &renderings[state][usize::from(includes.has(Include::Data))]
    }
}

/// A member of a standing, and its neighbours.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Neighbourhood {
    /// How many members the standing has.
    pub total: u64,
    /// How many members have a better rank; `None` after the last listed entry.
    pub outranked_by: Option<u64>,
    /// The member and its neighbours on both sides, in order; or the last listed entries, and then the member.
    pub entries: Vec<Entry>,
    /// The index of the member in `entries`.
    pub index: usize,
    /// Its rank and score in the standing before.
    pub previous: Option<(Option<u64>, Score)>,
}

/// Some members of a standing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subset {
    /// How many members the standing has.
    pub total: u64,
    /// For each requested member its sort key and entry, if it is in the standing.
    pub entries: Vec<Option<(SortKey, Entry)>>,
}

/// The place of an entry: sort keys sort as the entries of a standing do, across all shards.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SortKey {
    /// The stored score.
    pub score: i64,
    /// The sorted-set member; empty: before all with this score.
    pub member: Bytes,
}

/// Appended to a member in the mark directly after it. No id has a zero byte, so nothing is between the two.
const BEHIND: &[u8] = b"\0";

impl SortKey {
    /// Before all entries.
    pub const FIRST: Self = Self {
        score: -(1 << 62),
        member: Bytes::new(),
    };
    /// After all entries. Scripts hold these two exactly, and no sum of scores is beyond them.
    pub const LAST: Self = Self {
        score: 1 << 62,
        member: Bytes::new(),
    };

    /// Before all entries with this stored score.
    pub fn of(score: i64) -> Self {
        Self {
            score,
            member: Bytes::new(),
        }
    }

    /// Before all entries with the same score.
    #[must_use]
    pub fn of_score(&self) -> Self {
        Self::of(self.score)
    }

    /// Directly after a member that reached this score at this time.
    pub fn behind(board: &Board, score: Score, reached_at: Timestamp, member: &MemberId) -> Self {
        let time = TieKey::new(board.definition.ties, reached_at).number();
        let tie_key = if board.layout().prefixed {
            &time.to_be_bytes()[size_of::<u64>() - TIE_KEY_BYTES..]
        } else {
            &[]
        };
        let member = [tie_key, member.as_str().as_bytes(), BEHIND].concat();
        Self {
            score: stored_score(board, score),
            member: member.into(),
        }
    }

    /// Directly after this member.
    #[must_use]
    pub fn behind_it(&self) -> Self {
        Self {
            score: self.score,
            member: [&self.member[..], BEHIND].concat().into(),
        }
    }

    /// The entry of this member, without its data.
    pub(crate) fn entry(&self, board: &Board, rank: Option<u64>) -> Result<Entry, StoreError> {
        let malformed = || StoreError::Unexpected("a member of a standing can't be read".into());
        let (tie_key, id) = if board.layout().prefixed {
            let (tie_key, id) = TieKey::split(&self.member).ok_or_else(malformed)?;
            (Some(tie_key), id)
        } else {
            (None, &self.member[..])
        };
        Ok(Entry {
            rank,
            member: std::str::from_utf8(id).map_err(|_| malformed())?.into(),
            score: shown_score(board, self.score),
            reached_at: tie_key.and_then(|tie_key| tie_key.instant(board.definition.ties)),
            data: None,
        })
    }

    /// As read.lua takes it.
    pub(super) fn args(&self, board: &Board) -> MarkArgs<'_> {
        let (time, id) = match TieKey::split(&self.member) {
            Some((tie_key, id)) if board.layout().prefixed => (tie_key.number(), id),
            _ => (0, &self.member[..]),
        };
        // What Redis stores as the id of a member was text when it came in.
        (self.score, time, str::from_utf8(id).unwrap_or(""))
    }
}

/// An entry of a shard: lines sort as their marks do.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ShardLine {
    pub mark: SortKey,
    pub data: Option<EntryData>,
}

impl ShardLine {
    pub fn entry(&self, board: &Board, rank: Option<u64>) -> Result<Entry, StoreError> {
        Ok(Entry {
            data: self.data.clone(),
            ..self.mark.entry(board, rank)?
        })
    }
}

/// Some entries of a shard, evenly spread.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Spread {
    /// How many entries its list has.
    pub listed: u64,
    /// Positions, and the sort keys there.
    pub entries: Vec<(u64, SortKey)>,
}

/// Some entries of a shard, around a mark.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Slice {
    /// How many members the standing has.
    pub total: u64,
    /// How many entries are before the mark.
    pub position: u64,
    /// The position of the first entry.
    pub from: u64,
    pub entries: Vec<ShardLine>,
}

/// The totals of a standing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// How many members it has.
    pub members: u64,
    /// The sum of all scores, scaled.
    pub score_sum: i128,
    /// How many events count in its periods. Of one shard it may be negative: a correction counts where its member is, even if
    /// the event was counted elsewhere before a move.
    pub events: i64,
}

impl Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), |sum, more| Self {
            members: sum.members + more.members,
            score_sum: sum.score_sum + more.score_sum,
            events: sum.events + more.events,
        })
    }
}

/// A mark: score, tie key and id of the member.
pub(super) type MarkArgs<'a> = (i64, u64, &'a str);
