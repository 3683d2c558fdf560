//! Compares the keys that say who is hidden.

use serde::Deserialize;

use super::{Difference, Manner, PART, look, rest};
use crate::domain::shard::Shard;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, random, script};

/// How many random bytes the ids of hides that replace lost ones follow from.
const SEED_BYTES: usize = 16;

/// The progress of checking them.
#[derive(Debug, Deserialize)]
pub struct HidesPart {
    /// The phase to continue with; `None` at the end.
    pub phase: Option<String>,
    pub cursor: String,
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// Checks some of the members that a shard has as hidden, from where the last part ended; the first has an empty phase and
/// cursor `0`.
pub async fn check_hides(
    store: &Store,
    shard: &Shard,
    (phase, cursor): (&str, &str),
    manner: Manner,
) -> Result<HidesPart, StoreError> {
    let scripts = [&script::CHECK_HIDES, &script::REPAIR_HIDES];
    let look = look(store, shard, scripts, manner.repair)
        .key(keys::registry(shard.tag(), shard.generation))
        .field("phase", phase)
        .field("cursor", cursor)
        .field("part", PART)
        .field("now", manner.now.ms())
        .field("seed", random::hexadecimal::<SEED_BYTES>("")?);
    let Done::Ok(part) = look.run(manner.repair.writes()).await?;
    Ok(part)
}
