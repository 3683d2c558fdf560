//! What shards take out of the log, and what they know of its partitions (`scripts/lib/intake.lua`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use fred::types::Value;
use serde::Serialize;

use super::args::pack;
use super::dispatch::Store;
use super::kinds::Kind;
use super::queues::{LISTINGS_MAX, QueueName, Room, remembered_ms};
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::ids::EventId;
use crate::domain::intake::{FormerOffsets, KnownOffsets, Partition};
use crate::domain::queued::QueuedEvent;
use crate::domain::shard::{Shard, Sharding};

/// What stands before the partition in the name of the field with the offsets of former shards.
const FORMER: &str = "former:";
/// The field with what a closing waits for.
const ENDS: &str = "ends";

/// What a shard is to take out of a partition: all of its records that lie from `base` to `upto`, but for those that it was given by the same
/// consumer before.
#[derive(Clone, Debug)]
pub struct Take<'a> {
    /// The partition.
    pub partition: &'a Partition,
    /// From which offset on,
    pub base: i64,
    /// and up to which.
    pub upto: i64,
    /// The first offset that the log had when the consumer began.
    pub first: i64,
    /// Whether the shard has answered the consumer before.
    pub is_known: bool,
    /// The records with their offsets, which ascend.
    pub events: &'a [(i64, QueuedEvent)],
}

/// What a shard has taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// All that lies before this offset. If that is less than was asked for, there is no room for the event that lies there.
    Upto {
        /// The offset.
        offset: i64,
        /// How many bytes the queue has more.
        bytes: u64,
    },
    /// Nothing: its board moves, and takes nothing until it has.
    Held,
    /// Nothing: there is a gap between what it has taken and what it was given.
    GoneBack,
}

/// As take.lua documents them.
#[derive(Serialize)]
struct TakeArgs<'a> {
    version: String,
    epoch: String,
    bytes_max: u64,
    room: u64,
    remember: String,
    partition: String,
    base: i64,
    upto: i64,
    first: i64,
    is_known: bool,
    former: HashMap<String, Vec<usize>>,
    ids: Vec<&'a EventId>,
    offsets: Vec<i64>,
}

impl Store {
    /// Has a shard take records. Without events only its next offset moves on.
    pub async fn take(
        &self,
        shard: &Shard,
        take: &Take<'_>,
        room: Room,
    ) -> Result<Taken, StoreError> {
        let mut args = TakeArgs {
            version: shard.version(),
            epoch: String::new(),
            bytes_max: room.queue_bytes_max,
            room: room.bytes,
            remember: remembered_ms(shard).to_string(),
            partition: take.partition.to_string(),
            base: take.base,
            upto: take.upto,
            first: take.first,
            is_known: take.is_known,
            former: HashMap::new(),
            ids: take.events.iter().map(|(_, event)| &event.id).collect(),
            offsets: take.events.iter().map(|(offset, _)| *offset).collect(),
        };
        let events = take.events.iter();
        let events: Vec<Value> = events
            .map(|(_, event)| Value::Bytes(event.encode().into()))
            .collect();
        for _ in 0..LISTINGS_MAX {
            let mut values = vec![pack(&args)?];
            values.extend(events.iter().cloned());
            let keys = keys::intake(shard);
            let reply = if events.is_empty() {
                // If that is lost, the records in between are read again.
                self.derive(shard, &script::TAKE, keys, values).await?
            } else {
                self.write(shard, &script::TAKE, keys, values).await?
            };
            let (code, mut reply) = Reply::versioned(reply)?;
            return Ok(match code.as_str() {
                "OK" => Taken::Upto {
                    offset: reply.integer()?,
                    bytes: reply.count()?,
                },
                "HELD" => Taken::Held,
                "GONE_BACK" => Taken::GoneBack,
                "UNINDEXED" => {
                    let epoch = reply.text()?;
                    self.list_queue(&QueueName::of(shard), &epoch).await?;
                    args.epoch = epoch;
                    continue;
                }
                "FORMER" => {
                    while !reply.is_empty() {
                        let name = reply.text()?;
                        let places = former_places(&name, take.events)?;
                        args.former.insert(name, places);
                    }
                    continue;
                }
                other => return unknown_code(other),
            });
        }
        let message = "the index of queues changes too fast";
        Err(StoreError::Unavailable(message.to_owned()))
    }

    /// What a shard knows of a partition.
    pub async fn known_offsets(
        &self,
        shard: &Shard,
        partition: &Partition,
    ) -> Result<KnownOffsets, StoreError> {
        let fields = [
            keys::single(shard, Kind::Intake),
            partition.to_string(),
            format!("{FORMER}{partition}"),
        ];
        let (own, former): (Option<i64>, Option<Bytes>) =
            self.command("HMGET", fields.to_vec()).await?;
        let former = former.map(|former| read_former(&former)).transpose()?;
        Ok(KnownOffsets {
            own,
            former: former.unwrap_or_default(),
        })
    }

    /// What a shard knows of all partitions, by their texts.
    pub async fn all_known_offsets(
        &self,
        shard: &Shard,
    ) -> Result<BTreeMap<String, KnownOffsets>, StoreError> {
        let key = keys::single(shard, Kind::Intake);
        let fields: HashMap<String, Bytes> = self.command("HGETALL", vec![key]).await?;
        let mut known: BTreeMap<String, KnownOffsets> = BTreeMap::new();
        for (field, value) in fields {
            if let Some(partition) = field.strip_prefix(FORMER) {
                known.entry(partition.to_owned()).or_default().former = read_former(&value)?;
            } else if field != ENDS {
                let own = std::str::from_utf8(&value).ok();
                let own = own.and_then(|text| text.parse().ok());
                let unexpected = || StoreError::Unexpected(format!("{value:?} as an offset"));
                known.entry(field).or_default().own = Some(own.ok_or_else(unexpected)?);
            }
        }
        Ok(known)
    }

    /// Up to where shards have taken the records of a partition that know nothing of it; `None` if that is not known.
    pub async fn intake_floor(&self, partition: &Partition) -> Result<Option<i64>, StoreError> {
        let args = vec![keys::INTAKE.to_owned(), partition.to_string()];
        let floor: Option<f64> = self.command("ZSCORE", args).await?;
        #[expect(clippy::cast_possible_truncation, reason = "an offset, which is whole")]
        Ok(floor.map(|floor| floor as i64))
    }

    /// Raises this; it never falls.
    pub async fn raise_intake_floor(
        &self,
        partition: &Partition,
        offset: i64,
    ) -> Result<(), StoreError> {
        let args = vec![
            keys::INTAKE.to_owned(),
            "GT".to_owned(),
            offset.to_string(),
            partition.to_string(),
        ];
        self.command("ZADD", args).await
    }

    /// Asks for consumers to have shards come up to their positions, or not any more.
    pub async fn want_intake(
        &self,
        shards: Vec<QueueName>,
        is_wanted: bool,
    ) -> Result<(), StoreError> {
        if shards.is_empty() {
            return Ok(());
        }
        let command = if is_wanted { "SADD" } else { "SREM" };
        let names = shards.iter().map(QueueName::to_string);
        let args = std::iter::once(keys::INTAKE_WANTED.to_owned()).chain(names);
        self.command(command, args.collect()).await
    }

    /// The shards of which that is asked. What is no name of one is left out.
    pub async fn wanted_intakes(&self) -> Result<Vec<QueueName>, StoreError> {
        let key = vec![keys::INTAKE_WANTED.to_owned()];
        let names: Vec<String> = self.command("SMEMBERS", key).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Has the queues of a board that moves take nothing more out of the log. Stale: not all of them know the version.
    pub async fn hold_queues(&self, board: &Arc<Board>) -> Result<(), StoreError> {
        for shard in board.shards() {
            let (key, args) = (vec![keys::head(shard.tag())], vec![shard.version().into()]);
            let reply = self.write(&shard, &script::HOLD_QUEUE, key, args).await?;
            Reply::answer(reply)?;
        }
        Ok(())
    }
}

/// Which shard of a former sharding each event was in.
fn former_places(sharding: &str, events: &[(i64, QueuedEvent)]) -> Result<Vec<usize>, StoreError> {
    let parsed: Result<Sharding, _> = sharding.parse();
    let sharding = parsed
        .map_err(|error| StoreError::Unexpected(format!("{sharding:?} as a sharding: {error}")))?;
    let places = events.iter();
    let places = places.map(|(_, event)| sharding.index_of(&event.member));
    Ok(places.collect())
}

fn read_former(packed: &[u8]) -> Result<Vec<FormerOffsets>, StoreError> {
    rmp_serde::from_slice(packed).map_err(|error| StoreError::Unexpected(error.to_string()))
}

/// The field with these offsets of former shards, and its value.
pub(super) fn former_field(
    partition: &str,
    former: &[FormerOffsets],
) -> Result<(String, Bytes), StoreError> {
    let packed = rmp_serde::to_vec(former);
    let packed = packed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
    Ok((format!("{FORMER}{partition}"), packed.into()))
}
