//! What is read of standings: entries, where they stand, and parts of a standing.

use std::iter::Sum;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::core::read::store::voters::Voters;
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::export::ExportLine;
use crate::domain::ids::{MemberId, shown_member};
use crate::domain::include::Includes;
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
    /// From 1, as the board's ranking counts; `None` behind the last that is listed.
    pub rank: Option<u64>,
    /// Who.
    pub member: Arc<str>,
    /// How much.
    pub score: Score,
    /// When that score was reached; `None` on boards with `ties: member`.
    pub reached_at: Option<Timestamp>,
    /// The data of the event that gave it `reached_at`, where that was asked for.
    pub data: Option<EntryData>,
}

impl Entry {
    /// Its line in an export, without its profile; of an entry that is listed.
    pub fn export_line(&self, board: &Board) -> ExportLine<'_> {
        ExportLine {
            rank: self.rank.unwrap_or(0),
            member: shown_member(&*self.member),
            score: self.score.shown(board.definition.decimals),
            reached_at: self.reached_at,
            profile: None,
        }
    }
}

/// A part of a standing, and what those who share it make of it once.
#[derive(Debug, Default)]
pub struct Page {
    /// How many members the standing has.
    pub total: u64,
    /// How many entries the list has that it is a part of.
    pub listed: u64,
    /// The part.
    pub entries: Vec<Entry>,
    /// The entry of the member that was asked for, if it is one.
    pub me: Option<Entry>,
    /// The voters of its entries and of its `me`.
    pub voters: OnceCell<Voters>,
    /// The profiles of its members.
    pub profiles: OnceCell<Profiles>,
    /// What the page is sent as.
    pub memo: Memo,
}

/// What an answer is written as, once for all who share it, want the same beside scores, and are told the same state: the text, and a
/// hash that tells contents apart.
#[derive(Debug, Default)]
pub struct Memo([[OnceLock<(Bytes, u128)>; Includes::SETS]; PeriodState::COUNT + 1]);

/// What an answer is made with: what entries have beside their scores, and the state of the standing.
pub type MadeWith = (Includes, Option<PeriodState>);

impl Memo {
    /// Where that stands.
    pub fn place(&self, (includes, state): MadeWith) -> &OnceLock<(Bytes, u128)> {
        &self.0[state.map_or(PeriodState::COUNT, PeriodState::index)][includes.index()]
    }
}

/// A member of a standing, and who is around it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Neighbourhood {
    /// How many members the standing has.
    pub total: u64,
    /// How many members have a better rank; `None` behind the last that is listed.
    pub outranked_by: Option<u64>,
    /// The member and its neighbours on both sides, in order; or the last that are listed, and then the member.
    pub entries: Vec<Entry>,
    /// Where in `entries` the member is.
    pub index: usize,
    /// Its rank and score in the standing before.
    pub previous: Option<(Option<u64>, Score)>,
}

/// Some members of a standing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subset {
    /// How many members the standing has.
    pub total: u64,
    /// For each that was asked for where it stands and its entry, if it is a member.
    pub entries: Vec<Option<(SortKey, Entry)>>,
}

/// Where an entry stands: marks sort as the entries of a standing do, those of all shards together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SortKey {
    /// The stored score.
    pub score: i64,
    /// The sorted-set member; empty: ahead of all that have this score.
    pub member: Bytes,
}

/// What stands behind a member in the mark right behind it. No id has a zero byte: between the two there is none.
const BEHIND: &[u8] = b"\0";

impl SortKey {
    /// Ahead of all.
    pub const FIRST: Self = Self {
        score: -(1 << 62),
        member: Bytes::new(),
    };
    /// Behind all. A script holds these two exactly, and no sum of scores is beyond them.
    pub const LAST: Self = Self {
        score: 1 << 62,
        member: Bytes::new(),
    };

    /// Ahead of all that have this stored score.
    pub fn of(score: i64) -> Self {
        Self {
            score,
            member: Bytes::new(),
        }
    }

    /// Ahead of all that have the same score.
    #[must_use]
    pub fn of_score(&self) -> Self {
        Self::of(self.score)
    }

    /// Right behind a member that has reached this score then.
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

    /// Right behind the member that stands here.
    #[must_use]
    pub fn behind_it(&self) -> Self {
        Self {
            score: self.score,
            member: [&self.member[..], BEHIND].concat().into(),
        }
    }

    /// The entry that stands there, without its data.
    pub(super) fn entry(&self, board: &Board, rank: Option<u64>) -> Result<Entry, StoreError> {
        let malformed = || StoreError::Unexpected("a malformed member of a standing".into());
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
        // What Redis has as the id of a member was text when it came in.
        (self.score, time, str::from_utf8(id).unwrap_or(""))
    }
}

/// An entry of a shard: lines sort as their marks do.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Line {
    /// Where it stands.
    pub mark: SortKey,
    /// Its data, where that was asked for.
    pub data: Option<EntryData>,
}

impl Line {
    /// The entry with this rank.
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
    /// How many members the standing has.
    pub total: u64,
    /// How many entries the list has that it is a part of.
    pub listed: u64,
    /// Positions, and what stands there.
    pub entries: Vec<(u64, SortKey)>,
}

/// Some entries of a shard, around a mark.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Slice {
    /// How many members the standing has.
    pub total: u64,
    /// How many entries are ahead of the mark.
    pub position: u64,
    /// The position of the first of the entries.
    pub from: u64,
    /// The entries.
    pub entries: Vec<Line>,
}

/// What a standing amounts to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// How many members it has.
    pub members: u64,
    /// The sum of all scores, scaled.
    pub score_sum: i128,
    /// How many events were taken in its periods.
    pub events: u64,
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
