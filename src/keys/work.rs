//! Creates, changes, lists, rotates and deletes API keys.

use crate::access::keyring::store::{API_KEYS_MAX, ApiKey, Previous};
use crate::access::keyring::{self, SECRET_PREFIX};
use crate::core::{ATTEMPTS_MAX, Engine, Error};
use crate::domain::access::{Grant, KeyName};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::secret::Digest;
use crate::domain::time::{Span, Timestamp};
use crate::domain::webhook::WebhookName;
use crate::redis::random;
use crate::redis::stored::{Changed, Stored};
use crate::webhooks;

/// How many random bytes a secret has, each as two hexadecimal digits.
const SECRET_BYTES: usize = 32;

/// An API key, and data on its use.
#[derive(Clone, Debug)]
pub struct FoundKey {
    pub name: KeyName,
    pub key: ApiKey,
    /// When it was last used, as far as stored.
    pub last_used: Option<Timestamp>,
    /// The webhooks that it made or changed last; they outlive it.
    pub webhooks: Vec<WebhookName>,
}

/// Creates an API key; returns its secret, which can't be read again.
pub async fn create(
    engine: &Engine,
    name: &KeyName,
    grant: Grant,
) -> Result<(FoundKey, String), Error> {
    let now = engine.clock.now();
    Problem::require_none(grant.check(now))?;
    let secret = random::hexadecimal::<SECRET_BYTES>(SECRET_PREFIX)?;
    let key = ApiKey {
        digest: Digest::of(&secret),
        previous: None,
        grant,
        created_at: now,
    };
    // A former key of this name may have left some. They are read first: once the key is created, its secret must not be
    // lost.
    let webhooks = webhooks::work::of_keys(engine).await?.remove(name);
    if !change(engine, name, None, Some(&key)).await? {
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

/// Changes what an API key allows. Returns the key before and after.
pub async fn change_grant(
    engine: &Engine,
    name: &KeyName,
    changed: impl Fn(Grant) -> Grant,
) -> Result<(ApiKey, FoundKey), Error> {
    let changed = |before: &ApiKey| {
        let grant = changed(before.grant.clone());
        Problem::require_none(grant.check(engine.clock.now()))?;
        Ok(ApiKey {
            grant,
            ..before.clone()
        })
    };
    update(engine, name, changed).await
}

/// Gives an API key another secret. Returns the key before and after, and the secret. The former secret stays valid for
/// `grace`.
pub async fn rotate(
    engine: &Engine,
    name: &KeyName,
    grace: Span,
) -> Result<(ApiKey, FoundKey, String), Error> {
    let secret = random::hexadecimal::<SECRET_BYTES>(SECRET_PREFIX)?;
    let rotated = |before: &ApiKey| {
        let until = engine.clock.now().saturating_add(grace);
        Ok(ApiKey {
            digest: Digest::of(&secret),
            previous: (grace.ms() > 0).then_some(Previous {
                digest: before.digest,
                until,
            }),
            ..before.clone()
        })
    };
    let (before, after) = update(engine, name, rotated).await?;
    Ok((before, after, secret))
}

/// Replaces an API key by what is made of it. Returns the key before and after.
async fn update(
    engine: &Engine,
    name: &KeyName,
    next: impl Fn(&ApiKey) -> Result<ApiKey, Error>,
) -> Result<(ApiKey, FoundKey), Error> {
    for _ in 0..ATTEMPTS_MAX {
        let stored = stored(engine, name).await?;
        let before = stored.read()?;
        let after = next(&before)?;
        if change(engine, name, Some(&stored), Some(&after)).await? {
            return Ok((before, found_one(engine, name, after).await?));
        }
    }
    Err(Error::busy())
}

/// Deletes an API key, optionally with its webhooks. Within a second no instance accepts it any more. Returns the key, if it
/// could be read, and the names of its webhooks: those that were deleted, and those that are left.
pub async fn delete(
    engine: &Engine,
    name: &KeyName,
    with_webhooks: bool,
) -> Result<(Option<ApiKey>, [Vec<WebhookName>; 2]), Error> {
    let mut deleted = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        let stored = stored(engine, name).await?;
        // Webhooks first: if the service crashes meanwhile, the key is still there to be deleted again.
        if with_webhooks {
            deleted.extend(webhooks::work::delete_of(engine, name).await?);
        }
        let left = webhooks::work::of_keys(engine).await?.remove(name);
        if change(engine, name, Some(&stored), None).await? {
            return Ok((stored.read().ok(), [deleted, left.unwrap_or_default()]));
        }
    }
    Err(Error::busy())
}

pub async fn find(engine: &Engine, name: &KeyName) -> Result<FoundKey, Error> {
    let key = stored(engine, name).await?.read()?;
    found_one(engine, name, key).await
}

/// Up to `count` API keys after `after`, sorted by name. Those that can't be read are skipped and logged.
pub async fn list(
    engine: &Engine,
    after: Option<&KeyName>,
    count: usize,
) -> Result<Part<FoundKey, KeyName>, Error> {
    let names = keyring::store::names(&engine.store, after, count + 1).await?;
    let Part { items, next } = Part::split(names, count, KeyName::clone);
    let stored = keyring::store::load(&engine.store, &items).await?;
    let keys = items
        .into_iter()
        .zip(stored)
        .filter_map(|(name, stored)| Some((name, stored?.read().ok()?)));
    let items = found(engine, keys.collect()).await?;
    Ok(Part { items, next })
}

async fn stored(engine: &Engine, name: &KeyName) -> Result<Stored<ApiKey>, Error> {
    let (store, names) = (&engine.store, std::slice::from_ref(name));
    let stored = keyring::store::load(store, names).await?.pop().flatten();
    stored.ok_or_else(|| Problem::key_not_found(name).into())
}

async fn found_one(engine: &Engine, name: &KeyName, key: ApiKey) -> Result<FoundKey, Error> {
    let found = found(engine, vec![(name.clone(), key)]).await?.pop();
    found.ok_or_else(Error::busy)
}

/// Adds when keys were last used, and their webhooks.
async fn found(engine: &Engine, keys: Vec<(KeyName, ApiKey)>) -> Result<Vec<FoundKey>, Error> {
    let names: Vec<_> = keys.iter().map(|(name, _)| name.clone()).collect();
    let noted = keyring::store::last_uses(&engine.store, &names).await?;
    let mut webhooks = webhooks::work::of_keys(engine).await?;
    Ok(keys
        .into_iter()
        .zip(noted)
        .map(|((name, key), noted)| {
            let here = keyring::of(engine).get(&name);
            FoundKey {
                last_used: here.and_then(|key| key.last_used()).max(noted),
                webhooks: webhooks.remove(&name).unwrap_or_default(),
                name,
                key,
            }
        })
        .collect())
}

/// Changes an API key if it is unchanged since the read; returns whether it was. The change applies on this instance at
/// once, on the others within a second.
async fn change(
    engine: &Engine,
    name: &KeyName,
    seen: Option<&Stored<ApiKey>>,
    new: Option<&ApiKey>,
) -> Result<bool, Error> {
    match keyring::store::change(&engine.store, name, seen, new).await? {
        Changed::Done => {}
        Changed::Not => return Ok(false),
        Changed::Full => return Err(Problem::too_many_keys(API_KEYS_MAX).into()),
    }
    keyring::refresh(engine).await?;
    Ok(true)
}
