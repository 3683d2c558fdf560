//! Stores definitions with their boards, and announces changes to all instances.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::definitions::{StoredDefinition, board_of, is_readable, salvage};
use crate::domain::access::{Boards, IdRange};
use crate::domain::board::Board;
use crate::domain::closing::Closings;
use crate::domain::ids::BoardId;
use crate::domain::shard::Sharding;
use crate::domain::texts::fields_as_text;
use crate::domain::time::Timestamp;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::try_join_all;

pub use super::definitions::{StoredBoard, Unreadable};

/// The amendment that shards get when their board has moved away: no definition has it, and none is newer.
pub const RETIRED: u64 = (1 << 53) - 1;
/// The instant from which stamps count microseconds (`scripts/core/board/begin.lua`), in milliseconds since the epoch.
const STAMPS_BEGIN_MS: i64 = 1_767_225_600_000;
/// How many ids one call reads when all are wanted.
const LISTED_MAX: usize = 1_000;
/// The fields of a board's head that say how far its closings have come.
const CLOSINGS: [&str; 3] = ["closing_until", "results_until", "pinned"];
/// Sent if it does not matter which closings were decided.
const ANY_CLOSING: &str = "*";
/// How often a change is announced while the board is created and deleted by others.
const ANNOUNCEMENTS_MAX: usize = 8;
/// How many begun changes one call reads.
const CALL_BEGUN_MAX: u32 = 100;

/// What has changed since an instance last asked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct News {
    /// The epoch of the numbers: another epoch starts them again.
    pub epoch: String,
    /// The number of the last change.
    pub sequence: u64,
    /// The ids of what has changed.
    pub changed: Vec<String>,
}

/// Something of a board that was begun, and is not finished: a change of its definition, or an erasure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Begun {
    pub id: BoardId,
    pub stamp: u64,
}

/// The result of storing a definition.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Defined {
    #[serde(rename = "OK")]
    Stored,
    /// The stored version is not the one that the caller saw.
    Changed,
    /// The board has events with which the change is not allowed.
    Used,
}

/// The stored board of that name.
pub async fn load(store: &Store, id: &BoardId) -> Result<Option<StoredBoard>, StoreError> {
    let fields = [&keys::head(id.as_str()), "version", "definition"];
    let fields = fields.into_iter().chain(CLOSINGS);
    let (version, json, until, results_until, terms) = store.command("HMGET", fields).await?;
    let (Some::<String>(version), Some::<String>(json)) = (version, json) else {
        return Ok(None);
    };
    let closings = closings_of([until, results_until], terms)?;
    let stored: StoredDefinition = match serde_json::from_str(&json) {
        Ok(stored) => stored,
        Err(error) => {
            let unreadable = salvage(id, &version, &json, &error, closings)?;
            return Ok(Some(Err(Box::new(unreadable))));
        }
    };
    let data_format = stored.data_format;
    let board = Arc::new(Board {
        closings,
        ..board_of(id, stored)
    });
    Ok(Some(if is_readable(data_format) {
        Ok(board)
    } else {
        Err(Box::new(Unreadable::of_format(board, data_format)))
    }))
}

/// How far the closings of a board have come; none if there is no such board.
pub async fn closings(store: &Store, id: &BoardId) -> Result<Closings, StoreError> {
    let head = keys::head(id.as_str());
    let fields = std::iter::once(&*head).chain(CLOSINGS);
    let (until, results_until, terms) = store.command("HMGET", fields).await?;
    closings_of([until, results_until], terms)
}

/// Stores a board if its stored version is the one that was `seen`, and, with `unused_since`, if it has taken no event at
/// that amendment or a later one. If the definition changes, no closing may have been decided since the board was seen.
pub async fn define(
    store: &Store,
    board: &Board,
    seen: Option<&Board>,
    unused_since: Option<u64>,
) -> Result<Defined, StoreError> {
    let is_same = seen.is_some_and(|seen| seen.definition == board.definition);
    let closed_until = match seen {
        Some(_) if is_same => ANY_CLOSING.to_owned(),
        seen => seen.map(decided).unwrap_or_default(),
    };
    store
        .call_head(&script::DEFINE, board)
        .arg(seen.map(Board::version))
        .arg(unused_since)
        .arg(board.version())
        .json(&StoredDefinition::from(board))
        .arg(closed_until)
        .write()
        .await
}

/// Whether a change of this board would be stored now: see [`define`]. Nothing is written.
pub async fn may_define(
    store: &Store,
    seen: &Board,
    unused_since: Option<u64>,
) -> Result<Defined, StoreError> {
    store
        .call_head(&script::DEFINE, seen)
        .arg(seen.version())
        .arg(unused_since)
        .args(["", ""])
        .arg(decided(seen))
        .write()
        .await
}

/// Begins a change of a board: notes it, so that it is announced even if this process dies first, and returns its stamp,
/// which no other change has ever had.
pub async fn begin_change(store: &Store, id: &BoardId) -> Result<u64, StoreError> {
    begin(store, id, keys::BEGUN).await
}

/// Notes in a sorted set that something of a board was begun, and returns its stamp.
pub(crate) async fn begin(store: &Store, id: &BoardId, begun: &str) -> Result<u64, StoreError> {
    store
        .call(&script::BEGIN, id.as_str())
        .keys([keys::STAMP, begun, keys::FORMAT])
        .arg(id.as_str())
        .write()
        .await
}

/// Removes the note of a change that was not made, or need not be announced.
pub async fn end_change(store: &Store, id: &BoardId, stamp: u64) -> Result<(), StoreError> {
    end(store, id, stamp, keys::BEGUN).await
}

/// Removes the note that something was begun.
pub(crate) async fn end(
    store: &Store,
    id: &BoardId,
    stamp: u64,
    begun: &str,
) -> Result<(), StoreError> {
    let id = id.clone();
    store
        .command("ZREM", [begun, &Begun { id, stamp }.to_string()])
        .await
}

/// Some of the changes that were begun at least `age_ms` ago, and not announced.
pub async fn unfinished_changes(store: &Store, age_ms: i64) -> Result<Vec<Begun>, StoreError> {
    begun(store, keys::BEGUN, age_ms).await
}

/// Some of what was begun at least `age_ms` ago: any of it, so that what can't be finished blocks nothing else.
pub(crate) async fn begun(
    store: &Store,
    begun: &str,
    age_ms: i64,
) -> Result<Vec<Begun>, StoreError> {
    let before = stamp_ago(store, age_ms).await?;
    let args = [begun, &CALL_BEGUN_MAX.to_string()];
    let members: Vec<String> = store.command("ZRANDMEMBER", args).await?;
    let begun = members.iter().filter_map(|member| member.parse().ok());
    let is_old = |begun: &Begun| i64::try_from(begun.stamp).is_ok_and(|stamp| stamp <= before);
    Ok(begun.filter(is_old).collect())
}

/// About the last stamp that was given `age_ms` ago.
pub(crate) async fn stamp_ago(store: &Store, age_ms: i64) -> Result<i64, StoreError> {
    let us = store.server_time_us().await?;
    Ok(us.saturating_sub((age_ms + STAMPS_BEGIN_MS).saturating_mul(1_000)))
}

/// Announces to all instances that a board was created, changed or deleted; this finishes the change with this stamp. It is
/// announced again if the board was created or deleted meanwhile, so that in the end the list of boards is right.
pub async fn announce(store: &Store, id: &BoardId, stamp: Option<u64>) -> Result<(), StoreError> {
    let mut is_live = exists(store, id).await?;
    for _ in 0..ANNOUNCEMENTS_MAX {
        let announced = store
            .call(&script::ANNOUNCE, id.as_str())
            .keys(keys::OF_BOARDS)
            .key(keys::BEGUN)
            .arg(id.as_str())
            .arg(is_live)
            .arg(stamp);
        announced.write::<u64>().await?;
        let was_live = std::mem::replace(&mut is_live, exists(store, id).await?);
        if is_live == was_live {
            return Ok(());
        }
    }
    Err(StoreError::Contended)
}

async fn exists(store: &Store, id: &BoardId) -> Result<bool, StoreError> {
    let version = [&keys::head(id.as_str()), "version"];
    store.command("HEXISTS", version).await
}

/// What was announced of a kind of thing after the change with this number.
pub async fn news(store: &Store, of: keys::Channel, known: u64) -> Result<News, StoreError> {
    let [_, keys @ ..] = of;
    let news = store.call(&script::NEWS, keys[0]).keys(keys).arg(known);
    news.read().await
}

/// Up to `count` ids of boards in byte order, after `after`.
pub async fn ids(
    store: &Store,
    after: Option<&BoardId>,
    count: usize,
) -> Result<Vec<BoardId>, StoreError> {
    let ids = listed(store, keys::LIVE, after.map(BoardId::as_str), count).await?;
    Ok(ids.iter().flat_map(|id| BoardId::parse(id)).collect())
}

/// Up to `count` ids of boards in byte order, after `after`, from the ranges in which these boards are. A pattern with an
/// inner `*` does not match all of them.
pub async fn ids_near(
    store: &Store,
    boards: &Boards,
    after: Option<&BoardId>,
    count: usize,
) -> Result<Vec<BoardId>, StoreError> {
    let mut ids: Vec<String> = Vec::new();
    let after = after.map(BoardId::as_str);
    let ranges = boards.ranges().into_iter();
    for IdRange { prefix, is_single } in
        ranges.filter(|range| after.is_none_or(|after| range.goes_beyond(after)))
    {
        let from = match after.filter(|after| *after >= prefix) {
            Some(after) => format!("({after}"),
            None => format!("[{prefix}"),
        };
        // Greater than every character of an id.
        let end = if is_single { "" } else { "\u{7f}" };
        let to = format!("[{prefix}{end}");
        let left = (count - ids.len()).to_string();
        let range = [keys::LIVE, &from, &to, "BYLEX", "LIMIT", "0", &left];
        ids.extend(store.command::<Vec<String>>("ZRANGE", range).await?);
        if ids.len() >= count {
            break;
        }
    }
    Ok(ids.iter().flat_map(|id| BoardId::parse(id)).collect())
}

/// Up to `count` ids of a kind of thing that is announced, in byte order, after `after`.
pub(crate) async fn listed(
    store: &Store,
    list: &str,
    after: Option<&str>,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let from = after.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
    let count = count.to_string();
    let range = [list, &from, "+", "BYLEX", "LIMIT", "0", &count];
    store.command("ZRANGE", range).await
}

/// All ids of a kind of thing that is announced, in byte order.
pub(crate) async fn all_listed(store: &Store, list: &str) -> Result<Vec<String>, StoreError> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().map(String::as_str);
        let ids = listed(store, list, after, LISTED_MAX).await?;
        let is_last = ids.len() < LISTED_MAX;
        all.extend(ids);
        if is_last {
            return Ok(all);
        }
    }
}

pub async fn all_ids(store: &Store) -> Result<BTreeSet<BoardId>, StoreError> {
    let ids = all_listed(store, keys::LIVE).await?;
    Ok(ids.iter().flat_map(|id| BoardId::parse(id)).collect())
}

/// Informs all shards of a board, and those that count its quotas, of the version of its definition. They ignore a version
/// older than theirs; then this returns the greatest amendment that one of them knows. Stale if the board was deleted.
pub async fn open_shards(store: &Store, board: &Arc<Board>) -> Result<Option<u64>, StoreError> {
    let mut newer = None;
    if board.reserves() && !board.placement.home().is_together() {
        let homes = board.homes();
        let told = homes.iter().map(|home| {
            let head = keys::counts_head(home.tag(), home.placement.home());
            let version = (home.generation, home.amendment);
            tell(store, home.tag(), head, version, None)
        });
        newer = try_join_all(told).await?.into_iter().flatten().max();
    }
    let current = board.placement.current;
    let of_shards = tell_version(store, board, current, board.amendment).await?;
    Ok(of_shards.max(newer))
}

/// Informs the shards of any sharding, of any amendment. Stale if the board was deleted.
pub(crate) async fn tell_version(
    store: &Store,
    board: &Arc<Board>,
    sharding: Sharding,
    amendment: u64,
) -> Result<Option<u64>, StoreError> {
    let shards = board.shards_of(sharding);
    let told = shards.iter().map(|shard| {
        let version = (shard.generation, amendment);
        tell(store, shard.tag(), keys::head(shard.tag()), version, None)
    });
    Ok(try_join_all(told).await?.into_iter().flatten().max())
}

/// Gives the head of a shard a generation and an amendment, for some time or permanently. Returns a later amendment that it
/// knows. Stale if it knows a later generation.
pub(crate) async fn tell(
    store: &Store,
    tag: &str,
    head: String,
    (generation, amendment): (u64, u64),
    lasts: Option<Duration>,
) -> Result<Option<u64>, StoreError> {
    let told = store
        .call(&script::SHARD, tag)
        .key(head)
        .arg(generation)
        .arg(amendment)
        .arg(lasts.map(|lasts| lasts.as_millis()));
    let Done::Ok(newer) = told.write().await?;
    Ok(newer)
}

/// Stale unless the stored definition is this one.
pub async fn require_current(store: &Store, board: &Board) -> Result<(), StoreError> {
    let version = [&keys::head(board.id.as_str()), "version"];
    let stored: Option<String> = store.command("HGET", version).await?;
    let is_current = stored.is_some_and(|stored| stored == board.version());
    is_current.then_some(()).ok_or(StoreError::Stale)
}

/// Notes that a board of several shards has events. Stale if the definition is no longer this one.
pub async fn mark_used(store: &Store, board: &Board) -> Result<(), StoreError> {
    let marked = store.call_head(&script::USE, board).arg(board.version());
    marked.write::<Done>().await.map(drop)
}

fields_as_text! {
    Begun {
        id: |text| BoardId::parse(text).ok(),
        stamp: |text| text.parse().ok(),
    }
}

/// Decodes the fields [`CLOSINGS`].
fn closings_of(
    [until, results_until]: [Option<i64>; 2],
    terms: Option<String>,
) -> Result<Closings, StoreError> {
    let instant = |ms: Option<i64>| ms.map(Timestamp::from_ms_clamped);
    let terms = terms.map(|terms| read_json("the terms of closings", &terms));
    Ok(Closings {
        until: instant(until),
        results_until: instant(results_until),
        terms: terms.transpose()?.unwrap_or_default(),
    })
}

/// The instant of the closing that was decided last, as stored; empty for none.
fn decided(board: &Board) -> String {
    let until = board.closings.until;
    until.map_or_else(String::new, |until| until.ms().to_string())
}
