//! The distinct voters of members, where a board counts them.
//!
//! The counts are estimates. They are read right after the entries that they belong to.

use std::sync::Arc;

use futures::future::try_join_all;

use super::reader::SharedPage;
use super::{Engine, Error, LiveBoard};
use crate::domain::board::Uniques;
use crate::domain::ids::MemberId;
use crate::domain::period::Period;
use crate::domain::shard::Shard;
use crate::store::standings::Entry;

/// The voters of some entries, in their order; of none where the board does not count them.
#[derive(Clone, Debug, Default)]
pub struct Voters(Option<Arc<[u64]>>);

impl Voters {
    /// Those of the entry at this place.
    pub fn of(&self, place: usize) -> Option<u64> {
        self.0.as_ref()?.get(place).copied()
    }
}

impl Engine {
    /// Estimates the voters of a page's entries and of its `me`, once for all who share it.
    pub(crate) async fn voters_of_page(
        &self,
        live: &LiveBoard,
        periods: &[Period],
        shared: &SharedPage,
    ) -> Result<Voters, Error> {
        if live.board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let entries = shared.page.entries.iter().chain(&shared.page.me);
        let voters = || Box::pin(self.voters(live, periods, entries));
        shared.voters.get_or_try_init(voters).await.cloned()
    }

    /// Estimates the voters of entries of a standing.
    pub(crate) async fn voters(
        &self,
        live: &LiveBoard,
        periods: &[Period],
        entries: impl Iterator<Item = &Entry>,
    ) -> Result<Voters, Error> {
        if live.board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let members: Vec<&str> = entries.map(|entry| &*entry.member).collect();
        let places = places_by_shard(live, &members);
        let asked = live
            .shards
            .iter()
            .zip(&places)
            .map(async |(shard, places)| {
                let members = places.iter().map(|place| members[*place]);
                let counts = self.store.member_voters(&shard.shard, periods, members);
                counts.await
            });
        let mut counts = vec![0; members.len()];
        for (places, of_shard) in places.iter().zip(try_join_all(asked).await?) {
            for (place, count) in places.iter().zip(of_shard) {
                counts[*place] = count;
            }
        }
        Ok(Voters(Some(counts.into())))
    }

    /// Estimates the voters of some periods together.
    pub(crate) async fn voters_of_standing(
        &self,
        live: &LiveBoard,
        periods: &[Period],
    ) -> Result<u64, Error> {
        let shards: Vec<&Shard> = live.shards.iter().map(|shard| &shard.shard).collect();
        if let [whole] = *shards {
            return Ok(self.store.voters(whole, periods).await?);
        }
        let counted = self.store.voters_of_shards(&shards, periods);
        Ok(counted.await?)
    }
}

/// The places of members in a list, by the shards that they lie in.
fn places_by_shard(live: &LiveBoard, members: &[&str]) -> Vec<Vec<usize>> {
    if live.shards.len() == 1 {
        return vec![(0..members.len()).collect()];
    }
    let mut places = vec![Vec::new(); live.shards.len()];
    for (place, member) in members.iter().enumerate() {
        if let Ok(member) = MemberId::parse(member) {
            places[live.board.shard_of(&member)].push(place);
        }
    }
    places
}
