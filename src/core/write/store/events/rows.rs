//! Reads rows: what boards keep of events (`scripts/lib/history.lua`).

use bytes::{Buf, Bytes};

use super::Remembered;
use super::decode::remembered;
use crate::domain::board::Board;
use crate::domain::event::Status;
use crate::domain::history::RowDetails;
use crate::domain::ids::MemberId;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::reply::require;

/// The lengths of when an event was accepted, and of the number of a revocation.
const ACCEPTED_BYTES: usize = 7;
const REVOCATION_BYTES: usize = 4;
/// The flag of what is left of the row of an erased member's event.
const STUB: u8 = 128;

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRow {
    /// When the event was accepted, in whole milliseconds.
    pub accepted_at: Timestamp,
    /// The instant that it counts for.
    pub at: Timestamp,
    /// The number of its member's last erasure before it; 0 for none.
    pub erasure: u64,
    /// Whether it had changed a standing.
    pub status: Status,
    /// What else is kept of it.
    pub details: RowDetails,
}

impl StoredRow {
    /// Reads a row; `None` for what is left of one after an erasure.
    pub fn read(board: &Board, row: &[u8]) -> Result<Option<Self>, StoreError> {
        let Some(parts) = parts(row)? else {
            return Ok(None);
        };
        let Remembered {
            outcome, erasure, ..
        } = remembered(board, None, parts.record)?;
        Ok(Some(Self {
            accepted_at: parts.accepted_at,
            at: outcome.at,
            erasure,
            status: outcome.status,
            details: require(RowDetails::decode(parts.details), "a row is damaged")?,
        }))
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

/// The record in a row.
pub(super) fn record_of(row: &Bytes) -> Result<Bytes, StoreError> {
    let parts = require(parts(row)?, "an erased event has no record")?;
    Ok(row.slice_ref(parts.record))
}

struct Parts<'a> {
    accepted_at: Timestamp,
    record: &'a [u8],
    details: &'a [u8],
}

fn parts(mut row: &[u8]) -> Result<Option<Parts<'_>>, StoreError> {
    let mut read = || {
        let flags = row.try_get_u8().ok()?;
        let accepted_us = row.try_get_uint(ACCEPTED_BYTES).ok()?.cast_signed();
        row.try_get_uint(REVOCATION_BYTES).ok()?;
        let length = usize::from(row.try_get_u16().ok()?);
        let (record, details) = row.split_at_checked(length)?;
        let parts = Parts {
            accepted_at: Timestamp::from_ms_clamped(accepted_us / 1_000),
            record,
            details,
        };
        Some((flags < STUB).then_some(parts))
    };
    require(read(), "a row is damaged")
}
