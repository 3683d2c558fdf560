//! Hiding a member of a board: out of sight at once, without changing any score.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::texts::checked_text;
use super::time::Timestamp;

/// The longest reason, in characters.
pub const REASON_CHARS_MAX: usize = 500;
/// How many members of a board may be hidden.
pub const HIDDEN_MAX: u64 = 100_000;

/// The hide of a member of a board.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hide {
    /// Identifies the hide, and reveals nothing else. Unchanged while the member is hidden.
    pub id: HideId,
    /// The reason.
    pub reason: Reason,
    /// Who hid it: the name of an API key, the subject of a token, `anonymous`.
    pub by: String,
    /// Since when it is hidden.
    pub since: Timestamp,
    /// When it ends; `None`: only when ended by a request.
    pub until: Option<Timestamp>,
}

/// The id of a hide: random, so that it does not reveal the member.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct HideId(String);

impl HideId {
    /// An id as created or from a caller; the hide need not exist.
    pub fn named(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not a valid [`Reason`].
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum ReasonError {
    /// It is empty.
    #[error("is needed: why the member is hidden")]
    Empty,
    /// It is too long.
    #[error("must have at most {REASON_CHARS_MAX} characters, not {0}")]
    Long(usize),
    /// It has control characters.
    #[error("must not have control characters, except line breaks and tabs")]
    Control,
}

checked_text! {
    /// Why a member is hidden: 1 to 500 characters, not all of them blank, and no control characters except line breaks and tabs.
    /// Blanks around it are cut off.
    Reason, check_reason, ReasonError
}

fn check_reason(text: &str) -> Result<&str, ReasonError> {
    let text = text.trim();
    let length = text.chars().count();
    let is_allowed = |char: char| !char.is_control() || matches!(char, '\n' | '\r' | '\t');
    if text.is_empty() {
        Err(ReasonError::Empty)
    } else if length > REASON_CHARS_MAX {
        Err(ReasonError::Long(length))
    } else if !text.chars().all(is_allowed) {
        Err(ReasonError::Control)
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_neither_blank_nor_too_long() {
        let parsed = Reason::parse("  cheating\n(twice) ").unwrap();
        assert_eq!(parsed.as_str(), "cheating\n(twice)");
        assert_eq!(parsed.to_string(), parsed.as_str());
        for (text, error) in [
            ("", ReasonError::Empty),
            (" \n\t", ReasonError::Empty),
            ("a\0b", ReasonError::Control),
            (&"é".repeat(501), ReasonError::Long(501)),
        ] {
            assert_eq!(Reason::parse(text), Err(error));
        }
        Reason::parse(&"é".repeat(500)).unwrap();
    }
}
