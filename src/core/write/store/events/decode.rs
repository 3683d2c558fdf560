//! Decodes the results of apply.lua.

use crate::redis::Value;
use bytes::{Buf, Bytes};

use super::{Answer, Known, Recalled, Remembered};
use crate::core::write::store::quotas::shortage;
use crate::domain::board::{Board, Update};
use crate::domain::event::{Change, Detail, Outcome, Ranks, Rejection, Status};
use crate::domain::plan::Plan;
use crate::domain::score::{SCORE_MAX, Score};
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::StoreError;
use crate::redis::args::{shown_score, stored_score};
use crate::redis::protocol::record::{
    CODE_BYTES, ERASURE_BYTES, FINGERPRINT_BYTES, NARROW_SCORE_BYTES, RANK_BYTES, TIE_KEY_BYTES,
    TOKEN_BYTES, WIDE_SCORE_BYTES,
};
use crate::redis::protocol::{flags, results};
use crate::redis::reply::{Reply, bytes_of, require, unknown_code};

/// Decodes the result of an event: its record, or a list that begins with one of [`results`].
pub(super) fn answer(board: &Board, plan: &Plan, result: Value) -> Result<Answer, StoreError> {
    let outcome = |record: Bytes| remembered(board, plan, &record).map(|known| known.outcome);
    if !matches!(result, Value::Array(_)) {
        return Ok(taken(outcome(bytes_of(result)?)?, Vec::new()));
    }
    let mut reply = Reply::new(result)?;
    let answer = match reply.integer()? {
        results::DUPLICATE => Answer::Duplicate(outcome(reply.bytes()?)?, None),
        results::REUSED => Answer::Rejected(Rejection::IdReused),
        results::REFUSED => Answer::Rejected(require(
            plan.rejection,
            "an event is refused as in its plan, which has no reason",
        )?),
        results::OUT_OF_RANGE => Answer::Rejected(Rejection::OutOfRange(window(&mut reply)?)),
        results::NO_HISTORY => Answer::NeedsHistory,
        results::NO_STANDING => Answer::NeedsStanding(window(&mut reply)?),
        results::NO_QUOTA => Answer::Rejected(Rejection::Quota(shortage(&mut reply)?)),
        results::TAKEN => taken(outcome(reply.bytes()?)?, reply.all(Reply::integer)?),
        results::VOID => Answer::Void,
        results::ERASED => Answer::Rejected(Rejection::Erased(instant(&mut reply)?)),
        results::ERASING => Answer::Erasing,
        results::BEHIND => Answer::Behind(Timestamp::from_us_clamped(reply.integer()?)),
        results::UNSEATED => Answer::Unseated,
        results::ELSEWHERE => Answer::Elsewhere,
        results::GONE => Answer::Gone,
        results::WAITING => Answer::Waiting {
            at: Timestamp::from_us_clamped(reply.integer()?),
            queued_at: Timestamp::from_us_clamped(reply.integer()?),
            rejection: plan.rejection,
        },
        results::CLOSED => {
            let until = Timestamp::from_ms_clamped(reply.integer()?);
            Answer::Rejected(Rejection::PeriodClosed(until))
        }
        other => return unknown_code(&other.to_string()),
    };
    require(reply.is_empty().then_some(answer), "a result is too long")
}

fn taken(outcome: Outcome, remaining: Vec<i64>) -> Answer {
    Answer::Taken {
        outcome,
        remaining,
        changed: None,
    }
}

fn instant(reply: &mut Reply) -> Result<Timestamp, StoreError> {
    let key = TieKey::from_number(reply.read()?);
    require(key.instant(Ties::First), "a tie key has no instant")
}

fn window(reply: &mut Reply) -> Result<Window, StoreError> {
    let code = u16::try_from(reply.integer()?).ok();
    require(
        code.and_then(Window::from_code),
        "a window has an unknown code",
    )
}

/// What recall.lua returns for an event that it knows.
pub(super) fn recalled(board: &Board, plan: &Plan, result: Value) -> Result<Recalled, StoreError> {
    let mut reply = Reply::new(result)?;
    match reply.integer()? {
        results::DUPLICATE => Ok(Recalled::Taken(remembered(board, plan, &reply.bytes()?)?)),
        results::REUSED => Ok(Recalled::Reused),
        other => unknown_code(&other.to_string()),
    }
}

struct Parts<'a> {
    fingerprint: u64,
    status: Status,
    at: Timestamp,
    detail: Detail,
    /// The reports, and the ranks after them.
    reports: Record<'a>,
    /// The bytes of a score in the reports.
    width: usize,
    erasure: u64,
}

impl<'a> Parts<'a> {
    fn of(board: &Board, record: &'a [u8]) -> Result<Self, StoreError> {
        let mut record = Record(record);
        let fingerprint = record.unsigned(FINGERPRINT_BYTES)?;
        let at = TieKey::from_number(record.unsigned(TIE_KEY_BYTES)?);
        let at = require(
            at.instant(board.definition.ties),
            "a tie key has no instant",
        )?;
        let set = record.unsigned(1)?;
        let has = |flag: u8| set & u64::from(flag) != 0;
        let detail = i64::try_from(set % u64::from(flags::DETAIL_COUNT)).ok();
        let detail = require(
            detail.and_then(Detail::from_code),
            "a record has an unknown detail",
        )?;
        let mut reports = record;
        if has(flags::WITH_TOKEN) {
            reports = reports.split_before(TOKEN_BYTES)?.0;
        }
        let mut erasure = 0;
        if has(flags::WITH_ERASURE) {
            let (front, mut number) = reports.split_before(ERASURE_BYTES)?;
            (reports, erasure) = (front, number.unsigned(ERASURE_BYTES)?);
        }
        Ok(Self {
            fingerprint,
            status: if has(flags::UNCHANGED) {
                Status::Unchanged
            } else {
                Status::Applied
            },
            at,
            detail,
            reports,
            width: if has(flags::WIDE) {
                WIDE_SCORE_BYTES
            } else {
                NARROW_SCORE_BYTES
            },
            erasure,
        })
    }
}

/// Reads a record. What it lacks follows from the event, which is the same for all with its id.
fn remembered(board: &Board, plan: &Plan, record: &[u8]) -> Result<Remembered, StoreError> {
    let parts = Parts::of(board, record)?;
    debug_assert_eq!(
        parts.fingerprint,
        plan.event.fingerprint(),
        "the record is of another event"
    );
    let amount = require(plan.amounts.first().copied(), "an event has no amount")?;
    let outcome = Outcome {
        status: parts.status,
        at: parts.at,
        changes: changes(board, amount, &parts)?,
    };
    let erasure = parts.erasure;
    Ok(Remembered { outcome, erasure })
}

/// Reads a record whose event is not known.
pub(super) fn known(board: &Board, record: &[u8]) -> Result<Known, StoreError> {
    let parts = Parts::of(board, record)?;
    // The scores before depend on the amount.
    let changes = changes(board, Score::default(), &parts)?.into_iter();
    Ok(Known {
        fingerprint: parts.fingerprint,
        status: parts.status,
        at: parts.at,
        scores: changes
            .map(|change| (change.window, change.score))
            .collect(),
        erasure: parts.erasure,
    })
}

/// Reads the reports of a record, and the ranks after them.
fn changes(board: &Board, amount: Score, parts: &Parts) -> Result<Vec<Change>, StoreError> {
    let (record, width) = (parts.reports, parts.width);
    let has_ranks = parts.detail == Detail::Ranks;
    let is_sum = board.definition.update == Update::Sum;
    let report_bytes = CODE_BYTES + if is_sum { width } else { 2 * width };
    let bytes = report_bytes + if has_ranks { 2 * RANK_BYTES } else { 0 };
    let count = record.0.len() / bytes;
    let is_whole = count * bytes == record.0.len();
    require(
        is_whole.then_some(()),
        "the last report of a record is incomplete",
    )?;
    let (mut reports, mut ranks) = record.split_at(count * report_bytes)?;
    let amount = stored_score(board, amount);
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let code = reports.code()?;
        let score = reports.score(width)?;
        let before = if is_sum {
            score - amount
        } else {
            reports.score(width)?
        };
        let window = Window::from_code(code % flags::LISTED_BEFORE);
        let was_listed = code >= flags::LISTED_BEFORE;
        changes.push(Change {
            window: require(window, "a window has an unknown code")?,
            score: shown_score(board, score),
            previous_score: was_listed.then(|| shown_score(board, before)),
            ranks: has_ranks.then(|| ranks.ranks()).transpose()?,
        });
    }
    let windows = &board.definition.windows;
    changes.sort_by_key(|change| {
        let index = windows.iter().position(|window| *window == change.window);
        index.unwrap_or(usize::MAX)
    });
    Ok(changes)
}

/// The rest of a record that is being read; its layout is in `protocol.rs`.
#[derive(Clone, Copy)]
struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    fn split_at(self, length: usize) -> Result<(Self, Self), StoreError> {
        let parts = self.0.split_at_checked(length);
        let (front, back): (&'a [u8], &'a [u8]) = require(parts, "the record is too short")?;
        Ok((Self(front), Self(back)))
    }

    /// All but the last `bytes` bytes, and these.
    fn split_before(self, bytes: usize) -> Result<(Self, Self), StoreError> {
        let length = self.0.len().checked_sub(bytes);
        self.split_at(require(length, "the record is too short")?)
    }

    fn unsigned(&mut self, width: usize) -> Result<u64, StoreError> {
        require(self.0.try_get_uint(width).ok(), "the record is too short")
    }

    fn code(&mut self) -> Result<u16, StoreError> {
        let code = u16::try_from(self.unsigned(CODE_BYTES)?).ok();
        require(code, "a code does not have two bytes")
    }

    /// A number with a sign.
    fn score(&mut self, width: usize) -> Result<i64, StoreError> {
        let unused = 64 - 8 * width;
        let score = (self.unsigned(width)? << unused).cast_signed() >> unused;
        let is_within = (-SCORE_MAX..=SCORE_MAX).contains(&score);
        require(is_within.then_some(score), "a score is out of range")
    }

    fn rank(&mut self) -> Result<Option<u64>, StoreError> {
        Ok(Some(self.unsigned(RANK_BYTES)?).filter(|rank| *rank > 0))
    }

    fn ranks(&mut self) -> Result<Ranks, StoreError> {
        Ok(Ranks {
            rank: self.rank()?,
            previous_rank: self.rank()?,
        })
    }
}
