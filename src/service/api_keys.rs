//! Making, listing, renewing and deleting API keys.

use super::{Error, Service};
use crate::domain::access::{Grant, KeyName};
use crate::domain::part::Part;
use crate::domain::secret::Digest;
use crate::domain::time::{Span, Timestamp};
use crate::domain::webhook::WebhookName;
use crate::engine::ATTEMPTS_MAX;
use crate::problems::Problem;
use crate::store::api_keys::{self, API_KEYS_MAX, ApiKey, Previous};
use crate::store::random;
use crate::store::stored::{Changed, Stored};

/// What the secret of every API key begins with.
pub const SECRET_PREFIX: &str = "st_";
/// How many random bytes follow, each as two hexadecimal digits.
const SECRET_BYTES: usize = 32;

/// An API key, and what is known of its use.
#[derive(Clone, Debug)]
pub struct FoundKey {
    /// Its name.
    pub name: KeyName,
    /// What is stored of it.
    pub key: ApiKey,
    /// When it was last used, as far as that was noted.
    pub last_used: Option<Timestamp>,
    /// The webhooks that it has made or changed last: they outlive it.
    pub webhooks: Vec<WebhookName>,
}

/// An API key that was deleted.
#[derive(Clone, Debug)]
pub struct DeletedKey {
    /// The key, if it could be read.
    pub key: Option<ApiKey>,
    /// The webhooks of the key that were deleted with it.
    pub deleted: Vec<WebhookName>,
    /// Those that are left.
    pub left: Vec<WebhookName>,
}

impl Service {
    /// Makes an API key; returns its secret, which nobody can be told again.
    pub async fn create_api_key(
        &self,
        name: &KeyName,
        grant: Grant,
    ) -> Result<(FoundKey, String), Error> {
        let now = self.engine.clock.now();
        Problem::require_none(grant.check(now))?;
        let secret = random::hexadecimal::<SECRET_BYTES>(SECRET_PREFIX)?;
        let key = ApiKey {
            digest: Digest::of(&secret),
            previous: None,
            grant,
            created_at: now,
        };
        // A key of this name may have left some. They are read first: once the key is made, its secret must not be lost.
        let webhooks = self.webhooks_of_keys().await?.remove(name);
        if !self.change_api_key(name, None, Some(&key)).await? {
            return Err(Problem::key_exists(name).into());
        }
        let found = FoundKey {
            name: name.clone(),
            key,
            last_used: None,
            webhooks: webhooks.unwrap_or_default(),
        };
        Ok((found, secret))
    }

    /// Gives an API key another secret. Returns the key as it was, as it is, and the secret. The one before counts for as
    /// long as `grace` says.
    pub async fn rotate_api_key(
        &self,
        name: &KeyName,
        grace: Span,
    ) -> Result<(ApiKey, FoundKey, String), Error> {
        let secret = random::hexadecimal::<SECRET_BYTES>(SECRET_PREFIX)?;
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.stored_api_key(name).await?;
            let before = stored.read()?;
            let until = self.engine.clock.now().saturating_add(grace);
            let key = ApiKey {
                digest: Digest::of(&secret),
                previous: (grace.ms() > 0).then_some(Previous {
                    digest: before.digest,
                    until,
                }),
                ..before.clone()
            };
            if self.change_api_key(name, Some(&stored), Some(&key)).await? {
                let found = self.found(vec![(name.clone(), key)]).await?.pop();
                return Ok((before, found.ok_or_else(Error::busy)?, secret));
            }
        }
        Err(Error::busy())
    }

    /// Deletes an API key, and its webhooks if these are to go too. No instance takes it any more, within a second.
    pub async fn delete_api_key(
        &self,
        name: &KeyName,
        with_webhooks: bool,
    ) -> Result<DeletedKey, Error> {
        let mut deleted = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.stored_api_key(name).await?;
            // They go first: if the service dies meanwhile, the key is still there to be deleted again.
            if with_webhooks {
                deleted.extend(self.delete_webhooks_of(name).await?);
            }
            let left = self.webhooks_of_keys().await?.remove(name);
            if self.change_api_key(name, Some(&stored), None).await? {
                return Ok(DeletedKey {
                    key: stored.read().ok(),
                    deleted,
                    left: left.unwrap_or_default(),
                });
            }
        }
        Err(Error::busy())
    }

    /// An API key.
    pub async fn api_key(&self, name: &KeyName) -> Result<FoundKey, Error> {
        let key = self.stored_api_key(name).await?.read()?;
        let found = self.found(vec![(name.clone(), key)]).await?.pop();
        found.ok_or_else(Error::busy)
    }

    /// Up to `count` API keys in the order of their names, behind `after`. One that can't be read is left out; the log
    /// names it.
    pub async fn list_api_keys(
        &self,
        after: Option<&KeyName>,
        count: usize,
    ) -> Result<Part<FoundKey, KeyName>, Error> {
        let names = api_keys::names(&self.engine.store, after, count + 1).await?;
        let Part { items, next } = Part::split(names, count, KeyName::clone);
        let stored = api_keys::load(&self.engine.store, &items).await?;
        let keys = items.into_iter().zip(stored);
        let keys = keys.filter_map(|(name, stored)| Some((name, stored?.read().ok()?)));
        let items = self.found(keys.collect()).await?;
        Ok(Part { items, next })
    }

    async fn stored_api_key(&self, name: &KeyName) -> Result<Stored<ApiKey>, Error> {
        let (store, names) = (&self.engine.store, std::slice::from_ref(name));
        let stored = api_keys::load(store, names).await?.pop().flatten();
        stored.ok_or_else(|| Problem::key_not_found(name).into())
    }

    /// Adds when keys were last used, and which webhooks are theirs.
    async fn found(&self, keys: Vec<(KeyName, ApiKey)>) -> Result<Vec<FoundKey>, Error> {
        let names: Vec<_> = keys.iter().map(|(name, _)| name.clone()).collect();
        let noted = api_keys::last_uses(&self.engine.store, &names).await?;
        let mut webhooks = self.webhooks_of_keys().await?;
        let keys = keys.into_iter().zip(noted).map(|((name, key), noted)| {
            let here = self.engine.keyring.get(&name);
            FoundKey {
                last_used: here.and_then(|key| key.last_used()).max(noted),
                webhooks: webhooks.remove(&name).unwrap_or_default(),
                name,
                key,
            }
        });
        Ok(keys.collect())
    }

    /// Changes an API key if it is still what was seen, and returns whether it was. On this instance that is in force at
    /// once, on the others within a second.
    async fn change_api_key(
        &self,
        name: &KeyName,
        seen: Option<&Stored<ApiKey>>,
        new: Option<&ApiKey>,
    ) -> Result<bool, Error> {
        match api_keys::change(&self.engine.store, name, seen, new).await? {
            Changed::Done => {}
            Changed::Not => return Ok(false),
            Changed::Full => return Err(Problem::too_many_keys(API_KEYS_MAX).into()),
        }
        self.engine.refresh_api_keys().await?;
        Ok(true)
    }
}
