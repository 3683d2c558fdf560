//! The fate of a queued event that was submitted, and how it is counted.

use metrics::{counter, histogram};

use super::refusal::Refusal;
use super::store::queued::End;
use crate::core::write::events::{AcceptedEvent, IncomingEvent};
use crate::core::{Error, Outdated};
use crate::domain::board::Board;
use crate::domain::event::Rejection;
use crate::domain::time::{Span, Timestamp};
use crate::redis::StoreError;

/// The minimum time for which the reason for a refusal is kept.
const TOLD_MIN: Span = Span::minutes(10);

/// What happens to an event after it was submitted.
pub(super) enum Fate {
    /// It has left the queue.
    Left,
    /// Another worker has it, or had it.
    Lost,
    Ends(End),
    /// It stays in the queue.
    Waits,
    /// A script aborted its call.
    BrokeOff(String),
}

impl Fate {
    /// The fate of an event of this board, by the outcome of its submission. Fails if Redis takes no events at all.
    pub(super) fn of(
        incoming: &IncomingEvent,
        result: Result<AcceptedEvent, Error>,
        board: &Board,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let error = match result {
            // Another shard remembers it, so this one still has it in the queue.
            Ok(AcceptedEvent { changed: None, .. }) => return Ok(Self::Ends(End::Known)),
            Ok(submitted) => {
                count_taken(incoming, submitted.is_duplicate, now);
                return Ok(Self::Left);
            }
            Err(Error::Again(Outdated::Queue)) => return Ok(Self::Lost),
            Err(error) => error,
        };
        let at = incoming.fixed_at().unwrap_or(incoming.arrived_at);
        if let (Some(refusal), Some(id)) = (Refusal::of(&error, at), &incoming.id) {
            let remembered_ms = board.definition.idempotency.ms();
            let is_closed = matches!(
                error,
                Error::Rejected {
                    rejection: Rejection::PeriodClosed(_),
                    ..
                }
            );
            let is_late = incoming.queued.is_some_and(|held| held.late.is_some());
            let cut_off = if is_closed && !is_late {
                board.ending_around(at).collect()
            } else {
                Vec::new()
            };
            return Ok(Self::Ends(End::Refused {
                id: id.clone(),
                why: refusal.to_json(),
                told_ms: remembered_ms.max(TOLD_MIN.ms()),
                cut_off,
            }));
        }
        match error {
            Error::Store(StoreError::Unexpected(detail)) => Ok(Self::BrokeOff(detail)),
            Error::Store(StoreError::Full(_) | StoreError::Unusable(_)) => Err(error),
            Error::Again(_)
            | Error::Store(_)
            | Error::Log(_)
            | Error::BoardNotFound(_)
            | Error::Unreadable { .. }
            | Error::OtherFormat(_) => Ok(Self::Waits),
            error if error.is_turn_of_others() => Ok(Self::Waits),
            other => Ok(Self::BrokeOff(other.to_string())),
        }
    }
}

fn count_taken(incoming: &IncomingEvent, is_duplicate: bool, now: Timestamp) {
    if is_duplicate {
        return count("duplicate");
    }
    count("applied");
    if let Some(held) = incoming.queued {
        let lag_ms = now.ms().saturating_sub(held.queued_at.ms()).max(0);
        #[expect(clippy::cast_precision_loss, reason = "a wait of some milliseconds")]
        histogram!("standings_ingest_lag_seconds").record(lag_ms as f64 / 1_000.0);
    }
}

/// Counts the outcome of a queued event.
pub(super) fn count(status: &'static str) {
    counter!("standings_queued_events_total", "status" => status).increment(1);
}
