//! Dead letters: queued events that could not be applied. `scripts/queue/end_queued.lua` creates them; here they are read,
//! replayed and discarded.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::Deserialize;

use crate::domain::queued::QueuedEvent;
use crate::domain::shard::{Shard, ShardId};
use crate::domain::texts::words;
use crate::domain::time::{Span, Timestamp};
use crate::queue::store::queues::{self, LISTINGS_MAX, QueueName, Room};
use crate::redis::decode::{Done, Raw, Tail, decode, tie_key};
use crate::redis::dispatch::Store;
use crate::redis::entry::{EntryId, StreamEntry};
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys, script};

/// The maximum number of dead letters of a shard.
pub const DEAD_LETTERS_MAX: u32 = 1_000;
/// How long a dead letter is kept. Redis may have older ones, which are not shown.
pub const DEAD_LETTERS_KEPT: Span = Span::days(7);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadLetter {
    /// Its place in the list of its shard.
    pub place: EntryId,
    /// Names and values in turn: its own fields, then those that its event had in the queue.
    pub fields: Vec<Bytes>,
}

impl DeadLetter {
    /// The letter as it is stored in another shard: at this place, as if queued before everything else.
    #[must_use]
    pub fn moved_to(&self, place: EntryId) -> Self {
        let mut fields = self.fields.clone();
        let mut named = fields.chunks_exact_mut(2);
        if let Some(entry) = named.find(|field| field[0] == b"entry"[..]) {
            entry[1] = Bytes::from_static(b"0-0");
        }
        Self { place, fields }
    }

    /// False if it is about to be removed because its member was erased.
    pub fn is_told(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The value of a field; empty if there is none.
    pub fn field(&self, name: &str) -> &[u8] {
        let found = self
            .fields
            .chunks_exact(2)
            .find(|field| field[0] == name.as_bytes());
        found.map(|field| &field[1][..]).unwrap_or_default()
    }

    /// The event, or why it can't be read.
    pub(crate) fn event(&self) -> Result<QueuedEvent, String> {
        QueuedEvent::decode(self.field("id"), self.field("event"))
    }
}

words! {
    /// Why a queued event is a dead letter.
    pub enum DeadReason {
        /// The event can't be read.
        Unreadable = "unreadable",
        /// The event has waited for too long.
        TooOld = "too-old",
        /// A fault of the service or of the stored data prevents the event.
        Failed = "failed",
    }
}

impl DeadReason {
    /// Whether the event stays queued if there is no room, to be applied later. Others evict the oldest dead letters.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Failed)
    }
}

/// Identifies a dead letter among those of all boards: `1795305600123-0_3_16.1_28080000123456`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LetterId {
    /// Its place in the list of its shard.
    pub place: EntryId,
    pub shard: ShardId,
    pub generation: u64,
}

impl LetterId {
    pub fn of(shard: &Shard, letter: &DeadLetter) -> Self {
        Self {
            place: letter.place,
            shard: shard.shard_id,
            generation: shard.generation,
        }
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShardId { index, of } = self.shard;
        write!(f, "{}_{index}_{of}_{}", self.place, self.generation)
    }
}

impl FromStr for LetterId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let mut parts = text.split('_');
            let mut part = || parts.next();
            let (place, index, of, generation) = (part()?, part()?, part()?, part()?);
            Some(Self {
                place: place.parse().ok()?,
                shard: ShardId {
                    index: index.parse().ok()?,
                    of: of.parse().ok()?,
                },
                generation: generation.parse().ok()?,
            })
        };
        let id: Option<Self> = read();
        // Only the canonical form is valid: a number can be written in more than one way.
        id.filter(|id| id.to_string() == text)
            .ok_or("is not the id of a dead letter")
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Replayed {
    /// Its event is in the queue, which has grown by this many bytes: 0 if it waited there already.
    Done(u64),
    /// There is no such letter.
    Gone,
    /// Its member was erased, and some of that member's data is not removed yet.
    Erasing,
    /// Its member was erased after the event was queued.
    Erased(Timestamp),
    /// There is no room for the event in the queue.
    NoRoom,
}

/// All dead letters of a shard, in order, whatever its version.
pub async fn all(store: &Store, shard: &Shard) -> Result<Vec<DeadLetter>, StoreError> {
    let letters = keys::single(shard, Kind::DeadLetters);
    let found: Vec<StreamEntry> = decode(store.command("XRANGE", [&letters, "-", "+"]).await?)?;
    Ok(found.into_iter().map(DeadLetter::from).collect())
}

/// How many dead letters a shard has, with those that are no longer shown.
pub async fn count(store: &Store, shard: &Shard) -> Result<u64, StoreError> {
    let letters = keys::single(shard, Kind::DeadLetters);
    store.command("XLEN", [letters]).await
}

/// Up to `count` dead letters of a shard from a place on, in order. Those without fields are about to be removed, since
/// their member was erased.
pub async fn list(
    store: &Store,
    shard: &Shard,
    from: EntryId,
    count: usize,
) -> Result<Vec<DeadLetter>, StoreError> {
    let letters = store
        .call_shard(&script::LETTERS, shard)
        .key(keys::single(shard, Kind::DeadLetters))
        .arg(shard.version())
        .arg(from.to_string())
        .arg(count);
    let Done::Ok(Tail(found)) = letters.read::<Done<Tail<Vec<StreamEntry>>>>().await?;
    Ok(found.into_iter().map(DeadLetter::from).collect())
}

/// Puts the event of a dead letter back into the queue of its shard, unchanged, and removes the letter, in one step.
pub async fn replay(
    store: &Store,
    shard: &Shard,
    letter: EntryId,
    room: Room,
) -> Result<Replayed, StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    enum Reply {
        Ok(u64),
        Gone,
        Erasing,
        #[serde(deserialize_with = "tie_key")]
        Erased(Timestamp),
        NoRoom,
        Unindexed(String),
    }
    let mut epoch = String::new();
    for _ in 0..=LISTINGS_MAX {
        let replayed = store
            .call(&script::REPLAY, shard.tag())
            .keys(keys::queue(shard))
            .key(keys::single(shard, Kind::DeadLetters))
            .put_fields(shard, &epoch, room)
            .field("letter", letter);
        return Ok(match replayed.write().await? {
            Reply::Ok(bytes) => Replayed::Done(bytes),
            Reply::Gone => Replayed::Gone,
            Reply::Erasing => Replayed::Erasing,
            Reply::Erased(at) => Replayed::Erased(at),
            Reply::NoRoom => Replayed::NoRoom,
            Reply::Unindexed(listed) => {
                queues::enlist(store, &QueueName::of(shard), &listed).await?;
                epoch = listed;
                continue;
            }
        });
    }
    Err(StoreError::Contended)
}

/// Removes a dead letter of a shard; returns whether there was one.
pub async fn discard(store: &Store, shard: &Shard, letter: EntryId) -> Result<bool, StoreError> {
    let discarded = store
        .call(&script::DISCARD, shard.tag())
        .keys([
            keys::head(shard.tag()),
            keys::single(shard, Kind::DeadLetters),
        ])
        .arg(shard.version())
        .arg(letter.to_string());
    let Done::Ok(was_there) = discarded.write().await?;
    Ok(was_there)
}

impl From<StreamEntry> for DeadLetter {
    fn from(found: StreamEntry) -> Self {
        let fields = found.fields.0.into_iter();
        Self {
            place: found.id,
            fields: fields
                .flat_map(|(Raw(name), Raw(value))| [name, value])
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_letter_is_read_as_it_was_written() {
        for text in ["1795305600123-0_3_16.1_28080000123456", "7-1_0_1_7"] {
            assert_eq!(text.parse::<LetterId>().unwrap().to_string(), text);
        }
        for other in [
            "",
            "7-1",
            "7-1_0_1",
            "7-1_0_1_x",
            "7-1_0_1_7_8",
            "7-1_00_1_7",
            "7-+1_0_1_7",
            "7-1_0_1.0_7",
            "7-1_0_1_ 7",
        ] {
            assert!(other.parse::<LetterId>().is_err(), "{other}");
        }
    }
}
