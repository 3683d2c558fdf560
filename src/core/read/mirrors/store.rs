//! Names mirrored standings, so that calls leave what they change of them in the trail.

use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, script};

/// For how long standings stay named, in seconds.
const NAMED_S: u64 = 30;

/// Names standings of a shard, and returns the id of each; none if they can't be mirrored.
pub(super) async fn name(
    store: &Store,
    shard: &Shard,
    standings: &[Standing],
) -> Result<Vec<u64>, StoreError> {
    let sorted_sets = standings
        .iter()
        .filter_map(|standing| keys::standing(shard, standing).into_iter().next());
    let named = store
        .call_version(&script::NAME_MIRRORED, shard)
        .field("standings", sorted_sets.collect::<Vec<_>>())
        .field("seconds", NAMED_S);
    let Done::Ok(ids) = named.derive().await?;
    Ok(ids)
}
