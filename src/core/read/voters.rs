//! The distinct voters of members, where a board counts them.
//!
//! The counts are estimates, and are read right after their entries.

use std::sync::Arc;

use super::store::standings::Entry;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::MemberId;
use crate::domain::period::Period;
use crate::domain::shard::Shard;
use crate::redis::args::pack;
use crate::redis::decode::Raw;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::require;
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::try_join_all;

/// How many periods' voters one call may merge: about a millisecond of Redis if there are many voters.
const CALL_PERIODS_MAX: usize = 100;

/// The voters of entries, in their order; none if the board does not count them.
#[derive(Clone, Debug, Default)]
pub struct Voters(pub Option<Arc<[u64]>>);

impl Voters {
    /// The voters of the entry with this index.
    pub fn of(&self, index: usize) -> Option<u64> {
        self.0.as_ref()?.get(index).copied()
    }
}

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
                count_of_members(&self.store, &shard.shard, periods, members).await
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
            return Ok(count(&self.store, whole, periods).await?);
        }
        Ok(count_of_shards(&self.store, &shards, periods).await?)
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

/// Estimates how many distinct voters there were in these periods together.
async fn count(store: &Store, shard: &Shard, periods: &[Period]) -> Result<u64, StoreError> {
    let keys = periods.iter().map(|period| keys::voters(shard, period));
    let counts = count_groups(store, shard, &[keys.collect()]).await?;
    require(counts.first().copied(), "a group has no count")
}

/// Estimates them over all shards of a board: as one shard would, since the union of HyperLogLogs is exact.
async fn count_of_shards(
    store: &Store,
    shards: &[&Shard],
    periods: &[Period],
) -> Result<u64, StoreError> {
    let sketches = shards.iter().map(async |shard| {
        store
            .call(&script::EXPORT_VOTERS, shard.tag())
            .keys([keys::head(shard.tag()), keys::single(shard, Kind::Scratch)])
            .keys(periods.iter().map(|period| keys::voters(shard, period)))
            .read::<Raw>()
            .await
    });
    let mut sketches = try_join_all(sketches).await?;
    // No votes there.
    sketches.retain(|Raw(sketch)| !sketch.is_empty());
    let (Some(first), false) = (shards.first(), sketches.is_empty()) else {
        return Ok(0);
    };
    let scratch = (0..sketches.len()).map(|index| keys::named(first, Kind::Sketch, index));
    store
        .call(&script::UNION, first.tag())
        .key(keys::head(first.tag()))
        .keys(scratch)
        .args(sketches.into_iter().map(|Raw(sketch)| sketch))
        .read()
        .await
}

/// Estimates the distinct voters of each of some members, of one shard.
async fn count_of_members(
    store: &Store,
    shard: &Shard,
    periods: &[Period],
    members: impl Iterator<Item = &str>,
) -> Result<Vec<u64>, StoreError> {
    let of_periods: Vec<String> = periods
        .iter()
        .map(|period| keys::voters(shard, period))
        .collect();
    let of_member = |member| {
        of_periods
            .iter()
            .map(|voters| keys::member_voters(voters, member))
            .collect()
    };
    let groups: Vec<Vec<String>> = members.map(of_member).collect();
    let together = (CALL_PERIODS_MAX / periods.len().max(1)).max(1);
    let mut counts = Vec::with_capacity(groups.len());
    for groups in groups.chunks(together) {
        counts.extend(count_groups(store, shard, groups).await?);
    }
    Ok(counts)
}

async fn count_groups(
    store: &Store,
    shard: &Shard,
    groups: &[Vec<String>],
) -> Result<Vec<u64>, StoreError> {
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    let counted = store
        .call(&script::VOTERS, shard.tag())
        .key(keys::head(shard.tag()))
        .keys(groups.iter().flatten())
        .arg(pack(&sizes)?);
    match counted.read().await {
        // Then a script that may write is refused, but a single command is not.
        Err(StoreError::Full(_)) => {
            let counted = groups.iter().map(|keys| store.command("PFCOUNT", keys));
            try_join_all(counted).await
        }
        counts => counts,
    }
}
