//! The records of a trail, as `scripts/lib/trail.lua` leaves them.

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use crate::domain::edition::Changed;

/// What a call has changed.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) before: Changed,
    pub(super) after: Changed,
    /// The ids of the standings that it covers.
    pub(super) ids: Vec<u64>,
    pub(super) states: Vec<State>,
}

/// What was written of a standing.
#[derive(Debug, Deserialize)]
pub(super) struct State {
    pub(super) id: u64,
    /// Whether it was empty before.
    pub(super) was_empty: bool,
    /// Entries as they are now.
    pub(super) written: Written,
    /// The ids of members that have left.
    pub(super) gone: Vec<Text>,
}

/// Scores and members of the sorted set.
#[derive(Debug)]
pub(super) struct Written(pub(super) Vec<(i64, Vec<u8>)>);

/// A text of Lua, which may be any bytes.
#[derive(Debug)]
pub(super) struct Text(pub(super) Vec<u8>);

impl Record {
    /// Reads a record; `None` if it can't be read, or has a score that is not exact.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
        let mut position = || Changed::from_stored(std::str::from_utf8(parts.next()?).ok()?);
        let (before, after) = (position()?, position()?);
        let (ids, states) = rmp_serde::from_slice(parts.next()?).ok()?;
        Some(Self {
            before,
            after,
            ids,
            states,
        })
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfText;
        impl Visitor<'_> for OfText {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(bytes.to_vec()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.as_bytes().to_vec()))
            }
        }
        from.deserialize_bytes(OfText)
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfPairs;
        impl<'de> Visitor<'de> for OfPairs {
            type Value = Written;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("scores and members")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut parts: A,
            ) -> Result<Written, A::Error> {
                let mut all = Vec::with_capacity(parts.size_hint().unwrap_or(0) / 2);
                while let Some(score) = parts.next_element::<i64>()? {
                    let Some(Text(member)) = parts.next_element()? else {
                        return Err(serde::de::Error::custom("a score has no member"));
                    };
                    all.push((score, member));
                }
                Ok(Written(all))
            }
        }
        from.deserialize_seq(OfPairs)
    }
}
