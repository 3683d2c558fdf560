//! Reads rows: what boards keep of events (`scripts/lib/history.lua`).

use bytes::{Buf, BufMut, Bytes};

use serde::Serialize;

use super::Remembered;
use super::decode;
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::event::Status;
use crate::domain::history::{RowDetails, RowWrite};
use crate::domain::ids::MemberId;
use crate::domain::ties::TieKey;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::args::stored_score;
use crate::redis::reply::require;

/// The lengths of when an event was accepted, and of the number of a revocation.
const ACCEPTED_BYTES: usize = 7;
const REVOCATION_BYTES: usize = 4;
/// The length of what precedes the record.
const HEAD_BYTES: usize = 1 + ACCEPTED_BYTES + REVOCATION_BYTES + 2;
/// The flags of an event that was retracted, and of one that a revocation covers.
const RETRACTED: u8 = 1;
const REVOKED: u8 = 2;
/// The flag of what is left of the row of an erased member's event.
const STUB: u8 = 128;

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRow {
    /// Whether the event was retracted.
    pub is_retracted: bool,
    /// Whether a revocation covers it.
    pub is_revoked: bool,
    /// When the event was accepted, in whole milliseconds.
    pub accepted_at: Timestamp,
    /// The number of the last revocation before it was accepted, or queued; 0 for none.
    pub revocation: u64,
    /// The instant that it counts for.
    pub at: Timestamp,
    /// The number of its member's last erasure before it; 0 for none.
    pub erasure: u64,
    /// Whether it had changed a standing.
    pub status: Status,
    /// What else is kept of it.
    pub details: RowDetails,
}

/// What a row adds to a standing: a stored amount, a tie key, and the data.
#[derive(Clone, Debug, Serialize)]
pub struct RowArgs<'a>(i64, u64, &'a str);

impl StoredRow {
    /// Reads a row; `None` for what is left of one after an erasure.
    pub fn read(board: &Board, row: &[u8]) -> Result<Option<Self>, StoreError> {
        let Some(parts) = parts(row)? else {
            return Ok(None);
        };
        let Remembered {
            outcome, erasure, ..
        } = decode::remembered(board, None, parts.record)?;
        Ok(Some(Self {
            is_retracted: parts.flags & RETRACTED != 0,
            is_revoked: parts.flags & REVOKED != 0,
            accepted_at: parts.accepted_at,
            revocation: parts.revocation,
            at: outcome.at,
            erasure,
            status: outcome.status,
            details: require(RowDetails::decode(parts.details), "a row is damaged")?,
        }))
    }

    /// Whether no standing counts the event.
    pub fn is_out(&self) -> bool {
        self.is_retracted || self.is_revoked
    }

    /// What the event adds to the standings of a board's periods: nothing if it is out.
    pub fn writes(&self, board: &Board) -> Vec<RowWrite> {
        if self.is_out() {
            return Vec::new();
        }
        self.details.writes(board, self.at)
    }

    /// What an event of this row adds to a standing, for scripts.
    pub fn args(&self, board: &Board, write: &RowWrite) -> RowArgs<'_> {
        let tie_key = TieKey::new(board.definition.ties, self.at).number();
        let data = self.details.data.as_ref().map_or("", EntryData::as_str);
        RowArgs(stored_score(board, write.amount), tie_key, data)
    }

    /// The stored form of a row that was read from `row` and has changed since.
    pub fn encode_over(&self, row: &[u8]) -> Result<Vec<u8>, StoreError> {
        let parts = require(parts(row)?, "an erased event has no row")?;
        let kept = HEAD_BYTES + parts.record.len();
        let mut changed = Vec::with_capacity(row.len());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        changed.put_u8(flag(self.is_retracted, RETRACTED) | flag(self.is_revoked, REVOKED));
        changed.extend(&row[1..kept]);
        changed.extend(self.details.encode());
        Ok(changed)
    }
}

/// The member of a row; `None` for what is left of one after an erasure.
pub fn member_of_row(row: &[u8]) -> Result<Option<MemberId>, StoreError> {
    let read = |parts: Parts<'_>| {
        let details = RowDetails::decode(parts.details);
        require(details, "a row is damaged").map(|details| details.member)
    };
    parts(row)?.map(read).transpose()
}

/// What a row remembers of its event.
pub(super) fn remembered(board: &Board, row: &Bytes) -> Result<Remembered, StoreError> {
    let parts = require(parts(row)?, "an erased event has no record")?;
    let remembered = decode::remembered(board, None, parts.record)?;
    Ok(Remembered {
        is_out: parts.flags & (RETRACTED | REVOKED) != 0,
        ..remembered
    })
}

struct Parts<'a> {
    flags: u8,
    accepted_at: Timestamp,
    revocation: u64,
    record: &'a [u8],
    details: &'a [u8],
}

fn parts(mut row: &[u8]) -> Result<Option<Parts<'_>>, StoreError> {
    let mut read = || {
        let flags = row.try_get_u8().ok()?;
        let accepted_us = row.try_get_uint(ACCEPTED_BYTES).ok()?.cast_signed();
        let revocation = row.try_get_uint(REVOCATION_BYTES).ok()?;
        let length = usize::from(row.try_get_u16().ok()?);
        let (record, details) = row.split_at_checked(length)?;
        let parts = Parts {
            flags,
            accepted_at: Timestamp::from_ms_clamped(accepted_us / 1_000),
            revocation,
            record,
            details,
        };
        Some((flags < STUB).then_some(parts))
    };
    require(read(), "a row is damaged")
}
