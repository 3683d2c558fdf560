//! Webhooks: stored in one hash, with a version that tells whether any of them has changed.

use std::collections::BTreeMap;

use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, WebhookName};
use crate::redis::dispatch::Store;
use crate::redis::stored::{Changed, Named, Stored};
use crate::redis::{StoreError, keys, script};

/// The most webhooks: so few that all of them are read at once.
pub const WEBHOOKS_MAX: usize = 100;

impl Named for Webhook {
    const WHAT: &'static str = "a webhook";
    const COUNT_MAX: usize = WEBHOOKS_MAX;
}

/// All webhooks.
#[derive(Clone, Debug, Default)]
pub struct StoredWebhooks {
    /// Their version: nobody has changed any of them while it is this one.
    pub version: String,
    /// They, by their names.
    pub all: BTreeMap<WebhookName, Stored<Webhook>>,
}

/// All webhooks.
pub async fn load_all(store: &Store) -> Result<StoredWebhooks, StoreError> {
    // If one changes between the two commands, the version is not that of the webhooks any more.
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

/// Makes, changes or, without a new one, deletes a webhook with its deliveries, if what is stored is what the caller saw.
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
