//! Lists, counts, replays and discards the dead letters of boards.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::store::{self, DEAD_LETTERS_KEPT, DeadLetter, LetterId, Replayed};
use crate::core::board::store::board_notes::{self, NotedBoard, NotedFor};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::event::Rejection;
use crate::domain::ids::{BoardId, EventId};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::queue;
use crate::queue::store::queues::QueueName;
use crate::redis::Store;
use crate::redis::entry::EntryId;
use crate::runtime::join::try_join_all;

/// The maximum number of letters that one call reads.
const PART_MAX: usize = 100;
/// For how many boards letters are counted at a time.
const BOARDS_AT_ONCE: usize = 16;

#[derive(Clone, Debug)]
pub struct FoundLetter {
    pub id: LetterId,
    /// Why it is dead: the name of a `DeadReason`, or one of a newer release.
    pub reason: String,
    /// Details for people.
    pub detail: String,
    /// When it became a dead letter.
    pub died_at: Timestamp,
    /// Its event, if it can be read.
    pub event: Option<QueuedEvent>,
}

impl FoundLetter {
    fn new(id: LetterId, letter: &DeadLetter) -> Self {
        let text = |name| String::from_utf8_lossy(letter.field(name)).into_owned();
        Self {
            id,
            reason: text("reason"),
            detail: text("detail"),
            died_at: letter.place.at(),
            event: letter.event().ok(),
        }
    }
}

/// The oldest place at which dead letters are kept.
fn kept_from(engine: &Engine) -> EntryId {
    let now = engine.clock.redis_now();
    EntryId::from_ms(now.saturating_sub(DEAD_LETTERS_KEPT).ms())
}

/// The letters of a shard, read in parts.
struct Letters<'a> {
    shard: &'a Shard,
    /// Where the unread ones begin; `None` at the end.
    from: Option<EntryId>,
    read: VecDeque<DeadLetter>,
}

impl<'a> Letters<'a> {
    /// The letters kept, after the given id. An id of another sharding only gives the time; then some may be listed twice.
    fn of(shard: &'a Shard, kept: EntryId, after: Option<&LetterId>) -> Self {
        let from = after.map(|after| {
            let is_of_these =
                after.shard.of == shard.shard_id.of && after.generation == shard.generation;
            if !is_of_these {
                after.place.numbered(0)
            } else if shard.shard_id.index <= after.shard.index {
                after.place.next()
            } else {
                after.place
            }
        });
        Self {
            shard,
            from: Some(from.map_or(kept, |from| from.max(kept))),
            read: VecDeque::new(),
        }
    }

    /// Loads the next letter, if there is one.
    async fn read_on(&mut self, store: &Store, count: usize) -> Result<(), Error> {
        while let (true, Some(from)) = (self.read.is_empty(), self.from) {
            let read = store::list(store, self.shard, from, count).await?;
            let last = read.last().filter(|_| read.len() == count);
            self.from = last.map(|last| last.place.next());
            let told = read.into_iter().filter(DeadLetter::is_told);
            self.read = told.collect();
        }
        Ok(())
    }
}

/// Lists up to `count` dead letters of a board after `after`, oldest first. Also returns the board.
pub async fn list(
    engine: &Engine,
    board: &BoardId,
    after: Option<&LetterId>,
    count: usize,
) -> Result<(Arc<LiveBoard>, Part<FoundLetter, LetterId>), Error> {
    engine
        .with_board(board, async |live| {
            let (store, kept) = (&engine.store, kept_from(engine));
            let mut shards: Vec<Letters<'_>> = live
                .shards
                .iter()
                .map(|live| Letters::of(&live.shard, kept, after))
                .collect();
            let mut found = Vec::new();
            while found.len() <= count {
                let part = PART_MAX.min(count + 1);
                let read = shards.iter_mut().map(|shard| shard.read_on(store, part));
                try_join_all(read).await?;
                let oldest = shards
                    .iter_mut()
                    .filter(|shard| !shard.read.is_empty())
                    .min_by_key(|shard| (shard.read[0].place, shard.shard.shard_id.index));
                let Some(oldest) = oldest else {
                    break;
                };
                if let Some(letter) = oldest.read.pop_front() {
                    let id = LetterId::of(oldest.shard, &letter);
                    found.push(FoundLetter::new(id, &letter));
                }
            }
            let part = Part::split(found, count, |last| last.id);
            Ok((Arc::clone(&live), part))
        })
        .await
}

/// How many dead letters boards have. Letters that are too old are counted until newer ones come. Boards that can't be read
/// are left out.
pub(crate) async fn counts(engine: &Engine) -> Result<Vec<(BoardId, u64)>, Error> {
    let noted = board_notes::noted(&engine.store, NotedFor::DeadLetters).await?;
    let mut counted = stream::iter(noted)
        .map(async |noted| {
            let count = count(engine, &noted).await;
            (noted, count)
        })
        .buffer_unordered(BOARDS_AT_ONCE);
    let mut counts = Vec::new();
    while let Some((noted, count)) = counted.next().await {
        match count {
            Ok(0) => board_notes::forget(&engine.store, NotedFor::DeadLetters, &noted).await?,
            Ok(count) => counts.push((noted.id, count)),
            Err(error) if error.is_fault() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(counts)
}

/// How many dead letters a noted board has; none if it was deleted. The board is read from Redis: a copy may not know yet
/// that it has moved.
async fn count(engine: &Engine, noted: &NotedBoard) -> Result<u64, Error> {
    let board = match engine.board(&noted.id).await {
        Err(Error::BoardNotFound(_)) => return Ok(0),
        board => board?,
    };
    if board.generation != noted.generation {
        return Ok(0);
    }
    let shards = board.shards();
    let counts = shards
        .iter()
        .map(|shard| store::count(&engine.store, shard));
    Ok(try_join_all(counts).await?.iter().sum())
}

/// Puts the event of a dead letter back into its queue, with its id, its instant and its time of queuing, and removes the
/// letter. Returns the letter and its board.
pub async fn replay(
    engine: &Engine,
    board: &BoardId,
    id: &LetterId,
) -> Result<(Arc<LiveBoard>, FoundLetter), Error> {
    engine
        .with_board(board, async |live| {
            let (shard, letter) = find(engine, &live, id).await?;
            if !live.board.has_queues() {
                return Err(Problem::board_moving(board).into());
            }
            let (event, now) = (letter.event.as_ref(), engine.clock.now());
            if let Some(event) = event {
                check(&live, shard, event, now)?;
            }
            engine.note_use(&live).await?;
            // The board may forget records from before a move before the queue reaches the event.
            if let Some(event) = event {
                match engine.known_before(&live, &event.id, &event.member).await? {
                    Some(known) if known.fingerprint == event.fingerprint => {
                        return discard(engine, board, id).await.map(|found| (live, found));
                    }
                    Some(_) => {
                        let reused = Rejection::IdReused;
                        return Err(Error::rejected(&live.board, reused, event.at, now));
                    }
                    None => {}
                }
            }
            let queue::QueueState { rooms, queues, .. } = queue::of(engine);
            let room = rooms.of(&engine.store, shard);
            match store::replay(&engine.store, shard, id.place, room).await? {
                Replayed::Done(bytes) => {
                    rooms.note(&engine.store, shard, bytes);
                    queues.wake([QueueName::of(shard)]);
                    return Ok((Arc::clone(&live), letter));
                }
                Replayed::Gone => return Err(not_found(id)),
                // If the erasure covers the letter, this removes it.
                Replayed::Erasing => match event {
                    Some(event) => engine.forget(board, &event.member).await?,
                    None => engine.forget_all(board).await?,
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
pub async fn discard(
    engine: &Engine,
    board: &BoardId,
    id: &LetterId,
) -> Result<FoundLetter, Error> {
    engine
        .with_board(board, async |live| {
            let (shard, letter) = find(engine, &live, id).await?;
            if store::discard(&engine.store, shard, id.place).await? {
                Ok(letter)
            } else {
                Err(not_found(id))
            }
        })
        .await
}

/// A dead letter of a board, and its shard.
async fn find<'a>(
    engine: &Engine,
    live: &'a LiveBoard,
    id: &LetterId,
) -> Result<(&'a Shard, FoundLetter), Error> {
    let is_it = |shard: &&Shard| shard.shard_id == id.shard && shard.generation == id.generation;
    let shard = live
        .shards
        .iter()
        .map(|live| &live.shard)
        .find(is_it)
        .filter(|_| id.place >= kept_from(engine))
        .ok_or_else(|| not_found(id))?;
    let letters = store::list(&engine.store, shard, id.place, 1).await?;
    let letter = letters
        .iter()
        .find(|letter| letter.place == id.place && letter.is_told())
        .ok_or_else(|| not_found(id))?;
    Ok((shard, FoundLetter::new(*id, letter)))
}

fn not_found(id: &LetterId) -> Error {
    Problem::dead_letter_not_found(id).into()
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

/// The letters of a shard whose events have this id.
pub(crate) async fn letters_under(
    engine: &Engine,
    shard: &Shard,
    id: &EventId,
) -> Result<Vec<FoundLetter>, Error> {
    let (store, mut found) = (&engine.store, Vec::new());
    let mut letters = Letters::of(shard, kept_from(engine), None);
    loop {
        letters.read_on(store, PART_MAX).await?;
        if letters.read.is_empty() {
            return Ok(found);
        }
        let under = letters
            .read
            .drain(..)
            .filter(|letter| letter.field("id") == id.as_str().as_bytes());
        found.extend(under.map(|letter| FoundLetter::new(LetterId::of(shard, &letter), &letter)));
    }
}
