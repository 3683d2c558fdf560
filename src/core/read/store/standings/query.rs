//! The queries about standings, as read.lua takes them.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::answer::ShardAnswer;
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

/// A query to a shard.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ShardQuery {
    /// The standings that it reads: its own, and that of the period before.
    pub standings: [Option<Standing>; 2],
    pub question: Question,
    /// Whether the entries of the answer come with their data.
    pub with_data: bool,
}

/// What a query asks about a standing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// `count` entries, and the entry of `member`.
    Page {
        /// Where they begin.
        selection: Selection,
        /// How many entries.
        count: u64,
        /// The member whose own entry is also returned.
        member: Option<MemberId>,
    },
    /// A member, up to `around` neighbours on each side, and its position in the standing before.
    Member {
        member: MemberId,
        /// How many neighbours on each side: 1 or more.
        around: u64,
    },
    /// Some members.
    Subset(Vec<MemberId>),
    /// The totals, with the number of events in these periods.
    Amounts(Vec<Period>),
    /// About `count` entries, evenly spread between two positions.
    Spread {
        /// The first position.
        from: u64,
        /// The position where the range ends, exclusive.
        to: u64,
        /// About how many.
        count: u64,
    },
    /// `before` entries before a mark, and `count` from it on.
    Slice {
        mark: SortKey,
        /// How many before it.
        before: u64,
        /// How many from it on.
        count: u64,
    },
    /// How many entries are before each mark.
    Positions(Vec<SortKey>),
    /// Nothing but what every answer comes with. It is not sent.
    Changed,
}

impl ShardQuery {
    pub fn new(standing: Standing, question: Question) -> Self {
        Self {
            standings: [Some(standing), None],
            question,
            with_data: false,
        }
    }

    /// Only what every answer has, for a standing and the one before.
    pub fn changed(standings: [Option<Standing>; 2]) -> Self {
        Self {
            standings,
            question: Question::Changed,
            with_data: false,
        }
    }

    /// About how long it keeps Redis busy, in microseconds.
    pub fn cost_us(&self) -> usize {
        let count = match &self.question {
            Question::Changed => return 3,
            Question::Page { count, .. } => count / 2,
            Question::Member { around, .. } => 5 + around,
            Question::Subset(members) => 3 * members.len() as u64,
            Question::Amounts(periods) => periods.len() as u64,
            Question::Spread { count, .. } => 2 * count,
            Question::Slice { before, count, .. } => 10 + (before + count) / 2,
            Question::Positions(marks) => 10 * marks.len() as u64,
        };
        let cost_us = 10 + usize::try_from(count).unwrap_or(usize::MAX / 4);
        if self.with_data {
            // Each entry is read twice.
            10 + 2 * cost_us
        } else {
            cost_us
        }
    }
}

impl Question {
    /// Whether many ask it, so that its answer is kept. Those about members differ from reader to reader.
    pub fn repeats(&self) -> bool {
        matches!(self, Self::Page { member: None, .. } | Self::Amounts(_))
    }

    /// Whether the answer has entries, which may have data.
    pub fn is_about_entries(&self) -> bool {
        matches!(
            self,
            Self::Page { .. } | Self::Member { .. } | Self::Subset(_) | Self::Slice { .. }
        )
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
pub(super) type Indexed<'a> = (&'a ShardQuery, [usize; 2]);

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
    pub(super) fn add<'a>(&mut self, query: &'a ShardQuery) -> Indexed<'a> {
        let indexes = query.standings.map(|standing| {
            let standing = standing?;
            let known = self.named.iter().position(|named| *named == standing);
            Some(known.map_or_else(|| self.add_standing(standing), |place| place + 1))
        });
        if let Question::Amounts(periods) = &query.question {
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

impl Encoder<'_> {
    /// What was kept, as read.lua takes it. `sent`: the indexes of the queries that are sent. `None` if nothing was, or if not
    /// all answers were given with the same standings.
    pub(super) fn kept_args(
        &self,
        queries: &[Indexed<'_>],
        sent: &[usize],
        found: &[Option<ShardAnswer>],
    ) -> Option<KeptArgs> {
        let ShardAnswer {
            changed, barrier, ..
        } = found.iter().flatten().next()?;
        let mut counts = vec![None; self.named.len()];
        for ((_, indexes), kept) in queries.iter().zip(found) {
            let kept_counts = kept.iter().flat_map(|kept| kept.counts);
            for (index, count) in indexes.iter().zip(kept_counts) {
                if let Some(place) = index.checked_sub(1)
                    && *counts[place].get_or_insert(count) != count
                {
                    return None;
                }
            }
        }
        let counts = counts
            .into_iter()
            .map(|count| count.map_or(-1, u64::cast_signed));
        let rest = (1..)
            .zip(sent)
            .filter(|(_, index)| found[**index].is_none());
        Some((
            changed.stored(),
            barrier.map_or_else(String::new, |barrier| barrier.ms().to_string()),
            counts.collect(),
            rest.map(|(place, _)| place).collect(),
        ))
    }
}

/// The change counter and the barrier with which answers were given, how many entries each standing had (-1: not known), and
/// the queries without such an answer, from 1.
pub(super) type KeptArgs = (String, String, Vec<i64>, Vec<usize>);

/// A query as read.lua documents it.
pub(super) struct QueryArgs<'a>(pub(super) &'a Encoder<'a>, pub(super) Indexed<'a>);

/// A query as read.lua documents it, without the data of entries.
struct QuestionArgs<'a>(&'a Encoder<'a>, Indexed<'a>);

impl Serialize for QueryArgs<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(call, (query, indexes @ [own, _])) = self;
        let question = QuestionArgs(call, (query, *indexes));
        if query.with_data {
            (queries::WITH_DATA, own, question).serialize(to)
        } else {
            question.serialize(to)
        }
    }
}

impl Serialize for QuestionArgs<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(call, (query, [own, before])) = self;
        match &query.question {
            Question::Page {
                selection,
                count,
                member,
            } => serialize_page(*own, *selection, (*count, member.as_ref()), to),
            Question::Member { member, around } => {
                (queries::MEMBER, own, member, around, before).serialize(to)
            }
            Question::Subset(members) => (queries::SUBSET, own, members).serialize(to),
            Question::Amounts(periods) => {
                let counts = each(periods, |period| call.turnouts[period]);
                (queries::AMOUNTS, own, counts).serialize(to)
            }
            Question::Spread {
                from,
                to: end,
                count,
            } => (queries::SPREAD, own, from, end, count).serialize(to),
            Question::Slice {
                mark,
                before,
                count,
            } => (queries::SLICE, own, mark.args(call.shard), before, count).serialize(to),
            Question::Positions(marks) => {
                let marks = each(marks, |mark| mark.args(call.shard));
                (queries::POSITIONS, own, marks).serialize(to)
            }
            Question::Changed => unreachable!("it is not sent"),
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
