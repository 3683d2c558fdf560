//! Putting the events of dead letters back into their queues, and removing dead letters.

use std::sync::Arc;

use super::dead_letters;
use super::dead_letters::store::{DEAD_LETTERS_KEPT, DeadLetter, LetterId, Replayed};
use super::store::queues::QueueName;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::event::Rejection;
use crate::domain::ids::BoardId;
use crate::domain::problems::Problem;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::entry::EntryId;

impl DeadLetter {
    /// The event, or why it can't be read.
    pub(crate) fn event(&self) -> Result<QueuedEvent, String> {
        QueuedEvent::decode(self.field("id"), self.field("event"))
    }
}

/// The oldest place at which dead letters are kept.
pub(crate) fn letters_from(engine: &Engine) -> EntryId {
    let now = engine.clock.redis_now();
    EntryId::from_ms(now.saturating_sub(DEAD_LETTERS_KEPT).ms())
}

/// Puts the event of a dead letter back into its queue, with its id, its instant and its time of queuing, and removes the
/// letter. Returns the letter and its board.
pub(crate) async fn replay(
    engine: &Engine,
    id: &BoardId,
    letter: &LetterId,
) -> Result<(Arc<LiveBoard>, DeadLetter), Error> {
    engine
        .with_board(id, async |live| {
            let (shard, found) = find_letter(engine, &live, letter).await?;
            if !live.board.has_queues() {
                return Err(Problem::board_moving(id).into());
            }
            let (event, now) = (found.event().ok(), engine.clock.now());
            if let Some(event) = &event {
                check(&live, shard, event, now)?;
            }
            engine.note_use(&live).await?;
            // The board may forget records from before a move before the queue reaches the event.
            if let Some(event) = &event {
                match engine.known_before(&live, &event.id, &event.member).await? {
                    Some(known) if known.fingerprint == event.fingerprint => {
                        return discard(engine, id, letter).await.map(|found| (live, found));
                    }
                    Some(_) => {
                        let reused = Rejection::IdReused;
                        return Err(Error::rejected(&live.board, reused, event.at, now));
                    }
                    None => {}
                }
            }
            let room = super::of(engine).rooms.of(&engine.store, shard);
            match dead_letters::store::replay(&engine.store, shard, letter.place, room).await? {
                Replayed::Done(bytes) => {
                    super::of(engine).rooms.note(&engine.store, shard, bytes);
                    super::of(engine).queues.wake([QueueName::of(shard)]);
                    return Ok((Arc::clone(&live), found));
                }
                Replayed::Gone => return Err(not_found(letter)),
                // If the erasure covers the letter, this removes it.
                Replayed::Erasing => match &event {
                    Some(event) => engine.forget(id, &event.member).await?,
                    None => engine.forget_all(id).await?,
                },
                Replayed::Erased(erased_at) => {
                    let at = event.map_or(erased_at, |event| event.at);
                    let rejection = Rejection::Erased(erased_at);
                    return Err(Error::rejected(&live.board, rejection, at, now));
                }
                Replayed::NoRoom => return Err(Problem::queue_full().into()),
            }
            Err(Error::Again(Outdated::Board))
        })
        .await
}

/// Removes and returns a dead letter. Its event never counts.
pub(crate) async fn discard(
    engine: &Engine,
    id: &BoardId,
    letter: &LetterId,
) -> Result<DeadLetter, Error> {
    engine
        .with_board(id, async |live| {
            let (shard, found) = find_letter(engine, &live, letter).await?;
            if dead_letters::store::discard(&engine.store, shard, letter.place).await? {
                Ok(found)
            } else {
                Err(not_found(letter))
            }
        })
        .await
}

/// A dead letter of a board, and its shard.
async fn find_letter<'a>(
    engine: &Engine,
    live: &'a LiveBoard,
    letter: &LetterId,
) -> Result<(&'a Shard, DeadLetter), Error> {
    let is_it =
        |shard: &&Shard| shard.shard_id == letter.shard && shard.generation == letter.generation;
    let shard = live
        .shards
        .iter()
        .map(|live| &live.shard)
        .find(is_it)
        .ok_or_else(|| not_found(letter))?;
    if letter.place < letters_from(engine) {
        return Err(not_found(letter));
    }
    let mut found = dead_letters::store::list(&engine.store, shard, letter.place, 1)
        .await?
        .into_iter();
    let found = found
        .find(|found| found.place == letter.place && found.is_told())
        .ok_or_else(|| not_found(letter))?;
    Ok((shard, found))
}

fn not_found(letter: &LetterId) -> Error {
    Problem::dead_letter_not_found(letter).into()
}

/// Whether an event would not become a dead letter again at once.
fn check(
    live: &LiveBoard,
    shard: &Shard,
    event: &QueuedEvent,
    now: Timestamp,
) -> Result<(), Error> {
    let no = |detail: &str| Err(Problem::not_replayable(detail).into());
    if let Some(detail) = event.too_long_wait(now) {
        return no(&detail);
    }
    if live.shard_of(&event.member).shard.shard_id != shard.shard_id {
        return no("it is in another shard than its member");
    }
    Ok(())
}
