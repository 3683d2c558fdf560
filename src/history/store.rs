//! Reads and removes rows of kept events.

use bytes::{Buf, Bytes};
use serde::Serialize;

use crate::core::write::store::events::{StoredRow, remember_ms, update_name};
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::shard::Shard;
use crate::domain::ties::{TIE_KEY_BYTES, TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::queue::store::queued;
use crate::redis::args::{LayoutArgs, stored_score};
use crate::redis::call::ScriptCall;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::Reply;
use crate::redis::{StoreError, keys, script};

/// How many rows one call reads.
pub const CALL_ROWS_MAX: usize = 500;
/// How many rows one call folds: a few milliseconds of Redis.
pub const CALL_FOLDED_MAX: usize = 100;
/// About how many names of a registry one call looks at.
const CALL_NAMES_MAX: u32 = 300;
/// The length of when an event was accepted.
const ACCEPTED_BYTES: usize = 7;
/// Greater than every text of an index.
const END: &[u8] = b"\xff";
/// The cursor of a walk that begins, or has ended.
const ENDED: &str = "0";

/// Which rows of a shard are read, in which order.
#[derive(Clone, Debug)]
pub enum RowRange {
    /// All, in the order in which they were accepted.
    Taken,
    /// Those of a member that count for an instant from the first on and before the second, in this order.
    Member(MemberId, [Option<Timestamp>; 2]),
}

/// A row, with its place in an index.
#[derive(Clone, Debug)]
pub struct PlacedRow {
    /// The text in the index.
    pub text: Bytes,
    /// The row as stored; empty if there is none, or it is no longer shown.
    pub row: Bytes,
}

impl PlacedRow {
    /// When the event was accepted, by its text in the order in which events were.
    pub fn accepted_at(&self) -> Option<Timestamp> {
        let us = self
            .text
            .as_ref()
            .try_get_uint(ACCEPTED_BYTES)
            .ok()?
            .cast_signed();
        Some(Timestamp::from_ms_clamped(us / 1_000))
    }
}

impl RowRange {
    /// The id in a text of the index.
    pub fn event_id(&self, text: &[u8]) -> Option<EventId> {
        let key_bytes = match self {
            Self::Taken => ACCEPTED_BYTES,
            Self::Member(..) => TIE_KEY_BYTES,
        };
        let id = text.get(key_bytes..)?;
        EventId::stored(str::from_utf8(id).ok()?).ok()
    }

    /// The first text of the range, and one after all of it.
    fn bounds(&self) -> [Vec<u8>; 2] {
        let Self::Member(_, [from, to]) = self else {
            return [Vec::new(), END.to_vec()];
        };
        let time =
            |at: &Timestamp| TieKey::new(Ties::First, *at).number().to_be_bytes()[1..].to_vec();
        let low = from.as_ref().map_or_else(Vec::new, time);
        [low, to.as_ref().map_or_else(|| END.to_vec(), time)]
    }

    /// The member, if the range is of one.
    fn member(&self) -> Option<&str> {
        match self {
            Self::Taken => None,
            Self::Member(member, _) => Some(member.as_str()),
        }
    }
}

/// The key whose fields are the members with rows.
pub fn members_key(shard: &Shard) -> String {
    keys::named(shard, Kind::EventIndex, "member")
}

/// Up to `count` rows of a range before a text, or before its end, the last first.
pub async fn rows_before(
    store: &Store,
    shard: &Shard,
    range: &RowRange,
    before: Option<&[u8]>,
    count: usize,
) -> Result<Vec<PlacedRow>, StoreError> {
    let [low, end] = range.bounds();
    let high = before.map_or(end, <[u8]>::to_vec);
    read(store, shard, range, (low, high, false), count).await
}

/// Walks through all rows of a range, the last first.
#[derive(Debug)]
pub struct Rows {
    pub range: RowRange,
    before: Option<Bytes>,
    is_done: bool,
}

impl Rows {
    pub fn of(range: RowRange) -> Self {
        Self {
            range,
            before: None,
            is_done: false,
        }
    }

    /// Whether it has come to the end.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next rows; `None` at the end.
    pub async fn next(
        &mut self,
        store: &Store,
        shard: &Shard,
    ) -> Result<Option<Vec<PlacedRow>>, StoreError> {
        if self.is_done {
            return Ok(None);
        }
        let before = self.before.as_deref();
        let rows = rows_before(store, shard, &self.range, before, CALL_ROWS_MAX).await?;
        self.is_done = rows.len() < CALL_ROWS_MAX;
        self.before = rows.last().map(|placed| placed.text.clone());
        Ok(Some(rows))
    }
}

/// Like [`rows_before`] for a correction that runs. Also returns how many bytes of texts were listed for it when the
/// rows were read (`scripts/lib/history.lua`).
pub(crate) async fn watched_rows_before(
    store: &Store,
    shard: &Shard,
    range: &RowRange,
    before: Option<&[u8]>,
    count: usize,
) -> Result<(usize, Vec<PlacedRow>), StoreError> {
    let [low, end] = range.bounds();
    let between = (low, before.map_or(end, <[u8]>::to_vec), false);
    let call = call(store, shard, range, between, count).field("watched", true);
    let mut reply = Reply::answer(call.read_for_reply().await?)?;
    let listed = reply.read()?;
    Ok((listed, placed_rows(&mut reply)?))
}

/// Up to `count` rows after a text, the oldest first, of events that were accepted before an instant.
pub async fn oldest_rows(
    store: &Store,
    shard: &Shard,
    after: &[u8],
    until: Option<Timestamp>,
    count: usize,
) -> Result<Vec<PlacedRow>, StoreError> {
    let high = until.map_or_else(|| END.to_vec(), |at| at.us().to_be_bytes()[1..].to_vec());
    let between = (after.to_vec(), high, true);
    read(store, shard, &RowRange::Taken, between, count).await
}

/// Whether a shard has a row.
pub async fn has_rows(store: &Store, shard: &Shard) -> Result<bool, StoreError> {
    let count: u64 = store
        .command("HLEN", [keys::single(shard, Kind::Events)])
        .await?;
    Ok(count > 0)
}

/// Whether an event waits in the queue of a shard that was queued after a revocation.
pub async fn is_numbered(store: &Store, shard: &Shard) -> Result<bool, StoreError> {
    let first = queued::read(store, shard, None, 1).await?;
    Ok(first.iter().any(|(_, entry)| entry.revocation > 0))
}

/// Unlinks the revocations of a board.
pub async fn drop_revocations(store: &Store, board: &Board) -> Result<(), StoreError> {
    let key = keys::of_board(board, Kind::Revocations);
    store.command("UNLINK", [key]).await
}

async fn read(
    store: &Store,
    shard: &Shard,
    range: &RowRange,
    between: Between,
    count: usize,
) -> Result<Vec<PlacedRow>, StoreError> {
    let read = call(store, shard, range, between, count).read_for_reply();
    placed_rows(&mut Reply::answer(read.await?)?)
}

/// The first text and the one after the last, and whether the oldest come first.
type Between = (Vec<u8>, Vec<u8>, bool);

fn call<'a>(
    store: &'a Store,
    shard: &Shard,
    range: &RowRange,
    (low, high, is_oldest): Between,
    count: usize,
) -> ScriptCall<'a> {
    store
        .call_version(&script::READ_EVENTS, shard)
        .field("layout", LayoutArgs::new(shard))
        .field("member", range.member())
        .field("oldest", is_oldest)
        .field("count", count)
        .arg(low)
        .arg(high)
}

/// The rows in the rest of a reply.
pub(crate) fn placed_rows(reply: &mut Reply) -> Result<Vec<PlacedRow>, StoreError> {
    reply.all(|reply| {
        let (text, row) = (reply.bytes()?, reply.bytes()?);
        Ok(PlacedRow { text, row })
    })
}

/// A row to be folded: its data, and the standings in which it counts.
#[derive(Serialize)]
struct FoldedRow<'a>(&'a str, Vec<(usize, i64, i64)>);

/// Removes rows of a shard, and folds those that are given with what they say. What is left of erased events is removed if they
/// were accepted before `stubs_until`.
pub async fn fold(
    store: &Store,
    shard: &Shard,
    rows: &[(PlacedRow, Option<StoredRow>)],
    (now, stubs_until): (Timestamp, Timestamp),
) -> Result<(), StoreError> {
    let mut keys = keys::head_and_registry(shard);
    let mut key = |key: String| {
        let known = keys.iter().position(|known| *known == key);
        known.map_or_else(
            || {
                keys.push(key);
                keys.len()
            },
            |index| index + 1,
        )
    };
    let folded: Vec<_> = rows
        .iter()
        .map(|(_, row)| {
            let writes = row.iter().flat_map(|row| row.writes(shard));
            let writes = writes.map(|write| {
                let zset = keys::sorted_set(shard, &write.standing);
                let amount = stored_score(shard, write.amount);
                (key(zset), amount, write.expires_at_ms.unwrap_or(0))
            });
            let data = row.as_ref().and_then(|row| row.details.data.as_ref());
            FoldedRow(data.map_or("", EntryData::as_str), writes.collect())
        })
        .collect();
    let call = store
        .call_version(&script::FOLD, shard)
        .with_keys(keys)
        .field("now", now.ms())
        .field("layout", LayoutArgs::new(shard))
        .field("update", update_name(shard))
        .field("remember", remember_ms(shard))
        .field("stubs_until", stubs_until.us())
        .field("rows", folded)
        .args(
            rows.iter()
                .flat_map(|(placed, _)| [placed.text.clone(), placed.row.clone()]),
        );
    call.write::<Done>().await.map(drop)
}

/// Unlinks some of the folded entries of a shard. Takes the cursor of the last step, `None` for the first. Returns the next
/// cursor; `None` at the end.
pub async fn drop_folded(
    store: &Store,
    shard: &Shard,
    cursor: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let call = store
        .call_version(&script::DROP_FOLDED, shard)
        .field("count", CALL_NAMES_MAX)
        .arg(cursor.unwrap_or(ENDED));
    let Done::Ok(next) = call.write::<Done<String>>().await?;
    Ok((next != ENDED).then_some(next))
}
