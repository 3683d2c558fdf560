//! What shards take from the log, and what they know of its partitions (`scripts/lib/intake.lua`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use crate::domain::board::Board;
use crate::domain::intake::{FormerOffsets, KnownOffsets, Partition};
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::{Shard, Sharding};
use crate::queue::store::queues::{self, LISTINGS_MAX, QueueName, Room};
use crate::redis::decode::{Done, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys, script};

/// Prefix of the fields with the offsets of former shards; the partition follows.
const FORMER: &str = "former:";
/// The field with the ends of the log that a closing waits for.
const ENDS: &str = "ends";

/// What a shard is to take from a partition: all of its records from `base` up to `upto`, except those that this consumer
/// gave it before.
#[derive(Clone, Debug)]
pub struct Take<'a> {
    pub partition: &'a Partition,
    /// The offset from which the records are complete.
    pub base: i64,
    /// The offset at which they end, exclusive.
    pub upto: i64,
    /// The first offset that the log had when the consumer began.
    pub first: i64,
    /// Whether the shard has answered the consumer before.
    pub is_known: bool,
    /// The records with their offsets, ascending.
    pub events: &'a [(i64, QueuedEvent)],
}

/// What a shard took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShardTaken {
    /// All records before this offset. If it is less than `upto`, there is no room for the event at it.
    Upto {
        offset: i64,
        /// The number of bytes by which the queue grew.
        bytes: u64,
    },
    /// Nothing: its board moves, and takes nothing until the move ends.
    Held,
    /// Nothing: there is a gap between the records that it has taken and the given ones.
    GoneBack,
}

/// Makes a shard take records. Without events only its next offset moves.
pub async fn take(
    store: &Store,
    shard: &Shard,
    take: &Take<'_>,
    room: Room,
) -> Result<ShardTaken, StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    enum Reply {
        Ok(i64, u64),
        Held,
        GoneBack,
        Unindexed(String),
        Former(Tail<Vec<String>>),
    }
    let (mut epoch, mut former) = (String::new(), HashMap::new());
    let ids: Vec<_> = take.events.iter().map(|(_, event)| &event.id).collect();
    let offsets: Vec<_> = take.events.iter().map(|(offset, _)| *offset).collect();
    let revocations: Vec<u64> = offsets
        .iter()
        .map(|offset| shard.last_revocation_of(take.partition, *offset))
        .collect();
    let events: Vec<Bytes> = take
        .events
        .iter()
        .map(|(_, event)| event.encode().into())
        .collect();
    for _ in 0..LISTINGS_MAX {
        let call = store
            .call(&script::TAKE, shard.tag())
            .keys(keys::intake(shard))
            .put_fields(shard, &epoch, room)
            .field("partition", take.partition.to_string())
            .field("base", take.base)
            .field("upto", take.upto)
            .field("first", take.first)
            .field("is_known", take.is_known)
            .field("former", &former)
            .field("ids", &ids)
            .field("offsets", &offsets)
            .field("revocations", &revocations)
            .args(events.iter().cloned());
        let reply = if events.is_empty() {
            // If this is lost, the records in between are read again.
            call.derive().await?
        } else {
            call.write().await?
        };
        match reply {
            Reply::Ok(offset, bytes) => return Ok(ShardTaken::Upto { offset, bytes }),
            Reply::Held => return Ok(ShardTaken::Held),
            Reply::GoneBack => return Ok(ShardTaken::GoneBack),
            Reply::Unindexed(listed) => {
                queues::enlist(store, &QueueName::of(shard), &listed).await?;
                epoch = listed;
            }
            Reply::Former(Tail(shardings)) => {
                for name in shardings {
                    former.insert(name.clone(), former_places(&name, take.events)?);
                }
            }
        }
    }
    Err(StoreError::Contended)
}

/// What a shard knows of a partition.
pub async fn known_offsets(
    store: &Store,
    shard: &Shard,
    partition: &Partition,
) -> Result<KnownOffsets, StoreError> {
    let fields = [
        keys::single(shard, Kind::Intake),
        partition.to_string(),
        format!("{FORMER}{partition}"),
    ];
    let (own, former): (Option<i64>, Option<Bytes>) = store.command("HMGET", fields).await?;
    let former = former.map(|former| read_former(&former)).transpose()?;
    Ok(KnownOffsets {
        own,
        former: former.unwrap_or_default(),
    })
}

/// What a shard knows of all partitions, by their names.
pub async fn all_known_offsets(
    store: &Store,
    shard: &Shard,
) -> Result<BTreeMap<String, KnownOffsets>, StoreError> {
    let key = keys::single(shard, Kind::Intake);
    let fields: HashMap<String, Bytes> = store.command("HGETALL", [key]).await?;
    let mut known: BTreeMap<String, KnownOffsets> = BTreeMap::new();
    for (field, value) in fields {
        if let Some(partition) = field.strip_prefix(FORMER) {
            known.entry(partition.to_owned()).or_default().former = read_former(&value)?;
        } else if field != ENDS {
            let own = str::from_utf8(&value)
                .ok()
                .and_then(|text| text.parse().ok());
            let unexpected =
                || StoreError::Unexpected(format!("an offset can't be read: {value:?}"));
            known.entry(field).or_default().own = Some(own.ok_or_else(unexpected)?);
        }
    }
    Ok(known)
}

/// The offset up to which shards without an offset are known to have no records; `None` if unknown.
pub async fn floor(store: &Store, partition: &Partition) -> Result<Option<i64>, StoreError> {
    let args = [keys::INTAKE, &partition.to_string()];
    let floor: Option<f64> = store.command("ZSCORE", args).await?;
    #[expect(clippy::cast_possible_truncation, reason = "an offset, which is whole")]
    Ok(floor.map(|floor| floor as i64))
}

/// Raises the floor; it never falls.
pub async fn raise_floor(
    store: &Store,
    partition: &Partition,
    offset: i64,
) -> Result<(), StoreError> {
    let (offset, partition) = (offset.to_string(), partition.to_string());
    store
        .command("ZADD", [keys::INTAKE, "GT", &offset, &partition])
        .await
}

/// Asks consumers to make shards reach their position, or withdraws that.
pub async fn want(
    store: &Store,
    shards: Vec<QueueName>,
    is_wanted: bool,
) -> Result<(), StoreError> {
    if shards.is_empty() {
        return Ok(());
    }
    let command = if is_wanted { "SADD" } else { "SREM" };
    let names = shards.iter().map(QueueName::to_string);
    let args = std::iter::once(keys::INTAKE_WANTED.to_owned()).chain(names);
    store.command(command, args).await
}

/// The shards that closings wait for. Invalid names are left out.
pub async fn wanted(store: &Store) -> Result<Vec<QueueName>, StoreError> {
    let names: Vec<String> = store.command("SMEMBERS", [keys::INTAKE_WANTED]).await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Stops the queues of a board that moves from taking from the log. Stale: not all of them know the version.
pub async fn hold_queues(store: &Store, board: &Arc<Board>) -> Result<(), StoreError> {
    for shard in board.shards() {
        let held = store
            .call(&script::HOLD_QUEUE, shard.tag())
            .key(keys::head(shard.tag()))
            .arg(shard.version());
        held.write::<Done>().await?;
    }
    Ok(())
}

/// The index of the shard of a former sharding that each event was in.
fn former_places(sharding: &str, events: &[(i64, QueuedEvent)]) -> Result<Vec<usize>, StoreError> {
    let sharding: Sharding = sharding.parse().map_err(|error| {
        StoreError::Unexpected(format!("a sharding can't be read: {sharding:?}: {error}"))
    })?;
    Ok(events
        .iter()
        .map(|(_, event)| sharding.index_of(&event.member))
        .collect())
}

fn read_former(packed: &[u8]) -> Result<Vec<FormerOffsets>, StoreError> {
    rmp_serde::from_slice(packed).map_err(|error| StoreError::Unexpected(error.to_string()))
}

/// The field with the offsets of former shards, and its value.
pub(crate) fn former_field(
    partition: &str,
    former: &[FormerOffsets],
) -> Result<(String, Bytes), StoreError> {
    let packed =
        rmp_serde::to_vec(former).map_err(|error| StoreError::Unexpected(error.to_string()))?;
    Ok((format!("{FORMER}{partition}"), packed.into()))
}
