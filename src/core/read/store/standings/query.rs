//! The queries about standings, as read.lua takes them.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::entries::SortKey;
use crate::domain::board::{Board, Order};
use crate::domain::ids::MemberId;
use crate::domain::period::Period;
use crate::domain::score::Score;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::args::{OrFalse, each, stored_score};
use crate::redis::keys;
use crate::redis::kinds::Kind;
use crate::redis::protocol::queries;

/// Where a part of a standing begins. Scores are in stored form, so that they grow with the rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Selection {
    /// After this many entries.
    Behind(u64),
    /// Among the entries from one score to another, inclusive.
    Between {
        /// The best score; `None`: no bound.
        first: Option<i64>,
        /// The worst score.
        last: Option<i64>,
        /// How many of them are skipped.
        offset: u64,
    },
    /// This many entries before a score.
    Around {
        score: i64,
        /// How many better entries.
        ahead: u64,
    },
    /// At the last listed entry with at least this percentile, in thousandths of a percent: the share of the others that do
    /// not have a better rank.
    Percentile(u64),
}

impl Selection {
    /// From the smallest score to the greatest, inclusive, after the first `offset`.
    pub fn between(board: &Board, scores: [Option<Score>; 2], offset: u64) -> Self {
        let [from, to] = scores.map(|score| score.map(|score| stored_score(board, score)));
        let (first, last) = match board.definition.order {
            Order::Asc => (from, to),
            Order::Desc => (to, from),
        };
        Self::Between {
            first,
            last,
            offset,
        }
    }

    /// From `ahead` entries before a score on.
    pub fn around(board: &Board, score: Score, ahead: u64) -> Self {
        let score = stored_score(board, score);
        Self::Around { score, ahead }
    }
}

/// A query about a board's standings.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Query {
    /// `count` entries, and the entry of `member`.
    Page {
        standing: Standing,
        /// Where they begin.
        selection: Selection,
        /// How many entries.
        count: u64,
        /// The member whose own entry is also returned.
        member: Option<MemberId>,
    },
    /// A member, up to `around` neighbours on each side, and its position in `previous`.
    Member {
        standing: Standing,
        previous: Option<Standing>,
        member: MemberId,
        /// How many neighbours on each side: 1 or more.
        around: u64,
    },
    /// Some members.
    Subset {
        standing: Standing,
        members: Vec<MemberId>,
    },
    /// The totals of a standing.
    Amounts {
        standing: Standing,
        /// The periods whose events are counted.
        periods: Vec<Period>,
    },
    /// About `count` entries, evenly spread between two positions.
    Spread {
        standing: Standing,
        /// The first position.
        from: u64,
        /// The position where the range ends, exclusive.
        to: u64,
        /// About how many.
        count: u64,
    },
    /// `before` entries before a mark, and `count` from it on.
    Slice {
        standing: Standing,
        mark: SortKey,
        /// How many before it.
        before: u64,
        /// How many from it on.
        count: u64,
    },
    /// How many entries are before each mark.
    Positions {
        standing: Standing,
        marks: Vec<SortKey>,
    },
    /// Nothing but what every answer comes with, for a standing and the one before.
    Changed([Option<Standing>; 2]),
    /// A page, a member, a subset or a slice, with the data of its entries. The answer is that of the inner query.
    WithData(Box<Query>),
}

impl Query {
    /// The query, with the data of the entries of its answer if that has entries.
    #[must_use]
    pub fn with_data(self) -> Self {
        match self {
            Self::Page { .. } | Self::Member { .. } | Self::Subset { .. } | Self::Slice { .. } => {
                Self::WithData(Box::new(self))
            }
            _ => self,
        }
    }

    /// The standings that it reads: its own, and that of the period before.
    pub fn standings(&self) -> [Option<Standing>; 2] {
        match self {
            Self::Member {
                standing, previous, ..
            } => [Some(*standing), *previous],
            Self::Page { standing, .. }
            | Self::Subset { standing, .. }
            | Self::Amounts { standing, .. }
            | Self::Spread { standing, .. }
            | Self::Slice { standing, .. }
            | Self::Positions { standing, .. } => [Some(*standing), None],
            Self::Changed(standings) => *standings,
            Self::WithData(query) => query.standings(),
        }
    }

    /// About how long it keeps Redis busy, in microseconds.
    pub fn cost_us(&self) -> usize {
        let count = match self {
            Self::Changed(_) => return 3,
            Self::Page { count, .. } => count / 2,
            Self::Member { around, .. } => 5 + around,
            Self::Subset { members, .. } => 3 * members.len() as u64,
            Self::Amounts { periods, .. } => periods.len() as u64,
            Self::Spread { count, .. } => 2 * count,
            Self::Slice { before, count, .. } => 10 + (before + count) / 2,
            Self::Positions { marks, .. } => 10 * marks.len() as u64,
            // Each entry is read twice.
            Self::WithData(query) => 2 * query.cost_us() as u64,
        };
        10 + usize::try_from(count).unwrap_or(usize::MAX / 2)
    }
}

/// How many hidden members of a shard a read leaves out without a stored list: some milliseconds of Redis.
pub(super) const LEFT_OUT_MAX: u32 = 1_000;

/// Whose entries a read shows.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Visibility {
    /// Those of members that are not hidden.
    #[default]
    Visible,
    /// All but those of members hidden up to the journal line with this number, or a later one.
    HiddenUpTo(u64),
    /// Those of members that are not hidden, though Redis refuses to store a hidden list: if at most
    /// `LEFT_OUT_MAX` members of the shard are hidden, the read leaves them out by itself.
    LeavingOut,
    /// Those of all members.
    All,
}

/// A standing: the index of its first key, that of its state, where it begins, 1 if it shows hidden members too, its
/// ranking if that is not the board's, and its end if it keeps the lines of erased members from then on.
pub(super) type StandingArgs = (usize, usize, i64, u8, Option<&'static str>, Option<i64>);

/// Collects the keys and arguments of a call. Few standings are read in one call, so they are searched linearly.
pub(super) struct Encoder<'a> {
    shard: &'a Shard,
    pub(super) keys: Vec<String>,
    named: Vec<Standing>,
    pub(super) standings: Vec<StandingArgs>,
    turnouts: HashMap<Period, usize>,
    visibility: Visibility,
}

/// A query, and the indexes of its standings in the call: from 1, and 0 for none.
pub(super) type Indexed<'a> = (&'a Query, [usize; 2]);

impl<'s> Encoder<'s> {
    pub(super) fn new(shard: &'s Shard, visibility: Visibility) -> Self {
        Self {
            shard,
            keys: vec![keys::head(shard.tag())],
            named: Vec::new(),
            standings: Vec::new(),
            turnouts: HashMap::new(),
            visibility,
        }
    }

    /// Whether any of the standings keeps lines of erased members.
    pub(super) fn keeps_lines(&self) -> bool {
        self.standings.iter().any(|(.., ends)| ends.is_some())
    }

    /// Adds the keys that a query needs.
    pub(super) fn add<'a>(&mut self, query: &'a Query) -> Indexed<'a> {
        let indexes = query.standings().map(|standing| {
            let standing = standing?;
            let known = self.named.iter().position(|named| *named == standing);
            Some(known.map_or_else(|| self.add_standing(standing), |place| place + 1))
        });
        if let Query::Amounts { periods, .. } = query {
            for period in periods {
                self.keys
                    .push(keys::of_period(self.shard, Kind::Turnout, period));
                self.turnouts.insert(*period, self.keys.len());
            }
        }
        (query, indexes.map(Option::unwrap_or_default))
    }

    fn add_standing(&mut self, standing: Standing) -> usize {
        let first = self.keys.len() + 1;
        self.keys.extend(keys::standing(self.shard, &standing));
        let (state, start) = if self.shard.derived_as(standing.series).is_some() {
            self.keys.push(keys::state(self.shard, standing.series));
            (self.keys.len(), standing.period.start_ms)
        } else {
            (0, 0)
        };
        let shows_hidden = u8::from(self.visibility == Visibility::All);
        let ranking = self.shard.ranking_of(&standing.period);
        let ranking = (ranking != self.shard.definition.ranking).then(|| ranking.name());
        let ends = self.shard.keeps_lines_from(&standing).map(Timestamp::ms);
        self.standings
            .push((first, state, start, shows_hidden, ranking, ends));
        self.named.push(standing);
        self.named.len()
    }
}

/// A query as read.lua documents it.
pub(super) struct QueryArgs<'a>(pub(super) &'a Encoder<'a>, pub(super) Indexed<'a>);

impl Serialize for QueryArgs<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(call, (query, indexes @ [own, before])) = self;
        match query {
            Query::Page {
                selection,
                count,
                member,
                ..
            } => serialize_page(*own, *selection, (*count, member.as_ref()), to),
            Query::Member { member, around, .. } => {
                (queries::MEMBER, own, member, around, before).serialize(to)
            }
            Query::Subset { members, .. } => (queries::SUBSET, own, members).serialize(to),
            Query::Amounts { periods, .. } => {
                let counts = each(periods, |period| call.turnouts[period]);
                (queries::AMOUNTS, own, counts).serialize(to)
            }
            Query::Spread {
                from,
                to: end,
                count,
                ..
            } => (queries::SPREAD, own, from, end, count).serialize(to),
            Query::Slice {
                mark,
                before,
                count,
                ..
            } => (queries::SLICE, own, mark.args(call.shard), before, count).serialize(to),
            Query::Positions { marks, .. } => {
                let marks = each(marks, |mark| mark.args(call.shard));
                (queries::POSITIONS, own, marks).serialize(to)
            }
            Query::Changed(_) => (queries::CHANGED, own, before).serialize(to),
            Query::WithData(query) => (
                queries::WITH_DATA,
                own,
                QueryArgs(call, (&**query, *indexes)),
            )
                .serialize(to),
        }
    }
}

/// A page: read.lua has a query of its own for each selection.
fn serialize_page<S: Serializer>(
    own: usize,
    selection: Selection,
    (count, member): (u64, Option<&MemberId>),
    to: S,
) -> Result<S::Ok, S::Error> {
    let member = OrFalse::from(member);
    match selection {
        Selection::Behind(offset) => (queries::PAGE, own, offset, count, member).serialize(to),
        Selection::Between {
            first,
            last,
            offset,
        } => {
            let [first, last] = [first, last].map(OrFalse::from);
            let between = queries::BETWEEN;
            (between, own, first, last, offset, count, member).serialize(to)
        }
        Selection::Around { score, ahead } => {
            (queries::AROUND, own, score, ahead, count, member).serialize(to)
        }
        Selection::Percentile(thousandths) => (queries::PERCENTILE, own, thousandths).serialize(to),
    }
}
