//! The job that hands messages on from the outboxes of boards to the queues of webhooks.

use std::collections::BTreeMap;

use super::jobs::faults::Subject;
use super::jobs::{Job, JobKind, Progress};
use super::{ATTEMPTS_MAX, Engine, Error};
use crate::domain::delivery::{Delivery, NamedDelivery};
use crate::domain::ids::BoardId;
use crate::domain::message::{Message, MessageKind};
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Webhook, WebhookName};
use crate::store::Versioned;
use crate::store::outbox::OutboxNote;
use crate::store::webhooks::StoredWebhooks;
use crate::throttle;

/// Hands on what boards have posted. A message leaves its outbox once it is queued for all webhooks that want it; to queue it
/// twice does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Outboxes;

/// A board whose outbox may have messages.
#[derive(Debug)]
pub struct Posting {
    board: BoardId,
    generation: u64,
    /// What says so.
    notes: Vec<OutboxNote>,
}

impl Job for Outboxes {
    type Item = Posting;
    const KIND: JobKind = JobKind::Outboxes;

    fn subject(&self, posting: &Posting) -> Subject {
        Subject::part(&posting.board, posting.generation.to_string())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Posting>, Error> {
        let mut boards: BTreeMap<_, Vec<OutboxNote>> = BTreeMap::new();
        for note in engine.store.outbox_notes().await? {
            let notes = boards.entry((note.board.clone(), note.generation));
            notes.or_default().push(note);
        }
        let boards = boards.into_iter();
        let postings = boards.map(|((board, generation), notes)| Posting {
            board,
            generation,
            notes,
        });
        Ok(postings.collect())
    }

    async fn step(&self, engine: &Engine, posting: &mut Posting) -> Result<Progress, Error> {
        let Posting {
            board,
            generation,
            notes,
        } = posting;
        let messages = engine.store.posted(board, *generation).await?;
        if messages.is_empty() {
            engine.store.forget_outbox_notes(notes).await?;
            return Ok(Progress::Done);
        }
        engine.hand_on(board, &messages).await?;
        let removed = engine.store.remove_posted(board, *generation, &messages);
        removed.await?;
        Ok(Progress::More)
    }
}

impl Engine {
    /// Queues messages of a board for all webhooks that want them.
    async fn hand_on(&self, board: &BoardId, messages: &[Message]) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let webhooks = self.store.load_webhooks().await?;
            if self.hand_to(&webhooks, board, messages).await? {
                return Ok(());
            }
        }
        Err(Error::busy())
    }

    /// Queues messages for these webhooks; returns whether they are still those that there are.
    async fn hand_to(
        &self,
        webhooks: &StoredWebhooks,
        board: &BoardId,
        messages: &[Message],
    ) -> Result<bool, Error> {
        let now = self.clock.now();
        for (name, webhook) in readable(webhooks) {
            let wanted = wanted(&webhook, board, messages, now);
            let version = Some(webhooks.version.as_str());
            let queued = self.store.queue_deliveries(version, name, &wanted, now);
            if queued.await? == Versioned::Stale {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The webhooks that can be read. What a newer release has written, and this one can't read, gets no messages from it.
fn readable(webhooks: &StoredWebhooks) -> impl Iterator<Item = (&WebhookName, Webhook)> {
    webhooks.all.iter().filter_map(|(name, stored)| {
        let read = stored.read();
        if let Err(error) = &read {
            throttle::say(&format!("webhook {name}"), |more| {
                tracing::error!(%name, %error, more, "a webhook is left out");
            });
        }
        Some((name, read.ok()?))
    })
}

/// Those of the messages that a webhook gets.
fn wanted(
    webhook: &Webhook,
    board: &BoardId,
    messages: &[Message],
    now: Timestamp,
) -> Vec<NamedDelivery> {
    let messages = messages.iter().filter(|message| {
        let kind = MessageKind::of_body(&message.body);
        kind.is_some_and(|kind| webhook.wants(kind, board))
    });
    let deliveries = messages.map(|message| NamedDelivery {
        id: message.id.clone(),
        delivery: Delivery::new(message.body.clone(), now),
    });
    deliveries.collect()
}
