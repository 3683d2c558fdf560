//! The answers to queries, as read.lua sends them.

use std::sync::Arc;

use crate::redis::Value;

use super::entries::{Amounts, Entry, Line, Neighbourhood, Page, Slice, SortKey, Spread, Subset};
use super::query::{Indexed, Query, Selection};
use crate::domain::board::{Board, Order, Ranking};
use crate::domain::data::EntryData;
use crate::domain::edition::Changed;
use crate::domain::series::Standing;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::args::shown_score;
use crate::redis::protocol::queries;
use crate::redis::reply::{Reply, require};

/// The answer to a [`Query`] of the same name. Clones share what is large.
#[derive(Clone, Debug)]
pub enum Answer {
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
    /// Nothing but what every answer comes with.
    Changed(()),
    /// The derived standing whose newest period begins at this time, in milliseconds, must be completed.
    Incomplete(i64),
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
    pub answer: Answer,
    /// The barrier of the shard then: no event before it counts any more.
    pub barrier: Option<Timestamp>,
    /// The shard's change counter then.
    pub changed: Changed,
    /// Whether the standings of the query had entries in the shard: its own, and the one before.
    pub has_entries: [bool; 2],
}

impl ShardAnswer {
    /// Whether it answers its query, so that nothing must be done first. (A replica could not do that.)
    pub(super) fn is_complete(&self) -> bool {
        !matches!(
            self.answer,
            Answer::Incomplete(_) | Answer::Unlisted(_) | Answer::Short(_) | Answer::Erasing
        )
    }
}

/// Converts an [`Answer`] into the type of one kind; the error means that it is of another kind.
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

/// Reads the answers of a reply, in the order of the queries.
pub(super) fn read_all(
    board: &Board,
    queries: &[Indexed<'_>],
    reply: Value,
) -> Result<Vec<ShardAnswer>, StoreError> {
    let mut reply = Reply::answer(reply)?;
    let barrier = reply.read::<Option<i64>>()?.map(Timestamp::from_ms_clamped);
    let answers = queries
        .iter()
        .map(|(query, _)| answer(board, query, &mut reply.list()?))
        .collect::<Result<Vec<_>, StoreError>>()?;
    let changed = Changed::from_stored(&reply.text()?);
    let changed = require(changed, "a head lacks the number of its changes")?;
    let digits = reply.text()?;
    let has_entries = |index: usize| {
        let digit = digits.as_bytes().get(index.wrapping_sub(1));
        digit == Some(&b'1')
    };
    Ok(queries
        .iter()
        .zip(answers)
        .map(|((_, indexes), answer)| ShardAnswer {
            answer,
            barrier,
            changed,
            has_entries: indexes.map(has_entries),
        })
        .collect())
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
        let standing = require(standing, "a query lacks its standing")?;
        if total == queries::SHORT {
            return Ok(Answer::Short(standing));
        }
        return Ok(Answer::Unlisted(standing));
    }
    let total = require(u64::try_from(total).ok(), "a total is negative")?;
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
                position: reply.read()?,
                from: reply.read()?,
                entries: reply.list()?.all(line)?,
            };
            Answer::Slice(slice.into())
        }
        Query::Positions { .. } => Answer::Positions(reply.list()?.all(Reply::read)?.into()),
        Query::Changed(_) => Answer::Changed(()),
        Query::WithData(query) => {
            let mut answer = answer(board, query, &mut reply.list()?)?;
            give_data(&mut answer, &mut reply.list()?)?;
            answer
        }
    })
}

/// Gives the entries of an answer their data, which comes in the order of the entries.
fn give_data(answer: &mut Answer, data: &mut Reply) -> Result<(), StoreError> {
    let places: Vec<&mut Option<EntryData>> = match answer {
        Answer::Page(page) => {
            let Page { entries, me, .. } = own(page)?;
            entries
                .iter_mut()
                .chain(me)
                .map(|entry| &mut entry.data)
                .collect()
        }
        Answer::Member(Some(neighbourhood)) => own(neighbourhood)?
            .entries
            .iter_mut()
            .map(|entry| &mut entry.data)
            .collect(),
        Answer::Subset(subset) => own(subset)?
            .entries
            .iter_mut()
            .flatten()
            .map(|(_, entry)| &mut entry.data)
            .collect(),
        Answer::Slice(slice) => own(slice)?
            .entries
            .iter_mut()
            .map(|line| &mut line.data)
            .collect(),
        _ => Vec::new(),
    };
    for place in places {
        let stored = data.text()?;
        if !stored.is_empty() {
            let read = EntryData::from_stored(&stored);
            *place = Some(require(read, "the data of an entry is not a JSON object")?);
        }
    }
    require(
        data.is_empty().then_some(()),
        "there is not one data object for each entry",
    )
}

/// Mutable access to an answer that is not shared yet.
fn own<T>(answer: &mut Arc<T>) -> Result<&mut T, StoreError> {
    require(Arc::get_mut(answer), "an answer is already shared")
}

fn spread(total: u64, reply: &mut Reply) -> Result<Spread, StoreError> {
    let listed = reply.read()?;
    let (mut positions, mut flat) = (reply.list()?, reply.list()?);
    Ok(Spread {
        total,
        listed,
        entries: positions.all(|positions| Ok((positions.read()?, mark(&mut flat)?)))?,
    })
}

/// The next mark of a flat list of members and scores.
fn mark(flat: &mut Reply) -> Result<SortKey, StoreError> {
    let (member, score) = (flat.bytes()?, flat.integer()?);
    Ok(SortKey { score, member })
}

/// The next mark as a line, without its data.
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
        events: reply.read()?,
    })
}

/// A rank as it is sent; 0 stands for none.
fn rank(reply: &mut Reply) -> Result<Option<u64>, StoreError> {
    Ok(Some(reply.read()?).filter(|rank| *rank > 0))
}

fn page(
    (board, ranking): (&Board, Ranking),
    total: u64,
    selection: Selection,
    reply: &mut Reply,
) -> Result<Page, StoreError> {
    let first_rank = reply.read()?;
    let (mut flat, mut me) = (reply.list()?, reply.list()?);
    let (offset, listed) = match selection {
        Selection::Behind(offset) => (offset, board.listed(total)),
        _ => (reply.read()?, reply.read()?),
    };
    let entries = entries((board, ranking), offset, first_rank, &mut flat)?;
    let me = if me.is_empty() {
        None
    } else {
        let (rank, score, member) = (rank(&mut me)?, me.integer()?, me.bytes()?);
        Some(SortKey { score, member }.entry(board, rank)?)
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
    let (position, from, first_rank) = (reply.integer()?, reply.read()?, reply.read()?);
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
        (index, Some(reply.read()?))
    } else {
        let (score, member) = (reply.integer()?, reply.bytes()?);
        entries.push(SortKey { score, member }.entry(board, None)?);
        (entries.len() - 1, None)
    };
    if index >= entries.len() {
        return Err(StoreError::Unexpected(
            "a member is missing from its own neighbours".into(),
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
        let mark = SortKey { score, member };
        let entry = mark.entry(board, rank)?;
        Ok(Some((mark, entry)))
    });
    Ok(Subset {
        total,
        entries: entries?,
    })
}

/// Makes entries of a flat list of members and scores. The ranks after the first follow from the scores.
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
