//! Decodes the results of apply.lua.

use crate::redis::Value;
use bytes::Buf;

use super::{EventReply, Recalled, Remembered};
use crate::core::write::obstacles::Obstacle;
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
pub(super) fn reply(board: &Board, plan: &Plan, result: Value) -> Result<EventReply, StoreError> {
    let outcome = |record: &[u8]| remembered(board, Some(plan), record).map(|event| event.outcome);
    if !matches!(result, Value::Array(_)) {
        return Ok(taken(outcome(&bytes_of(result)?)?, Vec::new()));
    }
    let mut reply = Reply::new(result)?;
    let decoded = match reply.integer()? {
        results::DUPLICATE => EventReply::Duplicate(outcome(&reply.bytes()?)?, None),
        results::REUSED => EventReply::Rejected(Rejection::IdReused),
        results::REFUSED => EventReply::Rejected(require(
            plan.rejection,
            "an event is refused as in its plan, which has no reason",
        )?),
        results::OUT_OF_RANGE => EventReply::Rejected(Rejection::OutOfRange(window(&mut reply)?)),
        results::NO_HISTORY => EventReply::Prevented(Obstacle::MissingHistory),
        results::NO_STANDING => {
            let window = window(&mut reply)?;
            let period = board.calendar.containing(window.unit(), plan.at);
            let section = plan.section().unwrap_or(period.into());
            EventReply::Prevented(Obstacle::IncompleteStanding(window, section))
        }
        results::NO_QUOTA => EventReply::Rejected(Rejection::Quota(shortage(&mut reply)?)),
        results::TAKEN => taken(outcome(&reply.bytes()?)?, reply.all(Reply::integer)?),
        results::VOID => EventReply::Prevented(Obstacle::VoidReservation),
        results::ERASED => EventReply::Rejected(Rejection::Erased(instant(&mut reply)?)),
        results::ERASING => EventReply::Prevented(Obstacle::Erasing),
        results::BEHIND => EventReply::Prevented(Obstacle::TooEarly(us(&mut reply)?)),
        results::UNSEATED => EventReply::Prevented(Obstacle::SeatLost),
        results::ELSEWHERE => EventReply::Prevented(Obstacle::Elsewhere),
        results::GONE => EventReply::Gone,
        results::WAITING => EventReply::Prevented(Obstacle::Waiting {
            at: us(&mut reply)?,
            queued_at: us(&mut reply)?,
            rejection: plan.rejection,
        }),
        results::CLOSED => {
            let until = Timestamp::from_ms_clamped(reply.integer()?);
            EventReply::Rejected(Rejection::PeriodClosed(until))
        }
        other => return unknown_code(&other.to_string()),
    };
    require(reply.is_empty().then_some(decoded), "a result is too long")
}

fn taken(outcome: Outcome, remaining: Vec<i64>) -> EventReply {
    EventReply::Taken {
        outcome,
        remaining,
        changed: None,
    }
}

fn us(reply: &mut Reply) -> Result<Timestamp, StoreError> {
    reply.integer().map(Timestamp::from_us_clamped)
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

/// What recall.lua returns for an event; `None` if the shard does not remember it.
pub(super) fn recalled(
    board: &Board,
    plan: &Plan,
    result: Value,
) -> Result<Option<Recalled>, StoreError> {
    if !matches!(result, Value::Array(_)) {
        return Ok(None);
    }
    let mut reply = Reply::new(result)?;
    Ok(Some(match reply.integer()? {
        results::DUPLICATE => Ok(remembered(board, Some(plan), &reply.bytes()?)?),
        results::REUSED => Err(Rejection::IdReused),
        other => return unknown_code(&other.to_string()),
    }))
}

/// Reads the record of an event. The scores before it follow from its plan, which is the same for all events with its id;
/// without the plan they are left out.
pub(super) fn remembered(
    board: &Board,
    plan: Option<&Plan>,
    record: &[u8],
) -> Result<Remembered, StoreError> {
    let mut record = Record(record);
    let fingerprint = record.unsigned(FINGERPRINT_BYTES)?;
    debug_assert!(
        plan.is_none_or(|plan| plan.event.fingerprint() == fingerprint),
        "the record is of another event"
    );
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
    if has(flags::WITH_TOKEN) {
        record = record.split_before(TOKEN_BYTES)?.0;
    }
    let mut erasure = 0;
    if has(flags::WITH_ERASURE) {
        let (front, mut number) = record.split_before(ERASURE_BYTES)?;
        (record, erasure) = (front, number.unsigned(ERASURE_BYTES)?);
    }
    let width = if has(flags::WIDE) {
        WIDE_SCORE_BYTES
    } else {
        NARROW_SCORE_BYTES
    };
    let amount = plan
        .map(|plan| require(plan.amounts.first().copied(), "an event has no amount"))
        .transpose()?;
    Ok(Remembered {
        fingerprint,
        outcome: Outcome {
            status: if has(flags::UNCHANGED) {
                Status::Unchanged
            } else {
                Status::Applied
            },
            at,
            changes: record.changes(board, amount, width, detail == Detail::Ranks)?,
        },
        erasure,
        is_out: false,
    })
}

/// The rest of a record that is being read; its layout is in `protocol.rs`.
#[derive(Clone, Copy)]
struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    /// Reads the reports of a record, with scores of `width` bytes, and the ranks after them. `amount`: that of the event,
    /// if it is known.
    fn changes(
        self,
        board: &Board,
        amount: Option<Score>,
        width: usize,
        has_ranks: bool,
    ) -> Result<Vec<Change>, StoreError> {
        let is_sum = board.definition.update == Update::Sum;
        let report_bytes = CODE_BYTES + if is_sum { width } else { 2 * width };
        let bytes = report_bytes + if has_ranks { 2 * RANK_BYTES } else { 0 };
        let count = self.0.len() / bytes;
        let is_whole = count * bytes == self.0.len();
        require(
            is_whole.then_some(()),
            "the last report of a record is incomplete",
        )?;
        let (mut reports, mut ranks) = self.split_at(count * report_bytes)?;
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            let code = reports.code()?;
            let score = reports.score(width)?;
            let before = if is_sum {
                amount.map(|amount| score - stored_score(board, amount))
            } else {
                Some(reports.score(width)?)
            };
            let window = Window::from_code(code % flags::LISTED_BEFORE);
            let before = before.filter(|_| code >= flags::LISTED_BEFORE);
            changes.push(Change {
                window: require(window, "a window has an unknown code")?,
                score: shown_score(board, score),
                previous_score: before.map(|before| shown_score(board, before)),
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
