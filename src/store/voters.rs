//! Counts distinct voters.

use std::sync::Arc;

use fred::types::Value;

use super::args::pack;
use super::dispatch::Store;
use super::kinds::Kind;
use super::reply::Reply;
use super::{StoreError, keys, script};
use crate::domain::period::Period;
use crate::domain::shard::Shard;
use crate::join::try_join_all;

/// How many periods' voters one call may merge: about a millisecond of Redis, where there are many voters.
const CALL_PERIODS_MAX: usize = 100;

/// The voters of some entries, in their order; of none where the board does not count them.
#[derive(Clone, Debug, Default)]
pub struct Voters(pub Option<Arc<[u64]>>);

impl Voters {
    /// Those of the entry with this index.
    pub fn of(&self, index: usize) -> Option<u64> {
        self.0.as_ref()?.get(index).copied()
    }
}

impl Store {
    /// Estimates how many distinct voters there were in these periods together.
    pub async fn voters(&self, shard: &Shard, periods: &[Period]) -> Result<u64, StoreError> {
        let keys = periods.iter().map(|period| keys::voters(shard, period));
        let counts = self.count_voters(shard, &[keys.collect()]).await?;
        counts.first().copied().ok_or_else(missing)
    }

    /// The same for all shards of a board. It is what one shard would tell, since the union of HyperLogLogs is exact.
    pub async fn voters_of_shards(
        &self,
        shards: &[&Shard],
        periods: &[Period],
    ) -> Result<u64, StoreError> {
        let sketches = shards.iter().map(async |shard| {
            let head = [keys::head(shard.tag()), keys::single(shard, Kind::Scratch)];
            let voters = periods.iter().map(|period| keys::voters(shard, period));
            let keys = head.into_iter().chain(voters).collect();
            self.read(&script::EXPORT_VOTERS, keys, Vec::new()).await
        });
        // Nobody has voted there.
        let is_empty = |sketch: &Value| sketch.as_bytes().is_none_or(<[u8]>::is_empty);
        let mut sketches: Vec<Value> = try_join_all(sketches).await?;
        sketches.retain(|sketch| !is_empty(sketch));
        let (Some(first), false) = (shards.first(), sketches.is_empty()) else {
            return Ok(0);
        };
        let scratch = (0..sketches.len()).map(|index| keys::sketch(first, index));
        let keys = std::iter::once(keys::head(first.tag())).chain(scratch);
        let count = self.read(&script::UNION, keys.collect(), sketches).await?;
        count.as_u64().ok_or_else(missing)
    }

    /// The same for each of some members, of one shard.
    pub async fn member_voters(
        &self,
        shard: &Shard,
        periods: &[Period],
        members: impl Iterator<Item = &str>,
    ) -> Result<Vec<u64>, StoreError> {
        let of_periods: Vec<String> = periods
            .iter()
            .map(|period| keys::voters(shard, period))
            .collect();
        let of_member = |member| {
            let keys = of_periods.iter();
            keys.map(|voters| keys::member_voters(voters, member))
                .collect()
        };
        let groups: Vec<Vec<String>> = members.map(of_member).collect();
        let together = (CALL_PERIODS_MAX / periods.len().max(1)).max(1);
        let mut counts = Vec::with_capacity(groups.len());
        for groups in groups.chunks(together) {
            counts.extend(self.count_voters(shard, groups).await?);
        }
        Ok(counts)
    }

    async fn count_voters(
        &self,
        shard: &Shard,
        groups: &[Vec<String>],
    ) -> Result<Vec<u64>, StoreError> {
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        let voters = groups.iter().flatten().cloned();
        let keys = std::iter::once(keys::head(shard.tag())).chain(voters);
        let read = self.read(&script::VOTERS, keys.collect(), vec![pack(&sizes)?]);
        let reply = match read.await {
            // A script that may write is refused then, but not the command alone.
            Err(StoreError::Full(_)) => {
                let counted = groups
                    .iter()
                    .map(|keys| self.command("PFCOUNT", keys.clone()));
                return try_join_all(counted).await;
            }
            reply => reply?,
        };
        let mut reply = Reply::new(reply)?;
        groups.iter().map(|_| reply.count()).collect()
    }
}

fn missing() -> StoreError {
    StoreError::Unexpected("no count of voters".into())
}
