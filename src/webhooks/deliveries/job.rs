//! The loop that sends deliveries.
//!
//! Any number of instances may send: each claims deliveries for a while, and if it crashes, they are due again. Each
//! webhook has only a few deliveries in flight, and never waits for another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::Either;
use futures::stream::{FuturesUnordered, StreamExt};
use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use super::store::{self, ClaimedDelivery};
use crate::core::attempts::until_unchanged;
use crate::core::{Engine, Error, Outdated};
use crate::domain::delivery::DeliveryStatus;
use crate::domain::webhook::{Disabled, Webhook, WebhookName};
use crate::redis::stored::Changed;
use crate::runtime::throttle;
use crate::webhooks::store::WEBHOOKS_MAX;
use crate::webhooks::{self, sender};

/// How many deliveries of a webhook an instance sends concurrently.
const AT_ONCE: usize = 2;
/// How many deliveries of all webhooks an instance sends concurrently; each has a connection.
pub const ALL_AT_ONCE: usize = WEBHOOKS_MAX * AT_ONCE;
/// How often it checks for new deliveries while others are in flight.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How often it counts deliveries.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// When this instance last counted deliveries.
#[derive(Debug, Default)]
pub struct Counted(Mutex<Option<Instant>>);

impl Counted {
    /// Whether it is time to count; starts the next interval if so.
    fn is_due(&self) -> bool {
        let mut counted = self.0.lock();
        let is_due = counted.is_none_or(|at| at.elapsed() >= COUNT_INTERVAL);
        if is_due {
            *counted = Some(Instant::now());
        }
        is_due
    }
}

/// The result of one future of a run.
enum Ended {
    /// The webhooks with something due.
    Looked(Result<Vec<WebhookName>, Error>),
    /// Nothing is due for this webhook any more, or sending failed.
    Served(WebhookName, Result<(), Error>),
}

/// Sends all due deliveries, until nothing is due or in flight.
pub async fn deliver(engine: &Engine) -> Result<(), Error> {
    let mut running = FuturesUnordered::new();
    let (mut under_way, mut failed) = (BTreeMap::new(), None);
    let mut faulty = BTreeSet::new();
    running.push(Either::Left(look(engine, Duration::ZERO)));
    // Awaits nothing else: a write queues after earlier ones, and only this loop polls these.
    while let Some(ended) = running.next().await {
        match ended {
            Ended::Looked(due) => {
                failed = None;
                let due = due.unwrap_or_else(|error| {
                    failed = Some(error);
                    Vec::new()
                });
                for name in due.into_iter().filter(|name| !faulty.contains(name)) {
                    let count = under_way.entry(name.clone()).or_insert(0);
                    let new = AT_ONCE - *count;
                    *count = AT_ONCE;
                    let serve = || Either::Right(serve(engine, name.clone()));
                    running.extend(std::iter::repeat_with(serve).take(new));
                }
                // A webhook may be busy for hours. Meanwhile the others are looked at again.
                if !running.is_empty() {
                    running.push(Either::Left(look(engine, LOOK_INTERVAL)));
                }
            }
            Ended::Served(name, served) => {
                under_way
                    .entry(name.clone())
                    .and_modify(|count| *count -= 1);
                match served {
                    Ok(()) => {}
                    // A fault of one webhook doesn't delay the others. The next run retries it.
                    Err(error) if error.is_fault() => {
                        throttle::say(&format!("webhook {name}"), |more| {
                            tracing::error!(%name, %error, more, "deliveries of a webhook failed; they will be tried again");
                        });
                        faulty.insert(name);
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// After a pause, reads which webhooks have something due.
async fn look(engine: &Engine, pause: Duration) -> Ended {
    tokio::time::sleep(pause).await;
    if engine.states.get::<Counted>().is_due()
        && let Err(error) = count(engine).await
        && engine.store.outage().is_none()
    {
        throttle::say("webhooks", |more| {
            tracing::error!(%error, more, "the deliveries of webhooks can't be counted; trying again");
        });
    }
    let due = store::due_webhooks(&engine.store, engine.clock.now());
    Ended::Looked(due.await.map_err(Error::from))
}

/// Sends a webhook's due messages, one after the other.
async fn serve(engine: &Engine, name: WebhookName) -> Ended {
    let serve = async {
        while let Some(claimed) = store::claim(&engine.store, &name, engine.clock.now()).await? {
            try_delivery(engine, &name, claimed).await?;
        }
        Ok(())
    };
    let served = serve.await;
    Ended::Served(name, served)
}

/// Sends a message once, and stores the outcome.
async fn try_delivery(
    engine: &Engine,
    name: &WebhookName,
    claimed: ClaimedDelivery,
) -> Result<(), Error> {
    let (webhook, stored) = (claimed.webhook.read()?, claimed.delivery);
    let delivery = stored.read()?;
    let begun = Instant::now();
    let tried = sender::of(engine)
        .send(&webhook, &stored.id, &delivery.body, engine.clock.now())
        .await;
    histogram!("standings_webhook_seconds").record(begun.elapsed());
    let (is_gone, seed) = (tried.is_gone(), format!("{name} {}", stored.id));
    let ended = delivery.after(tried, &seed);
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
    if is_gone {
        disable_webhook(engine, name, &webhook).await?;
    }
    let now = engine.clock.now();
    // If the delivery is not as claimed, another instance has continued it.
    store::end(&engine.store, name, &stored, &ended, now).await?;
    Ok(())
}

/// Disables a webhook whose receiver wants no more messages, unless it was changed meanwhile.
async fn disable_webhook(
    engine: &Engine,
    name: &WebhookName,
    tried: &Webhook,
) -> Result<(), Error> {
    let now = engine.clock.now();
    until_unchanged(async || {
        let Some(stored) = webhooks::store::load(&engine.store, name).await? else {
            return Ok(());
        };
        let webhook = stored.read()?;
        if webhook.url != tried.url || webhook.disabled.is_some() {
            return Ok(());
        }
        let disabled = Webhook {
            disabled: Some(Disabled {
                at: now,
                reason: "the receiver returned 410".to_owned(),
            }),
            ..webhook
        };
        let changed =
            webhooks::store::change(&engine.store, name, Some(&stored), Some(&disabled), now);
        if changed.await? != Changed::Done {
            return Err(Error::Again(Outdated::Read));
        }
        tracing::warn!(%name, "a webhook was disabled: its receiver returned 410");
        Ok(())
    })
    .await
}

/// Sets the metrics of waiting deliveries and dead letters.
async fn count(engine: &Engine) -> Result<(), Error> {
    let webhooks = webhooks::store::load_all(&engine.store).await?;
    for (status, metric) in [
        (DeliveryStatus::Pending, "standings_webhook_pending"),
        (DeliveryStatus::Dead, "standings_webhook_dead"),
    ] {
        let mut total = 0;
        for name in webhooks.all.keys() {
            total += store::count(&engine.store, name, status).await?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of deliveries")]
        gauge!(metric).set(total as f64);
    }
    Ok(())
}
