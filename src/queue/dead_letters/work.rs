//! Lists, replays and discards the dead letters of boards.

use std::collections::VecDeque;
use std::sync::Arc;

use super::store::{self, DeadLetter, LetterId};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::{BoardId, EventId};
use crate::domain::part::Part;
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::queue::replaying;
use crate::redis::Store;
use crate::redis::entry::EntryId;
use crate::runtime::join::try_join_all;

/// The most letters that one call reads.
const PART_MAX: usize = 100;

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
            let (store, kept) = (&engine.store, replaying::letters_from(engine));
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

/// Puts the event of a dead letter back into its queue, unchanged, and removes the letter. Returns it, with its board.
pub async fn replay(
    engine: &Engine,
    board: &BoardId,
    letter: &LetterId,
) -> Result<(Arc<LiveBoard>, FoundLetter), Error> {
    let (live, replayed) = replaying::replay(engine, board, letter).await?;
    Ok((live, FoundLetter::new(*letter, &replayed)))
}

/// Removes and returns a dead letter. Its event never counts.
pub async fn discard(
    engine: &Engine,
    board: &BoardId,
    letter: &LetterId,
) -> Result<FoundLetter, Error> {
    let discarded = replaying::discard(engine, board, letter).await?;
    Ok(FoundLetter::new(*letter, &discarded))
}

/// The letters of a shard whose events have this id.
pub(crate) async fn letters_under(
    engine: &Engine,
    shard: &Shard,
    id: &EventId,
) -> Result<Vec<FoundLetter>, Error> {
    let (store, mut found) = (&engine.store, Vec::new());
    let mut letters = Letters::of(shard, replaying::letters_from(engine), None);
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
