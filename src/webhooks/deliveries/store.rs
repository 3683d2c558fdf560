//! Stores the deliveries of webhooks: queued, claimed by one instance at a time, ended, and listed.

use std::fmt;
use std::str::FromStr;

use crate::domain::delivery::{Delivery, DeliveryStatus, NamedDelivery};
use crate::domain::message::MessageId;
use crate::domain::part::Part;
use crate::domain::time::{Span, Timestamp};
use crate::domain::webhook::{Webhook, WebhookName};
use crate::redis::decode::Coded;
use crate::redis::dispatch::Store;
use crate::redis::stored::{Stored, read_json};
use crate::redis::{StoreError, keys, script};
use crate::webhooks::store::WEBHOOKS_MAX;

/// How many deliveries of a webhook may wait. Further ones become dead letters at once.
const PENDING_MAX: usize = 10_000;
/// How many of the deliveries that are due last are asked whether they have failed.
const LAST_DUE: usize = 20;
/// How long an instance's claim on a delivery lasts: longer than a try takes.
const CLAIMED_FOR: Span = Span::seconds(30);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredDelivery {
    pub id: MessageId,
    json: String,
}

impl StoredDelivery {
    pub fn read(&self) -> Result<Delivery, StoreError> {
        read_json("a delivery", &self.json)
    }
}

/// A delivery for an instance to send.
#[derive(Debug)]
pub struct ClaimedDelivery {
    pub webhook: Stored<Webhook>,
    /// The delivery, claimed for a while.
    pub delivery: StoredDelivery,
}

/// A position in the list of deliveries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeliveryMark {
    status: DeliveryStatus,
    at_ms: i64,
    id: MessageId,
}

impl fmt::Display for DeliveryMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.status.name(), self.at_ms, self.id)
    }
}

impl FromStr for DeliveryMark {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, '.');
        let mut parse = || {
            Some(Self {
                status: DeliveryStatus::named(parts.next()?)?,
                at_ms: parts.next()?.parse().ok()?,
                id: MessageId::named(parts.next()?),
            })
        };
        parse().ok_or("is not a `next` of this list")
    }
}

/// Queues deliveries of one status for a webhook, except those that it already has. `version`: that of the webhooks when it
/// was chosen; without one the webhook only has to exist. If too many would wait, they become dead letters.
pub async fn queue(
    store: &Store,
    version: Option<&str>,
    name: &WebhookName,
    deliveries: &[NamedDelivery],
    now: Timestamp,
) -> Result<(), StoreError> {
    let queued = try_queue(store, version, name, deliveries, now, PENDING_MAX);
    if queued.await? {
        return Ok(());
    }
    let given_up: Vec<_> = deliveries
        .iter()
        .map(|NamedDelivery { id, delivery }| {
            let delivery = delivery.clone().given_up("too many messages wait", now);
            NamedDelivery {
                id: id.clone(),
                delivery,
            }
        })
        .collect();
    try_queue(store, version, name, &given_up, now, usize::MAX)
        .await?
        .then_some(())
        .ok_or(StoreError::Stale)
}

/// Returns false, and does nothing, if there are too many.
async fn try_queue(
    store: &Store,
    version: Option<&str>,
    name: &WebhookName,
    deliveries: &[NamedDelivery],
    now: Timestamp,
    count_max: usize,
) -> Result<bool, StoreError> {
    let Some(first) = deliveries.first() else {
        return Ok(true);
    };
    let mut call = store
        .call(&script::QUEUE_DELIVERIES, keys::WEBHOOKS)
        .keys(keys::webhook_keys(name))
        .arg(version)
        .arg(name.as_str())
        .arg(first.delivery.status.name())
        .arg(now)
        .arg(count_max);
    for NamedDelivery { id, delivery } in deliveries {
        call = call.arg(id.as_str()).json(delivery);
    }
    call.write::<Coded>().await?.is("OK", "FULL")
}

/// The webhooks with something due.
pub async fn due_webhooks(store: &Store, now: Timestamp) -> Result<Vec<WebhookName>, StoreError> {
    let names = store.due(keys::WEBHOOKS_DUE, now, WEBHOOKS_MAX).await?;
    let names = names.iter().flat_map(|name| WebhookName::parse(name));
    Ok(names.collect())
}

/// Claims a due delivery of a webhook, and drops old ones. `None`: nothing is due, or the webhook is deleted or disabled.
pub async fn claim(
    store: &Store,
    name: &WebhookName,
    now: Timestamp,
) -> Result<Option<ClaimedDelivery>, StoreError> {
    let claimed = store
        .call(&script::CLAIM_DELIVERY, keys::WEBHOOKS)
        .keys(keys::webhook_keys(name))
        .arg(name.as_str())
        .arg(now)
        .arg(now.saturating_add(CLAIMED_FOR))
        .write::<Coded<(String, String, String)>>()
        .await?
        .after("OK", "NONE")?;
    Ok(claimed.map(|(webhook, id, json)| ClaimedDelivery {
        webhook: Stored::new(webhook),
        delivery: StoredDelivery {
            id: MessageId::named(id),
            json,
        },
    }))
}

/// Stores the new state of a delivery if it is what the caller saw; returns whether it was.
pub async fn end(
    store: &Store,
    name: &WebhookName,
    seen: &StoredDelivery,
    new: &Delivery,
    now: Timestamp,
) -> Result<bool, StoreError> {
    store
        .call(&script::END_DELIVERY, keys::WEBHOOKS)
        .keys(keys::webhook_keys(name))
        .arg(name.as_str())
        .arg(seen.id.as_str())
        .arg(&seen.json)
        .json(new)
        .arg(new.status.name())
        .arg(new.at)
        .arg(now)
        .write::<Coded>()
        .await?
        .is("OK", "CHANGED")
}

/// A delivery of a webhook.
pub async fn load(
    store: &Store,
    name: &WebhookName,
    id: &MessageId,
) -> Result<Option<StoredDelivery>, StoreError> {
    let [.., deliveries, _, _, _] = keys::webhook_keys(name);
    let field = [deliveries.as_str(), id.as_str()];
    let json: Option<String> = store.command("HGET", field).await?;
    let id = id.clone();
    Ok(json.map(|json| StoredDelivery { id, json }))
}

/// Up to `count` deliveries of a webhook after `after`, grouped by status, newest first.
pub async fn list(
    store: &Store,
    name: &WebhookName,
    status: Option<DeliveryStatus>,
    after: Option<&DeliveryMark>,
    count: usize,
) -> Result<Part<NamedDelivery, DeliveryMark>, StoreError> {
    let statuses = DeliveryStatus::ALL
        .into_iter()
        .filter(|one| status.is_none_or(|status| *one == status));
    let from = after.map_or(DeliveryStatus::Pending, |mark| mark.status);
    let mut ids = Vec::new();
    for status in statuses.filter(|status| *status >= from) {
        let after = after.filter(|mark| mark.status == status);
        let left = count + 1 - ids.len();
        if left > 0 {
            ids.extend(ids_of(store, name, status, after, left).await?);
        }
    }
    let ids = Part::split(ids, count, DeliveryMark::clone);
    Ok(Part {
        items: read(store, name, &ids.items).await?,
        next: ids.next,
    })
}

/// The ids of deliveries of one status, newest first.
async fn ids_of(
    store: &Store,
    name: &WebhookName,
    status: DeliveryStatus,
    after: Option<&DeliveryMark>,
    count: usize,
) -> Result<Vec<DeliveryMark>, StoreError> {
    let list = keys::deliveries_with(name, status);
    let first = match after {
        None => 0,
        Some(mark) => place_behind(store, &list, mark).await?,
    };
    let end = first + count.saturating_sub(1);
    let (first, end) = (first.to_string(), end.to_string());
    let range = [&list, &first, &end, "REV", "WITHSCORES"];
    let listed: Vec<(String, i64)> = store.command("ZRANGE", range).await?;
    Ok(listed
        .into_iter()
        .map(|(id, at_ms)| DeliveryMark {
            status,
            at_ms,
            id: MessageId::named(id),
        })
        .collect())
}

/// How many deliveries of a list come before those after a mark, which may no longer exist.
async fn place_behind(store: &Store, list: &str, mark: &DeliveryMark) -> Result<usize, StoreError> {
    let rank: Option<usize> = store.command("ZREVRANK", [list, mark.id.as_str()]).await?;
    if let Some(rank) = rank {
        return Ok(rank + 1);
    }
    let newer = format!("({}", mark.at_ms);
    store.command("ZCOUNT", [list, &newer, "+inf"]).await
}

/// Reads deliveries, skipping those that can't be read.
async fn read(
    store: &Store,
    name: &WebhookName,
    marks: &[DeliveryMark],
) -> Result<Vec<NamedDelivery>, StoreError> {
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    let [.., deliveries, _, _, _] = keys::webhook_keys(name);
    let ids = marks.iter().map(|mark| mark.id.to_string());
    let args = [deliveries].into_iter().chain(ids);
    let stored: Vec<Option<String>> = store.command("HMGET", args).await?;
    Ok(marks
        .iter()
        .zip(stored)
        .filter_map(|(mark, json)| {
            Some(NamedDelivery {
                id: mark.id.clone(),
                delivery: serde_json::from_str(&json?).ok()?,
            })
        })
        .collect())
}

/// Whether a delivery of a webhook has failed and will be tried again.
pub async fn is_failing(store: &Store, name: &WebhookName) -> Result<bool, StoreError> {
    // Those that have failed are due after those that were never tried, except for the ones that are being sent.
    let last = list(store, name, Some(DeliveryStatus::Pending), None, LAST_DUE);
    let mut last = last.await?.items.into_iter();
    Ok(last.any(|named| named.delivery.tries_in_row > 0))
}

/// How many deliveries of a webhook have this status.
pub async fn count(
    store: &Store,
    name: &WebhookName,
    status: DeliveryStatus,
) -> Result<u64, StoreError> {
    store
        .command("ZCARD", [keys::deliveries_with(name, status)])
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_list_is_parsed_back() {
        let mark = DeliveryMark {
            status: DeliveryStatus::Dead,
            at_ms: 1_795_305_600_123,
            id: MessageId::named("msg_5f.x"),
        };
        assert_eq!(mark.to_string(), "dead.1795305600123.msg_5f.x");
        assert_eq!(mark.to_string().parse(), Ok(mark));
        for wrong in ["", "dead", "dead.x.y", "gone.1.msg", "dead.1"] {
            assert!(wrong.parse::<DeliveryMark>().is_err(), "{wrong}");
        }
    }
}
