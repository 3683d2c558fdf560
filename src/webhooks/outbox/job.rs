//! The job that moves messages from the outboxes of boards to the queues of webhooks.

use super::store;
use crate::core::attempts::until_unchanged;
use crate::core::board::store::board_notes::{self, NotedBoard, NotedFor};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::delivery::{Delivery, NamedDelivery};
use crate::domain::ids::BoardId;
use crate::domain::message::{Message, MessageKind};
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, WebhookName};
use crate::runtime::throttle;
use crate::webhooks::store::StoredWebhooks;
use crate::webhooks::{self, deliveries};

/// Hands on messages that boards have posted. A message leaves its outbox once it is queued for all webhooks that want it;
/// queueing it twice has no effect.
#[derive(Clone, Copy, Debug)]
pub struct Outboxes;

impl Job for Outboxes {
    type Item = NotedBoard;
    const KIND: JobKind = JobKind::Outboxes;

    fn subject(&self, board: &NotedBoard) -> Subject {
        Subject::part(&board.id, board.generation.to_string())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<NotedBoard>, Error> {
        Ok(board_notes::noted(&engine.store, NotedFor::Outbox).await?)
    }

    async fn step(&self, engine: &Engine, board: &mut NotedBoard) -> Result<Progress, Error> {
        let messages = store::posted(&engine.store, &board.id, board.generation).await?;
        if messages.is_empty() {
            board_notes::forget(&engine.store, NotedFor::Outbox, board).await?;
            return Ok(Progress::Done);
        }
        hand_on(engine, &board.id, &messages).await?;
        store::remove(&engine.store, &board.id, board.generation, &messages).await?;
        Ok(Progress::More)
    }
}

/// Queues messages of a board for all webhooks that want them.
async fn hand_on(engine: &Engine, board: &BoardId, messages: &[Message]) -> Result<(), Error> {
    until_unchanged(async || {
        let webhooks = webhooks::store::load_all(&engine.store).await?;
        let (version, now) = (Some(webhooks.version.as_str()), engine.clock.now());
        for (name, webhook) in readable(&webhooks) {
            let wanted = wanted(&webhook, board, messages, now);
            deliveries::store::queue(&engine.store, version, name, &wanted, now).await?;
        }
        Ok(())
    })
    .await
}

/// The webhooks that can be read. Those of a newer release's format get no messages from this one.
fn readable(webhooks: &StoredWebhooks) -> impl Iterator<Item = (&WebhookName, Webhook)> {
    webhooks.all.iter().filter_map(|(name, stored)| {
        let read = stored.read();
        if let Err(error) = &read {
            throttle::say(&format!("webhook {name}"), |more| {
                tracing::error!(%name, %error, more, "messages of a webhook failed; they will be tried again");
            });
        }
        Some((name, read.ok()?))
    })
}

/// The messages that a webhook wants.
fn wanted(
    webhook: &Webhook,
    board: &BoardId,
    messages: &[Message],
    now: Timestamp,
) -> Vec<NamedDelivery> {
    messages
        .iter()
        .filter(|message| {
            let kind = MessageKind::of_body(&message.body);
            kind.is_some_and(|kind| webhook.wants(kind, board))
        })
        .map(|message| NamedDelivery {
            id: message.id.clone(),
            delivery: Delivery::new(message.body.clone(), now),
        })
        .collect()
}
