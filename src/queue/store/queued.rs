//! Events that come out of queues: read in their order, and ended if they are not applied. Those that are applied leave the queue with
//! that (`events.rs`). What becomes of dead letters is told in `dead_letters.rs`.

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

/// An entry of a queue as it lies there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueEntry {
    /// The id of its event, as it lies there.
    pub event_id: Bytes,
    /// What else there is of the event.
    pub event: Bytes,
    /// Whether it comes out of the log.
    pub is_logged: bool,
    /// If it was appended there behind the ends that a closing waits for: the barrier of that closing.
    pub late: Option<Timestamp>,
}

impl QueueEntry {
    /// How many bytes it counts.
    pub fn bytes(&self) -> usize {
        bytes_of_entry(self.event_id.len(), self.event.len())
    }
}

/// How many bytes an entry counts (`scripts/lib/queue.lua`) whose id has so many, and what else there is of its event.
pub(crate) fn bytes_of_entry(id: usize, event: usize) -> usize {
    event + 2 * id + queues::QUEUE_ENTRY_BYTES
}

/// How a queued event ends that is not applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// It was taken elsewhere.
    Known,
    /// A rule has refused it: under its id it is told for so long why.
    Refused {
        /// Its id.
        id: EventId,
        /// Why.
        why: String,
        /// For how many milliseconds that is told.
        told_ms: u64,
        /// If a closing did not wait for it: the periods that it would have counted for, with their ends. It is counted in those that are
        /// final.
        cut_off: Vec<(Period, Timestamp)>,
    },
    /// An operator has to look at it.
    Dead {
        /// Of what kind that is.
        reason: DeadReason,
        /// What is wrong.
        detail: String,
    },
}

/// What was said to an end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Ended {
    /// It has ended.
    #[serde(rename = "OK")]
    Done,
    /// It is not in the queue.
    Gone,
    /// It is still in the queue: there are as many dead letters as there may be.
    Full,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EndArg<'a> {
    Known(u8, EntryId),
    Refused(u8, EntryId, usize, &'a str, String, Vec<(usize, i64)>),
    Dead(u8, EntryId, &'static str, &'a str, u8),
}

/// The first entries of a queue, or those behind one, in their order; at most so many.
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

/// Ends events of a queue under the lease with this number; the answers are in their order. Stale: the lease has another
/// number.
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
    let ended = store
        .call(&script::END_QUEUED, shard.tag())
        .keys(keys)
        .field("lease", lease.to_string())
        .field("tag", shard.tag())
        .field("letters_max", DEAD_LETTERS_MAX)
        .field("kept_ms", DEAD_LETTERS_KEPT.ms())
        .field("ends", ends);
    let Done::Ok(Tail(ended)) = ended.write::<Done<Tail<Vec<_>>>>().await?;
    Ok(ended)
}

/// What is told of events with these ids that a rule has refused; `None` for those of which nothing is told (any more).
pub async fn refused(
    store: &Store,
    shard: &Shard,
    ids: &[&EventId],
) -> Result<Vec<Option<String>>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys = ids
        .iter()
        .map(|id| keys::named(shard, Kind::RefusedEvent, id));
    store.command("MGET", keys).await
}

fn entry(found: StreamEntry) -> (EntryId, QueueEntry) {
    let mut entry = QueueEntry::default();
    for (Raw(name), Raw(value)) in found.fields.0 {
        match &name[..] {
            b"id" => entry.event_id = value,
            b"event" => entry.event = value,
            b"late" => {
                let ms = std::str::from_utf8(&value).ok();
                let ms = ms.and_then(|ms| ms.parse().ok()).filter(|ms| *ms != 0);
                entry.is_logged = true;
                entry.late = ms.map(Timestamp::from_ms_clamped);
            }
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
        End::Dead { reason, detail } => EndArg::Dead(
            ends::DEAD,
            entry,
            reason.name(),
            detail,
            u8::from(reason.waits()),
        ),
    }
}
