//! Answers queries from mirrors, as `read.lua` answers them from the standings.

use super::mirror::Mirror;
use super::ranked::Listed;
use crate::core::read::store::standings::{
    Entry, Neighbourhood, Page, Question, ReadAnswer, Selection, ShardQuery, SortKey, Subset,
};
use crate::domain::board::{Board, Ranking};
use crate::domain::ids::MemberId;
use crate::redis::StoreError;
use crate::redis::args::shown_score;

/// Whether mirrors can answer this.
pub(super) fn is_answered(query: &ShardQuery) -> bool {
    let is_known = matches!(
        query.question,
        Question::Member { .. } | Question::Subset(_) | Question::Page { .. }
    );
    is_known && !query.with_data
}

/// A standing as a mirror has it.
pub(super) struct View<'a> {
    pub(super) board: &'a Board,
    pub(super) mirror: &'a Mirror,
    /// That of the period before.
    pub(super) before: Option<&'a Mirror>,
}

impl View<'_> {
    pub(super) fn answer(&self, question: &Question) -> Result<Option<ReadAnswer>, StoreError> {
        Ok(Some(match question {
            Question::Member { member, around } => {
                let neighbourhood = self.neighbourhood(member, count(*around))?;
                ReadAnswer::Member(neighbourhood.map(Into::into))
            }
            Question::Subset(members) => ReadAnswer::Subset(self.subset(members)?.into()),
            Question::Page {
                selection,
                count: wanted,
                member,
            } => ReadAnswer::Page(
                self.page(*selection, count(*wanted), member.as_ref())?
                    .into(),
            ),
            _ => return Ok(None),
        }))
    }

    fn total(&self) -> u64 {
        self.mirror.list.len() as u64
    }

    fn ranking(&self, mirror: &Mirror) -> Ranking {
        self.board.ranking_of(&mirror.standing.period)
    }

    /// How many entries have a better score than the one at a position.
    fn better_than(mirror: &Mirror, position: usize, score: i64) -> usize {
        // Few entries are tied, and a search costs more than a look at the one before.
        let before = position.checked_sub(1);
        let before = before.and_then(|before| mirror.list.entries(before, 1).next());
        match before {
            Some(before) if before.score == score => mirror.list.position_of_score(score),
            _ => position,
        }
    }

    fn rank_at(&self, mirror: &Mirror, position: usize, score: i64) -> u64 {
        let before = match self.ranking(mirror) {
            Ranking::Ordinal => position,
            _ => Self::better_than(mirror, position, score),
        };
        before as u64 + 1
    }

    fn entry(&self, line: Listed<'_>, rank: u64) -> Result<Entry, StoreError> {
        SortKey::entry_of(self.board, line.score, (line.tie_key, line.id), Some(rank))
    }

    fn entries(&self, from: usize, wanted: usize) -> Result<Vec<Entry>, StoreError> {
        let ranking = self.ranking(self.mirror);
        let mut entries: Vec<Entry> = Vec::with_capacity(wanted.min(1_000));
        let mut last = (0, 0);
        for (place, line) in (from..).zip(self.mirror.list.entries(from, wanted)) {
            let rank = if entries.is_empty() {
                self.rank_at(self.mirror, place, line.score)
            } else {
                ranking.rank_after(last.1, last.0 == line.score, place as u64 + 1)
            };
            last = (line.score, rank);
            entries.push(self.entry(line, rank)?);
        }
        Ok(entries)
    }

    fn own(&self, member: &MemberId) -> Result<Option<(SortKey, Entry)>, StoreError> {
        let found = self.mirror.list.of_id(member.as_str().as_bytes());
        let found = found.map(|(position, line)| {
            let rank = self.rank_at(self.mirror, position, line.score);
            let key = SortKey {
                score: line.score,
                member: self.mirror.list.member(line).into(),
            };
            Ok((key, self.entry(line, rank)?))
        });
        found.transpose()
    }

    fn subset(&self, members: &[MemberId]) -> Result<Subset, StoreError> {
        let entries = members.iter().map(|member| self.own(member));
        Ok(Subset {
            total: self.total(),
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    fn neighbourhood(
        &self,
        member: &MemberId,
        around: usize,
    ) -> Result<Option<Neighbourhood>, StoreError> {
        let id = member.as_str().as_bytes();
        let Some((position, line)) = self.mirror.list.of_id(id) else {
            return Ok(None);
        };
        let from = position.saturating_sub(around);
        let previous = self.before.and_then(|before| {
            let (position, line) = before.list.of_id(id)?;
            let rank = self.rank_at(before, position, line.score);
            Some((Some(rank), shown_score(self.board, line.score)))
        });
        let better = self.rank_at(self.mirror, position, line.score) - 1;
        Ok(Some(Neighbourhood {
            total: self.total(),
            outranked_by: Some(better),
            entries: self.entries(from, position - from + around + 1)?,
            index: position - from,
            previous,
        }))
    }

    /// A page: see `answers[PAGE]` and `selected` of read.lua.
    fn page(
        &self,
        selection: Selection,
        wanted: usize,
        member: Option<&MemberId>,
    ) -> Result<Page, StoreError> {
        let list = &self.mirror.list;
        let listed = list.len();
        let (offset, stop, of_range) = match selection {
            Selection::Behind(offset) => (count(offset), usize::MAX, listed),
            Selection::Between {
                first,
                last,
                offset,
            } => {
                let start = first.map_or(0, |first| list.position_of_score(first));
                let stop = last.map_or(listed, |last| list.position_of_score(last + 1));
                (start + count(offset), stop, stop.saturating_sub(start))
            }
            Selection::Around { score, ahead } => {
                let position = list.position_of_score(score);
                (position.saturating_sub(count(ahead)), listed, listed)
            }
            Selection::Percentile(thousandths) => {
                let others = listed.saturating_sub(1) as u64;
                let mut offset = count(others - (thousandths * others).div_ceil(100_000));
                if self.ranking(self.mirror) != Ranking::Ordinal
                    && let Some(line) = list.entries(offset, 1).next()
                {
                    offset = list.position_of_score(line.score + 1) - 1;
                }
                (offset, listed, listed)
            }
        };
        let wanted = wanted.min(stop.saturating_sub(offset));
        let me = member.map(|member| self.own(member)).transpose()?.flatten();
        Ok(Page {
            total: self.total(),
            listed: of_range as u64,
            entries: self.entries(offset, wanted)?.into(),
            me: me.map(|(_, entry)| entry),
            ..Page::default()
        })
    }
}

fn count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
