//! The results of apply.lua.

use bytes::Buf;
use fred::types::Value;

use super::Answer;
use crate::domain::board::{Board, Update};
use crate::domain::event::{Change, Detail, Outcome, Ranks, Rejection, Status};
use crate::domain::plan::Plan;
use crate::domain::ties::TieKey;
use crate::domain::window::Window;
use crate::store::StoreError;
use crate::store::args::{shown_score, stored_score};
use crate::store::reservations::TOKEN_BYTES;

/// In a report's code: the member was listed before.
const LISTED_BEFORE: u16 = 1 << 12;

/// In a record's byte of flags: the event changed nothing.
const UNCHANGED: u8 = 4;
/// In a record's byte of flags: scores have seven bytes, not four.
const WIDE: u8 = 8;
/// In a record's byte of flags: a token is at the end.
const WITH_TOKEN: u8 = 16;

/// Takes a result apart as apply.lua documents it.
pub(super) fn answer(board: &Board, plan: &Plan, result: &Value) -> Result<Answer, StoreError> {
    let answer = match result {
        Value::Array(parts) => with_code(board, plan, parts),
        record => taken(board, plan, record, Vec::new()),
    };
    answer.ok_or_else(|| StoreError::Unexpected(format!("the result {result:?}")))
}

fn taken(board: &Board, plan: &Plan, record: &Value, lefts: Vec<i64>) -> Option<Answer> {
    Some(Answer::Taken(outcome(board, plan, record)?, lefts))
}

fn with_code(board: &Board, plan: &Plan, parts: &[Value]) -> Option<Answer> {
    let (code, rest) = parts.split_first()?;
    let window = || Window::from_code(u16::try_from(rest.first()?.as_i64()?).ok()?);
    Some(match code.as_i64()? {
        1 => Answer::Duplicate(outcome(board, plan, rest.first()?)?),
        2 => Answer::Rejected(Rejection::IdReused),
        3 => Answer::Rejected(plan.rejection?),
        4 => Answer::Rejected(Rejection::OutOfRange(window()?)),
        5 => Answer::NeedsHistory,
        6 => Answer::NeedsStanding(window()?),
        7 => Answer::Rejected(Rejection::Quota {
            place: usize::try_from(rest.first()?.as_i64()? - 1).ok()?,
            frees_at_ms: rest.get(1)?.as_i64()?,
        }),
        8 => {
            let (record, lefts) = rest.split_first()?;
            let lefts = lefts.iter().map(Value::as_i64);
            taken(board, plan, record, lefts.collect::<Option<_>>()?)?
        }
        9 => Answer::Void,
        _ => return None,
    })
}

/// A number of so many bytes with a sign.
fn take_score(bytes: &mut &[u8], width: usize) -> Option<i64> {
    let bits = bytes.try_get_uint(width).ok()?;
    let unused = 64 - 8 * width;
    Some((bits << unused).cast_signed() >> unused)
}

/// Reads a record. What it does not hold follows from the event, which is the same for all that bear its id.
fn outcome(board: &Board, plan: &Plan, record: &Value) -> Option<Outcome> {
    let mut record = record.as_bytes()?;
    let _fingerprint = record.try_get_uint(7).ok()?;
    let at = TieKey::from_number(record.try_get_uint(6).ok()?);
    let ending = record.try_get_u8().ok()?;
    if ending & WITH_TOKEN != 0 {
        record = record
            .split_at_checked(record.len().checked_sub(TOKEN_BYTES)?)?
            .0;
    }
    let detail = Detail::from_code(i64::from(ending % 4))?;
    let width = if ending & WIDE == 0 { 4 } else { 7 };
    let is_sum = board.definition.update == Update::Sum;
    let (report_bytes, ranks_bytes) = (
        2 + if is_sum { width } else { 2 * width },
        if detail == Detail::Ranks { 8 } else { 0 },
    );
    let count = record.len() / (report_bytes + ranks_bytes);
    let (mut reports, mut ranks) = record.split_at_checked(count * report_bytes)?;
    let amount = stored_score(board, *plan.amounts.first()?);
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let code = reports.try_get_u16().ok()?;
        let score = take_score(&mut reports, width)?;
        let before = if is_sum {
            score - amount
        } else {
            take_score(&mut reports, width)?
        };
        changes.push(Change {
            window: Window::from_code(code % LISTED_BEFORE)?,
            score: shown_score(board, score),
            previous_score: (code >= LISTED_BEFORE).then(|| shown_score(board, before)),
            ranks: if detail == Detail::Ranks {
                let mut rank = || Some(u64::from(ranks.try_get_u32().ok()?));
                let (rank, previous_rank) = (rank()?, rank()?);
                Some(Ranks {
                    rank: Some(rank).filter(|rank| *rank > 0),
                    previous_rank: Some(previous_rank).filter(|rank| *rank > 0),
                })
            } else {
                None
            },
        });
    }
    let windows = &board.definition.windows;
    changes.sort_by_key(|change| {
        let place = windows.iter().position(|window| *window == change.window);
        place.unwrap_or(usize::MAX)
    });
    Some(Outcome {
        status: if ending & UNCHANGED == 0 {
            Status::Applied
        } else {
            Status::Unchanged
        },
        at: at.instant(board.definition.ties)?,
        changes,
    })
}
