//! Webhooks: stored in one hash, with a version that tells whether any of them has changed.

use std::collections::BTreeMap;

use fred::types::Value;

use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, WebhookName};

/// The most webhooks: so few that all of them are read at once.
pub const WEBHOOKS_MAX: usize = 100;

/// What is stored of a webhook: its JSON. A newer release may have written it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredWebhook(pub(super) String);

impl StoredWebhook {
    /// Reads it.
    pub fn read(&self) -> Result<Webhook, StoreError> {
        let read = serde_json::from_str(&self.0);
        read.map_err(|error| StoreError::Unexpected(format!("a webhook that is stored: {error}")))
    }
}

/// All webhooks.
#[derive(Clone, Debug, Default)]
pub struct StoredWebhooks {
    /// Their version: nobody has changed any of them while it is this one.
    pub version: String,
    /// They, by their names.
    pub all: BTreeMap<WebhookName, StoredWebhook>,
}

/// How a change of a webhook ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WebhookChanged {
    /// It is done.
    Done,
    /// The webhook is not what the caller saw.
    Not,
    /// There are [`WEBHOOKS_MAX`] already.
    Full,
}

impl Store {
    /// All webhooks.
    pub async fn load_webhooks(&self) -> Result<StoredWebhooks, StoreError> {
        // If one changes between the two commands, the version is not that of the webhooks any more.
        let version = vec![keys::WEBHOOKS_VERSION.to_owned()];
        let version: Option<String> = self.command("GET", version).await?;
        let stored = vec![keys::WEBHOOKS.to_owned()];
        let stored: BTreeMap<String, String> = self.command("HGETALL", stored).await?;
        let stored = stored.into_iter();
        let all = stored.filter_map(|(name, json)| {
            Some((WebhookName::parse(&name).ok()?, StoredWebhook(json)))
        });
        Ok(StoredWebhooks {
            version: version.unwrap_or_default(),
            all: all.collect(),
        })
    }

    /// The webhook with this name.
    pub async fn load_webhook(
        &self,
        name: &WebhookName,
    ) -> Result<Option<StoredWebhook>, StoreError> {
        let args = vec![keys::WEBHOOKS.to_owned(), name.to_string()];
        let stored: Option<String> = self.command("HGET", args).await?;
        Ok(stored.map(StoredWebhook))
    }

    /// Makes, changes or, without a new one, deletes a webhook with its deliveries, if what is stored is what the caller saw.
    pub async fn change_webhook(
        &self,
        name: &WebhookName,
        seen: Option<&StoredWebhook>,
        new: Option<&Webhook>,
        now: Timestamp,
    ) -> Result<WebhookChanged, StoreError> {
        let new = new.map(serde_json::to_string).transpose();
        let new = new.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let args: Vec<Value> = vec![
            name.as_str().into(),
            seen.map_or("", |seen| &seen.0).into(),
            new.unwrap_or_default().into(),
            WEBHOOKS_MAX.to_string().into(),
            now.ms().to_string().into(),
        ];
        let keys = keys::webhook_keys(name).to_vec();
        let reply = self.write_at(keys::WEBHOOKS, &script::WEBHOOK, keys, args);
        match Reply::new(reply.await?)?.text()?.as_str() {
            "OK" => Ok(WebhookChanged::Done),
            "CHANGED" => Ok(WebhookChanged::Not),
            "FULL" => Ok(WebhookChanged::Full),
            other => unknown_code(other),
        }
    }
}
