//! Reading queued events in order, and ending those that are not applied. Others leave the queue when they are applied
//! (`core/write/store/events.rs`).

use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::ids::EventId;
use crate::domain::period::Period;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::queue::dead_letters::store::{DEAD_LETTERS_KEPT, DEAD_LETTERS_MAX, DeadReason};
use crate::redis::decode::{Done, Raw, Tail, decode};
use crate::redis::dispatch::Store;
use crate::redis::entry::{EntryId, StreamEntry};
use crate::redis::kinds::Kind;
use crate::redis::protocol::{ends, queues};
use crate::redis::{StoreError, keys, script};

/// An entry of a queue as it is stored.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueEntry {
    /// The stored id of its event.
    pub event_id: Bytes,
    pub event: Bytes,
    /// Whether it comes from the log.
    pub is_logged: bool,
    /// The barrier of a closing, if the event was appended to the log after the ends that the closing waits for.
    pub late: Option<Timestamp>,
    /// The number of the last revocation before it was queued; 0 for none.
    pub revocation: u64,
}

impl QueueEntry {
    /// The size that it counts for.
    pub fn bytes(&self) -> usize {
        bytes_of_entry(self.event_id.len(), self.event.len())
    }
}

/// The size that an entry counts for (`scripts/lib/queue.lua`), by the lengths of its id and of the rest of its event.
pub(crate) fn bytes_of_entry(id: usize, event: usize) -> usize {
    event + 2 * id + queues::QUEUE_ENTRY_BYTES
}

/// The outcome of a queued event that is not applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// It was taken elsewhere.
    Known,
    /// It is rejected; the reason is kept under its id.
    Refused {
        id: EventId,
        why: String,
        /// How many milliseconds the reason is kept.
        told_ms: u64,
        /// If a closing did not wait for it: the periods that it would have counted for, with their ends. It is counted in
        /// those that are final.
        cut_off: Vec<(Period, Timestamp)>,
    },
    /// It becomes a dead letter.
    Dead {
        /// The kind of dead letter.
        reason: DeadReason,
        /// What is wrong.
        detail: String,
    },
}

/// The outcome of ending an event.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Ended {
    #[serde(rename = "OK")]
    Done,
    /// It is not in the queue.
    Gone,
    /// It is still in the queue, because there are too many dead letters.
    Full,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EndArg<'a> {
    Known(u8, EntryId),
    Refused(u8, EntryId, usize, &'a str, String, Vec<(usize, i64)>),
    Dead(u8, EntryId, &'static str, &'a str, u8),
}

/// Up to `count` entries of a queue in order: the first ones, or those after `after`.
pub async fn read(
    store: &Store,
    shard: &Shard,
    after: Option<EntryId>,
    count: usize,
) -> Result<Vec<(EntryId, QueueEntry)>, StoreError> {
    let first = after.map_or_else(|| "-".to_owned(), |entry| format!("({entry}"));
    let queue = keys::single(shard, Kind::Queue);
    let args = [&queue, &first, "+", "COUNT", &count.to_string()];
    let found: Vec<StreamEntry> = decode(store.command("XRANGE", args).await?)?;
    Ok(found.into_iter().map(entry).collect())
}

/// The last entry of a queue; `None` if it is empty.
pub async fn last(store: &Store, shard: &Shard) -> Result<Option<EntryId>, StoreError> {
    let queue = keys::single(shard, Kind::Queue);
    let args = [&queue, "+", "-", "COUNT", "1"];
    let found: Vec<StreamEntry> = decode(store.command("XREVRANGE", args).await?)?;
    Ok(found.first().map(|entry| entry.id))
}

/// Ends events of a queue under the lease with this number; answers are in the order of the events. Stale: the lease has
/// another number.
pub async fn end(
    store: &Store,
    shard: &Shard,
    lease: u64,
    all: Vec<(EntryId, &End)>,
) -> Result<Vec<Ended>, StoreError> {
    let mut keys = keys::queue(shard);
    keys.push(keys::single(shard, Kind::DeadLetters));
    let ends: Vec<EndArg<'_>> = all
        .into_iter()
        .map(|(entry, end)| end_arg(shard, entry, end, &mut keys))
        .collect();
    let Done::Ok(Tail(ended)) = store
        .call(&script::END_QUEUED, shard.tag())
        .keys(keys)
        .field("lease", lease.to_string())
        .field("tag", shard.tag())
        .field("letters_max", DEAD_LETTERS_MAX)
        .field("kept_ms", DEAD_LETTERS_KEPT.ms())
        .field("ends", ends)
        .write::<Done<Tail<Vec<_>>>>()
        .await?;
    Ok(ended)
}

/// The stored refusal of the event with this id, if there is one (still).
pub async fn refused(
    store: &Store,
    shard: &Shard,
    id: &EventId,
) -> Result<Option<String>, StoreError> {
    let key = keys::named(shard, Kind::RefusedEvent, id);
    store.command("GET", [key]).await
}

fn entry(found: StreamEntry) -> (EntryId, QueueEntry) {
    fn number<N: FromStr>(value: &Bytes) -> Option<N> {
        str::from_utf8(value).ok()?.parse().ok()
    }
    let mut entry = QueueEntry::default();
    for (Raw(name), Raw(value)) in found.fields.0 {
        match &name[..] {
            b"id" => entry.event_id = value,
            b"event" => entry.event = value,
            b"late" => {
                let ms = number(&value).filter(|ms| *ms != 0);
                entry.is_logged = true;
                entry.late = ms.map(Timestamp::from_ms_clamped);
            }
            b"revocation" => entry.revocation = number(&value).unwrap_or_default(),
            _ => {}
        }
    }
    (found.id, entry)
}

fn end_arg<'a>(shard: &Shard, entry: EntryId, end: &'a End, keys: &mut Vec<String>) -> EndArg<'a> {
    match end {
        End::Known => EndArg::Known(ends::ENDED, entry),
        End::Refused {
            id,
            why,
            told_ms,
            cut_off,
        } => {
            keys.push(keys::named(shard, Kind::RefusedEvent, id));
            let (told, told_ms) = (keys.len(), told_ms.to_string());
            let counts = cut_off.iter().map(|(period, end)| {
                keys.push(keys::of_period(shard, Kind::CutOff, period));
                (keys.len(), end.ms())
            });
            EndArg::Refused(ends::REFUSED, entry, told, why, told_ms, counts.collect())
        }
        End::Dead { reason, detail } => {
            let waits = u8::from(reason.waits());
            EndArg::Dead(ends::DEAD, entry, reason.name(), detail, waits)
        }
    }
}
