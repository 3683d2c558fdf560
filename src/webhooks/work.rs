//! Registers webhooks, rotates their secrets, tests them, and lists their deliveries. A caller can only use webhooks for
//! boards that it has access to.

use std::collections::BTreeMap;

use super::deliveries::store::DeliveryMark;
use super::store::{self, WEBHOOKS_MAX};
use super::{deliveries, sender};
use crate::core::attempts::until_unchanged;
use crate::core::{Engine, Error, Outdated};
use crate::domain::access::{Boards, KeyName};
use crate::domain::delivery::{Delivery, DeliveryStatus, NamedDelivery};
use crate::domain::message::{Message, MessageId};
use crate::domain::part::Part;
use crate::domain::problems::{Problem, WEBHOOK_NOT_FOUND};
use crate::domain::time::Timestamp;
use crate::domain::webhook::{
    GRACE, PreviousSecret, SECRET_BYTES, SigningSecret, Wanted, Webhook, WebhookName,
};
use crate::redis::stored::{Changed, Stored};
use crate::redis::{StoreError, random};

/// Creates a webhook, or changes the address, messages and boards of one. It keeps its secret, and is enabled again if it
/// was disabled. From then on it belongs to this stored API key. Returns the former webhook, if any, and the new one.
pub async fn put(
    engine: &Engine,
    (may, key): (&Boards, Option<&KeyName>),
    name: &WebhookName,
    wanted: Wanted,
) -> Result<(Option<Webhook>, Webhook), Error> {
    let events = wanted
        .check(sender::of(engine).allows_private)
        .map_err(Problem::invalid)?;
    if !may.cover(&wanted.boards) {
        return Err(Problem::for_other_boards().into());
    }
    let (Wanted { url, boards, .. }, secret) = (wanted, new_secret()?);
    until_unchanged(async || {
        let stored = store::load(&engine.store, name).await?;
        let before = stored
            .as_ref()
            .map(|stored| reachable(stored, may))
            .transpose()?;
        let now = engine.clock.now();
        let kept = before.as_ref();
        let webhook = Webhook {
            url: url.clone(),
            events: events.clone(),
            boards: boards.clone(),
            secret: kept.map_or(&secret, |kept| &kept.secret).clone(),
            previous: kept.and_then(|kept| kept.previous.clone()),
            created_at: kept.map_or(now, |kept| kept.created_at),
            key: key.cloned(),
            disabled: None,
            tests: kept.map_or(0, |kept| kept.tests),
        };
        change(engine, name, stored.as_ref(), Some(&webhook)).await?;
        Ok((before, webhook))
    })
    .await
}

pub async fn find(engine: &Engine, may: &Boards, name: &WebhookName) -> Result<Webhook, Error> {
    Ok(stored(engine, may, name).await?.1)
}

/// Up to `count` webhooks after `after`, sorted by name, that the caller may see. Skips those that can't be read.
pub async fn list(
    engine: &Engine,
    may: &Boards,
    after: Option<&WebhookName>,
    count: usize,
) -> Result<Part<(WebhookName, Webhook), WebhookName>, Error> {
    let stored = store::load_all(&engine.store).await?.all;
    let webhooks = stored
        .into_iter()
        .filter(|(name, _)| after.is_none_or(|after| name > after))
        .filter_map(|(name, stored)| Some((name, reachable(&stored, may).ok()?)))
        .take(count + 1)
        .collect();
    Ok(Part::split(webhooks, count, |(name, _)| name.clone()))
}

/// Deletes a webhook with its deliveries, and returns it.
pub async fn delete(engine: &Engine, may: &Boards, name: &WebhookName) -> Result<Webhook, Error> {
    until_unchanged(async || {
        let (stored, webhook) = stored(engine, may, name).await?;
        change(engine, name, Some(&stored), None).await?;
        Ok(webhook)
    })
    .await
}

/// The webhooks of stored API keys, by key name. Skips those that can't be read.
pub(crate) async fn of_keys(engine: &Engine) -> Result<BTreeMap<KeyName, Vec<WebhookName>>, Error> {
    let mut of_keys = BTreeMap::<_, Vec<_>>::new();
    for (name, stored) in store::load_all(&engine.store).await?.all {
        if let Some(key) = stored.read().ok().and_then(|webhook| webhook.key) {
            of_keys.entry(key).or_default().push(name);
        }
    }
    Ok(of_keys)
}

/// Deletes the webhooks of a stored API key with their deliveries, and returns their names.
pub(crate) async fn delete_of(engine: &Engine, key: &KeyName) -> Result<Vec<WebhookName>, Error> {
    let mut deleted = of_keys(engine).await?.remove(key).unwrap_or_default();
    for name in &deleted {
        match delete(engine, &Boards::all(), name).await {
            // Another request has deleted it.
            Err(error) if error.is(WEBHOOK_NOT_FOUND) => {}
            ended => drop(ended?),
        }
    }
    deleted.sort_unstable();
    Ok(deleted)
}

/// Gives a webhook another secret. The former one still signs for [`GRACE`]. Returns the webhook before and after.
pub async fn rotate(
    engine: &Engine,
    may: &Boards,
    name: &WebhookName,
) -> Result<(Webhook, Webhook), Error> {
    let secret = new_secret()?;
    revise(engine, may, name, |before, now| Webhook {
        previous: Some(PreviousSecret {
            secret: before.secret.clone(),
            until: now.saturating_add(GRACE),
        }),
        secret: secret.clone(),
        ..before.clone()
    })
    .await
}

/// Queues a test message for a webhook. Returns its delivery.
pub async fn queue_test(
    engine: &Engine,
    may: &Boards,
    name: &WebhookName,
) -> Result<NamedDelivery, Error> {
    let (before, webhook) = revise(engine, may, name, |before, _| Webhook {
        tests: before.tests.saturating_add(1),
        ..before.clone()
    })
    .await?;
    if before.disabled.is_some() {
        return Err(Problem::webhook_disabled(name).into());
    }
    let now = engine.clock.now();
    let message = Message::test(name.as_str(), webhook.created_at, webhook.tests, now);
    let queued = NamedDelivery {
        id: message.id,
        delivery: Delivery::new(message.body, now),
    };
    let one = std::slice::from_ref(&queued);
    let store = &engine.store;
    match deliveries::store::queue(store, None, name, one, now).await {
        Err(StoreError::Stale) => Err(Problem::webhook_not_found(name).into()),
        taken => Ok(taken.map(|()| queued)?),
    }
}

/// Up to `count` deliveries of a webhook after `after`, grouped by status, newest first.
pub async fn list_deliveries(
    engine: &Engine,
    may: &Boards,
    name: &WebhookName,
    status: Option<DeliveryStatus>,
    after: Option<&DeliveryMark>,
    count: usize,
) -> Result<Part<NamedDelivery, DeliveryMark>, Error> {
    stored(engine, may, name).await?;
    Ok(deliveries::store::list(&engine.store, name, status, after, count).await?)
}

/// Makes a delivery due at once, whatever its status, and retries it for another day if it fails.
pub async fn retry_delivery(
    engine: &Engine,
    may: &Boards,
    name: &WebhookName,
    id: MessageId,
) -> Result<NamedDelivery, Error> {
    until_unchanged(async || {
        let (_, webhook) = stored(engine, may, name).await?;
        let stored = deliveries::store::load(&engine.store, name, &id)
            .await?
            .ok_or_else(|| Problem::delivery_not_found(id.clone()))?;
        if webhook.disabled.is_some() {
            return Err(Problem::webhook_disabled(name).into());
        }
        let now = engine.clock.now();
        let delivery = stored.read()?.anew(now);
        let ended = deliveries::store::end(&engine.store, name, &stored, &delivery, now);
        if !ended.await? {
            return Err(Error::Again(Outdated::Read));
        }
        let id = id.clone();
        Ok(NamedDelivery { id, delivery })
    })
    .await
}

/// Changes an existing webhook. Returns it before and after.
async fn revise(
    engine: &Engine,
    may: &Boards,
    name: &WebhookName,
    revise: impl Fn(&Webhook, Timestamp) -> Webhook,
) -> Result<(Webhook, Webhook), Error> {
    until_unchanged(async || {
        let (stored, before) = stored(engine, may, name).await?;
        let webhook = revise(&before, engine.clock.now());
        change(engine, name, Some(&stored), Some(&webhook)).await?;
        Ok((before, webhook))
    })
    .await
}

async fn stored(
    engine: &Engine,
    may: &Boards,
    name: &WebhookName,
) -> Result<(Stored<Webhook>, Webhook), Error> {
    let stored = store::load(&engine.store, name)
        .await?
        .ok_or_else(|| Problem::webhook_not_found(name))?;
    let webhook = reachable(&stored, may)?;
    Ok((stored, webhook))
}

/// Changes a webhook if it is unchanged since the read; otherwise [`Error::Again`].
async fn change(
    engine: &Engine,
    name: &WebhookName,
    seen: Option<&Stored<Webhook>>,
    new: Option<&Webhook>,
) -> Result<(), Error> {
    let now = engine.clock.now();
    let store = &engine.store;
    match store::change(store, name, seen, new, now).await? {
        Changed::Done => Ok(()),
        Changed::Not => Err(Error::Again(Outdated::Read)),
        Changed::Full => Err(Problem::too_many_webhooks(WEBHOOKS_MAX).into()),
    }
}

/// A webhook, if it is for boards that the caller has access to.
fn reachable(stored: &Stored<Webhook>, may: &Boards) -> Result<Webhook, Error> {
    let webhook = stored.read()?;
    if !may.cover(&webhook.boards) {
        return Err(Problem::for_other_boards().into());
    }
    Ok(webhook)
}

fn new_secret() -> Result<SigningSecret, StoreError> {
    Ok(SigningSecret::of(random::bytes::<SECRET_BYTES>()?))
}
