//! Stores webhooks in one hash, with a version that changes with any of them.

use std::collections::BTreeMap;

use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, WebhookName};
use crate::redis::dispatch::Store;
use crate::redis::stored::{Changed, Named, Stored};
use crate::redis::{StoreError, keys, script};

/// The maximum number of webhooks: few enough to read them all at once.
pub const WEBHOOKS_MAX: usize = 100;

impl Named for Webhook {
    const WHAT: &'static str = "a webhook";
    const COUNT_MAX: usize = WEBHOOKS_MAX;
}

#[derive(Clone, Debug, Default)]
pub struct StoredWebhooks {
    /// Their version, which changes with any of them.
    pub version: String,
    pub all: BTreeMap<WebhookName, Stored<Webhook>>,
}

pub async fn load_all(store: &Store) -> Result<StoredWebhooks, StoreError> {
    // Version first: if a webhook changes between the two commands, the version is outdated.
    let version: Option<String> = store.command("GET", [keys::WEBHOOKS_VERSION]).await?;
    let stored: BTreeMap<String, String> = store.command("HGETALL", [keys::WEBHOOKS]).await?;
    let all = stored
        .into_iter()
        .filter_map(|(name, json)| Some((WebhookName::parse(&name).ok()?, Stored::new(json))));
    Ok(StoredWebhooks {
        version: version.unwrap_or_default(),
        all: all.collect(),
    })
}

/// The webhook with this name.
pub async fn load(
    store: &Store,
    name: &WebhookName,
) -> Result<Option<Stored<Webhook>>, StoreError> {
    let field = [keys::WEBHOOKS, name.as_str()];
    let stored: Option<String> = store.command("HGET", field).await?;
    Ok(stored.map(Stored::new))
}

/// Creates, changes or, without a new one, deletes a webhook with its deliveries, if it is stored as the caller saw it.
pub async fn change(
    store: &Store,
    name: &WebhookName,
    seen: Option<&Stored<Webhook>>,
    new: Option<&Webhook>,
    now: Timestamp,
) -> Result<Changed, StoreError> {
    store
        .call(&script::WEBHOOK, keys::WEBHOOKS)
        .keys(keys::webhook_keys(name))
        .change(name.as_str(), (seen, new))
        .arg(now)
        .write()
        .await
}
