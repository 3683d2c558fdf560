//! The answers to queries, as read.lua sends them.

use std::sync::Arc;

use crate::redis::Value;

use super::entries::{
    Amounts, Entry, Neighbourhood, Page, ShardLine, Slice, SortKey, Spread, Subset,
};
use super::query::{Indexed, Question, Selection, ShardQuery};
use crate::domain::board::{Board, Order, Ranking};
use crate::domain::data::EntryData;
use crate::domain::edition::Changed;
use crate::domain::series::{Series, Standing};
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::args::shown_score;
use crate::redis::protocol::queries;
use crate::redis::reply::{Reply, require};

/// The answer to a [`Question`] of the same name. Clones share what is large.
#[derive(Clone, Debug)]
pub enum ReadAnswer {
    /// A part of the standing.
    Page(Arc<Page>),
    /// `None` if the member is not listed.
    Member(Option<Arc<Neighbourhood>>),
    /// Some members.
    Subset(Arc<Subset>),
    /// The totals of the standing.
    Amounts(Amounts),
    /// Some entries, evenly spread.
    Spread(Spread),
    /// Some entries around a mark.
    Slice(Arc<Slice>),
    /// How many entries are before each mark.
    Positions(Arc<[u64]>),
    /// Only what every answer has.
    Changed(()),
    /// The standing of this derived series whose newest period begins at this time, in milliseconds, must be completed.
    Incomplete(Series, i64),
    /// Too many members of this standing are hidden for its short list, which must be widened.
    Short(Standing),
    /// The hidden list of this standing, which the query needs, is outdated.
    Unlisted(Standing),
    /// The remaining data of erased members must be removed.
    Erasing,
}

/// An answer, and what the call has seen of the shard.
#[derive(Clone, Debug)]
pub struct ShardAnswer {
    pub answer: ReadAnswer,
    /// The barrier of the shard then: no event before it counts any more.
    pub barrier: Option<Timestamp>,
    /// The shard's change counter then.
    pub changed: Changed,
    /// How many entries the standings of the query had in the shard, hidden ones too: its own, and the one before.
    pub counts: [u64; 2],
}

impl ShardAnswer {
    /// Whether it answers its query, so that nothing must be done first. (A replica could not do that.)
    pub(super) fn is_complete(&self) -> bool {
        !matches!(
            self.answer,
            ReadAnswer::Incomplete(..)
                | ReadAnswer::Unlisted(_)
                | ReadAnswer::Short(_)
                | ReadAnswer::Erasing
        )
    }

    /// Whether nothing has changed between this answer to a query and the other one.
    pub(super) fn is_of_same(&self, other: &Self) -> bool {
        (self.changed, self.barrier, self.counts) == (other.changed, other.barrier, other.counts)
    }
}

impl ReadAnswer {
    /// About how much memory it takes when it is kept, in bytes, with the page that is rendered of it.
    pub(super) fn bytes(&self) -> u64 {
        let entries = match self {
            Self::Page(page) => &page.entries[..],
            _ => &[],
        };
        let of_entries: usize = entries.iter().map(bytes_of).sum();
        (BYTES_OF_ANSWER + 2 * of_entries) as u64
    }
}

/// About how many bytes an answer without entries takes, with its query and its place.
const BYTES_OF_ANSWER: usize = 1_024;
/// About how many bytes an entry takes, without its data.
const BYTES_OF_ENTRY: usize = 128;

fn bytes_of(entry: &Entry) -> usize {
    let data = entry.data.as_ref().map_or(0, |data| data.as_str().len());
    BYTES_OF_ENTRY + entry.member.len() + data
}

/// Converts an [`ReadAnswer`] into the type of one kind; the error means that it is of another kind.
macro_rules! try_from_answer {
    ($($kind:ident => $type:ty),* $(,)?) => {
        $(impl TryFrom<ReadAnswer> for $type {
            type Error = ();

            fn try_from(answer: ReadAnswer) -> Result<Self, ()> {
                match answer {
                    ReadAnswer::$kind(value) => Ok(value),
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

/// Reads the answers of a reply, in the order of the queries; `found` are those that were kept.
pub(super) fn read_all(
    board: &Board,
    queries: &[Indexed<'_>],
    found: &[Option<ShardAnswer>],
    reply: Value,
) -> Result<Vec<ShardAnswer>, StoreError> {
    let mut reply = Reply::answer(reply)?;
    let barrier = reply.read::<Option<i64>>()?.map(Timestamp::from_ms_clamped);
    let changed = Changed::from_stored(&reply.text()?);
    let changed = require(changed, "a head lacks the number of its changes")?;
    let counts = reply.list()?.all(Reply::read::<u64>)?;
    let holds = reply.integer()? == 1;
    let read = |(index, (query, indexes)): (usize, &Indexed<'_>)| {
        let kept = found.get(index).and_then(Option::as_ref);
        if let Some(kept) = kept.filter(|_| holds) {
            return Ok(kept.clone());
        }
        let count = |index: usize| counts.get(index.wrapping_sub(1)).copied();
        Ok(ShardAnswer {
            answer: answer(board, query, &mut reply)?,
            barrier,
            changed,
            counts: indexes.map(|index| count(index).unwrap_or(0)),
        })
    };
    queries.iter().enumerate().map(read).collect()
}

fn answer(board: &Board, query: &ShardQuery, reply: &mut Reply) -> Result<ReadAnswer, StoreError> {
    if query.question == Question::Changed {
        return Ok(ReadAnswer::Changed(()));
    }
    let mut parts = reply.list()?;
    let [own, before] = query.standings;
    let lacking = "a query lacks its standing";
    let total = parts.integer()?;
    match total {
        queries::INCOMPLETE => {
            let Standing { series, .. } = require(own, lacking)?;
            return Ok(ReadAnswer::Incomplete(series, parts.integer()?));
        }
        queries::ERASING => return Ok(ReadAnswer::Erasing),
        queries::UNLISTED | queries::SHORT => {
            let is_of_before = parts.integer()? == 1;
            let standing = require(if is_of_before { before } else { own }, lacking)?;
            return Ok(if total == queries::SHORT {
                ReadAnswer::Short(standing)
            } else {
                ReadAnswer::Unlisted(standing)
            });
        }
        _ => {}
    }
    let mut content = Content {
        board,
        ranking: own.map_or(board.definition.ranking, |own| {
            board.ranking_of(&own.period)
        }),
        total: require(u64::try_from(total).ok(), "a total is negative")?,
        parts,
        data: None,
    };
    if query.with_data {
        let mut inner = content.parts.list()?;
        let _same_total = inner.integer()?;
        content.data = Some(content.parts.list()?);
        content.parts = inner;
    }
    let answer = content.read(&query.question)?;
    let is_all = content.data.is_none_or(|data| data.is_empty());
    let fault = "there is not one data object for each entry";
    require(is_all.then_some(answer), fault)
}

/// The next mark of a flat list of members and scores.
fn mark(flat: &mut Reply) -> Result<SortKey, StoreError> {
    let (member, score) = (flat.bytes()?, flat.integer()?);
    Ok(SortKey { score, member })
}

/// A rank as it is sent; 0 stands for none.
fn rank(reply: &mut Reply) -> Result<Option<u64>, StoreError> {
    Ok(Some(reply.read()?).filter(|rank| *rank > 0))
}

/// What remains to be read of an answer.
struct Content<'a> {
    board: &'a Board,
    ranking: Ranking,
    /// How many members the standing has.
    total: u64,
    parts: Reply,
    /// The data of the entries, in their order, if the query asks for it.
    data: Option<Reply>,
}

impl Content<'_> {
    fn read(&mut self, question: &Question) -> Result<ReadAnswer, StoreError> {
        Ok(match question {
            Question::Page { selection, .. } => ReadAnswer::Page(self.page(*selection)?.into()),
            Question::Member { .. } if self.parts.is_empty() => ReadAnswer::Member(None),
            Question::Member { .. } => ReadAnswer::Member(Some(self.neighbourhood()?.into())),
            Question::Subset(_) => ReadAnswer::Subset(self.subset()?.into()),
            Question::Amounts(_) => ReadAnswer::Amounts(self.amounts()?),
            Question::Spread { .. } => ReadAnswer::Spread(self.spread()?),
            Question::Slice { .. } => ReadAnswer::Slice(self.lines_around_mark()?.into()),
            Question::Positions(_) => {
                ReadAnswer::Positions(self.parts.list()?.all(Reply::read)?.into())
            }
            Question::Changed => unreachable!("it has no answer of its own"),
        })
    }

    /// The data of the next entry, if it has any.
    fn next_data(&mut self) -> Result<Option<EntryData>, StoreError> {
        let Some(data) = &mut self.data else {
            return Ok(None);
        };
        let stored = data.text()?;
        if stored.is_empty() {
            return Ok(None);
        }
        let read = EntryData::from_stored(&stored);
        require(read, "the data of an entry is not a JSON object").map(Some)
    }

    /// The next entry of the answer.
    fn entry(&mut self, mark: &SortKey, rank: Option<u64>) -> Result<Entry, StoreError> {
        Ok(Entry {
            data: self.next_data()?,
            ..mark.entry(self.board, rank)?
        })
    }

    /// The entries of a flat list of members and scores. The ranks after the first follow from the scores.
    fn entries(
        &mut self,
        offset: u64,
        first_rank: u64,
        mut flat: Reply,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut rank = first_rank;
        for place in offset + 1.. {
            if flat.is_empty() {
                break;
            }
            let mut entry = self.entry(&mark(&mut flat)?, Some(rank))?;
            if let Some(before) = entries.last() {
                let is_tied = before.score == entry.score;
                rank = self.ranking.rank_after(rank, is_tied, place);
                entry.rank = Some(rank);
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn page(&mut self, selection: Selection) -> Result<Page, StoreError> {
        let total = self.total;
        let first_rank = self.parts.read()?;
        let (flat, mut me) = (self.parts.list()?, self.parts.list()?);
        let (offset, listed) = match selection {
            Selection::Behind(offset) => (offset, self.board.listed(total)),
            _ => (self.parts.read()?, self.parts.read()?),
        };
        let entries = self.entries(offset, first_rank, flat)?;
        let me = if me.is_empty() {
            None
        } else {
            let (rank, score, member) = (rank(&mut me)?, me.integer()?, me.bytes()?);
            Some(self.entry(&SortKey { score, member }, rank)?)
        };
        Ok(Page {
            total,
            listed,
            entries: entries.into(),
            me,
            ..Page::default()
        })
    }

    fn neighbourhood(&mut self) -> Result<Neighbourhood, StoreError> {
        let parts = &mut self.parts;
        let (position, from, first_rank) = (parts.integer()?, parts.read()?, parts.read()?);
        let (flat, mut before) = (parts.list()?, parts.list()?);
        let mut entries = self.entries(from, first_rank, flat)?;
        let previous = if before.is_empty() {
            None
        } else {
            let rank = rank(&mut before)?;
            Some((rank, shown_score(self.board, before.integer()?)))
        };
        let (index, outranked_by) = if let Ok(position) = u64::try_from(position) {
            let index = usize::try_from(position.saturating_sub(from)).unwrap_or(usize::MAX);
            (index, Some(self.parts.read()?))
        } else {
            let (score, member) = (self.parts.integer()?, self.parts.bytes()?);
            entries.push(self.entry(&SortKey { score, member }, None)?);
            (entries.len() - 1, None)
        };
        let is_there = index < entries.len();
        let fault = "a member is missing from its own neighbours";
        require(is_there.then_some(()), fault)?;
        Ok(Neighbourhood {
            total: self.total,
            outranked_by,
            entries,
            index,
            previous,
        })
    }

    fn subset(&mut self) -> Result<Subset, StoreError> {
        let entries = self.parts.list()?.all(|found| {
            let mut one = found.list()?;
            if one.is_empty() {
                return Ok(None);
            }
            let _position = one.integer()?;
            let (rank, score, member) = (rank(&mut one)?, one.integer()?, one.bytes()?);
            let mark = SortKey { score, member };
            let entry = self.entry(&mark, rank)?;
            Ok(Some((mark, entry)))
        });
        Ok(Subset {
            total: self.total,
            entries: entries?,
        })
    }

    fn amounts(&mut self) -> Result<Amounts, StoreError> {
        let (high, low) = (self.parts.integer()?, self.parts.integer()?);
        let stored = (i128::from(high) << 32) + i128::from(low);
        Ok(Amounts {
            members: self.total,
            score_sum: match self.board.definition.order {
                Order::Desc => -stored,
                Order::Asc => stored,
            },
            events: self.parts.read()?,
        })
    }

    fn spread(&mut self) -> Result<Spread, StoreError> {
        let listed = self.parts.read()?;
        let (mut positions, mut flat) = (self.parts.list()?, self.parts.list()?);
        let entries = positions.all(|positions| Ok((positions.read()?, mark(&mut flat)?)))?;
        Ok(Spread { listed, entries })
    }

    fn lines_around_mark(&mut self) -> Result<Slice, StoreError> {
        let (position, from) = (self.parts.read()?, self.parts.read()?);
        let mut flat = self.parts.list()?;
        let line = |flat: &mut Reply| {
            Ok(ShardLine {
                mark: mark(flat)?,
                data: self.next_data()?,
            })
        };
        Ok(Slice {
            position,
            from,
            entries: flat.all(line)?,
            total: self.total,
        })
    }
}
