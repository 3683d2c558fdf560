//! Entries of streams in Redis.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::decode::{Flat, Raw};
use crate::domain::texts::serde_as_text;
use crate::domain::time::Timestamp;

/// The place of an entry in its stream.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EntryId {
    ms: u64,
    number: u64,
}

impl EntryId {
    /// The first possible one from a millisecond since the epoch.
    pub fn from_ms(ms: i64) -> Self {
        Self {
            ms: u64::try_from(ms).unwrap_or(0),
            number: 0,
        }
    }

    /// One of the same millisecond.
    #[must_use]
    pub fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// The next possible one.
    #[must_use]
    pub fn next(self) -> Self {
        self.numbered(self.number.saturating_add(1))
    }

    /// When it was appended, by the clock of Redis.
    pub fn at(self) -> Timestamp {
        Timestamp::from_ms_clamped(i64::try_from(self.ms).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

impl FromStr for EntryId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text
            .split_once('-')
            .and_then(|(ms, number)| ms.parse().ok().zip(number.parse().ok()));
        numbers
            .map(|(ms, number)| Self { ms, number })
            .ok_or("is not the id of an entry of a stream")
    }
}

serde_as_text!(EntryId);

/// An entry of a stream, with its fields.
#[derive(Deserialize)]
pub(crate) struct StreamEntry {
    pub(crate) id: EntryId,
    pub(crate) fields: Flat<(Raw, Raw)>,
}
