//! Arguments that several scripts share.

use bytes::Bytes;
use fred::types::Value;
use serde::{Deserialize, Serialize};

use super::{StoreError, keys};
use crate::domain::board::{Board, Order};
use crate::domain::period::Period;
use crate::domain::score::Score;
use crate::domain::ties::Ties;
use crate::domain::time::Timestamp;

/// The end of time, in milliseconds since the epoch; below 2^53, up to which scripts count exactly.
const END_OF_TIME_MS: i64 = Timestamp::MAX.ms() + 1;

/// How many additional members a list stores on boards with `keep_top`, in case some of the best are hidden.
pub(crate) const SPARE: u32 = 1_000;

/// The stored form of a score: rank 1 has the smallest.
pub(crate) fn stored_score(board: &Board, score: Score) -> i64 {
    match board.definition.order {
        Order::Desc => -score.scaled(),
        Order::Asc => score.scaled(),
    }
}

/// The score in a stored number; the sign is its own inverse.
pub(crate) fn shown_score(board: &Board, stored: i64) -> Score {
    Score::from_stored(stored_score(board, Score::from_stored(stored)))
}

/// A value, or `false` for none: a Lua list may end before a `nil`.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum OrFalse<T> {
    Some(T),
    None(bool),
}

impl<T> From<Option<T>> for OrFalse<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None(false), Self::Some)
    }
}

impl<T> From<OrFalse<T>> for Option<T> {
    fn from(value: OrFalse<T>) -> Self {
        match value {
            OrFalse::Some(value) => Some(value),
            OrFalse::None(_) => None,
        }
    }
}

/// A stored score, or none.
pub(crate) type StoredScore = OrFalse<i64>;

/// Packs the arguments of a script as a map.
pub(crate) fn pack<T: Serialize>(args: &T) -> Result<Value, StoreError> {
    let packed = rmp_serde::to_vec_named(args).map_err(|error| unpackable(&error))?;
    Ok(Value::Bytes(packed.into()))
}

/// Packs the fields of a struct in their order: unpacking these into variables takes a script a fifth of the time of a map.
/// Nested values are in lists.
pub(crate) fn pack_values<T: Serialize>(args: &T) -> Result<Value, StoreError> {
    let packed = rmp_serde::to_vec(args).map_err(|error| unpackable(&error))?;
    // The enclosing list begins with one byte if it has up to 15 values, else with three.
    let marker = if packed.first() == Some(&0xdc) { 3 } else { 1 };
    Ok(Value::Bytes(Bytes::from(packed).slice(marker..)))
}

fn unpackable(error: &rmp_serde::encode::Error) -> StoreError {
    StoreError::Unexpected(format!("arguments that can't be packed: {error}"))
}

/// A column of arguments: one cell for each item.
pub(crate) fn each<'a, T, C>(all: &'a [T], cell: impl FnMut(&'a T) -> C) -> Vec<C> {
    all.iter().map(cell).collect()
}

/// `layout` in the arguments of the scripts (`scripts/lib/standing.lua`).
#[derive(Clone, Copy, Default, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "as the scripts take them, most of them keys of a standing"
)]
pub(crate) struct LayoutArgs {
    prefixed: bool,
    hashed: bool,
    data: bool,
    dense: bool,
    summed: bool,
    keep: u32,
    shown: u32,
    later: i8,
    width: usize,
}

impl LayoutArgs {
    pub(crate) fn new(board: &Board) -> Self {
        let layout = board.layout();
        Self {
            prefixed: layout.prefixed,
            hashed: layout.hashed,
            data: layout.data,
            dense: layout.dense,
            summed: layout.summed,
            keep: layout.keep_top.map_or(0, |shown| shown + SPARE),
            shown: layout.keep_top.unwrap_or(0),
            later: if board.definition.ties == Ties::Last {
                -1
            } else {
                1
            },
            width: keys::width(layout),
        }
    }

    /// The layout of a standing that lists all members.
    pub(crate) fn of_all(self) -> Self {
        Self {
            keep: 0,
            shown: 0,
            ..self
        }
    }
}

/// `ends` in the arguments of the scripts.
pub(crate) fn end_ms(period: &Period) -> i64 {
    period.end_ms.min(END_OF_TIME_MS)
}

/// `closes` in the arguments of the scripts.
pub(crate) fn closes_ms(board: &Board) -> i64 {
    let closes_at = board.definition.closes_at;
    closes_at.map_or(END_OF_TIME_MS, Timestamp::ms)
}
