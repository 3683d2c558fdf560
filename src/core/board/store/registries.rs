//! Takes names of keys that no longer exist out of registries.

use std::collections::BTreeMap;

use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::decode::Coded;
use crate::redis::dispatch::Store;
use crate::redis::kinds::{Expiry, Form, Kind};
use crate::redis::script;

/// About how many names one call looks at: a fraction of a millisecond of Redis.
const CALL_NAMES_MAX: u32 = 200;

/// Goes on with the round through the registry of a shard, in a bounded step, or begins one if the last began so long ago.
/// Returns whether there is more to do.
pub async fn forget_names(
    store: &Store,
    shard: &Shard,
    now: Timestamp,
    interval_ms: i64,
) -> Result<bool, StoreError> {
    let named = Kind::ALL.iter().filter(|kind| kind.form() == Form::Named);
    // The keys of all others exist for as long as the shard, or are registered before they exist.
    let kinds = named
        .filter(|kind| kind.expiry() == Expiry::WithPeriod || **kind == Kind::Derived)
        .map(|kind| (kind.code(), kind.is_standing()));
    let parts = Kind::ALL
        .iter()
        .filter(|kind| kind.form() == Form::Part)
        .map(|kind| (kind.code(), true));
    let forgotten = store
        .call_version(&script::FORGET_NAMES, shard)
        .field("now", now.ms())
        .field("interval", interval_ms)
        .field("count", CALL_NAMES_MAX)
        .field("kinds", kinds.collect::<BTreeMap<_, _>>())
        .field("parts", parts.collect::<BTreeMap<_, _>>());
    forgotten.derive::<Coded>().await?.is("MORE", "DONE")
}
