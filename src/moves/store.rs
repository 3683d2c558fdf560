//! Moves a board's data to other shards.

mod copy_in;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::core::board::store::boards;
use crate::core::board::store::boards::RETIRED;
use crate::domain::board::Board;
use crate::domain::series::Series;
use crate::domain::shard::{Shard, Sharding};
use crate::domain::ties::TIE_KEY_BYTES;
use crate::domain::time::Timestamp;
use crate::redis::args::LayoutArgs;
use crate::redis::decode::{Done, Flat, Raw};
use crate::redis::dispatch::Store;
use crate::redis::keys::{self, Captured};
use crate::redis::kinds::{Copying, Kind};
use crate::redis::reply::Reply;
use crate::redis::{StoreError, script};

pub use self::copy_in::{CopyIn, copy_in};

/// How many entries one call reads or writes: less than a millisecond of Redis.
const CALL_ENTRIES_MAX: u32 = 300;
/// The maximum number of changes that one call returns.
pub const CHANGES_MAX: u32 = CALL_ENTRIES_MAX;
/// The amendment of shards that were never opened.
const NOT_OPEN: u64 = 0;
/// The value in `copied` for keys that were copied, and not dropped afterwards.
const DONE: &str = "done";

/// A member of a standing, as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredMember {
    pub id: String,
    /// Its stored score; `None` if it is not listed.
    pub score: Option<i64>,
    /// Its time; 0 if the layout has none (`scripts/lib/standing.lua`).
    pub time: i64,
    /// Its data; empty if it has none.
    pub data: String,
}

/// A change in a shard that is being copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What has changed, as captured, and how often it was captured.
    pub noted: (String, String),
    /// The kind of the key that has changed.
    pub kind: Kind,
    /// The changed key; for a standing its sorted set.
    pub key: String,
    /// When it expires, in milliseconds since the epoch; 0 if never.
    pub expires_at_ms: i64,
    /// The current state.
    pub now: Changed,
}

/// The current state of something that has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    Member(StoredMember),
    /// The line of a member or another name; `None` if it has none.
    Line(String, Option<Bytes>),
    /// Counts, by the tags of the shards that have them.
    Counts(Vec<(String, i64)>),
    /// All voters, or those of one member; `None` if there are none.
    Voters(Option<String>, Option<Bytes>),
}

/// A standing of a derived series, as described in `scripts/lib/derived.lua`; only complete ones are moved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DerivedEntry {
    /// The start of its newest period, in milliseconds since the epoch.
    pub start: i64,
    /// Whether all of its members are listed.
    pub done: bool,
    /// Its sorted set.
    pub zset: String,
    /// Everything else. Texts in it are keys.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl DerivedEntry {
    /// The entry for another shard.
    pub fn moved(&self, from: &Shard, to: &Shard) -> Option<Self> {
        Some(Self {
            zset: keys::moved(&self.zset, from, to)?,
            rest: moved_keys(&self.rest, from, to)?,
            ..*self
        })
    }
}

/// A map with the keys of another shard in place of those of the first.
fn moved_keys(map: &Map<String, Value>, from: &Shard, to: &Shard) -> Option<Map<String, Value>> {
    map.iter()
        .map(|(name, value)| {
            let moved = match value {
                Value::String(key) => keys::moved(key, from, to)?.into(),
                Value::Object(map) => moved_keys(map, from, to)?.into(),
                number => number.clone(),
            };
            Some((name.clone(), moved))
        })
        .collect()
}

/// What to record about a shard that is being copied, before its changes are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    pub copied: &'a [String],
    pub changed: &'a [String],
    /// Changes that were copied, with how often they were captured; one that was captured again since stays recorded.
    pub done: &'a [(String, String)],
}

/// Registers the shards of a sharding that is not in use yet.
pub async fn announce_shards(
    store: &Store,
    board: &Arc<Board>,
    to: Sharding,
) -> Result<(), StoreError> {
    boards::tell_version(store, board, to, NOT_OPEN)
        .await
        .map(drop)
}

/// Makes shards refuse all calls, permanently.
pub async fn retire_shards(
    store: &Store,
    board: &Arc<Board>,
    from: Sharding,
) -> Result<(), StoreError> {
    if from.is_together() {
        // The head is the board's own: calls made for an older definition are refused anyway.
        return Ok(());
    }
    boards::tell_version(store, board, from, RETIRED)
        .await
        .map(drop)
}

/// Makes a shard record changes from now on.
pub async fn capture(store: &Store, shard: &Shard) -> Result<(), StoreError> {
    let captured = store
        .call_shard(&script::CAPTURE, shard)
        .keys([Kind::Changes, Kind::Copied].map(|kind| keys::single(shard, kind)))
        .arg(shard.generation)
        .write::<Done>();
    match captured.await {
        Ok(Done::Ok(())) | Err(StoreError::Stale) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A part of the registry of a shard, and the next cursor, `0` at the end. Names may come twice.
pub async fn names(
    store: &Store,
    shard: &Shard,
    cursor: &str,
) -> Result<(String, Vec<String>), StoreError> {
    let registry = keys::registry(shard.tag(), shard.generation);
    scan(store, "SSCAN", registry, cursor).await
}

/// A part of a key's content, and the next cursor, `0` at the end.
async fn scan<T: DeserializeOwned>(
    store: &Store,
    command: &'static str,
    key: String,
    cursor: &str,
) -> Result<(String, T), StoreError> {
    store
        .call(&script::SCAN, &key)
        .key(&key)
        .arg(command)
        .arg(cursor)
        .arg(CALL_ENTRIES_MAX)
        .read()
        .await
}

/// What was copied of a shard, and whether it was not dropped since.
pub async fn copied(store: &Store, shard: &Shard) -> Result<HashMap<String, bool>, StoreError> {
    let key = keys::single(shard, Kind::Copied);
    let copied: HashMap<String, String> = store.command("HGETALL", [key]).await?;
    Ok(copied
        .into_iter()
        .map(|(name, how)| (name, how == DONE))
        .collect())
}

/// When a key expires, in milliseconds since the epoch; 0 if never.
pub async fn expires_at_ms(store: &Store, key: &str) -> Result<i64, StoreError> {
    let expires: i64 = store.command("PEXPIRETIME", [key]).await?;
    Ok(expires.max(0))
}

/// A part of the members of the standing with this sorted set, and the next cursor, `0` at the end.
pub async fn scan_members(
    store: &Store,
    shard: &Shard,
    zset: &str,
    cursor: &str,
) -> Result<(String, Vec<StoredMember>), StoreError> {
    let is_hashed = shard.layout().hashed;
    let (command, key) = if is_hashed {
        ("HSCAN", keys::part(zset, Kind::Members))
    } else {
        ("ZSCAN", zset.to_owned())
    };
    let (cursor, Flat(found)) = scan(store, command, key, cursor).await?;
    let read = if is_hashed {
        packed_member
    } else {
        plain_member
    };
    let members = found.into_iter().map(|(id, Raw(stored))| {
        read(id, &stored).ok_or_else(|| {
            StoreError::Unexpected(format!("a stored member can't be read: {stored:?}"))
        })
    });
    Ok((cursor, members.collect::<Result<_, _>>()?))
}

/// A part of the lines that a hash has of members, and the next cursor, `0` at the end.
pub async fn scan_lines(
    store: &Store,
    key: String,
    cursor: &str,
) -> Result<(String, Vec<(String, Bytes)>), StoreError> {
    let (cursor, Flat(lines)) = scan(store, "HSCAN", key, cursor).await?;
    let lines = lines.into_iter().map(|(name, Raw(line))| (name, line));
    Ok((cursor, lines.collect()))
}

/// The instant before which the events of a shard are not kept any more, if there is one.
pub async fn events_from(store: &Store, shard: &Shard) -> Result<Option<Timestamp>, StoreError> {
    let field = [&keys::head(shard.tag()), "events_from"];
    let ms: Option<i64> = store.command("HGET", field).await?;
    Ok(ms.map(Timestamp::from_ms_clamped))
}

/// The number of changes in a shard, and the current state of up to `count` of them, at most [`CHANGES_MAX`]. Stale if
/// changes are not recorded there any more: the board was deleted, or its move has ended.
pub async fn changes(
    store: &Store,
    shard: &Shard,
    notes: Notes<'_>,
    count: u32,
) -> Result<(u64, Vec<Change>), StoreError> {
    let copying = Kind::ALL.iter().map(|kind| (kind.code(), kind.copying()));
    let changes = store
        .call(&script::CHANGES, shard.tag())
        .key(keys::head(shard.tag()))
        .keys([Kind::Changes, Kind::Copied].map(|kind| keys::single(shard, kind)))
        .field("generation", shard.generation.to_string())
        .field("layout", LayoutArgs::new(shard))
        .field("copying", copying.collect::<HashMap<_, _>>())
        .field("copied", notes.copied)
        .field("noted", notes.changed)
        .field("done", notes.done)
        .field("count", count.min(CHANGES_MAX));
    let mut reply = Reply::answer(changes.write_for_reply().await?)?;
    let left = reply.read()?;
    let mut changes = Vec::new();
    while !reply.is_empty() {
        changes.push(change(reply.list()?)?);
    }
    Ok((left, changes))
}

/// The existing standings of a derived series.
pub async fn derived_entries(
    store: &Store,
    shard: &Shard,
    series: Series,
) -> Result<Vec<DerivedEntry>, StoreError> {
    let key = keys::state(shard, series);
    let state: Option<Bytes> = store.command("GET", [key]).await?;
    let entries = state.map(|state| rmp_serde::from_slice(&state)).transpose();
    entries.map(Option::unwrap_or_default).map_err(|error| {
        StoreError::Unexpected(format!("the state of {series:?} can't be read: {error}"))
    })
}

/// A member as stored in a standing's hash: its time, its score and its data.
fn packed_member(id: String, stored: &[u8]) -> Option<StoredMember> {
    let mut packed = stored;
    let time = packed.try_get_uint(TIE_KEY_BYTES).ok()?;
    // It is signed.
    let unused_bits = u64::BITS - 8 * u32::try_from(TIE_KEY_BYTES).ok()?;
    let time = (time << unused_bits).cast_signed() >> unused_bits;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "stored scores are whole numbers"
    )]
    let score = packed.try_get_f64().ok()? as i64;
    Some(StoredMember {
        id,
        score: Some(score),
        time,
        data: str::from_utf8(packed).ok()?.to_owned(),
    })
}

/// A member of a standing that is only a sorted set: its score, as text.
fn plain_member(id: String, stored: &[u8]) -> Option<StoredMember> {
    Some(StoredMember {
        id,
        score: Some(str::from_utf8(stored).ok()?.parse().ok()?),
        time: 0,
        data: String::new(),
    })
}

/// A change in a reply of changes.lua.
fn change(mut reply: Reply) -> Result<Change, StoreError> {
    let (captured, times) = (reply.text()?, reply.text()?);
    let unexpected = || StoreError::Unexpected(format!("an unexpected change: {captured:?}"));
    let Captured { kind, key, member } = Captured::parse(&captured).ok_or_else(unexpected)?;
    let (key, member) = (key.to_owned(), member.map(str::to_owned));
    let expires_at_ms = reply.integer()?;
    let now = match kind.copying() {
        Copying::Members => Changed::Member(StoredMember {
            id: member.ok_or_else(unexpected)?,
            score: reply.next()?.as_i64(),
            time: reply.integer()?,
            data: reply.text()?,
        }),
        Copying::Whole => {
            let mut counts = Vec::new();
            while !reply.is_empty() {
                counts.push((reply.text()?, reply.integer()?));
            }
            Changed::Counts(counts)
        }
        Copying::Merged => {
            let voters = Some(reply.bytes()?).filter(|voters| !voters.is_empty());
            Changed::Voters(member, voters)
        }
        Copying::Lines | Copying::Rows | Copying::Everywhere => {
            // A folded entry may be an empty line.
            let (line, is_there) = (reply.bytes()?, reply.integer()? > 0);
            Changed::Line(member.ok_or_else(unexpected)?, is_there.then_some(line))
        }
        Copying::Rebuilt | Copying::Not => return Err(unexpected()),
    };
    Ok(Change {
        noted: (captured, times),
        kind,
        key,
        expires_at_ms,
        now,
    })
}
