//! Queues of shards, in which events wait to be applied, and the index of queues that may have events.
//!
//! The index is in another slot than the queues, and is exact without any assumption about time. A queue has an *epoch*,
//! and its state says whether it is *indexed*. A queue is listed in the index before it gets its first event, and removed
//! only if nothing was put in meanwhile (`scripts/queue/put.lua`):
//!
//! ```text
//! putter                         shard                         index                     worker
//! put, epoch '' ───────────────▶ indexed 0, epoch 4
//!               ◀── UNINDEXED 4
//! list under 4 ──────────────────────────────────────────────▶ queue → 4
//!                                indexed 0, epoch 5 ◀──────────────────────────── clear (empty): the epoch was 4
//! put, epoch 4 ────────────────▶ refused: it is 5
//!               ◀── UNINDEXED 5
//! list under 5 ──────────────────────────────────────────────▶ queue → 5
//!                                                              stays: 5 > 4 ◀──── unlist what has 4 or less
//! put, epoch 5 ────────────────▶ indexed 1: the event is in
//! ```
//!
//! If Redis loses its last writes, the index may lack a queue; so each board that is loaded into memory is checked once
//! (`listing.rs`). An empty queue whose state says *indexed* is listed again, too: its server may have lost the step that
//! removed it, while the index on another server did not.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::try_join;
use futures::stream::{self, StreamExt};
use serde::Deserialize;

use super::queued::bytes_of_entry;
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, EventId};
use crate::domain::queued::{AGE_MAX, QueuedEvent};
use crate::domain::shard::{Shard, ShardId};
use crate::domain::time::Timestamp;
use crate::redis::args::each;
use crate::redis::call::ScriptCall;
use crate::redis::decode::{Coded, Done, Flat, Raw, Tail, decode};
use crate::redis::dispatch::Store;
use crate::redis::entry::StreamEntry;
use crate::redis::kinds::Kind;
use crate::redis::reply::{info_fields, require};
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::{join_all, try_join_all};

/// How many queues are measured at the same time.
const SIZES_AT_ONCE: usize = 16;
/// How often one call may put its queue into the index: others may remove it at the same moment.
pub(crate) const LISTINGS_MAX: usize = 8;

/// Greater than any epoch of a queue.
pub const ANY_EPOCH: &str = "inf";

/// The queue of a shard, as the index names it: `7 run_hero:16:3`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct QueueName {
    pub id: BoardId,
    pub shard: ShardId,
    pub generation: u64,
}

impl QueueName {
    pub fn of(shard: &Shard) -> Self {
        Self {
            id: shard.id.clone(),
            shard: shard.shard_id,
            generation: shard.generation,
        }
    }

    fn tag(&self) -> String {
        self.shard.tag(&self.id)
    }

    fn key(&self, kind: Kind) -> String {
        keys::single_of(&self.tag(), self.generation, kind)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.generation, self.tag())
    }
}

impl FromStr for QueueName {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = || {
            let (generation, tag) = text.split_once(' ')?;
            let (id, shard) = ShardId::of_tag(tag)?;
            Some(Self {
                id,
                shard,
                generation: generation.parse().ok()?,
            })
        };
        parts().ok_or_else(|| {
            StoreError::Unexpected(format!("the name of a queue can't be read: {text:?}"))
        })
    }
}

/// How much room there is for events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// The limit for the queue of one shard, in bytes.
    pub queue_bytes_max: u64,
    /// The remaining bytes for all queues together.
    pub bytes: u64,
}

/// The outcome of putting an event into a queue.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Put {
    /// It was appended, and counts for this many bytes.
    #[serde(skip)]
    Queued(u64),
    /// It was there already, stored as this event.
    Known(Raw),
    /// Not put: it is before the barrier of the shard.
    BeforeBarrier,
    /// Not put: there is no room.
    NoRoom,
}

/// How much waits in a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueueSize {
    pub events: u64,
    pub bytes: u64,
}

impl QueueSize {
    pub fn add(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueuesOfServer {
    pub size: QueueSize,
    /// The `maxmemory` of the server, if it has one.
    pub memory_max: Option<u64>,
}

/// A sample of the sizes of queues.
#[derive(Debug, Default)]
pub struct QueueSample {
    /// Totals by server name, including servers without queues; `None` for a server that did not answer.
    pub servers: BTreeMap<String, Option<QueuesOfServer>>,
    /// Whether each queue could be read. Unreadable ones count as empty.
    pub queues: Vec<(QueueName, Result<(), StoreError>)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum PutReply {
    /// Events, by their places from 1, that were not simply put. All others are in the queue now.
    Ok(Tail<Flat<(usize, Put)>>),
    /// The index may lack the queue, whose epoch is this.
    Unindexed(String),
}

impl ScriptCall<'_> {
    /// The fields of scripts that put something into the queue of a shard, which was listed under this epoch.
    pub(crate) fn put_fields(self, shard: &Shard, epoch: &str, room: Room) -> Self {
        // A known id stays known at least until the queue has reached an event put under it.
        let remember = AGE_MAX.ms() + shard.definition.idempotency.ms();
        self.field("version", shard.version())
            .field("epoch", epoch)
            .field("bytes_max", room.queue_bytes_max)
            .field("room", room.bytes)
            .field("remember", remember.to_string())
            .field("revocation", shard.last_revocation())
    }
}

/// Puts events into the queue of a shard; answers are in the order of the events. Calls are sent in the order of these
/// calls, no matter when their futures are polled.
pub(crate) fn put<'a>(
    store: &'a Store,
    shard: &'a Shard,
    events: Vec<Arc<QueuedEvent>>,
    room: Room,
) -> impl Future<Output = Result<Vec<Put>, StoreError>> + Send + use<'a> {
    let confirm = store.waits_for_replicas();
    let send = move |epoch: &str, events: &[Arc<QueuedEvent>]| {
        let encoded = each(events, |event| event.encode());
        let lengths = each(&encoded, Vec::len);
        let reply = store
            .call(&script::PUT, shard.tag())
            .keys(keys::queue(shard))
            .put_fields(shard, epoch, room)
            .field("confirm", confirm)
            .field("ids", each(events, |event| &event.id))
            .args(encoded)
            .write();
        (lengths, reply)
    };
    let (lengths, mut reply) = send("", &events);
    async move {
        for _ in 0..LISTINGS_MAX {
            match reply.await? {
                PutReply::Ok(Tail(Flat(told))) => return outcomes(&events, &lengths, told),
                PutReply::Unindexed(epoch) => {
                    enlist(store, &QueueName::of(shard), &epoch).await?;
                    (_, reply) = send(&epoch, &events);
                }
            }
        }
        Err(StoreError::Contended)
    }
}

/// The queues that the index names. Invalid names are left out.
pub async fn listed(store: &Store) -> Result<Vec<QueueName>, StoreError> {
    let names: Vec<String> = store.command("ZRANGE", [keys::QUEUES, "0", "-1"]).await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Puts a queue into the index; returns whether it was missing.
pub(crate) async fn enlist(
    store: &Store,
    name: &QueueName,
    epoch: &str,
) -> Result<bool, StoreError> {
    let Done::Ok(is_new) = store
        .call(&script::LIST_QUEUE, keys::QUEUES)
        .key(keys::QUEUES)
        .arg(name.to_string())
        .arg(epoch)
        .write()
        .await?;
    Ok(is_new)
}

/// Removes the queue of a shard in use from the index if it is empty; returns whether it did.
pub async fn clear(store: &Store, shard: &Shard) -> Result<bool, StoreError> {
    let cleared = store
        .call_shard(&script::CLEAR_QUEUE, shard)
        .keys([Kind::Queue, Kind::QueueState].map(|kind| keys::single(shard, kind)))
        .arg(shard.generation)
        .write::<Coded<String>>();
    let last_epoch = match cleared.await?.after("OK", "FULL") {
        Ok(Some(epoch)) => epoch,
        Ok(None) => return Ok(false),
        Err(StoreError::Stale) => ANY_EPOCH.to_owned(),
        Err(error) => return Err(error),
    };
    unlist(store, &QueueName::of(shard), &last_epoch).await?;
    Ok(true)
}

/// Removes a queue from the index, unless it was listed under a later epoch; under [`ANY_EPOCH`] one that can't get events
/// any more, since its board or sharding is gone.
pub async fn unlist(store: &Store, name: &QueueName, last_epoch: &str) -> Result<(), StoreError> {
    store
        .call(&script::UNLIST_QUEUE, keys::QUEUES)
        .key(keys::QUEUES)
        .arg(name.to_string())
        .arg(last_epoch)
        .write::<Done>()
        .await
        .map(drop)
}

/// Puts the queue of a shard into the index if it has events, or if its state says that it is indexed (its server may have
/// lost the step that removed it). Returns whether it was missing.
pub async fn relist(store: &Store, shard: &Shard) -> Result<bool, StoreError> {
    let name = QueueName::of(shard);
    let state = keys::single(shard, Kind::QueueState);
    let fields = [&state, "indexed", "epoch"];
    let (indexed, epoch): (Option<String>, Option<String>) = store.command("HMGET", fields).await?;
    if indexed.as_deref() != Some("1") && size(store, &name).await?.events == 0 {
        return Ok(false);
    }
    let epoch = epoch.unwrap_or_else(|| "0".to_owned());
    enlist(store, &name, &epoch).await
}

/// Whether the queues of a board that moves are empty and stay so, because its shards refuse calls from before the move.
pub async fn are_empty(store: &Store, board: &Arc<Board>) -> Result<bool, StoreError> {
    let shards = board.shards();
    let sizes = shards
        .iter()
        .map(|shard| store.command::<u64>("XLEN", [keys::single(shard, Kind::Queue)]));
    Ok(try_join_all(sizes).await?.iter().all(|events| *events == 0))
}

/// How much waits in a queue.
pub async fn size(store: &Store, name: &QueueName) -> Result<QueueSize, StoreError> {
    let events = store.command("XLEN", [name.key(Kind::Queue)]);
    let bytes = [name.key(Kind::QueueState), "bytes".to_owned()];
    let bytes = store.command::<Option<u64>>("HGET", bytes);
    let (events, bytes) = try_join(events, bytes).await?;
    Ok(QueueSize {
        events,
        bytes: bytes.unwrap_or(0),
    })
}

/// Since when the first event of a queue waits, by the clock of Redis; `None` if the queue is empty.
pub async fn waiting_since(
    store: &Store,
    name: &QueueName,
) -> Result<Option<Timestamp>, StoreError> {
    let range = [&name.key(Kind::Queue), "-", "+", "COUNT", "1"];
    let found: Vec<StreamEntry> = decode(store.command("XRANGE", range).await?)?;
    Ok(found.first().map(|first| first.id.at()))
}

/// The name of the server of the shard with this tag.
pub fn server_of(store: &Store, tag: &str) -> String {
    store
        .server_of_key(&keys::head(tag))
        .map_or_else(String::new, |server| server.to_string())
}

/// Measures these queues. Unreadable queues and servers that are away don't prevent the others.
pub async fn sample(store: &Store, names: Vec<QueueName>) -> QueueSample {
    let primaries = store.topology.primaries();
    let of_servers = primaries.iter().map(async |(server, node)| {
        let info: Result<String, _> = node
            .readers
            .command("INFO", vec!["memory".to_owned()])
            .await
            .map_err(StoreError::from);
        let is_away = matches!(info, Err(StoreError::Unavailable(_)));
        let none = QueuesOfServer {
            memory_max: info.ok().and_then(|info| memory_max(&info)),
            ..QueuesOfServer::default()
        };
        (server.to_string(), (!is_away).then_some(none))
    });
    let mut servers: BTreeMap<_, _> = join_all(of_servers).await.into_iter().collect();
    let is_there = |(_, server): &(_, String)| servers.get(server) != Some(&None);
    let names = names.into_iter().map(|name| {
        let server = server_of(store, &name.tag());
        (name, server)
    });
    let sizes: Vec<_> = stream::iter(names.filter(is_there))
        .map(async |(name, server)| {
            let size = size(store, &name).await;
            (name, server, size)
        })
        .buffer_unordered(SIZES_AT_ONCE)
        .collect()
        .await;
    let mut queues = Vec::with_capacity(sizes.len());
    for (name, server, size) in sizes {
        let of_server = servers.entry(server).or_default().get_or_insert_default();
        queues.push((name, size.map(|size| of_server.size.add(size))));
    }
    QueueSample { servers, queues }
}

/// The events of a shard that wait under an id: there may be several. Without unreadable ones, and those that an erasure in
/// progress removes.
pub async fn find(
    store: &Store,
    shard: &Shard,
    id: &EventId,
) -> Result<Vec<QueuedEvent>, StoreError> {
    let waiting = store
        .call_shard(&script::WAITING, shard)
        .keys([Kind::Queue, Kind::QueueIds].map(|kind| keys::single(shard, kind)))
        .arg(shard.generation)
        .arg(id.as_str());
    let Done::Ok(Tail(events)) = waiting.read::<Done<Tail<Vec<Raw>>>>().await?;
    Ok(events
        .into_iter()
        .flat_map(|Raw(event)| QueuedEvent::decode(id.as_str().as_bytes(), &event))
        .collect())
}

/// The `maxmemory` in the reply of `INFO`, if the server has one.
fn memory_max(info: &str) -> Option<u64> {
    let max = info_fields(info).get("maxmemory")?.parse();
    max.ok().filter(|max| *max > 0)
}

/// The outcome for events, given with their sizes without the id, from those that put.lua reports.
fn outcomes(
    events: &[Arc<QueuedEvent>],
    lengths: &[usize],
    told: Vec<(usize, Put)>,
) -> Result<Vec<Put>, StoreError> {
    let mut outcomes: Vec<Put> = events
        .iter()
        .zip(lengths)
        .map(|(event, length)| bytes_of_entry(event.id.as_str().len(), *length) as u64)
        .map(Put::Queued)
        .collect();
    for (place, told) in told {
        let outcome = outcomes.get_mut(place.wrapping_sub(1));
        *require(outcome, "a reported result belongs to no event")? = told;
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_is_read_as_it_was_written() {
        for name in ["7 b", "7 run_hero:16:3", "1795305600123456 b:4:0:2"] {
            let read: QueueName = name.parse().unwrap();
            assert_eq!(read.to_string(), name);
        }
        for other in ["", "b", "x b", "7 ", "7 b:1", "7 {b}"] {
            assert!(other.parse::<QueueName>().is_err(), "{other}");
        }
    }
}
