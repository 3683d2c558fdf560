//! The order of equal scores.
//!
//! A double cannot hold a score and a time exactly, because they would share 53 bits. So the sorted set's score is the score
//! alone, and its member begins with the time at which the score was reached, as seven bytes that sort like the time. Redis
//! orders equal scores by the bytes of their members.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::time::Timestamp;

/// The length of the [`TieKey`] before a sorted-set member, in bytes.
pub const TIE_KEY_BYTES: usize = 7;
/// The greatest tie key, 2^53 − 1: the microseconds between the first and the last timestamp.
pub const TIE_KEY_MAX: u64 = (1 << 53) - 1;

/// Which of two members with the same score ranks first.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// Who reached the score first; at the same microsecond the smaller id.
    #[default]
    First,
    /// Who reached the score last; at the same microsecond the smaller id.
    Last,
    /// The smaller member id, by bytes. Takes half the memory, and entries have no `reached_at`.
    Member,
}

/// A time as a number that sorts by a tie rule: ascending for `first`, descending for `last`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct TieKey(u64);

impl TieKey {
    /// The key of an instant.
    pub fn new(ties: Ties, at: Timestamp) -> Self {
        let since_min = at.us().abs_diff(Timestamp::MIN.us());
        Self(if ties == Ties::Last {
            TIE_KEY_MAX - since_min
        } else {
            since_min
        })
    }

    /// The instant of a key, if it is valid.
    pub fn instant(self, ties: Ties) -> Option<Timestamp> {
        let since_min = if ties == Ties::Last {
            TIE_KEY_MAX.checked_sub(self.0)?
        } else {
            self.0
        };
        let us = i64::try_from(since_min)
            .ok()?
            .checked_add(Timestamp::MIN.us())?;
        Timestamp::from_us(us).ok()
    }

    /// The number, at most [`TIE_KEY_MAX`].
    pub fn number(self) -> u64 {
        self.0
    }

    /// The key with this [`TieKey::number`].
    pub fn from_number(number: u64) -> Self {
        Self(number.min(TIE_KEY_MAX))
    }

    /// The key of a time as `scripts/lib/standing.lua` stores it: `-1 - key` where only zeros were added to a sum.
    pub fn of_stored_time(time: i64) -> Self {
        let key = if time < 0 { -1 - time } else { time };
        Self::from_number(key.unsigned_abs())
    }

    /// Splits a sorted-set member into its tie key and the member id's bytes.
    pub fn split(member: &[u8]) -> Option<(Self, &[u8])> {
        let (key, id) = member.split_first_chunk::<TIE_KEY_BYTES>()?;
        let mut number = [0; 8];
        number[8 - TIE_KEY_BYTES..].copy_from_slice(key);
        Some((Self(u64::from_be_bytes(number)), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tie_keys_sort_by_time_and_are_parsed_back() {
        let times = [
            Timestamp::MIN.us(),
            -1,
            0,
            1,
            1_795_000_000_123_456,
            Timestamp::MAX.us(),
        ];
        for pair in times.windows(2) {
            let [earlier, later] = [pair[0], pair[1]].map(|us| Timestamp::from_us(us).unwrap());
            assert!(TieKey::new(Ties::First, earlier) < TieKey::new(Ties::First, later));
            assert!(TieKey::new(Ties::Last, earlier) > TieKey::new(Ties::Last, later));
        }
        for us in times {
            let at = Timestamp::from_us(us).unwrap();
            for ties in [Ties::First, Ties::Last] {
                let key = TieKey::new(ties, at);
                assert!(key.number() <= TIE_KEY_MAX);
                assert_eq!(key.instant(ties), Some(at));
                let member = [&key.number().to_be_bytes()[1..], b"me"].concat();
                assert_eq!(TieKey::split(&member), Some((key, &b"me"[..])));
            }
        }
        assert_eq!(TieKey::split(b"short"), None);
    }
}
