//! The fate of a queued event that was submitted: how it is counted, and how a refusal is stored for requests that ask
//! for the outcome.

use std::sync::atomic::Ordering;

use metrics::{counter, histogram};
use serde::{Deserialize, Serialize};

use super::store::queued::End;
use crate::core::write::events::{AcceptedEvent, IncomingEvent};
use crate::core::{Error, Outdated};
use crate::domain::board::{Board, FieldError};
use crate::domain::event::Rejection;
use crate::domain::problems::{Problem, UsedUp, VALIDATION_FAILED};
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
                if !submitted.is_duplicate {
                    submitted.live.accepted.fetch_add(1, Ordering::Relaxed);
                }
                count_taken(incoming, submitted.is_duplicate, now);
                return Ok(Self::Left);
            }
            Err(Error::Again(Outdated::Queue)) => return Ok(Self::Lost),
            Err(error) => error,
        };
        let at = incoming.fixed_at().unwrap_or(incoming.arrived_at);
        if let (Some(refusal), Some(id)) = (Refusal::of(&error, at), &incoming.id) {
            let remembered_ms = board.definition.idempotency.ms();
            let is_late = incoming.queued.is_some_and(|held| held.late.is_some());
            let cut_off = match error {
                Error::Rejected {
                    rejection: Rejection::PeriodClosed(_),
                    ..
                } if !is_late => board.ending_around(at).collect(),
                _ => Vec::new(),
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

/// A refusal, stored as JSON. It names no member.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Refusal {
    /// The instant that the event counted for.
    pub at: Timestamp,
    why: Why,
}

/// The errors with which a rule rejects an event.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Why {
    Rejected {
        rejection: Rejection,
        detail: String,
    },
    QuotaExceeded(Box<UsedUp>),
    Invalid(Vec<FieldError>),
}

impl Refusal {
    /// The refusal of an event at that instant; `None` if the error is not a refusal.
    pub fn of(error: &Error, at: Timestamp) -> Option<Self> {
        let why = match error.clone() {
            Error::Rejected {
                rejection, detail, ..
            } => Why::Rejected { rejection, detail },
            Error::QuotaExceeded(used_up) => Why::QuotaExceeded(used_up),
            Error::Problem(problem) if problem.kind == VALIDATION_FAILED => {
                Why::Invalid(problem.errors)
            }
            _ => return None,
        };
        Some(Self { at, why })
    }

    /// The stored form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers make JSON")
    }
}

/// The error for a client that sends such an event.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal.why {
            Why::Rejected { rejection, detail } => Self::Rejected {
                rejection,
                detail,
                wait_s: None,
            },
            Why::QuotaExceeded(used_up) => Self::QuotaExceeded(used_up),
            Why::Invalid(errors) => Problem::invalid(errors).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::window::Window;
    use crate::redis::StoreError;

    #[test]
    fn a_refusal_keeps_its_wording_after_the_definition_changes() {
        let at = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let used_up = UsedUp {
            name: "voter".to_owned(),
            max: 3,
            window_s: Some(60),
            frees_at: Some(at),
            wait_s: None,
            detail: "quota voter is used up".to_owned(),
        };
        let window = Window::from_code(1024).unwrap();
        let rejected = |rejection| Error::Rejected {
            rejection,
            detail: "why".to_owned(),
            wait_s: None,
        };
        for error in [
            rejected(Rejection::TooLate),
            rejected(Rejection::OutOfRange(window)),
            rejected(Rejection::PeriodClosed(at)),
            Error::QuotaExceeded(Box::new(used_up)),
            Problem::invalid_field("/voter", "is missing").into(),
        ] {
            let refusal = Refusal::of(&error, at).unwrap();
            let json = refusal.to_json();
            let read: Refusal = serde_json::from_str(&json).unwrap();
            assert_eq!(read, refusal, "{json}");
            assert_eq!(format!("{:?}", Error::from(read)), format!("{error:?}"));
        }
        let away = Error::from(StoreError::Unavailable("away".into()));
        assert_eq!(Refusal::of(&away, at), None);
    }
}
