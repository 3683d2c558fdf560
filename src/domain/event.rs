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

/// How far in the future an event may lie, in milliseconds.
pub const FUTURE_MS_MAX: i64 = 60_000;

/// Something that adds to, or sets, one member's score.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// Makes a retry recognisable; without one a retry counts again.
    pub id: Option<EventId>,
    /// Whose score.
    pub member: MemberId,
    /// How much.
    pub score: Score,
    /// When it happened; without one, when it comes in.
    pub at: Option<Timestamp>,
    /// Where it comes from.
    pub origin: Origin,
    /// What the entry shows whose score it gives.
    pub data: Option<EntryData>,
}

/// Where an event comes from, as far as it tells. Quotas count by it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// Who has sent it.
    pub voter: Option<Label>,
    /// Which way it came.
    pub channel: Option<Label>,
    /// From which device.
    pub device: Option<Label>,
    /// From which address.
    pub ip: Option<Network>,
}

impl Origin {
    /// What a quota counts by; `None` where the event does not tell.
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
    /// Tells whether a repeated id comes with the same content: a hash of everything but the id, of 53 bits.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.score.scaled().to_le_bytes());
        match self.at {
            Some(at) => hash.update(&at.us().to_le_bytes()),
            None => hash.update(b"-"),
        }
        hash.update(self.member.as_str().as_bytes());
        for dimension in Dimension::OF_ORIGIN {
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

/// What an event finds of a quota that has too little left for it. Amounts are events, or scaled points.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Shortage {
    /// Which one, by its index in the definition.
    pub quota: usize,
    /// When a sliding window would take the event, if not sooner, in milliseconds since the epoch; 0: not told.
    pub frees_at_ms: i64,
    /// How much was taken, of what the quota and its extra allowances for the event's channel allow.
    pub taken: i64,
    /// How much these allow.
    pub allowed: i64,
    /// How much the event would take.
    pub amount: i64,
}

/// Why an event that is well-formed is not taken. It is stored for events out of queues.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejection {
    /// Its `at` is more than a minute ahead of the clock.
    InFuture,
    /// Its `at` is older than the board accepts.
    TooLate,
    /// Its `at` lies before the board opens or after it has closed.
    Closed,
    /// Its score is not within the board's `score_min` and `score_max`.
    ScoreBounds,
    /// A standing of this window would pass the bound of scores.
    OutOfRange(Window),
    /// It lacks a field that a quota counts by.
    Missing(Dimension),
    /// A quota has too little left.
    Quota(Shortage),
    /// Its id was used by an event with another content.
    IdReused,
    /// It lies before this instant, the barrier of its shard.
    PeriodClosed(Timestamp),
    /// It does not lie after the last erasure of its member, at this instant, or was appended to the log before it.
    Erased(Timestamp),
    /// Its member has no seat in its period of a league, and gets none by it.
    NotSeated,
}

impl Rejection {
    /// The first instant for which such an event would not be refused like this, if the event lies too early.
    pub fn not_before(self) -> Option<Timestamp> {
        match self {
            Self::PeriodClosed(until) => Some(until),
            Self::Erased(at) => Some(Timestamp::from_us_clamped(at.us().saturating_add(1))),
            _ => None,
        }
    }
}

/// How much an outcome tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Detail {
    /// How the event ended, and no more: the cheapest.
    Status,
    /// What it did to each standing.
    #[default]
    Standings,
    /// The same with ranks.
    Ranks,
}

impl Detail {
    /// A number that stays the same for ever: it is stored with remembered outcomes. A new detail is declared last.
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

/// How an event that was taken ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It changed a standing.
    Applied,
    /// It changed none, such as a `max` that did not improve.
    Unchanged,
}

/// What an event did, as it is remembered with its id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The instant that it counted for.
    pub at: Timestamp,
    /// What it did to the standings, in the order of the board's windows at that time.
    pub changes: Vec<Change>,
}

/// An event's effect on its member in one standing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// Which standing, together with the event's instant.
    pub window: Window,
    /// The score that the member has now.
    pub score: Score,
    /// The score that it had, `None` if it was not listed.
    pub previous_score: Option<Score>,
    /// The ranks, where they were asked for.
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
