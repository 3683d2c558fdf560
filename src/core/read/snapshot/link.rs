//! The links of a trail, as `scripts/lib/trail.lua` leaves them.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::core::read::store::standings::SortKey;
use crate::domain::edition::Changed;

/// What a call has changed.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) before: Changed,
    pub(super) after: Changed,
    pub(super) states: Vec<State>,
}

/// What it has changed of a standing.
#[derive(Debug, Deserialize)]
pub(super) struct State {
    /// The sorted set.
    pub(super) standing: String,
    /// Whether the standing was empty before.
    pub(super) was_empty: bool,
    /// The entries that have left.
    pub(super) gone: Vec<LinkedEntry>,
    /// The entries that have come.
    pub(super) come: Vec<LinkedEntry>,
}

#[derive(Debug)]
pub(super) struct LinkedEntry {
    pub(super) key: SortKey,
    /// Whether its member is hidden.
    pub(super) is_hidden: bool,
}

impl Link {
    /// Reads a link; `None` if it can't be read, or has a score that is not an integer.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
        let mut changed = || Changed::from_stored(str::from_utf8(parts.next()?).ok()?);
        let (before, after) = (changed()?, changed()?);
        let states = rmp_serde::from_slice(parts.next()?).ok()?;
        Some(Self {
            before,
            after,
            states,
        })
    }
}

impl<'de> Deserialize<'de> for LinkedEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // A text of Lua may be any bytes.
        let (is_hidden, score, member): (bool, i64, &[u8]) = Deserialize::deserialize(from)?;
        let key = SortKey {
            score,
            member: Bytes::copy_from_slice(member),
        };
        Ok(Self { key, is_hidden })
    }
}
