//! An event, and its outcome.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xxhash_rust::xxh3::Xxh3;

use super::data::EntryData;
use super::ids::{EventId, Label, MemberId};
use super::quota::{Dimension, Network};
use super::score::Score;
use super::time::Timestamp;
use super::window::Window;

/// How far in the future an event may be, in milliseconds.
pub const FUTURE_MS_MAX: i64 = 60_000;

/// The key of events that players sent with their tokens. No API key has such a name.
pub const KEY_OF_PLAYERS: &str = "player:token";

/// Something that adds to, or sets, one member's score.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// Identifies retries; without one a retry counts again.
    pub id: Option<EventId>,
    /// The member whose score it changes.
    pub member: MemberId,
    /// The amount.
    pub score: Score,
    /// When it happened; `None`: when it arrives.
    pub at: Option<Timestamp>,
    /// Its origin.
    pub origin: Origin,
    /// The data shown with the entry whose score it gives.
    pub data: Option<EntryData>,
}

/// The origin of an event, as far as it is given. Quotas count by all of it but the key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// The voter.
    pub voter: Option<Label>,
    /// The channel.
    pub channel: Option<Label>,
    /// The device.
    pub device: Option<Label>,
    /// The address.
    pub ip: Option<Network>,
    /// What it was sent with: the name of an API key, or [`KEY_OF_PLAYERS`]. It is not part of the content.
    pub key: Option<Label>,
}

impl Origin {
    /// Whether a player sent the event.
    pub fn is_of_player(&self) -> bool {
        self.key
            .as_ref()
            .is_some_and(|key| key.as_str() == KEY_OF_PLAYERS)
    }

    /// The value that a quota counts by; `None` if the event lacks it.
    pub fn value(&self, dimension: Dimension, member: Option<&MemberId>) -> Option<String> {
        let text = |label: &Option<Label>| label.as_ref().map(Label::to_string);
        match dimension {
            Dimension::Voter => text(&self.voter),
            Dimension::Member => member.map(MemberId::to_string),
            Dimension::Channel => text(&self.channel),
            Dimension::Device => text(&self.device),
            Dimension::Ip => self.ip.map(|network| network.to_string()),
        }
    }
}

impl Event {
    /// A 53-bit hash of everything but the id, to detect an id repeated with different content.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.score.scaled().to_le_bytes());
        match self.at {
            Some(at) => hash.update(&at.us().to_le_bytes()),
            None => hash.update(b"-"),
        }
        hash.update(self.member.as_str().as_bytes());
        // The member, which has no value here, is in the hash already.
        for dimension in Dimension::ALL {
            if let Some(value) = self.origin.value(dimension, None) {
                // No text has control characters, so two different lists of texts never give the same bytes.
                hash.update(b"\x1f");
                hash.update(dimension.name().as_bytes());
                hash.update(b"=");
                hash.update(value.as_bytes());
            }
        }
        if let Some(data) = &self.data {
            hash.update(b"\x1fdata=");
            hash.update(data.as_str().as_bytes());
        }
        // Lua's numbers are exact up to 53 bits.
        hash.digest() >> 11
    }
}

/// A quota that an event exceeds. Amounts are events, or scaled points.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Shortage {
    /// The quota, by its index in the definition.
    pub quota: usize,
    /// When a sliding window would take the event at the latest, in milliseconds since the epoch; 0: unknown.
    pub frees_at_ms: i64,
    /// How much is used of the quota and its extra allowances for the event's channel.
    pub taken: i64,
    /// How much they allow.
    pub allowed: i64,
    /// How much the event would take.
    pub amount: i64,
}

/// Why a well-formed event is refused. Stored for queued events.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejection {
    /// Its `at` is more than a minute ahead of the clock.
    InFuture,
    /// Its `at` is older than the board accepts.
    TooLate,
    /// Its `at` is before the board opens or after it has closed.
    #[serde(rename = "closed")]
    BoardClosed,
    /// Its score is not within the board's `score_min` and `score_max`.
    ScoreBounds,
    /// A standing of this window would exceed the range of scores.
    OutOfRange(Window),
    /// It lacks a field that a quota counts by.
    Missing(Dimension),
    /// A quota is used up.
    Quota(Shortage),
    /// Its id was used by an event with different content.
    IdReused,
    /// It is before this instant, the barrier of its shard.
    PeriodClosed(Timestamp),
    /// It is not after the last erasure of its member, at this instant, or was appended to the log before it.
    Erased(Timestamp),
    /// Its member has no seat in its period of a league, and can't get one with it.
    NotSeated,
}

impl Rejection {
    /// If the event is too early: the first instant at which it would not be refused for this.
    pub fn not_before(self) -> Option<Timestamp> {
        match self {
            Self::PeriodClosed(until) => Some(until),
            Self::Erased(at) => Some(Timestamp::from_us_clamped(at.us().saturating_add(1))),
            _ => None,
        }
    }
}

/// How detailed an outcome is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Detail {
    /// Only the status: the cheapest.
    Status,
    /// The changes of each standing.
    #[default]
    Standings,
    /// The changes, with ranks.
    Ranks,
}

impl Detail {
    /// A permanent number, stored with remembered outcomes. New details must be declared last.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The detail of a [`Detail::code`].
    pub fn from_code(code: i64) -> Option<Self> {
        [Self::Status, Self::Standings, Self::Ranks]
            .into_iter()
            .find(|detail| i64::from(detail.code()) == code)
    }
}

/// The outcome of an accepted event.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It changed a standing.
    Applied,
    /// It changed none, such as a `max` that did not improve.
    Unchanged,
}

/// What an event did, as remembered with its id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// Its status.
    pub status: Status,
    /// The instant for which it counted.
    pub at: Timestamp,
    /// Its changes of the standings, in the order of the board's windows at that time.
    pub changes: Vec<Change>,
}

/// An event's effect on its member in one standing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// The window of the standing; its period follows from the event's instant.
    pub window: Window,
    /// The member's new score.
    pub score: Score,
    /// The member's former score, `None` if it was not listed.
    pub previous_score: Option<Score>,
    /// The ranks, if requested.
    pub ranks: Option<Ranks>,
}

/// What an event did to its member's rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[schema(as = RankChange)]
pub struct Ranks {
    /// With `ranks=true`: the member's rank after the event; null if the member is not listed.
    pub rank: Option<u64>,
    /// With `ranks=true`: the member's rank before the event; null if the member was not listed.
    pub previous_rank: Option<u64>,
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    #[test]
    fn an_event_without_data_has_the_fingerprint_that_earlier_releases_gave_it() {
        let event = |data: Option<&str>| Event {
            id: None,
            member: MemberId::parse("ann").unwrap(),
            score: Score::from_stored(5),
            at: None,
            origin: Origin::default(),
            data: data.map(|data| EntryData::parse(data).unwrap()),
        };
        let none = event(None).fingerprint();
        let content = [&5_i64.to_le_bytes()[..], b"-", b"ann"].concat();
        assert_eq!(none, xxh3_64(&content) >> 11);
        let data = event(Some(r#"{"a": 1}"#)).fingerprint();
        assert_ne!(data, none);
        assert_eq!(event(Some(r#"{"a":1.0}"#)).fingerprint(), data);
        assert_ne!(event(Some("{}")).fingerprint(), data);
    }
}
