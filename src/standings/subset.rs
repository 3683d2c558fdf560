//! Reads some members of a standing, for example a circle of friends.

use std::sync::Arc;

use futures::FutureExt;

use super::standing::{Attempt, View};
use crate::core::Error;
use crate::core::read::merge::Merged;
use crate::core::read::reader::Reader;
use crate::core::read::scroll::ScrollPlace;
use crate::core::read::store::standings::{Entry, Question, ShardQuery, Subset};
use crate::core::read::voters::Voters;
use crate::domain::ids::MemberId;
use crate::domain::series::Standing;

/// The maximum number of members in a subset.
pub const SUBSET_MAX: usize = 500;

/// Members to read.
#[derive(Clone, Debug)]
pub struct SubsetView {
    /// The members, without duplicates.
    pub members: Vec<MemberId>,
}

#[derive(Clone, Debug)]
pub struct FoundSubset {
    /// How many members the standing has.
    pub total: u64,
    /// The entries found, in the order of the standing.
    pub entries: Vec<Entry>,
    /// Their ranks within the subset, from 1, counted as the board's ranking does.
    pub positions: Vec<u64>,
    pub voters: Voters,
    /// The members that were not found, in the order of the request.
    pub not_found: Vec<MemberId>,
}

impl View for SubsetView {
    type Found = FoundSubset;

    async fn read(&self, attempt: &Attempt<'_>) -> Result<FoundSubset, Error> {
        let standing = attempt.target.standing;
        let subset = if attempt.target.is_empty {
            Arc::new(Subset {
                total: 0,
                entries: vec![None; self.members.len()],
            })
        } else {
            attempt.reader.subset(standing, &self.members).await?
        };
        if subset.total == 0 && !attempt.target.is_empty {
            attempt.require_cohort().await?;
        }
        let mut listed = Vec::new();
        let mut not_found = Vec::new();
        for (member, entry) in self.members.iter().zip(&subset.entries) {
            match entry {
                Some(entry) => listed.push(entry.clone()),
                None => not_found.push(member.clone()),
            }
        }
        listed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let ranking = attempt.live.board.ranking_of(&standing.period);
        let mut place = ScrollPlace::default();
        let positions = listed
            .iter()
            .map(|(mark, _)| place.advance(ranking, mark.score))
            .collect();
        let entries: Vec<Entry> = listed.into_iter().map(|(_, entry)| entry).collect();
        let voters = attempt.voters(entries.iter()).await?;
        Ok(FoundSubset {
            total: subset.total,
            entries,
            positions,
            voters,
            not_found,
        })
    }

    fn entries(found: &FoundSubset) -> Vec<&Entry> {
        found.entries.iter().collect()
    }
}

impl Reader<'_> {
    /// Reads some members of a standing.
    async fn subset(&self, standing: Standing, members: &[MemberId]) -> Result<Arc<Subset>, Error> {
        let [shard] = self.live.shards_of(standing.section()) else {
            let merged = Merged::new(self, standing);
            return Ok(Arc::new(merged.subset(members).boxed().await?));
        };
        let subset = Question::Subset(members.to_vec());
        self.ask(shard, ShardQuery::new(standing, subset)).await
    }
}
