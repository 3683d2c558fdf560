//! Dead letters: queued events that could not be applied. They are made by `scripts/end_queued.lua`; here they are read, replayed and
//! discarded.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use fred::types::Value;
use serde::Serialize;

use super::args::pack;
use super::dispatch::Store;
use super::kinds::Kind;
use super::queued::EntryId;
use super::queues::{LISTINGS_MAX, QueueName, Room, remembered_ms};
use super::reply::{Reply, require, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::shard::{Shard, ShardId};
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::{Span, Timestamp};

/// How many dead letters of a shard there may be.
pub const DEAD_LETTERS_MAX: u32 = 1_000;
/// For how long a dead letter is kept. Redis may have older ones, which are not shown.
pub const DEAD_LETTERS_KEPT: Span = Span::days(7);

/// A dead letter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadLetter {
    /// Where it stands among the others of its shard.
    pub place: EntryId,
    /// Names and values, one behind the other: its own, and then those that its event had in the queue.
    pub fields: Vec<Bytes>,
}

impl DeadLetter {
    /// The letter as it is in another shard: queued there before everything else.
    #[must_use]
    pub fn moved_to(&self, place: EntryId) -> Self {
        let mut fields = self.fields.clone();
        let mut named = fields.chunks_exact_mut(2);
        if let Some(entry) = named.find(|field| field[0] == b"entry"[..]) {
            entry[1] = Bytes::from_static(b"0-0");
        }
        Self { place, fields }
    }

    /// Whether it is not about to be removed, since its member was erased.
    pub fn is_told(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The value of a field; empty if there is none.
    pub fn field(&self, name: &str) -> &[u8] {
        let mut fields = self.fields.chunks_exact(2);
        let found = fields.find(|field| field[0] == name.as_bytes());
        found.map(|field| &field[1][..]).unwrap_or_default()
    }
}

/// Why a queued event is a dead letter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeadReason {
    /// It can't be read.
    Unreadable,
    /// It has waited for too long.
    TooOld,
    /// It can't be applied, by a fault of the service or of the stored data.
    Failed,
}

impl DeadReason {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::TooOld => "too-old",
            Self::Failed => "failed",
        }
    }

    /// Whether it waits where there is no room, because it could be applied later. Others push out the oldest dead letters.
    pub(super) const fn waits(self) -> bool {
        matches!(self, Self::Failed)
    }
}

/// Names a dead letter, also beside those of other boards: `1795305600123-0_3_16.1_28080000123456`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LetterId {
    /// Where it stands among the others of its shard.
    pub place: EntryId,
    /// Its shard.
    pub shard: ShardId,
    /// The generation of its board.
    pub generation: u64,
}

impl LetterId {
    /// That of a letter of a shard.
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
        // A number can be written in more than one way.
        id.filter(|id| id.to_string() == text)
            .ok_or("is no id of a dead letter")
    }
}

/// What became of a dead letter that was to be replayed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Replayed {
    /// Its event is in the queue, which has so many bytes more. If it waited there already, it has none.
    Done(u64),
    /// There is no such letter.
    Gone,
    /// Something is left of its member, who was erased.
    Erasing,
    /// Its member was erased after the event was queued.
    Erased(Timestamp),
    /// There is no room for the event in the queue.
    NoRoom,
}

/// As replay.lua documents them.
#[derive(Serialize)]
struct ReplayArgs {
    version: String,
    epoch: String,
    bytes_max: u64,
    room: u64,
    remember: String,
    letter: String,
}

impl Store {
    /// All dead letters of a shard, in their order, whatever its version.
    pub async fn all_letters(&self, shard: &Shard) -> Result<Vec<DeadLetter>, StoreError> {
        let letters = keys::single(shard, Kind::DeadLetters);
        let args = vec![letters, "-".to_owned(), "+".to_owned()];
        read_letters(Reply::new(self.command("XRANGE", args).await?)?)
    }

    /// The first dead letters of a shard from a place on, in their order; at most so many. Those without fields are about to be removed,
    /// since their member was erased.
    pub async fn letters(
        &self,
        shard: &Shard,
        from: EntryId,
        count: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let args = [shard.version(), from.to_string(), count.to_string()];
        let args = args.map(Value::from).to_vec();
        let mut keys = keys::head_and_registry(shard);
        keys.push(keys::single(shard, Kind::DeadLetters));
        read_letters(Reply::answer(
            self.read(&script::LETTERS, keys, args).await?,
        )?)
    }

    /// Puts the event of a dead letter back into the queue of its shard, as it was, and removes the letter, in one step.
    pub async fn replay(
        &self,
        shard: &Shard,
        letter: EntryId,
        room: Room,
    ) -> Result<Replayed, StoreError> {
        let mut keys = keys::queue(shard);
        keys.push(keys::single(shard, Kind::DeadLetters));
        let mut args = ReplayArgs {
            version: shard.version(),
            epoch: String::new(),
            bytes_max: room.queue_bytes_max,
            room: room.bytes,
            remember: remembered_ms(shard).to_string(),
            letter: letter.to_string(),
        };
        for _ in 0..=LISTINGS_MAX {
            let packed = vec![pack(&args)?];
            let reply = self.write(shard, &script::REPLAY, keys.clone(), packed);
            let (code, mut reply) = Reply::versioned(reply.await?)?;
            return Ok(match code.as_str() {
                "OK" => Replayed::Done(reply.count()?),
                "GONE" => Replayed::Gone,
                "ERASING" => Replayed::Erasing,
                "ERASED" => {
                    let key = TieKey::from_number(reply.count()?);
                    let at = require(key.instant(Ties::First), "a tie key has an instant");
                    Replayed::Erased(at?)
                }
                "NO_ROOM" => Replayed::NoRoom,
                "UNINDEXED" => {
                    let epoch = reply.text()?;
                    self.list_queue(&QueueName::of(shard), &epoch).await?;
                    args.epoch = epoch;
                    continue;
                }
                other => return unknown_code(other),
            });
        }
        Err(StoreError::Unavailable(
            "the index of queues changes too fast".to_owned(),
        ))
    }

    /// Removes a dead letter of a shard; returns whether there was one.
    pub async fn discard(&self, shard: &Shard, letter: EntryId) -> Result<bool, StoreError> {
        let args = vec![shard.version().into(), letter.to_string().into()];
        let (head, letters) = (
            keys::head(shard.tag()),
            keys::single(shard, Kind::DeadLetters),
        );
        let keys = vec![head, letters];
        let reply = self.write(shard, &script::DISCARD, keys, args).await?;
        Ok(Reply::answer(reply)?.integer()? == 1)
    }
}

fn read_letters(mut reply: Reply) -> Result<Vec<DeadLetter>, StoreError> {
    let mut letters = Vec::new();
    while !reply.is_empty() {
        let mut letter = reply.list()?;
        let (place, mut read) = (letter.text()?.parse().ok(), letter.list()?);
        let mut fields = Vec::new();
        while !read.is_empty() {
            fields.push(read.bytes()?);
        }
        let place = require(place, "an entry of a stream has an id")?;
        letters.push(DeadLetter { place, fields });
    }
    Ok(letters)
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
