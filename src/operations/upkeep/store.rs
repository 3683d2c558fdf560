//! The memory that the data of a shard takes, estimated from a sample of its keys.

use crate::domain::shard::Shard;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys};
use crate::runtime::join::try_join_all;

/// An estimate of the memory that data takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Footprint {
    /// The number of keys.
    pub keys: u64,
    /// About how many bytes they take.
    pub bytes: u64,
    /// How many of them were measured.
    pub sampled: u64,
}

impl Footprint {
    /// The estimate for this many keys, of which some were measured, in bytes. Other keys count as the mean.
    pub fn estimated(keys: u64, looked_at: &[u64]) -> Self {
        let sampled = looked_at.len() as u64;
        let bytes = looked_at.iter().sum::<u64>();
        let all = u128::from(bytes) * u128::from(keys.max(sampled));
        let bytes = all.checked_div(u128::from(sampled)).unwrap_or(0);
        Self {
            keys: keys.max(sampled),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            sampled,
        }
    }
}

/// Estimates the memory of a shard from up to `count` of its keys, chosen at random.
pub async fn estimate(store: &Store, shard: &Shard, count: usize) -> Result<Footprint, StoreError> {
    let registry = keys::registry(shard.tag(), shard.generation);
    let keys: u64 = store.command("SCARD", vec![registry.clone()]).await?;
    let args = vec![registry, count.to_string()];
    let sample: Vec<String> = store.command("SRANDMEMBER", args).await?;
    let looked_at = sample.iter().map(|key| store.memory_of(key));
    let looked_at = try_join_all(looked_at).await?.into_iter().flatten();
    Ok(Footprint::estimated(keys, &looked_at.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all() {
        let of = |keys, looked_at: &[u64]| Footprint::estimated(keys, looked_at).bytes;
        assert_eq!(of(0, &[]), 0);
        assert_eq!(of(2, &[10, 30]), 40);
        assert_eq!(of(200, &[10, 30]), 4_000);
        assert_eq!(of(u64::MAX, &[u64::MAX / 2, 1]), u64::MAX);
    }
}
