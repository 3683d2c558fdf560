//! The loop that sends what is queued for webhooks.
//!
//! Any number of instances may send: each claims deliveries for a while, so that nobody else sends them. If it dies, they are
//! due again. Each webhook has a few deliveries under way at the most, and never waits for another one.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::Either;
use futures::stream::{FuturesUnordered, StreamExt};
use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use super::{ATTEMPTS_MAX, Engine, Error};
use crate::domain::delivery::{Delivery, DeliveryStatus};
use crate::domain::webhook::{Disabled, Webhook, WebhookName};
use crate::store::deliveries::StoredDelivery;
use crate::store::webhooks::{StoredWebhook, WebhookChanged};
use crate::throttle;

/// How many deliveries of a webhook are under way at once on an instance.
const AT_ONCE: usize = 2;
/// How often it looks for what has come while others are under way.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How often it counts deliveries.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// When this instance has last counted deliveries.
#[derive(Debug, Default)]
pub struct Counted(Mutex<Option<Instant>>);

impl Counted {
    /// Whether it is time to count; if so, it is not for a while.
    fn is_due(&self) -> bool {
        let mut counted = self.0.lock();
        let is_due = counted.is_none_or(|at| at.elapsed() >= COUNT_INTERVAL);
        if is_due {
            *counted = Some(Instant::now());
        }
        is_due
    }
}

/// A delivery that this instance has claimed.
struct Sending {
    name: WebhookName,
    webhook: Webhook,
    seen: StoredDelivery,
    delivery: Delivery,
}

impl Engine {
    /// Sends all that is due, until nothing is due or under way.
    pub async fn deliver(&self) -> Result<(), Error> {
        let (mut under_way, mut busy) = (FuturesUnordered::new(), BTreeMap::new());
        let mut looked = self.claim(&busy).await;
        loop {
            // Where Redis fails, what is under way is finished first.
            for sending in looked.as_mut().map(std::mem::take).unwrap_or_default() {
                *busy.entry(sending.name.clone()).or_insert(0) += 1;
                under_way.push(self.try_delivery(sending));
            }
            let ended = {
                let pause = pin!(tokio::time::sleep(LOOK_INTERVAL));
                match futures::future::select(under_way.next(), pause).await {
                    Either::Left((None, _)) => return looked.map(drop),
                    Either::Left((Some(ended), _)) => Some(ended),
                    Either::Right(_) => None,
                }
            };
            if let Some((name, ended)) = ended {
                busy.entry(name).and_modify(|count| *count -= 1);
                looked = looked.and_then(|none| ended.map(|()| none));
            }
            if looked.is_ok() {
                looked = self.claim(&busy).await;
            }
        }
    }

    /// Claims deliveries that are due, as many of each webhook as may be under way.
    async fn claim(&self, busy: &BTreeMap<WebhookName, usize>) -> Result<Vec<Sending>, Error> {
        if self.deliveries.is_due() {
            self.count_deliveries().await?;
        }
        let now = self.clock.now();
        let mut claimed = Vec::new();
        for name in self.store.due_webhooks(now).await? {
            let count = AT_ONCE - busy.get(&name).copied().unwrap_or(0).min(AT_ONCE);
            if count == 0 {
                continue;
            }
            let found = self.store.claim_deliveries(&name, now, count).await;
            match found.map_err(Error::from) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    for seen in found.deliveries {
                        match read(&name, &found.webhook, seen) {
                            Ok(sending) => claimed.push(sending),
                            Err(error) => tell(&name, &error),
                        }
                    }
                }
                // A fault of one webhook holds up no other.
                Err(error) if error.is_fault() => tell(&name, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    }

    /// Sends a message once, and stores how that has ended.
    async fn try_delivery(&self, sending: Sending) -> (WebhookName, Result<(), Error>) {
        let Sending {
            name,
            webhook,
            seen,
            delivery,
        } = sending;
        let begun = Instant::now();
        let sent = self
            .sender
            .send(&webhook, &seen.id, &delivery.body, self.clock.now());
        let tried = sent.await;
        histogram!("standings_webhook_seconds").record(begun.elapsed());
        let seed = format!("{name} {}", seen.id);
        let ended = delivery.after(tried.end, tried.is_gone, &seed);
        let result = match ended.status {
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Pending => "failed",
            DeliveryStatus::Dead => "dead",
        };
        counter!("standings_webhook_tries_total", "result" => result).increment(1);
        if let Some(error) = ended.last.as_ref().and_then(|last| last.error.as_ref()) {
            throttle::say(&format!("webhook {name}: {error}"), |more| {
                tracing::warn!(%name, error, result, more, "a message was not delivered");
            });
        }
        let stored = async {
            if tried.is_gone {
                self.disable_webhook(&name, &webhook).await?;
            }
            let now = self.clock.now();
            // If it is not what was claimed, somebody else has gone on with it.
            self.store.end_delivery(&name, &seen, &ended, now).await?;
            Ok(())
        };
        let stored = stored.await;
        (name, stored)
    }

    /// Disables a webhook whose receiver wants no more messages, unless its maker has changed it meanwhile.
    async fn disable_webhook(&self, name: &WebhookName, tried: &Webhook) -> Result<(), Error> {
        let now = self.clock.now();
        for _ in 0..ATTEMPTS_MAX {
            let Some(stored) = self.store.load_webhook(name).await? else {
                return Ok(());
            };
            let webhook = stored.read()?;
            if webhook.url != tried.url || webhook.disabled.is_some() {
                return Ok(());
            }
            let disabled = Webhook {
                disabled: Some(Disabled {
                    at: now,
                    reason: "the receiver has answered 410".to_owned(),
                }),
                ..webhook
            };
            let changed = self
                .store
                .change_webhook(name, Some(&stored), Some(&disabled), now);
            if changed.await? == WebhookChanged::Done {
                tracing::warn!(%name, "a webhook is disabled: its receiver has answered 410");
                return Ok(());
            }
        }
        Err(Error::busy())
    }

    /// Tells by metrics how many deliveries wait, and how many dead letters there are.
    async fn count_deliveries(&self) -> Result<(), Error> {
        let webhooks = self.store.load_webhooks().await?;
        for (status, metric) in [
            (DeliveryStatus::Pending, "standings_webhook_pending"),
            (DeliveryStatus::Dead, "standings_webhook_dead"),
        ] {
            let mut total = 0;
            for name in webhooks.all.keys() {
                total += self.store.delivery_count(name, status).await?;
            }
            #[expect(clippy::cast_precision_loss, reason = "a count of deliveries")]
            gauge!(metric).set(total as f64);
        }
        Ok(())
    }
}

fn read(
    name: &WebhookName,
    webhook: &StoredWebhook,
    seen: StoredDelivery,
) -> Result<Sending, Error> {
    Ok(Sending {
        name: name.clone(),
        webhook: webhook.read()?,
        delivery: seen.read()?,
        seen,
    })
}

fn tell(name: &WebhookName, error: &Error) {
    throttle::say(&format!("webhook {name}"), |more| {
        tracing::error!(%name, %error, more, "deliveries of a webhook are left out for a while");
    });
}
