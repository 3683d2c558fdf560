//! Reads a board of several shards: merges the lists of the shards, fetching no more of them than needed.
//!
//! Each shard sorts its own members. The [`SortKey`]s of all shards together sort as one list would. So
//! - the position of a mark is the sum of its positions in the shards, each found by counting (`scripts/core/read/read.lua`);
//! - a page asks each shard for its share of the page and a few more, and again if too few of its entries came;
//! - a deep page first finds its beginning (`search.rs`).
//!
//! The answer of one shard is a snapshot. The answers of all shards together are not, because events go on between them.
//! The last step of a page, or of a member with its neighbours, is one call to each shard, and its entries are in order.

use std::sync::Arc;

use futures::FutureExt;

use super::reader::Reader;
use super::search::SKIP_MAX;
use super::store::standings::{
    Entry, Neighbourhood, Page, Question, ReadAnswer, Selection, ShardLine, ShardQuery, Slice,
    SortKey, Subset,
};
use crate::core::{Error, LiveBoard, LiveShard, Outdated};
use crate::domain::board::Ranking;
use crate::domain::ids::MemberId;
use crate::domain::series::Standing;
use crate::runtime::join::join_all;

/// A standing of a board of several shards.
pub(crate) struct Merged<'a> {
    reader: &'a Reader<'a>,
    live: &'a LiveBoard,
    /// The shards that have entries of the standing.
    pub(super) shards: &'a [LiveShard],
    standing: Standing,
    ranking: Ranking,
    /// How many entries are listed at most.
    keep_top: u64,
}

/// Where a part of a list begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// After this many entries.
    Behind(u64),
    At(&'a SortKey),
}

/// A part of a list.
struct Gathered {
    /// How many members there are.
    total: u64,
    /// The position of the first line.
    from: u64,
    lines: Vec<ShardLine>,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(reader: &'a Reader<'a>, standing: Standing) -> Self {
        let live = reader.live;
        Self {
            reader,
            live,
            shards: live.shards_of(standing.section()),
            standing,
            ranking: live.board.ranking_of(&standing.period),
            keep_top: live.board.definition.keep_top.map_or(u64::MAX, u64::from),
        }
    }

    /// `count` entries of a selection, and the entry of `member`.
    pub(crate) async fn page(
        &self,
        selection: Selection,
        count: u64,
        member: Option<&MemberId>,
    ) -> Result<Page, Error> {
        let (begin, skipped, listed) = self.find_selection(selection).await?;
        let count = listed.map_or(count, |listed| count.min(listed.saturating_sub(skipped)));
        let (total, entries) = self.list(Start::Behind(begin + skipped), count).await?;
        let me = match member {
            Some(member) => self.own(member).await?,
            None => None,
        };
        Ok(Page {
            total,
            listed: listed.unwrap_or(self.live.board.listed(total)),
            entries: entries.into(),
            me,
            ..Page::default()
        })
    }

    /// The position at which a selection begins, how many entries from there are skipped, and how many its list has, if that
    /// is not the whole standing.
    async fn find_selection(&self, selection: Selection) -> Result<(u64, u64, Option<u64>), Error> {
        match selection {
            Selection::Behind(offset) => Ok((offset, 0, None)),
            Selection::Around { score, ahead } => {
                let position = self.listed_before(SortKey::of(score)).await?;
                Ok((position.saturating_sub(ahead), 0, None))
            }
            Selection::Between {
                first,
                last,
                offset,
            } => {
                let start = first.map_or(SortKey::FIRST, SortKey::of);
                let stop = last.map_or(SortKey::LAST, |last| SortKey::of(last + 1));
                let positions = self.positions(vec![start, stop]).await?;
                let (start, stop) = (
                    positions[0].min(self.keep_top),
                    positions[1].min(self.keep_top),
                );
                Ok((start, offset, Some(stop.saturating_sub(start))))
            }
            Selection::Percentile(thousandths) => {
                let others = self.total().await?.saturating_sub(1);
                let place = others - (thousandths * others).div_ceil(100_000);
                Ok((self.last_of_equals(place).await?, 0, None))
            }
        }
    }

    /// How many members there are.
    pub(crate) async fn total(&self) -> Result<u64, Error> {
        let slices = self.slices(&SortKey::FIRST, |_| (0, 0)).await?;
        Ok(slices.iter().map(|slice| slice.total).sum())
    }

    /// The position of the last listed entry that has the same rank as the one at this position.
    async fn last_of_equals(&self, position: u64) -> Result<u64, Error> {
        if self.ranking == Ranking::Ordinal {
            return Ok(position);
        }
        let Some(line) = self.lines(Start::Behind(position), 1).await?.pop() else {
            return Ok(position);
        };
        let worse = self.listed_before(SortKey::of(line.mark.score + 1)).await?;
        // It is read after the entry, which may have moved.
        Ok(position.max(worse.saturating_sub(1)))
    }

    /// A member, up to `around` neighbours on each side, and its position in `previous`.
    pub(crate) async fn member(
        &self,
        member: &MemberId,
        around: u64,
        previous: Option<&Self>,
    ) -> Result<Option<Arc<Neighbourhood>>, Error> {
        let Some((mark, own)) = self.find(member).await? else {
            return Ok(None);
        };
        let is_listed = own.rank.is_some();
        let previous = match previous {
            Some(previous) => previous.own(member).await?,
            None => None,
        };
        let previous = previous.map(|entry| (entry.rank, entry.score));
        let slices = self.slices(&mark, |_| (around, around + 1)).await?;
        let total = slices.iter().map(|slice| slice.total).sum();
        let position: u64 = slices.iter().map(|slice| slice.position).sum();
        if !is_listed || position >= self.keep_top {
            let found = self.unlisted(total, own, around).await?;
            return Ok(Some(Arc::new(Neighbourhood { previous, ..found })));
        }
        // The entries before the mark and from it on, without those further away than the neighbours.
        let mut ahead: Vec<&ShardLine> = Vec::new();
        let mut behind: Vec<&ShardLine> = Vec::new();
        for slice in &slices {
            let ahead_count = usize::try_from(slice.position - slice.from).unwrap_or(usize::MAX);
            let (first, rest) = slice.entries.split_at(ahead_count.min(slice.entries.len()));
            ahead.extend(first);
            behind.extend(rest);
        }
        ahead.sort_unstable();
        behind.sort_unstable();
        let around = usize::try_from(around).unwrap_or(usize::MAX);
        let ahead = &ahead[ahead.len().saturating_sub(around)..];
        let listed = usize::try_from(self.keep_top - position).unwrap_or(usize::MAX);
        behind.truncate(around.saturating_add(1).min(listed));
        if behind.first().map(|line| &line.mark) != Some(&mark) {
            // It has moved in between.
            return Err(Error::Again(Outdated::Read));
        }
        let from = position - ahead.len() as u64;
        let lines = ahead.iter().chain(&behind).copied();
        let entries = self.ranked(from, lines).await?;
        let index = ahead.len();
        Ok(Some(Arc::new(Neighbourhood {
            total,
            outranked_by: entries[index].rank.map(|rank| rank - 1),
            entries,
            index,
            previous,
        })))
    }

    pub(crate) async fn subset(&self, members: &[MemberId]) -> Result<Subset, Error> {
        let mut indexes = vec![Vec::new(); self.shards.len()];
        for (index, member) in members.iter().enumerate() {
            indexes[self.live.index_of(self.standing.section(), member)].push(index);
        }
        let questions = indexes.iter().map(|indexes| {
            let members = indexes.iter().map(|index| members[*index].clone());
            Question::Subset(members.collect())
        });
        let of_shards = self.ask_each::<Arc<Subset>>(questions).await?;
        let total = of_shards.iter().map(|subset| subset.total).sum();
        let mut entries = vec![None; members.len()];
        for (indexes, subset) in indexes.iter().zip(&of_shards) {
            for (index, entry) in indexes.iter().zip(&subset.entries) {
                entries[*index].clone_from(entry);
            }
        }
        let listed: Vec<SortKey> = entries
            .iter()
            .flatten()
            .filter(|(_, entry): &&(SortKey, Entry)| entry.rank.is_some())
            .map(|(mark, _)| mark.clone())
            .collect();
        let mut ranks = self.ranks(&listed).await?.into_iter();
        for (_, entry) in entries.iter_mut().flatten() {
            entry.rank = entry.rank.and_then(|_| ranks.next()?);
        }
        Ok(Subset { total, entries })
    }

    async fn own(&self, member: &MemberId) -> Result<Option<Entry>, Error> {
        let found = self.subset(std::slice::from_ref(member)).await?;
        let entry = found.entries.into_iter().flatten().next();
        Ok(entry.map(|(_, entry)| entry))
    }

    /// A member's sort key and entry; the rank is that in its shard, `None` if the shard does not list it.
    pub(crate) async fn find(&self, member: &MemberId) -> Result<Option<(SortKey, Entry)>, Error> {
        let shard = &self.shards[self.live.index_of(self.standing.section(), member)];
        let question = Question::Subset(vec![member.clone()]);
        let found = self.ask::<Arc<Subset>>(shard, question).await?;
        Ok(found.entries.iter().flatten().next().cloned())
    }

    /// A member that is not listed: the last listed entries, and then its own.
    async fn unlisted(&self, total: u64, own: Entry, around: u64) -> Result<Neighbourhood, Error> {
        let listed = self.live.board.listed(total);
        let offset = listed.saturating_sub(around);
        let start = Start::Behind(offset);
        let (_, mut entries) = self.list(start, listed - offset).await?;
        entries.push(Entry { rank: None, ..own });
        Ok(Neighbourhood {
            total,
            outranked_by: None,
            index: entries.len() - 1,
            entries,
            previous: None,
        })
    }

    /// How many members there are, and `count` entries from a start on.
    pub(crate) async fn list(
        &self,
        start: Start<'_>,
        count: u64,
    ) -> Result<(u64, Vec<Entry>), Error> {
        let Gathered { total, from, lines } = self.gather(start, count).await?;
        Ok((total, self.ranked(from, lines.iter()).await?))
    }

    /// The lines of `count` entries from a start on, without ranks.
    pub(crate) async fn lines(
        &self,
        start: Start<'_>,
        count: u64,
    ) -> Result<Vec<ShardLine>, Error> {
        Ok(self.gather(start, count).await?.lines)
    }

    async fn gather(&self, start: Start<'_>, count: u64) -> Result<Gathered, Error> {
        // Reading begins at a mark that is not far before the position.
        let (begin, offset) = match start {
            Start::Behind(offset) => (&self.begin_of(offset).await?, Some(offset)),
            Start::At(mark) => (mark, None),
        };
        let listed_from = |position| self.keep_top.saturating_sub(position);
        let count = count.min(listed_from(offset.unwrap_or(0)));
        let shards = self.shards.len();
        // At first each shard is asked for its share and a few more.
        let share = (SKIP_MAX.min(offset.unwrap_or(0)) + count).div_ceil(shards as u64);
        let mut wanted = vec![share + share / 4 + 4; shards];
        loop {
            let slices = self.slices(begin, |shard| (0, wanted[shard])).await?;
            let has_more = |shard: &usize| slices[*shard].entries.len() as u64 >= wanted[*shard];
            let total = slices.iter().map(|slice| slice.total).sum();
            let position: u64 = slices.iter().map(|slice| slice.position).sum();
            let from = offset.unwrap_or(position);
            let Some(skip) = from.checked_sub(position) else {
                // Too many entries have moved up in between: the search must begin again.
                return Err(Error::Again(Outdated::Read));
            };
            let count = count.min(listed_from(from));
            // After the last entry of a shard that has more, others may come.
            let known_to = (0..shards)
                .filter(has_more)
                .filter_map(|shard| slices[shard].entries.last())
                .min()
                .cloned();
            let mut lines: Vec<&ShardLine> =
                slices.iter().flat_map(|slice| &slice.entries).collect();
            if let Some(known_to) = &known_to {
                lines.retain(|line| *line <= known_to);
            }
            if known_to.is_none() || lines.len() as u64 >= skip + count {
                lines.sort_unstable();
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let lines = lines.into_iter().skip(skip).take(count).cloned().collect();
                return Ok(Gathered { total, from, lines });
            }
            let short: Vec<usize> = (0..shards)
                .filter(has_more)
                .filter(|shard| slices[*shard].entries.last() == known_to.as_ref())
                .collect();
            for shard in short {
                wanted[shard] = (wanted[shard] * 2).min(skip + count);
            }
        }
    }

    /// The entries of these lines; the first one is at the position `from`.
    async fn ranked(
        &self,
        from: u64,
        lines: impl Iterator<Item = &ShardLine>,
    ) -> Result<Vec<Entry>, Error> {
        let board = &self.live.board;
        let lines: Vec<&ShardLine> = lines.collect();
        let mut rank = from + 1;
        if let (Some(first), Ranking::Competition) = (lines.first(), self.ranking) {
            let ahead = self.positions(vec![first.mark.of_score()]).await?;
            // It is read after the entries: what has moved up meanwhile does not count.
            rank = ahead.first().map_or(rank, |ahead| rank.min(ahead + 1));
        }
        let mut entries = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let is_tied = index > 0 && lines[index - 1].mark.score == line.mark.score;
            if index > 0 {
                let place = from + 1 + index as u64;
                rank = self.ranking.rank_after(rank, is_tied, place);
            }
            entries.push(line.entry(board, Some(rank))?);
        }
        Ok(entries)
    }

    /// The ranks of marks, `None` after the last listed entry.
    async fn ranks(&self, marks: &[SortKey]) -> Result<Vec<Option<u64>>, Error> {
        if marks.is_empty() {
            return Ok(Vec::new());
        }
        let positions = self.positions(marks.to_vec()).await?;
        let ranks = match self.ranking {
            Ranking::Competition => {
                let marks = marks.iter().map(SortKey::of_score).collect();
                self.positions(marks).await?
            }
            Ranking::Ordinal | Ranking::Dense => positions.clone(),
        };
        Ok(positions
            .into_iter()
            .zip(ranks)
            .map(|(position, rank)| (position < self.keep_top).then_some(rank + 1))
            .collect())
    }

    /// How many listed entries are before a mark.
    async fn listed_before(&self, mark: SortKey) -> Result<u64, Error> {
        Ok(self.positions(vec![mark]).await?[0].min(self.keep_top))
    }

    /// How many entries are before each mark.
    pub(crate) async fn positions(&self, marks: Vec<SortKey>) -> Result<Vec<u64>, Error> {
        let mut sums = vec![0; marks.len()];
        let question = Question::Positions(marks);
        let questions = self.shards.iter().map(|_| question.clone());
        for positions in self.ask_each::<Arc<[u64]>>(questions).await? {
            for (sum, position) in sums.iter_mut().zip(positions.iter()) {
                *sum += position;
            }
        }
        Ok(sums)
    }

    /// The entries around a mark in each shard; `count`: how many before it, and from it on.
    async fn slices(
        &self,
        mark: &SortKey,
        count: impl Fn(usize) -> (u64, u64),
    ) -> Result<Vec<Arc<Slice>>, Error> {
        let questions = (0..self.shards.len()).map(|shard| {
            let (before, count) = count(shard);
            Question::Slice {
                mark: mark.clone(),
                before,
                count,
            }
        });
        self.ask_each(questions).await
    }

    /// Asks each shard its question, all at once.
    pub(super) async fn ask_each<T: TryFrom<ReadAnswer>>(
        &self,
        questions: impl Iterator<Item = Question>,
    ) -> Result<Vec<T>, Error> {
        let asked = self
            .shards
            .iter()
            .zip(questions)
            .map(|(shard, question)| self.ask(shard, question));
        join_all(asked).await.into_iter().collect()
    }

    async fn ask<T: TryFrom<ReadAnswer>>(
        &self,
        shard: &LiveShard,
        question: Question,
    ) -> Result<T, Error> {
        let query = ShardQuery::new(self.standing, question);
        self.reader.ask(shard, query).boxed().await
    }
}
