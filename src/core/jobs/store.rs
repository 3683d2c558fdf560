//! The registered instances, each as it announced itself.

use std::collections::BTreeMap;

use crate::domain::instance::Instance;
use crate::redis::dispatch::Store;
use crate::redis::stored::{read_json, to_json};
use crate::redis::{StoreError, keys};

/// Stores the announcement of an instance.
pub async fn write(store: &Store, id: &str, instance: &Instance) -> Result<(), StoreError> {
    let told = [keys::INSTANCES, id, &to_json(instance)?];
    store.command("HSET", told).await
}

/// All registered instances, by their ids. Those that this release can't read are left out.
pub async fn all(store: &Store) -> Result<BTreeMap<String, Instance>, StoreError> {
    let told: BTreeMap<String, String> = store.command("HGETALL", [keys::INSTANCES]).await?;
    Ok(told
        .into_iter()
        .filter_map(|(id, json)| {
            let instance = read_json("an instance", &json).ok()?;
            Some((id, instance))
        })
        .collect())
}

pub async fn forget(store: &Store, id: &str) -> Result<(), StoreError> {
    store.command("HDEL", [keys::INSTANCES, id]).await
}
