//! The instances that there are, each as it has told itself.

use std::collections::BTreeMap;

use crate::domain::instance::Instance;
use crate::redis::dispatch::Store;
use crate::redis::stored::{read_json, to_json};
use crate::redis::{StoreError, keys};

/// Writes down what an instance tells of itself.
pub async fn write(store: &Store, id: &str, instance: &Instance) -> Result<(), StoreError> {
    let told = [keys::INSTANCES, id, &to_json(instance)?];
    store.command("HSET", told).await
}

/// All instances that have told of themselves, by their ids. What this release can't read is left out.
pub async fn all(store: &Store) -> Result<BTreeMap<String, Instance>, StoreError> {
    let told: BTreeMap<String, String> = store.command("HGETALL", [keys::INSTANCES]).await?;
    let read = told.into_iter().filter_map(|(id, json)| {
        let instance = read_json("an instance", &json).ok()?;
        Some((id, instance))
    });
    Ok(read.collect())
}

/// Forgets an instance.
pub async fn forget(store: &Store, id: &str) -> Result<(), StoreError> {
    store.command("HDEL", [keys::INSTANCES, id]).await
}
