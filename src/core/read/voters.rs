//! The distinct voters of members, where a board counts them.
//!
//! The counts are estimates, and are read right after their entries.

use super::store::standings::Entry;
use super::store::voters::{self, Voters};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::MemberId;
use crate::domain::period::Period;
use crate::domain::shard::Shard;
use crate::runtime::join::try_join_all;

impl Engine {
    /// Estimates the voters of entries of a standing.
    pub(crate) async fn voters(
        &self,
        live: &LiveBoard,
        periods: &[Period],
        entries: impl Iterator<Item = &Entry> + Send,
    ) -> Result<Voters, Error> {
        let members: Vec<&str> = entries.map(|entry| &*entry.member).collect();
        let indexes = indexes_by_shard(live, &members);
        let asked = live
            .shards
            .iter()
            .zip(&indexes)
            .map(async |(shard, indexes)| {
                let members = indexes.iter().map(|index| members[*index]);
                voters::count_of_members(&self.store, &shard.shard, periods, members).await
            });
        let mut counts = vec![0; members.len()];
        for (indexes, of_shard) in indexes.iter().zip(try_join_all(asked).await?) {
            for (index, count) in indexes.iter().zip(of_shard) {
                counts[*index] = count;
            }
        }
        Ok(Voters(Some(counts.into())))
    }

    /// Estimates the distinct voters of several periods together.
    pub(crate) async fn voters_of_standing(
        &self,
        live: &LiveBoard,
        periods: &[Period],
    ) -> Result<u64, Error> {
        let shards: Vec<&Shard> = live.shards.iter().map(|shard| &shard.shard).collect();
        if let [whole] = *shards {
            return Ok(voters::count(&self.store, whole, periods).await?);
        }
        Ok(voters::count_of_shards(&self.store, &shards, periods).await?)
    }
}

/// The indexes of members in a list, by the members' shards.
fn indexes_by_shard(live: &LiveBoard, members: &[&str]) -> Vec<Vec<usize>> {
    if live.shards.len() == 1 {
        return vec![(0..members.len()).collect()];
    }
    let mut indexes = vec![Vec::new(); live.shards.len()];
    for (index, member) in members.iter().enumerate() {
        if let Ok(member) = MemberId::parse(member) {
            indexes[live.board.shard_of(&member)].push(index);
        }
    }
    indexes
}
