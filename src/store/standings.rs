//! Reads standings. Many queries are one script call, so that ranks, scores and gaps agree with each other.

use std::collections::HashMap;
use std::iter::Sum;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fred::types::Value;
use serde::{Serialize, Serializer};
use tokio::sync::OnceCell;

use super::args::{LayoutArgs, OrFalse, each, ranking_name, shown_score, stored_score};
use super::connection::Call;
use super::dispatch::{Freshness, Store};
use super::kinds::Kind;
use super::protocol::queries;
use super::reply::{Reply, require};
use super::voters::Voters;
use super::{Dated, StoreError, keys, script};
use crate::domain::board::{Board, Order, Ranking};
use crate::domain::data::EntryData;
use crate::domain::edition::Changed;
use crate::domain::export::ExportLine;
use crate::domain::ids::{MemberId, shown_member};
use crate::domain::include::Includes;
use crate::domain::period::Period;
use crate::domain::profile::Profiles;
use crate::domain::score::Score;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::state::PeriodState;
use crate::domain::ties::{TIE_KEY_BYTES, TieKey};
use crate::domain::time::Timestamp;

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
    pub entries: Vec<Option<(Mark, Entry)>>,
}

/// Where an entry stands: marks sort as the entries of a standing do, those of all shards together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mark {
    /// The stored score.
    pub score: i64,
    /// The sorted-set member; empty: ahead of all that have this score.
    pub member: Bytes,
}

/// What stands behind a member in the mark right behind it. No id has a zero byte: between the two there is none.
const BEHIND: &[u8] = b"\0";

impl Mark {
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
    fn entry(&self, board: &Board, rank: Option<u64>) -> Result<Entry, StoreError> {
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
    fn args(&self, board: &Board) -> MarkArgs<'_> {
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
    pub mark: Mark,
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
    pub entries: Vec<(u64, Mark)>,
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

/// Where in a standing a part of it lies. Scores are as they are stored, so that they grow with the rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Selection {
    /// Behind the first so many entries.
    Behind(u64),
    /// Of the entries from one score to another, both included, behind the first so many.
    Between {
        /// The best score; `None`: without a bound.
        first: Option<i64>,
        /// The worst score.
        last: Option<i64>,
        /// How many are left out.
        offset: u64,
    },
    /// From so many entries ahead of a score on.
    Around {
        /// The score.
        score: i64,
        /// How many entries that are better.
        ahead: u64,
    },
    /// At the last listed entry with at least this percentile, in thousandths of a percent: the share of the others that do not
    /// have a better rank.
    Percentile(u64),
}

impl Selection {
    /// From the smallest score to the greatest, both included, behind the first `offset`.
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

    /// From so many entries ahead of a score on.
    pub fn around(board: &Board, score: Score, ahead: u64) -> Self {
        let score = stored_score(board, score);
        Self::Around { score, ahead }
    }
}

/// What is asked of a board's standings.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Query {
    /// `count` entries, and the entry of `member`.
    Page {
        /// Of this standing.
        standing: Standing,
        /// Which.
        selection: Selection,
        /// How many entries are wanted.
        count: u64,
        /// Whose own entry comes along.
        member: Option<MemberId>,
    },
    /// A member, up to `around` neighbours on each side, and where it stood in `previous`.
    Member {
        /// In this standing.
        standing: Standing,
        /// The standing before.
        previous: Option<Standing>,
        /// Who.
        member: MemberId,
        /// How many neighbours on each side: 1 or more.
        around: u64,
    },
    /// Some members.
    Subset {
        /// Of this standing.
        standing: Standing,
        /// Who.
        members: Vec<MemberId>,
    },
    /// What a standing amounts to.
    Amounts {
        /// This one.
        standing: Standing,
        /// The periods whose events are counted.
        periods: Vec<Period>,
    },
    /// About `count` entries, evenly spread between two positions.
    Spread {
        /// Of this standing.
        standing: Standing,
        /// From this position,
        from: u64,
        /// up to before this one.
        to: u64,
        /// How many.
        count: u64,
    },
    /// `before` entries ahead of a mark, and `count` from it on.
    Slice {
        /// Of this standing.
        standing: Standing,
        /// The mark.
        mark: Mark,
        /// How many ahead of it.
        before: u64,
        /// How many from it on.
        count: u64,
    },
    /// How many entries are ahead of marks.
    Positions {
        /// Of this standing.
        standing: Standing,
        /// The marks.
        marks: Vec<Mark>,
    },
    /// Nothing but what every answer comes with, of a standing and of the one before.
    Changed([Option<Standing>; 2]),
    /// A page, a member, a subset or a slice, with the data of its entries. The answer is that to the query.
    WithData(Box<Query>),
}

impl Query {
    /// The same with the data of the entries of the answer, if the answer has entries.
    #[must_use]
    pub fn with_data(self) -> Self {
        match self {
            Self::Page { .. } | Self::Member { .. } | Self::Subset { .. } | Self::Slice { .. } => {
                Self::WithData(Box::new(self))
            }
            _ => self,
        }
    }

    /// The standings that it names: its own, and that of the period before.
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

/// Whose entries a read sees.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Sight {
    /// All but those of members who are hidden.
    #[default]
    Visible,
    /// All but those of members who were hidden up to the line of the journal with this number, or later.
    HiddenUpTo(u64),
    /// Those of all members.
    Everybody,
}

/// The answer to a [`Query`] of the same name. Its copies share what is large.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A part of the standing.
    Page(Arc<Page>),
    /// `None` where the member is not listed.
    Member(Option<Arc<Neighbourhood>>),
    /// Some members.
    Subset(Arc<Subset>),
    /// What the standing amounts to.
    Amounts(Amounts),
    /// Some entries, evenly spread.
    Spread(Spread),
    /// Some entries around a mark.
    Slice(Arc<Slice>),
    /// How many are ahead of marks.
    Positions(Arc<[u64]>),
    /// What every answer comes with.
    Changed(()),
    /// The derived standing whose newest period begins here, in milliseconds, has to be completed.
    Incomplete(i64),
    /// Too many members of this standing are hidden for the list that it keeps: it has to be widened.
    Short(Standing),
    /// The hidden list of this standing, which the query needs, is behind.
    Unlisted(Standing),
    /// What erased members have left has to be removed.
    Erasing,
}

/// An answer, and what the call has seen of the shard.
#[derive(Clone, Debug)]
pub struct ShardAnswer {
    /// The answer.
    pub answer: Answer,
    /// The barrier of the shard then: no event before it counts any more.
    pub barrier: Option<Timestamp>,
    /// How often the shard had changed then.
    pub changed: Changed,
    /// Whether the standings that the query names had entries in the shard: its own, and the one before.
    pub has_entries: [bool; 2],
}

/// Takes an [`Answer`] of one kind apart; the error is that it is of another kind.
macro_rules! try_from_answer {
    ($($kind:ident => $type:ty),* $(,)?) => {
        $(impl TryFrom<Answer> for $type {
            type Error = ();

            fn try_from(answer: Answer) -> Result<Self, ()> {
                match answer {
                    Answer::$kind(value) => Ok(value),
                    _ => Err(()),
                }
            }
        })*
    };
}

try_from_answer! {
    Page => Arc<Page>,
    Member => Option<Arc<Neighbourhood>>,
    Subset => Arc<Subset>,
    Amounts => Amounts,
    Spread => Spread,
    Slice => Arc<Slice>,
    Positions => Arc<[u64]>,
    Changed => (),
}

/// A standing: the index of its first key, that of its state, where it begins, 1 if it shows hidden members too, and its
/// ranking if that is another one than the board's, and when it ends if it keeps the lines of erased members from then on.
type StandingArgs = (usize, usize, i64, u8, Option<&'static str>, Option<i64>);

/// A mark: score, tie key and id of the member.
type MarkArgs<'a> = (i64, u64, &'a str);

/// The keys and arguments of a call as they come together. Few standings are read in one call: they are found by going through them.
struct Encoder<'a> {
    shard: &'a Shard,
    keys: Vec<String>,
    named: Vec<Standing>,
    standings: Vec<StandingArgs>,
    turnouts: HashMap<Period, usize>,
    sight: Sight,
}

/// A query, and which of the standings of its call it names: their indexes count from 1, and 0 stands for none.
type Indexed<'a> = (&'a Query, [usize; 2]);

impl Encoder<'_> {
    /// Adds the keys that a query needs.
    fn add<'a>(&mut self, query: &'a Query) -> Indexed<'a> {
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
        let shows_hidden = u8::from(self.sight == Sight::Everybody);
        let ranking = self.shard.ranking_of(&standing.period);
        let ranking = (ranking != self.shard.definition.ranking).then(|| ranking_name(ranking));
        let ends = self.shard.keeps_lines_from(&standing).map(Timestamp::ms);
        self.standings
            .push((first, state, start, shows_hidden, ranking, ends));
        self.named.push(standing);
        self.named.len()
    }
}

/// A query as read.lua documents it.
struct QueryArgs<'a>(&'a Encoder<'a>, Indexed<'a>);

impl Serialize for QueryArgs<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(call, (query, indexes @ [own, before])) = self;
        match query {
            Query::Page {
                selection,
                count,
                member,
                ..
            } => {
                let member = OrFalse::from(member.as_ref());
                match *selection {
                    Selection::Behind(offset) => {
                        (queries::PAGE, own, offset, count, member).serialize(to)
                    }
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
                    Selection::Percentile(thousandths) => {
                        (queries::PERCENTILE, own, thousandths).serialize(to)
                    }
                }
            }
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

/// Reads a board's standings, in one call and as of one instant. The answers are in the order of the queries.
pub async fn read(
    store: &Store,
    shard: &Shard,
    queries: &[&Query],
    sight: Sight,
    freshness: Freshness,
) -> Result<Dated<Vec<ShardAnswer>>, StoreError> {
    let mut encoder = Encoder {
        shard,
        keys: vec![keys::head(shard.tag())],
        named: Vec::new(),
        standings: Vec::new(),
        turnouts: HashMap::new(),
        sight,
    };
    let queries: Vec<_> = queries.iter().map(|query| encoder.add(query)).collect();
    let keeps_lines = encoder
        .standings
        .iter()
        .any(|standing| standing.5.is_some());
    let erasing = (sight == Sight::Everybody || keeps_lines).then(|| {
        encoder.keys.push(keys::single(shard, Kind::Erasing));
        encoder.keys.len()
    });
    let followed = match sight {
        Sight::HiddenUpTo(number) => Some(number),
        Sight::Visible | Sight::Everybody => None,
    };
    let (mut keys, args) = store
        .call(&script::READ, shard.tag())
        .with_keys(std::mem::take(&mut encoder.keys))
        .field("version", shard.version())
        .field("layout", LayoutArgs::new(shard))
        .field("ranking", ranking_name(shard.definition.ranking))
        .field("standings", &encoder.standings)
        .field("followed", followed)
        .field("erasing", erasing)
        .field(
            "queries",
            each(&queries, |query| QueryArgs(&encoder, *query)),
        )
        .keys_and_args()?;
    if freshness == Freshness::Bounded && store.replicas.is_some() {
        keys.push(keys::registry(shard.tag(), shard.generation));
        let call = Call::new(&script::READ, keys.clone(), args.clone());
        if let Some(Dated { value, as_of }) = store.read_replica(shard, call).await
            && let Ok(value) = answers(shard, &queries, value)
            && is_complete(&value)
        {
            return Ok(Dated { value, as_of });
        }
        keys.pop();
    }
    let reply = store.read(Call::new(&script::READ, keys, args)).await?;
    Ok(Dated {
        value: answers(shard, &queries, reply)?,
        as_of: None,
    })
}

/// Takes a reply apart.
fn answers(
    board: &Board,
    queries: &[Indexed<'_>],
    reply: Value,
) -> Result<Vec<ShardAnswer>, StoreError> {
    let mut reply = Reply::answer(reply)?;
    let barrier = reply.integer_or_none()?.map(Timestamp::from_ms_clamped);
    let answers = queries
        .iter()
        .map(|(query, _)| answer(board, query, &mut reply.list()?));
    let answers = answers.collect::<Result<Vec<_>, StoreError>>()?;
    let changed = Changed::from_stored(&reply.text()?);
    let changed = require(changed, "a head says how often it has changed")?;
    let digits = reply.text()?;
    let has_entries = |index: usize| {
        let digit = digits.as_bytes().get(index.wrapping_sub(1));
        digit == Some(&b'1')
    };
    let seen = queries.iter().zip(answers);
    let seen = seen.map(|((_, indexes), answer)| ShardAnswer {
        answer,
        barrier,
        changed,
        has_entries: indexes.map(has_entries),
    });
    Ok(seen.collect())
}

/// Whether these are answers to all of the queries, so that nothing has to be done first: a replica can't.
fn is_complete(answers: &[ShardAnswer]) -> bool {
    let is_missing = |seen: &ShardAnswer| {
        matches!(
            seen.answer,
            Answer::Incomplete(_) | Answer::Unlisted(_) | Answer::Short(_) | Answer::Erasing
        )
    };
    !answers.iter().any(is_missing)
}

fn answer(board: &Board, query: &Query, reply: &mut Reply) -> Result<Answer, StoreError> {
    let total = reply.integer()?;
    if total == queries::INCOMPLETE {
        return Ok(Answer::Incomplete(reply.integer()?));
    }
    if total == queries::ERASING {
        return Ok(Answer::Erasing);
    }
    if total == queries::UNLISTED || total == queries::SHORT {
        let [own, before] = query.standings();
        let is_of_before = reply.integer()? == 1;
        let standing = if is_of_before { before } else { own };
        let standing = require(standing, "a query has the standing that it needs")?;
        if total == queries::SHORT {
            return Ok(Answer::Short(standing));
        }
        return Ok(Answer::Unlisted(standing));
    }
    let total = require(u64::try_from(total).ok(), "a total is not negative")?;
    Ok(match query {
        Query::Page {
            standing,
            selection,
            ..
        } => {
            let board = (board, board.ranking_of(&standing.period));
            Answer::Page(page(board, total, *selection, reply)?.into())
        }
        Query::Member { .. } if reply.is_empty() => Answer::Member(None),
        Query::Member { standing, .. } => {
            let board = (board, board.ranking_of(&standing.period));
            Answer::Member(Some(neighbourhood(board, total, reply)?.into()))
        }
        Query::Subset { .. } => Answer::Subset(subset(board, total, reply)?.into()),
        Query::Amounts { .. } => Answer::Amounts(amounts(board, total, reply)?),
        Query::Spread { .. } => Answer::Spread(spread(total, reply)?),
        Query::Slice { .. } => {
            let slice = Slice {
                total,
                position: reply.count()?,
                from: reply.count()?,
                entries: reply.list()?.all(line)?,
            };
            Answer::Slice(slice.into())
        }
        Query::Positions { .. } => Answer::Positions(reply.list()?.all(Reply::count)?.into()),
        Query::Changed(_) => Answer::Changed(()),
        Query::WithData(query) => {
            let mut answer = answer(board, query, &mut reply.list()?)?;
            give_data(&mut answer, &mut reply.list()?)?;
            answer
        }
    })
}

/// Gives the entries of an answer their data, which come in the order of the entries.
fn give_data(answer: &mut Answer, data: &mut Reply) -> Result<(), StoreError> {
    let places: Vec<&mut Option<EntryData>> = match answer {
        Answer::Page(page) => {
            let Page { entries, me, .. } = own(page)?;
            let entries = entries.iter_mut().chain(me);
            entries.map(|entry| &mut entry.data).collect()
        }
        Answer::Member(Some(neighbourhood)) => {
            let entries = own(neighbourhood)?.entries.iter_mut();
            entries.map(|entry| &mut entry.data).collect()
        }
        Answer::Subset(subset) => {
            let entries = own(subset)?.entries.iter_mut().flatten();
            entries.map(|(_, entry)| &mut entry.data).collect()
        }
        Answer::Slice(slice) => {
            let lines = own(slice)?.entries.iter_mut();
            lines.map(|line| &mut line.data).collect()
        }
        _ => Vec::new(),
    };
    for place in places {
        let stored = data.text()?;
        if !stored.is_empty() {
            let read = EntryData::from_stored(&stored);
            *place = Some(require(read, "the data of an entry is a JSON object")?);
        }
    }
    require(data.is_empty().then_some(()), "each entry has its data")
}

/// An answer that nobody shares yet.
fn own<T>(answer: &mut Arc<T>) -> Result<&mut T, StoreError> {
    require(Arc::get_mut(answer), "an answer is not shared yet")
}

fn spread(total: u64, reply: &mut Reply) -> Result<Spread, StoreError> {
    let listed = reply.count()?;
    let (mut positions, mut flat) = (reply.list()?, reply.list()?);
    Ok(Spread {
        total,
        listed,
        entries: positions.all(|positions| Ok((positions.count()?, mark(&mut flat)?)))?,
    })
}

/// The next one of a flat list of members and scores.
fn mark(flat: &mut Reply) -> Result<Mark, StoreError> {
    let (member, score) = (flat.bytes()?, flat.integer()?);
    Ok(Mark { score, member })
}

/// The same as a line, without its data.
fn line(flat: &mut Reply) -> Result<Line, StoreError> {
    let mark = mark(flat)?;
    Ok(Line { mark, data: None })
}

fn amounts(board: &Board, members: u64, reply: &mut Reply) -> Result<Amounts, StoreError> {
    let (high, low) = (reply.integer()?, reply.integer()?);
    let stored = (i128::from(high) << 32) + i128::from(low);
    Ok(Amounts {
        members,
        score_sum: match board.definition.order {
            Order::Desc => -stored,
            Order::Asc => stored,
        },
        events: reply.count()?,
    })
}

/// A rank as it is sent; 0 stands for none.
fn rank(reply: &mut Reply) -> Result<Option<u64>, StoreError> {
    Ok(Some(reply.count()?).filter(|rank| *rank > 0))
}

fn page(
    (board, ranking): (&Board, Ranking),
    total: u64,
    selection: Selection,
    reply: &mut Reply,
) -> Result<Page, StoreError> {
    let first_rank = reply.count()?;
    let (mut flat, mut me) = (reply.list()?, reply.list()?);
    let (offset, listed) = match selection {
        Selection::Behind(offset) => (offset, board.listed(total)),
        _ => (reply.count()?, reply.count()?),
    };
    let entries = entries((board, ranking), offset, first_rank, &mut flat)?;
    let me = if me.is_empty() {
        None
    } else {
        let (rank, score, member) = (rank(&mut me)?, me.integer()?, me.bytes()?);
        Some(Mark { score, member }.entry(board, rank)?)
    };
    Ok(Page {
        total,
        listed,
        entries,
        me,
        ..Page::default()
    })
}

fn neighbourhood(
    (board, ranking): (&Board, Ranking),
    total: u64,
    reply: &mut Reply,
) -> Result<Neighbourhood, StoreError> {
    let (position, from, first_rank) = (reply.integer()?, reply.count()?, reply.count()?);
    let mut entries = entries((board, ranking), from, first_rank, &mut reply.list()?)?;
    let mut previous = reply.list()?;
    let previous = if previous.is_empty() {
        None
    } else {
        let rank = rank(&mut previous)?;
        Some((rank, shown_score(board, previous.integer()?)))
    };
    let (index, outranked_by) = if let Ok(position) = u64::try_from(position) {
        let index = usize::try_from(position.saturating_sub(from)).unwrap_or(usize::MAX);
        (index, Some(reply.count()?))
    } else {
        let (score, member) = (reply.integer()?, reply.bytes()?);
        entries.push(Mark { score, member }.entry(board, None)?);
        (entries.len() - 1, None)
    };
    if index >= entries.len() {
        return Err(StoreError::Unexpected(
            "a member outside its neighbourhood".into(),
        ));
    }
    Ok(Neighbourhood {
        total,
        outranked_by,
        entries,
        index,
        previous,
    })
}

fn subset(board: &Board, total: u64, reply: &mut Reply) -> Result<Subset, StoreError> {
    let entries = reply.list()?.all(|found| {
        let mut one = found.list()?;
        if one.is_empty() {
            return Ok(None);
        }
        let _position = one.integer()?;
        let (rank, score, member) = (rank(&mut one)?, one.integer()?, one.bytes()?);
        let mark = Mark { score, member };
        let entry = mark.entry(board, rank)?;
        Ok(Some((mark, entry)))
    });
    Ok(Subset {
        total,
        entries: entries?,
    })
}

/// Makes entries of a flat list of members and scores. The ranks behind the first follow from the scores.
fn entries(
    (board, ranking): (&Board, Ranking),
    offset: u64,
    first_rank: u64,
    flat: &mut Reply,
) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut rank = first_rank;
    for place in offset + 1.. {
        if flat.is_empty() {
            break;
        }
        let mut entry = mark(flat)?.entry(board, Some(rank))?;
        if let Some(before) = entries.last() {
            let is_tied = before.score == entry.score;
            rank = ranking.rank_after(rank, is_tied, place);
            entry.rank = Some(rank);
        }
        entries.push(entry);
    }
    Ok(entries)
}
