//! The loop that sends what is queued for webhooks.
//!
//! Any number of instances may send: each claims deliveries for a while, so that nobody else sends them. If it dies, they are
//! due again. Each webhook has a few deliveries under way at the most, and never waits for another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::Either;
use futures::stream::{FuturesUnordered, StreamExt};
use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use super::store::{self, Claimed};
use crate::core::attempts::until_unchanged;
use crate::core::{Engine, Error, Outdated};
use crate::domain::delivery::DeliveryStatus;
use crate::domain::webhook::{Disabled, Webhook, WebhookName};
use crate::redis::stored::Changed;
use crate::runtime::throttle;
use crate::webhooks::store::WEBHOOKS_MAX;
use crate::webhooks::{self, sender};

/// How many deliveries of a webhook are under way at once on an instance.
const AT_ONCE: usize = 2;
/// How many deliveries of all webhooks are under way at once on an instance, at the most; each has a connection.
pub const ALL_AT_ONCE: usize = WEBHOOKS_MAX * AT_ONCE;
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

/// What one of the futures of a run has come to.
enum Ended {
    /// The webhooks for which something is to be done.
    Looked(Result<Vec<WebhookName>, Error>),
    /// Nothing is due for this webhook any more, or it has failed.
    Served(WebhookName, Result<(), Error>),
}

/// Sends all that is due, until nothing is due or under way.
pub async fn deliver(engine: &Engine) -> Result<(), Error> {
    let mut running = FuturesUnordered::new();
    let (mut under_way, mut failed) = (BTreeMap::new(), None);
    let mut faulty = BTreeSet::new();
    running.push(Either::Left(look(engine, Duration::ZERO)));
    // Nothing else is awaited here: a write takes its turn behind those before it, and these are only polled by this.
    while let Some(ended) = running.next().await {
        match ended {
            Ended::Looked(Ok(due)) if failed.is_none() => {
                for name in due.into_iter().filter(|name| !faulty.contains(name)) {
                    let count = under_way.entry(name.clone()).or_insert(0);
                    let new = AT_ONCE - *count;
                    *count = AT_ONCE;
                    let serve = || Either::Right(serve(engine, name.clone()));
                    running.extend(std::iter::repeat_with(serve).take(new));
                }
                if !running.is_empty() {
                    running.push(Either::Left(look(engine, LOOK_INTERVAL)));
                }
            }
            Ended::Looked(Ok(_)) => {}
            // Where Redis fails, what is under way is finished first.
            Ended::Looked(Err(error)) => failed = Some(error),
            Ended::Served(name, served) => {
                under_way
                    .entry(name.clone())
                    .and_modify(|count| *count -= 1);
                match served {
                    Ok(()) => {}
                    // A fault of one webhook holds up no other. The next run tries it again.
                    Err(error) if error.is_fault() => {
                        throttle::say(&format!("webhook {name}"), |more| {
                            tracing::error!(%name, %error, more, "deliveries of a webhook are left out for a while");
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

/// Looks after a pause for which webhooks something is to be done.
async fn look(engine: &Engine, pause: Duration) -> Ended {
    tokio::time::sleep(pause).await;
    Ended::Looked(
        async {
            if engine.states.get::<Counted>().is_due() {
                count(engine).await?;
            }
            Ok(store::due_webhooks(&engine.store, engine.clock.now()).await?)
        }
        .await,
    )
}

/// Sends to a webhook what is due for it, one message after the other.
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

/// Sends a message once, and stores how that has ended.
async fn try_delivery(engine: &Engine, name: &WebhookName, claimed: Claimed) -> Result<(), Error> {
    let (webhook, stored) = (claimed.webhook.read()?, claimed.delivery);
    let delivery = stored.read()?;
    let begun = Instant::now();
    let sent = sender::of(engine).send(&webhook, &stored.id, &delivery.body, engine.clock.now());
    let tried = sent.await;
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
    // If it is not what was claimed, somebody else has gone on with it.
    store::end(&engine.store, name, &stored, &ended, now).await?;
    Ok(())
}

/// Disables a webhook whose receiver wants no more messages, unless its maker has changed it meanwhile.
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
                reason: "the receiver has answered 410".to_owned(),
            }),
            ..webhook
        };
        let changed =
            webhooks::store::change(&engine.store, name, Some(&stored), Some(&disabled), now);
        if changed.await? != Changed::Done {
            return Err(Error::Again(Outdated::Read));
        }
        tracing::warn!(%name, "a webhook is disabled: its receiver has answered 410");
        Ok(())
    })
    .await
}

/// Tells by metrics how many deliveries wait, and how many dead letters there are.
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
