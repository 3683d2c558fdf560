//! Reads a board of several shards: merges the lists of the shards, fetching no more of them than needed.
//!
//! Each shard sorts its own members. The [`SortKey`]s of all shards together sort as one list would. So
//! - the position of a mark is the sum of its positions in the shards, each found by counting (`scripts/core/read/read.lua`);
//! - a page asks each shard for its share of the page and a few more, and again if too few of its entries came;
//! - a deep page finds its beginning in a few rounds, by selection from samples: every shard returns some entries, evenly
//!   spread over the range in question. These bound the positions of all entries, and leave a smaller range.
//!
//! The answer of one shard is a snapshot. The answers of all shards together are not, because events go on between them.
//! The last step of a page, or of a member with its neighbours, is one call to each shard, and its entries are in order.

use std::sync::Arc;

use futures::FutureExt;

use super::reader::Reader;
use super::store::standings::{
    Answer, Entry, Line, Neighbourhood, Page, Query, Selection, Slice, SortKey, Spread, Subset,
};
use crate::core::{Error, LiveBoard, LiveShard, Outdated};
use crate::domain::board::Ranking;
use crate::domain::ids::MemberId;
use crate::domain::series::Standing;
use crate::runtime::join::join_all;

/// How many entries each shard returns in a round of the search for a page's beginning.
const SAMPLES: u64 = 16;
/// A search ends with an entry at most this far before the page. The entries between are read in vain.
const SKIP_MAX: u64 = 64;
/// The most rounds of a search; each leaves about a tenth of the range.
const ROUNDS_MAX: usize = 24;

/// A standing of a board of several shards.
pub(crate) struct Merged<'a> {
    reader: &'a Reader<'a>,
    live: &'a LiveBoard,
    /// The shards that have entries of the standing.
    shards: &'a [LiveShard],
    standing: Standing,
    ranking: Ranking,
    /// How many entries are listed.
    keep_top: Option<u64>,
}

/// The range of a shard's list in which a page begins, by positions.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: u64,
    to: u64,
}

/// The positions of a selection.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Its first entry.
    offset: u64,
    /// Its greatest possible end.
    stop: u64,
    /// How many entries its list has, if that is not the whole standing.
    listed: Option<u64>,
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
    lines: Vec<Line>,
}

/// A sample: its sort key, its shard and its position there.
type Sample = (SortKey, usize, u64);

impl<'a> Merged<'a> {
    pub(crate) fn new(reader: &'a Reader<'a>, standing: Standing) -> Self {
        let live = reader.live;
        Self {
            reader,
            live,
            shards: live.shards_of(standing.section()),
            standing,
            ranking: live.board.ranking_of(&standing.period),
            keep_top: live.board.definition.keep_top.map(u64::from),
        }
    }

    /// `count` entries of a selection, and the entry of `member`.
    pub(crate) async fn page(
        &self,
        selection: Selection,
        count: u64,
        member: Option<&MemberId>,
    ) -> Result<Page, Error> {
        let Found {
            offset,
            stop,
            listed,
        } = self.find_selection(selection).await?;
        let count = count.min(stop.saturating_sub(offset));
        let (total, entries) = self.list(Start::Behind(offset), count).await?;
        let me = match member {
            Some(member) => self.own(member).await?,
            None => None,
        };
        Ok(Page {
            total,
            listed: listed.unwrap_or(self.live.board.listed(total)),
            entries,
            me,
            ..Page::default()
        })
    }

    async fn find_selection(&self, selection: Selection) -> Result<Found, Error> {
        let everything = |offset| Found {
            offset,
            stop: u64::MAX,
            listed: None,
        };
        match selection {
            Selection::Behind(offset) => Ok(everything(offset)),
            Selection::Around { score, ahead } => {
                let positions = self.positions(vec![SortKey::of(score)]).await?;
                let position = positions[0].min(self.listed_behind(0));
                Ok(everything(position.saturating_sub(ahead)))
            }
            Selection::Between {
                first,
                last,
                offset,
            } => {
                let start = first.map_or(SortKey::FIRST, SortKey::of);
                let stop = last.map_or(SortKey::LAST, |last| SortKey::of(last + 1));
                let positions = self.positions(vec![start, stop]).await?;
                let cut = |position: u64| position.min(self.listed_behind(0));
                let (start, stop) = (cut(positions[0]), cut(positions[1]));
                Ok(Found {
                    offset: start + offset,
                    stop,
                    listed: Some(stop.saturating_sub(start)),
                })
            }
            Selection::Percentile(thousandths) => {
                let others = self.total().await?.saturating_sub(1);
                let place = others - (thousandths * others).div_ceil(100_000);
                Ok(everything(self.last_of_equals(place).await?))
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
        let worse = self
            .positions(vec![SortKey::of(line.mark.score + 1)])
            .await?;
        let worse = worse[0].min(self.listed_behind(0));
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
        if !is_listed || self.keep_top.is_some_and(|keep_top| position >= keep_top) {
            let found = self.unlisted(total, own, around).await?;
            return Ok(Some(Arc::new(Neighbourhood { previous, ..found })));
        }
        // The entries before the mark and from it on, without those further away than the neighbours.
        let mut ahead: Vec<&Line> = Vec::new();
        let mut behind: Vec<&Line> = Vec::new();
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
        let listed = usize::try_from(self.listed_behind(position)).unwrap_or(usize::MAX);
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
        let queries = indexes.iter().map(|indexes| Query::Subset {
            standing: self.standing,
            members: indexes
                .iter()
                .map(|index| members[*index].clone())
                .collect(),
        });
        let of_shards = self.ask_each::<Arc<Subset>>(queries).await?;
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
        let query = Query::Subset {
            standing: self.standing,
            members: vec![member.clone()],
        };
        let found = self.ask::<Arc<Subset>>(shard, query).await?;
        Ok(found.entries.iter().flatten().next().cloned())
    }

    /// A member that is not listed: the last listed entries, and then its own.
    async fn unlisted(&self, total: u64, own: Entry, around: u64) -> Result<Neighbourhood, Error> {
        let keep_top = self.keep_top.unwrap_or(0);
        let offset = keep_top.saturating_sub(around);
        let start = Start::Behind(offset);
        let (_, mut entries) = self.list(start, keep_top - offset).await?;
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
    pub(crate) async fn lines(&self, start: Start<'_>, count: u64) -> Result<Vec<Line>, Error> {
        Ok(self.gather(start, count).await?.lines)
    }

    async fn gather(&self, start: Start<'_>, count: u64) -> Result<Gathered, Error> {
        // Reading begins at a mark that is not far before the position.
        let (begin, offset) = match start {
            Start::Behind(offset) => (&self.begin_of(offset).await?, Some(offset)),
            Start::At(mark) => (mark, None),
        };
        let count = count.min(self.listed_behind(offset.unwrap_or(0)));
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
            let count = count.min(self.listed_behind(from));
            // After the last entry of a shard that has more, others may come.
            let known_to = (0..shards)
                .filter(has_more)
                .filter_map(|shard| slices[shard].entries.last())
                .min()
                .cloned();
            let mut lines: Vec<&Line> = slices.iter().flat_map(|slice| &slice.entries).collect();
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

    /// How many entries can be listed after a position.
    fn listed_behind(&self, position: u64) -> u64 {
        let keep_top = self.keep_top.unwrap_or(u64::MAX);
        keep_top.saturating_sub(position)
    }

    /// A mark at most [`SKIP_MAX`] before the position `offset`.
    async fn begin_of(&self, offset: u64) -> Result<SortKey, Error> {
        let mut begin = SortKey::FIRST;
        if offset <= SKIP_MAX {
            return Ok(begin);
        }
        let mut parts = vec![
            Part {
                from: 0,
                to: u64::MAX >> 12,
            };
            self.shards.len()
        ];
        for _ in 0..ROUNDS_MAX {
            let queries = parts.iter().map(|part| Query::Spread {
                standing: self.standing,
                from: part.from,
                to: part.to,
                count: SAMPLES,
            });
            let spreads: Vec<Spread> = self.ask_each(queries).await?;
            for (part, spread) in parts.iter_mut().zip(&spreads) {
                part.to = part.to.min(spread.listed).max(part.from);
            }
            if let Some(mark) = narrow(&mut parts, &spreads, offset) {
                begin = begin.max(mark);
            } else {
                break;
            }
            let position: u64 = parts.iter().map(|part| part.from).sum();
            if offset.saturating_sub(position) <= SKIP_MAX {
                break;
            }
        }
        Ok(begin)
    }

    /// The entries of these lines; the first one is at the position `from`.
    async fn ranked(
        &self,
        from: u64,
        lines: impl Iterator<Item = &Line>,
    ) -> Result<Vec<Entry>, Error> {
        let board = &self.live.board;
        let lines: Vec<&Line> = lines.collect();
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
        let is_listed = |position: u64| self.keep_top.is_none_or(|keep_top| position < keep_top);
        Ok(positions
            .into_iter()
            .zip(ranks)
            .map(|(position, rank)| is_listed(position).then_some(rank + 1))
            .collect())
    }

    /// How many entries are before each mark.
    pub(crate) async fn positions(&self, marks: Vec<SortKey>) -> Result<Vec<u64>, Error> {
        let mut sums = vec![0; marks.len()];
        let query = Query::Positions {
            standing: self.standing,
            marks,
        };
        let queries = self.shards.iter().map(|_| query.clone());
        for positions in self.ask_each::<Arc<[u64]>>(queries).await? {
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
        let queries = (0..self.shards.len()).map(|shard| {
            let (before, count) = count(shard);
            Query::Slice {
                standing: self.standing,
                mark: mark.clone(),
                before,
                count,
            }
        });
        self.ask_each(queries).await
    }

    /// Sends a query to each shard, all at once.
    async fn ask_each<T: TryFrom<Answer>>(
        &self,
        queries: impl Iterator<Item = Query>,
    ) -> Result<Vec<T>, Error> {
        let asked = self
            .shards
            .iter()
            .zip(queries)
            .map(|(shard, query)| self.ask(shard, query));
        join_all(asked).await.into_iter().collect()
    }

    async fn ask<T: TryFrom<Answer>>(&self, shard: &LiveShard, query: Query) -> Result<T, Error> {
        let series = self.standing.series;
        self.reader.ask(shard, series, query).boxed().await
    }
}

/// Narrows each shard's range to where, by the samples, the position `offset` can be. Returns the last sample that is known
/// not to be after that position, at which all ranges then begin; `None` if there is none.
fn narrow(parts: &mut [Part], spreads: &[Spread], offset: u64) -> Option<SortKey> {
    let mut samples: Vec<Sample> = Vec::new();
    for (shard, spread) in spreads.iter().enumerate() {
        let marks = spread.entries.iter();
        samples.extend(marks.map(|(position, mark)| (mark.clone(), shard, *position)));
    }
    samples.sort_unstable();
    // Up to where each shard's entries are certainly before the current sample: after its last sample, …
    let mut ahead: Vec<u64> = parts.iter().map(|part| part.from).collect();
    // … and up to where they may be before it: its next samples, the nearest last.
    let mut next: Vec<Vec<u64>> = spreads
        .iter()
        .zip(&*parts)
        .map(|(spread, part)| {
            let positions = spread.entries.iter().rev().map(|(position, _)| *position);
            std::iter::once(part.to).chain(positions).collect()
        })
        .collect();
    let mut begin = None;
    let mut end = None;
    for (mark, shard, position) in samples {
        next[shard].pop();
        ahead[shard] = position;
        let at_most = |other: usize| {
            next[other]
                .last()
                .copied()
                .filter(|_| other != shard)
                .unwrap_or(position)
        };
        let highest: u64 = (0..parts.len()).map(at_most).sum();
        let lowest: u64 = ahead.iter().sum();
        if highest <= offset {
            begin = Some((mark, ahead.clone()));
        } else if lowest > offset && end.is_none() {
            end = Some((0..parts.len()).map(at_most).collect::<Vec<u64>>());
        }
        ahead[shard] = position + 1;
    }
    for (part, to) in parts.iter_mut().zip(end.into_iter().flatten()) {
        part.to = part.to.min(to);
    }
    let (mark, from) = begin?;
    for (part, from) in parts.iter_mut().zip(from) {
        part.from = from;
    }
    Some(mark)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn mark((score, member): (i64, u16)) -> SortKey {
        let member = Bytes::copy_from_slice(&member.to_be_bytes());
        SortKey { score, member }
    }

    /// Some positions of a list, evenly spread, as `scripts/core/read/read.lua` chooses them.
    fn spread(list: &[SortKey], part: Part, count: u64) -> Spread {
        let listed = list.len() as u64;
        let (from, to) = (part.from, part.to.min(listed));
        let length = to.saturating_sub(from);
        let step = length.div_ceil(count).max(1);
        let positions = (from..to).step_by(usize::try_from(step).unwrap());
        let at = |position| (position, list[usize::try_from(position).unwrap()].clone());
        Spread {
            total: listed,
            listed,
            entries: positions.map(at).collect(),
        }
    }

    proptest! {
        /// However the entries are spread over shards, each round keeps the wanted position in every range, and what it
        /// returns is not after that position.
        #[test]
        fn narrowing_never_loses_the_position(
            entries in vec((vec((-3_i64..3, any::<u16>()), 0..40), 1..5_usize), 1..4),
            offset in 0_u64..120,
            samples in 1_u64..6,
        ) {
            let mut lists: Vec<Vec<SortKey>> = entries
                .into_iter()
                .map(|(entries, _)| entries.into_iter().map(mark).collect())
                .collect();
            for list in &mut lists {
                list.sort_unstable();
            }
            let mut all: Vec<(&SortKey, usize)> = Vec::new();
            for (shard, list) in lists.iter().enumerate() {
                all.extend(list.iter().map(|mark| (mark, shard)));
            }
            all.sort_unstable();
            // How many entries of each shard are before the position.
            let ahead = all.iter().take(usize::try_from(offset).unwrap());
            let mut cut = vec![0_u64; lists.len()];
            for (_, shard) in ahead {
                cut[*shard] += 1;
            }
            let mut parts: Vec<Part> = lists
                .iter()
                .map(|list| Part { from: 0, to: list.len() as u64 })
                .collect();
            for _ in 0..8 {
                let spreads: Vec<Spread> = lists
                    .iter()
                    .zip(&parts)
                    .map(|(list, part)| spread(list, *part, samples))
                    .collect();
                let begin = narrow(&mut parts, &spreads, offset);
                for (part, cut) in parts.iter().zip(&cut) {
                    prop_assert!(part.from <= *cut && *cut <= part.to.max(part.from));
                }
                let from: u64 = parts.iter().map(|part| part.from).sum();
                prop_assert!(from <= offset);
                let Some(begin) = begin else { break };
                let position = all.iter().filter(|(mark, _)| **mark < begin).count() as u64;
                prop_assert!(position <= offset);
            }
        }
    }
}
