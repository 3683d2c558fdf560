//! What can go wrong: problems of requests, and what the service itself reacts to.

use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;

use super::board::store::boards::Unreadable;
use crate::domain::board::{Board, Definition, FieldError};
use crate::domain::event::{FUTURE_MS_MAX, Rejection, Shortage};
use crate::domain::ids::BoardId;
use crate::domain::plan::due;
use crate::domain::problems::{
    BOARD_CLOSED, BOARD_NOT_FOUND, CONTENTION, DATA_OF_ANOTHER_VERSION, EVENT_ID_REUSED,
    EVENT_IN_FUTURE, EVENT_TOO_LATE, INTERNAL, Kind, LEAGUE_TURNING, LOG_UNAVAILABLE,
    MEMBER_ERASED, NOT_SEATED, Own, PERIOD_CLOSED, Problem, QUOTA_EXCEEDED, RATE_LIMITED,
    SCORE_OUT_OF_RANGE, STORE_FULL, STORE_UNAVAILABLE, TIME_UNCERTAIN, UsedUp, VALIDATION_FAILED,
};
use crate::domain::quota::QuotaWindow;
use crate::domain::score::Score;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;

/// Why a score was refused, if the score is not known.
const SCORE_BOUNDS: &str = "the score is not within this board's `score_min` and `score_max`";

/// What must be read again before the work is repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outdated {
    /// The definition of the board in memory.
    Board,
    /// What was read with the board: it changed, or was not complete and is now.
    Read,
    /// The queue that an event came from: the event has left it, or another instance works on it by now.
    Queue,
    /// What an intake knows: a shard's Redis went back to older data, so the shard has lost what it knew.
    Intake,
}

/// Why a request was not carried out. What the service itself reacts to has its own variant.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// Something is wrong with the request.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// There is no such board.
    #[error("there is no board {0}")]
    BoardNotFound(BoardId),
    /// This client has requested too many past standings, or too many clients request them; try again after this time.
    #[error("too many past standings are being built; try again later")]
    TooMuchPast(Duration),
    /// The last period of a league is being turned over, for at least this many milliseconds more.
    #[error("the league is turning over its last period; try again in {} s", .0.div_ceil(1_000).max(1))]
    LeagueTurning(u64),
    /// The stored definition can't be read: a newer release may have written it.
    #[error("the stored definition of board {board} can't be read: {detail}")]
    Unreadable {
        board: BoardId,
        /// What is wrong with it.
        detail: String,
    },
    /// The data of a board is not in the format of this release.
    #[error("{0}")]
    OtherFormat(String),
    /// An event was refused.
    #[error("{detail}")]
    Rejected {
        rejection: Rejection,
        /// The reason for people.
        detail: String,
        /// After how many seconds the same event would not be refused for this; `None` for never.
        wait_s: Option<u64>,
    },
    #[error("{}", .0.detail)]
    QuotaExceeded(Box<UsedUp>),
    /// The log of queued events fails, or refuses the call.
    #[error("the log of queued events can't be used: {0}")]
    Log(String),
    /// The time may be far off, so nothing irreversible is done.
    #[error("no period is made final: {0}")]
    ClockDoubted(String),
    /// Others change it, or are working on it: try again.
    #[error("{}", .0.detail)]
    Busy(Box<Problem>),
    /// What the work began with is out of date: the work is repeated (`attempts.rs`).
    #[error("other requests keep changing this; try again")]
    Again(Outdated),
    /// Redis failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

/// The problem that clients get for an error that the service itself reacts to.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let retry_after = match error {
            Error::Rejected { wait_s, .. } => wait_s,
            Error::LeagueTurning(wait_ms) => Some(wait_ms.div_ceil(1_000).max(1)),
            Error::TooMuchPast(wait) => Some(wait.as_secs() + 1),
            _ => None,
        };
        let kind = match error {
            Error::Problem(problem) | Error::Busy(problem) => return *problem,
            Error::QuotaExceeded(quota) => {
                return Self::new(QUOTA_EXCEEDED, detail).with(Own::UsedUp(quota));
            }
            Error::LeagueTurning(_) => LEAGUE_TURNING,
            Error::TooMuchPast(_) => RATE_LIMITED,
            Error::ClockDoubted(_) => TIME_UNCERTAIN,
            Error::Again(_) => CONTENTION,
            Error::Store(StoreError::Unavailable(_)) => {
                return Self::new(STORE_UNAVAILABLE, STORE_UNAVAILABLE.page.example)
                    .because(detail);
            }
            Error::Store(StoreError::Full(_)) => STORE_FULL,
            Error::Store(StoreError::Unusable(_)) => STORE_UNAVAILABLE,
            Error::Store(_) => return Self::internal(detail),
            Error::BoardNotFound(_) => BOARD_NOT_FOUND,
            Error::Unreadable { .. } => INTERNAL,
            Error::OtherFormat(_) => DATA_OF_ANOTHER_VERSION,
            Error::Log(_) => LOG_UNAVAILABLE,
            Error::Rejected { rejection, .. } => match rejection {
                Rejection::InFuture => EVENT_IN_FUTURE,
                Rejection::TooLate => EVENT_TOO_LATE,
                Rejection::BoardClosed => BOARD_CLOSED,
                Rejection::ScoreBounds | Rejection::OutOfRange(_) => SCORE_OUT_OF_RANGE,
                Rejection::IdReused => EVENT_ID_REUSED,
                Rejection::PeriodClosed(_) => PERIOD_CLOSED,
                Rejection::Erased(_) => MEMBER_ERASED,
                Rejection::NotSeated => NOT_SEATED,
                Rejection::Missing(_) => VALIDATION_FAILED,
                Rejection::Quota(_) => QUOTA_EXCEEDED,
            },
        };
        let field = (kind == SCORE_OUT_OF_RANGE).then(|| FieldError::new("/score", &detail));
        Self {
            own: retry_after.map(Own::RetryAfter),
            errors: field.into_iter().collect(),
            ..Self::new(kind, detail)
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Stale => Self::Again(Outdated::Board),
            StoreError::Contended => Self::busy(),
            error => Self::Store(error),
        }
    }
}

impl From<Box<Unreadable>> for Error {
    fn from(unreadable: Box<Unreadable>) -> Self {
        if unreadable.is_of_other_format {
            return Self::OtherFormat(unreadable.detail);
        }
        Self::Unreadable {
            board: unreadable.board.id.clone(),
            detail: unreadable.detail,
        }
    }
}

impl Error {
    /// Whether it is a problem of this kind.
    pub fn is(&self, kind: Kind) -> bool {
        matches!(self, Self::Problem(problem) if problem.kind == kind)
    }

    /// Says why a board does not take an event at this instant.
    pub(crate) fn rejected(
        board: &Board,
        rejection: Rejection,
        at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let definition = &board.definition;
        let id = &board.id;
        let detail = match rejection {
            Rejection::InFuture if at.ms() > now.ms().saturating_add(FUTURE_MS_MAX) => {
                format!("`at` is {at}, more than 60 s after the current time, {now}")
            }
            Rejection::InFuture => {
                format!(
                    "`at` is {at}, in a period of league {id} that has not begun; the current time is {now}"
                )
            }
            Rejection::TooLate => {
                let accept_late = serde_json::to_string(&definition.accept_late).unwrap_or_default().replace('"', "");
                format!(
                    "`at` is {at}, too old for board {id}, which accepts events up to {accept_late} late (`accept_late`; to import old events, set it to \"any\"); the current time is {now}"
                )
            }
            Rejection::BoardClosed => format!(
                "board {id} accepts events{}; `at` is {at}",
                open_time(definition)
            ),
            Rejection::ScoreBounds => SCORE_BOUNDS.to_owned(),
            Rejection::OutOfRange(window) => {
                let max = definition.decimals.score_max().shown(definition.decimals);
                format!("with this event the member's score in {window} would be beyond ±{max}")
            }
            Rejection::Missing(dimension) => {
                let pointer = format!("/{}", dimension.name());
                let detail = format!("is missing: a quota of board {id} counts by it");
                return Problem::invalid_field(pointer, detail).into();
            }
            Rejection::Quota(shortage) => return Self::quota_exceeded(board, shortage, at, now),
            Rejection::Erased(erased_at) => format!(
                "the member was erased at {erased_at}: its earlier events are refused on board {id}"
            ),
            Rejection::PeriodClosed(until) => format!(
                "board {id} has closed its periods up to {until}; `at` is {at}"
            ),
            Rejection::NotSeated => format!(
                "the member is not in the league {id} in the period of {at}. To join the running period, send POST /v1/boards/{id}/league/members"
            ),
            Rejection::IdReused => "an event with this id but other content was accepted before; give each event its own id".to_owned(),
        };
        let is_early = rejection == Rejection::InFuture;
        Self::Rejected {
            rejection,
            detail,
            wait_s: is_early.then(|| due(board, at).seconds_after(now).max(1)),
        }
    }

    /// A score is not within the bounds of its board.
    pub(crate) fn out_of_bounds(definition: &Definition, score: Score) -> Self {
        let detail = definition.bound_beyond(score);
        Self::Rejected {
            rejection: Rejection::ScoreBounds,
            detail: detail.unwrap_or_else(|| SCORE_BOUNDS.to_owned()),
            wait_s: None,
        }
    }

    fn quota_exceeded(board: &Board, shortage: Shortage, at: Timestamp, now: Timestamp) -> Self {
        let Some(quota) = board.definition.quotas.get(shortage.quota) else {
            return StoreError::Unexpected("an unknown quota".into()).into();
        };
        let frees_at = match quota.window {
            QuotaWindow::Sliding(_) if shortage.frees_at_ms > 0 => {
                Some(Timestamp::from_ms_clamped(shortage.frees_at_ms))
            }
            _ => quota.frees_at(board, at),
        };
        let used = quota.describe(&shortage, board.definition.decimals);
        let frees = frees_at
            .filter(|_| shortage.amount <= shortage.allowed)
            .map(|frees_at| format!("; it frees up at {frees_at}"));
        let (name, max) = (quota.name.clone(), quota.max);
        Self::QuotaExceeded(Box::new(UsedUp {
            detail: format!(
                "quota {name} of board {} {used}{}",
                board.id,
                frees.unwrap_or_default()
            ),
            name,
            max,
            window_s: quota.window_s(board, at),
            frees_at,
            wait_s: frees_at.map(|frees_at| frees_at.seconds_after(now)),
        }))
    }

    /// Whether it is a fault of what was asked about, such as a key of another type, and not of the server or the request.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::OtherFormat(_)
                | Self::ClockDoubted(_)
                | Self::Log(_)
                | Self::Store(StoreError::Unexpected(_))
        )
    }

    /// Removes how much of a quota is used, which reveals what others have sent.
    pub(crate) fn withhold_counts(&mut self) {
        if let Self::QuotaExceeded(used_up) = self {
            used_up.detail = format!("quota {} has too little left for this event", used_up.name);
        }
    }

    /// Others kept changing what the work depends on.
    pub(crate) fn busy() -> Self {
        Self::try_again(Problem::contention())
    }

    /// Work that must come first was not done in time; `left` says which.
    pub(crate) fn pending(left: impl Display) -> Self {
        Self::try_again(Problem::standing_pending(left))
    }

    /// Nothing is wrong, and the same call may succeed later.
    pub(crate) fn try_again(problem: Problem) -> Self {
        Self::Busy(Box::new(problem))
    }

    /// Whether nothing is wrong, but others are about to do this, or something that must come first.
    pub(crate) fn is_turn_of_others(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::LeagueTurning(_))
    }
}

/// From when and until when a board takes events, if it has such bounds.
fn open_time(definition: &Definition) -> String {
    let from = definition.opens_at.map(|opens| format!(" from {opens}"));
    let until = definition
        .closes_at
        .map(|closes| format!(" until {closes}"));
    [from, until].map(Option::unwrap_or_default).concat()
}
