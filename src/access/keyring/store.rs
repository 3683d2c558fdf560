//! Stores API keys in one hash, and announces changes to all instances, as for boards.

use serde::{Deserialize, Serialize};

use crate::core::board::store::boards;
use crate::domain::access::{Grant, KeyName};
use crate::domain::secret::Digest;
use crate::domain::time::Timestamp;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::stored::{Changed, Named, Stored};
use crate::redis::{StoreError, keys, script};

/// The maximum number of API keys.
pub const API_KEYS_MAX: usize = 100_000;
/// How many API keys one call handles.
const CALL_KEYS_MAX: usize = 1_000;

/// An API key as it is stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    pub digest: Digest,
    /// Its former secret, while that is still valid.
    #[serde(default)]
    pub previous: Option<Previous>,
    /// What it allows.
    pub grant: Grant,
    pub created_at: Timestamp,
}

/// A secret that was replaced.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Previous {
    pub digest: Digest,
    /// When it expires.
    pub until: Timestamp,
}

impl Named for ApiKey {
    const WHAT: &'static str = "an API key";
    const COUNT_MAX: usize = API_KEYS_MAX;
}

/// The API keys with these names.
pub async fn load(
    store: &Store,
    names: &[KeyName],
) -> Result<Vec<Option<Stored<ApiKey>>>, StoreError> {
    let stored: Vec<Option<String>> = read_fields(store, keys::API_KEYS, names).await?;
    let stored = stored.into_iter().map(|json| json.map(Stored::new));
    Ok(stored.collect())
}

/// When the API keys with these names were last used, on any instance.
pub async fn last_uses(
    store: &Store,
    names: &[KeyName],
) -> Result<Vec<Option<Timestamp>>, StoreError> {
    let used: Vec<Option<i64>> = read_fields(store, keys::API_KEY_USES, names).await?;
    let at = |ms: Option<i64>| ms.map(Timestamp::from_ms_clamped);
    Ok(used.into_iter().map(at).collect())
}

async fn read_fields<T: crate::redis::FromValue + Send>(
    store: &Store,
    key: &str,
    names: &[KeyName],
) -> Result<Vec<T>, StoreError> {
    let mut fields = Vec::with_capacity(names.len());
    for names in names.chunks(CALL_KEYS_MAX) {
        let args = std::iter::once(key).chain(names.iter().map(KeyName::as_str));
        fields.extend(store.command::<Vec<T>>("HMGET", args).await?);
    }
    Ok(fields)
}

/// Up to `count` names of API keys after `after`, in byte order.
pub async fn names(
    store: &Store,
    after: Option<&KeyName>,
    count: usize,
) -> Result<Vec<KeyName>, StoreError> {
    let after = after.map(KeyName::as_str);
    let names = boards::listed(store, keys::OF_API_KEYS[0], after, count).await?;
    Ok(names.iter().flat_map(|name| KeyName::parse(name)).collect())
}

/// The names of all API keys.
pub async fn all_names(store: &Store) -> Result<Vec<KeyName>, StoreError> {
    let names = boards::all_listed(store, keys::OF_API_KEYS[0]).await?;
    Ok(names.iter().flat_map(|name| KeyName::parse(name)).collect())
}

/// Creates, changes or, without a new one, deletes an API key, if it is stored as the caller saw it; and announces it.
pub async fn change(
    store: &Store,
    name: &KeyName,
    seen: Option<&Stored<ApiKey>>,
    new: Option<&ApiKey>,
) -> Result<Changed, StoreError> {
    store
        .call(&script::API_KEY, keys::API_KEYS)
        .keys(keys::OF_API_KEYS)
        .keys([keys::API_KEYS, keys::API_KEY_USES])
        .change(name.as_str(), (seen, new))
        .write()
        .await
}

/// Stores when API keys were used.
pub async fn note_uses(store: &Store, uses: &[(KeyName, Timestamp)]) -> Result<(), StoreError> {
    for uses in uses.chunks(CALL_KEYS_MAX) {
        let pairs = uses
            .iter()
            .flat_map(|(name, at)| [name.to_string(), at.ms().to_string()]);
        store
            .call(&script::API_KEY_USES, keys::API_KEYS)
            .keys([keys::API_KEYS, keys::API_KEY_USES])
            .args(pairs)
            .write::<Done>()
            .await?;
    }
    Ok(())
}
