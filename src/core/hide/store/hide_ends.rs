//! When hides end by themselves: which boards to look at, and when.

use crate::domain::ids::BoardId;
use crate::domain::texts::fields_as_text;
use crate::domain::time::Timestamp;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, script};

/// How many ends one call reads.
const CALL_ENDS_MAX: u32 = 100;
/// Hides of a board that end within this many milliseconds are ended together, when the last of them ends.
const TOGETHER_MS: i64 = 2_000;

/// The longest that a call may be in flight, in milliseconds; in fact none takes so long.
const UNDER_WAY_MS: i64 = 600_000;
const DAY_MS: i64 = 86_400_000;

/// An instant at which hides of a board end. At the end of a day members that were brought back are forgotten, too.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct HideEnd {
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
    pub board: BoardId,
}

impl HideEnd {
    fn of(board: &BoardId, until: Timestamp) -> Self {
        Self::after(board, until.ms(), TOGETHER_MS)
    }

    /// The first multiple of this many milliseconds after an instant.
    fn after(board: &BoardId, ms: i64, multiple_ms: i64) -> Self {
        Self {
            at_ms: (ms.div_euclid(multiple_ms) + 1) * multiple_ms,
            board: board.clone(),
        }
    }

    /// Whether a day ends then, in UTC.
    pub fn is_end_of_day(&self) -> bool {
        self.at_ms.rem_euclid(DAY_MS) == 0
    }
}

fields_as_text! {
    HideEnd {
        at_ms: |text| text.parse().ok(),
        board: |text| BoardId::parse(text).ok(),
    }
}

/// Notes that hides of a board end at that instant; see [`reached`].
pub async fn note(store: &Store, id: &BoardId, until: Timestamp) -> Result<(), StoreError> {
    note_end(store, id, &HideEnd::of(id, until)).await
}

/// Notes that members of a board are brought back now, so that they are forgotten when the day has ended.
pub async fn note_day(store: &Store, id: &BoardId, now: Timestamp) -> Result<(), StoreError> {
    // The calls that bring them back may still be in flight.
    let end = HideEnd::after(id, now.ms() + UNDER_WAY_MS, DAY_MS);
    note_end(store, id, &end).await
}

async fn note_end(store: &Store, id: &BoardId, end: &HideEnd) -> Result<(), StoreError> {
    let noted = store
        .call(&script::NOTE_END, id.as_str())
        .key(keys::HIDES_END)
        .arg(id.as_str())
        .arg(end.at_ms);
    noted.write::<Done>().await.map(drop)
}

/// Where hides have ended by now, earliest first.
pub async fn reached(store: &Store, now: Timestamp) -> Result<Vec<HideEnd>, StoreError> {
    let ends = store.due(keys::HIDES_END, now, CALL_ENDS_MAX).await?;
    Ok(ends.iter().filter_map(|end| end.parse().ok()).collect())
}

/// Forgets an end, since the hides that ended then are removed.
pub async fn forget(store: &Store, end: &HideEnd) -> Result<(), StoreError> {
    store
        .command("ZREM", [keys::HIDES_END, &end.to_string()])
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hide_is_ended_within_two_seconds_of_its_end_and_never_before() {
        let board = BoardId::parse("b").unwrap();
        for (until_ms, at_ms) in [(1_999, 2_000), (2_000, 4_000), (2_001, 4_000)] {
            let end = HideEnd::of(&board, Timestamp::from_ms_clamped(until_ms));
            assert_eq!(end.at_ms, at_ms);
            assert_eq!(end.to_string().parse(), Ok(end));
        }
        for (now_ms, at_ms) in [(0, DAY_MS), (DAY_MS - UNDER_WAY_MS, 2 * DAY_MS)] {
            let end = HideEnd::after(&board, now_ms + UNDER_WAY_MS, DAY_MS);
            assert_eq!((end.at_ms, end.is_end_of_day()), (at_ms, true));
        }
        assert!(!HideEnd::of(&board, Timestamp::from_ms_clamped(DAY_MS)).is_end_of_day());
    }
}
