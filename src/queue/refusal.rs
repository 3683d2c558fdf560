//! Why a queued event was rejected, as it is stored for requests that ask for its outcome.

use serde::{Deserialize, Serialize};

use crate::core::Error;
use crate::domain::board::FieldError;
use crate::domain::event::Rejection;
use crate::domain::problems::{Problem, UsedUp, VALIDATION_FAILED};
use crate::domain::time::Timestamp;

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

/// The error that a client gets that sends such an event.
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
