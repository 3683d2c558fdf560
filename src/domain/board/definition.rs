//! The definition of a board.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::domain::include::{Include, Includes};
use crate::domain::league::League;
use crate::domain::period::{Season, Unit};
use crate::domain::quota::Quota;
use crate::domain::reward::Rule;
use crate::domain::score::{Bound, Decimals, Ratio, Score};
use crate::domain::texts::words;
use crate::domain::ties::Ties;
use crate::domain::time::{Span, Timestamp};
use crate::domain::timezone::Zone;
use crate::domain::weight::Weights;
use crate::domain::window::Window;

/// What an event's score does to a standing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// It is added.
    #[default]
    Sum,
    /// The greatest is kept.
    Max,
    /// The smallest is kept.
    Min,
    /// The one with the greatest `at` is kept; at the same `at` the better score.
    Last,
}

/// Which end of a standing is rank 1.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The greatest score.
    #[default]
    Desc,
    /// The smallest score.
    Asc,
}

words! {
    /// How equal scores are ranked.
    #[derive(Default, ToSchema)]
    pub enum Ranking {
        /// 1, 2, 3, 4: every entry has its own.
        #[default]
        Ordinal = "ordinal",
        /// 1, 2, 2, 4: equal scores share one, and the next is left out.
        Competition = "competition",
        /// 1, 2, 2, 3: equal scores share one, and none is left out.
        Dense = "dense",
    }
}

impl Ranking {
    /// The rank of the entry at a place, from 1, after one with the rank `before` (0: there is none). `is_tied`: the two
    /// have equal scores.
    pub fn rank_after(self, before: u64, is_tied: bool, place: u64) -> u64 {
        match self {
            Self::Competition | Self::Dense if is_tied => before,
            Self::Ordinal | Self::Competition => place,
            Self::Dense => before + 1,
        }
    }
}

/// The day on which a week begins.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the days of the week")]
pub enum WeekStart {
    #[default]
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl From<WeekStart> for chrono::Weekday {
    fn from(day: WeekStart) -> Self {
        Self::try_from(day as u8).expect("invariant: both have seven days from Monday on")
    }
}

/// What voters are counted for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Uniques {
    /// Each standing.
    Board,
    /// Each standing, and each member in it.
    Member,
}

/// Which profiles a board shows: only those with an approved name, or others too.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// Of all whose name is not blocked.
    #[default]
    Any,
    /// Of those whose name is approved.
    Approved,
}

/// Whether events are applied before the service responds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ingest {
    /// The service responds once the event is applied.
    #[default]
    Sync,
    /// The service responds once the event is queued, and applies it as soon as it can.
    Async,
}

/// How old an event may be when it arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AcceptLate {
    /// However old: for importing history.
    Any,
    /// At most this old.
    Within(Span),
}

impl Serialize for AcceptLate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::Within(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for AcceptLate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "any" {
            return Ok(Self::Any);
        }
        text.parse()
            .map(Self::Within)
            .map_err(serde::de::Error::custom)
    }
}

/// For how long a board keeps its accepted events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum History {
    /// As long as the board exists.
    Board,
    /// For this long after each was accepted.
    For(Span),
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Board => serializer.serialize_str("board"),
            Self::For(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "board" {
            return Ok(Self::Board);
        }
        text.parse()
            .map(Self::For)
            .map_err(serde::de::Error::custom)
    }
}

/// The definition of a board. Every field has a default.
///
/// `update`, `order`, `decimals`, `ties`, `timezone`, `week_start`, `weight`, `initial`, `uniques`, `keep_top` and
/// `entry_data` can't change while the board has events, nor can a `season` that is set. Neither can `ranking` change to or
/// from `dense`, which is stored with the scores; nor `carryover` start or stop for a period that a rolling window sums up;
/// nor the period of a league.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// A name for people; up to 256 bytes.
    #[serde(default)]
    #[schema(max_length = 256, example = "Run heroes")]
    pub title: String,
    /// Tags to find it with `GET /v1/boards?tag=`: up to 16, each of up to 64 bytes.
    #[serde(default)]
    #[schema(max_items = 16, example = json!(["season-1", "eu"]))]
    pub tags: BTreeSet<String>,
    /// Whether anyone may read its standings and its summary, even if API keys are configured.
    #[serde(default)]
    pub public: bool,
    /// What anyone may read on a public board in addition to scores, with `include`. With a key, all of it can be read.
    #[serde(default)]
    #[schema(example = json!(["profile"]))]
    pub public_includes: BTreeSet<Include>,
    /// Whose names, pictures and attributes the board shows.
    #[serde(default)]
    pub names: Names,
    /// What a score does to a standing.
    #[serde(default)]
    pub update: Update,
    /// Which end is rank 1.
    #[serde(default)]
    pub order: Order,
    /// How many decimals scores may have. Scores are exact: whole numbers up to 2^53 − 1, and numbers with decimals of up to
    /// 15 digits.
    #[serde(default)]
    pub decimals: Decimals,
    /// Events with a smaller score are rejected.
    pub score_min: Option<Bound>,
    /// Events with a greater score are rejected.
    pub score_max: Option<Bound>,
    /// Who ranks first among equal scores.
    #[serde(default)]
    pub ties: Ties,
    /// How equal scores are ranked.
    #[serde(default)]
    pub ranking: Ranking,
    /// The IANA time zone in which periods begin and end. Another name of the same zone can be set at any time.
    #[serde(default = "utc")]
    #[schema(default = "UTC")]
    pub timezone: Zone,
    /// The first day of a week.
    #[serde(default)]
    pub week_start: WeekStart,
    /// The standings that are kept, 1 to 16 of them: `minute`, `hour`, `day`, `week`, `month`, `year`,
    /// `all`, `season`, and `last-N-minutes` (`-hours`, `-days`, `-weeks`, `-months`) with N from 2 to 366.
    #[serde(default = "all_time")]
    #[schema(value_type = Vec<WindowSchema>, min_items = 1, max_items = 16, example = json!(["day", "week", "all", "last-7-days"]))]
    pub windows: Vec<Window>,
    /// When seasons begin, and how long they are; required by the window `season`.
    pub season: Option<Season>,
    /// The share of each score that the next period opens with, by kind of period: `{"week": 0.2}`. Above 0, up to 1, at
    /// most 6 decimals; only with `update: sum`.
    #[serde(default)]
    #[schema(value_type = CarryoverSchema, example = json!({"week": 0.2}))]
    pub carryover: BTreeMap<Unit, Ratio>,
    /// How old an event may be: a duration (`90s`, `10m`, `48h`, `14d`), or `any`.
    #[serde(default = "accept_late")]
    #[schema(default = "48h")]
    pub accept_late: AcceptLate,
    /// The minimum time for which event ids are remembered: a duration from `1s` to `366d`.
    #[serde(default = "idempotency")]
    #[schema(default = "1h")]
    pub idempotency: Span,
    /// How long a period's standing is kept after its end, by kind of period; without a value it is kept permanently. What a
    /// rolling window still needs is kept longer.
    #[serde(default)]
    #[schema(value_type = RetentionSchema, example = json!({"hour": "7d", "day": "90d"}))]
    pub retention: BTreeMap<Unit, Span>,
    /// How much the board accepts from one voter, for one member, … within a time; up to 8.
    #[serde(default)]
    #[schema(max_items = 8)]
    pub quotas: Vec<Quota>,
    /// How much an event counts in public standings. The raw standings, without weights and initial scores, are kept too:
    /// `raw=true`. Only with `update: sum`.
    pub weight: Option<Weights>,
    /// The kinds of period, among the board's windows, that members start with their initial scores
    /// (`PATCH /v1/boards/{board}/initial-scores`). Only with `update: sum`; rolling windows don't count them.
    #[serde(default)]
    #[schema(example = json!(["day", "all"]))]
    pub initial: BTreeSet<Unit>,
    /// Whether distinct voters are counted, for each standing or also for each member in it: estimates with a standard error
    /// of 0.81 %. `GET …/stats` needs it.
    pub uniques: Option<Uniques>,
    /// How many members of a standing are listed, for a board with more members than it will ever show: 1 to 100,000; null
    /// for all. Scores of the others are kept too, and they enter the list as soon as an event takes them there. Only where
    /// no member can fall: `update: sum` with `order: desc` and a `score_min` above 0; `max` with `desc` or `min` with
    /// `asc`, without `ties: last`; and without rolling windows and carryover.
    #[schema(minimum = 1, maximum = 100_000)]
    pub keep_top: Option<u32>,
    /// Whether events may have `data`: a JSON object of up to 512 bytes. With `include=data` an entry shows the data of the
    /// event that gave it its `reached_at`. Not with `ties: member`.
    #[serde(default)]
    pub entry_data: bool,
    /// What members win in a period, by rules that add up; up to 32. The rules at the time when the period is closed apply.
    #[serde(default)]
    #[schema(max_items = 32)]
    pub rewards: Vec<Rule>,
    /// Makes the board a league: members compete in cohorts of their tier. Only a new board can become a league. Changed
    /// settings apply from the next period on.
    pub league: Option<League>,
    /// Over how many slots of a Redis Cluster the members are spread, 1 to 64, for a board that is too large for one node.
    /// Reads and quotas stay exact. Not with `ranking: dense`.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 64, default = 1)]
    pub shards: u16,
    /// Whether the service responds to an event after applying it (`sync`), or after queueing it (`async`), with the status
    /// 202. You can change it at any time. A league needs `sync`.
    #[serde(default)]
    pub ingest: Ingest,
    /// Events with an earlier `at` are rejected.
    #[serde(default, deserialize_with = "whole_ms")]
    pub opens_at: Option<Timestamp>,
    /// Events with this `at` or a later one are rejected.
    #[serde(default, deserialize_with = "whole_ms")]
    pub closes_at: Option<Timestamp>,
    /// How long after its end a period becomes final: a duration up to `31d`. From then on its events are rejected, and it
    /// has a result. Null: never. It applies to periods that end after it was set.
    pub finalize: Option<Span>,
    /// How long the closing of a period waits at most for events that were queued before: a duration from `1s` to `24h`.
    /// Then the remaining events are rejected. Null: it waits for all of them. Only with `finalize`, and not in leagues.
    pub max_delay: Option<Span>,
    /// How long accepted events are kept, each after it was accepted: a duration, at least `accept_late` and `idempotency`,
    /// or `board`: as long as the board exists. Their ids are remembered for as long. Null: no events are kept. You can
    /// change it at any time. Not with `keep_top`, and not in leagues; with `accept_late: any` it must be `board`.
    #[schema(value_type = Option<String>, pattern = r"^(board|[0-9]{1,9}[smhd])$", example = "90d")]
    pub history: Option<History>,
}

/// A window: a period, or the last N of one.
#[derive(ToSchema)]
#[schema(as = Window, value_type = String, example = "last-7-days",
    pattern = r"^(minute|hour|day|week|month|year|all|season|last-([2-9]|[1-9][0-9]|[12][0-9][0-9]|3[0-5][0-9]|36[0-6])-(minutes|hours|days|weeks|months))$")]
#[expect(dead_code, reason = "describes `Window` to the OpenAPI document")]
struct WindowSchema(String);

/// Describes a map whose keys are periods.
macro_rules! by_period {
    ($(#[$doc:meta])* $name:ident as $shown:ident { $($unit:ident)* }: $value:ty, $schema:tt) => {
        $(#[$doc])*
        #[derive(ToSchema)]
        #[schema(as = $shown)]
        #[expect(dead_code, reason = "describes a map by period to the OpenAPI document")]
        struct $name {
            $(#[schema $schema] $unit: $value,)*
        }
    };
}

by_period! {
    /// The share of each score that the next period opens with, by kind of period: above 0, up to 1, at most 6 decimals.
    CarryoverSchema as Carryover { minute hour day week month year season }:
        f64, (required = false, minimum = 0.000_001, maximum = 1)
}
by_period! {
    /// How long a standing is kept after the end of its period, by kind of period: a duration.
    RetentionSchema as Retention { minute hour day week month year season }:
        String, (required = false, pattern = r"^[0-9]{1,9}[smhd]$")
}

/// Reads an instant in a definition.
fn whole_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let read = Option::<Timestamp>::deserialize(deserializer)?;
    Ok(read.map(Timestamp::to_whole_ms))
}

/// The default value 1.
pub(crate) fn one<T: From<u8>>() -> T {
    1.into()
}

fn all_time() -> Vec<Window> {
    vec![Window::Period(Unit::All)]
}

fn utc() -> Zone {
    Zone::UTC
}

fn accept_late() -> AcceptLate {
    AcceptLate::Within(Span::hours(48))
}

fn idempotency() -> Span {
    Span::hours(1)
}

impl Definition {
    /// What anyone may read in addition to scores: nothing if the board is not public.
    pub fn public_includes(&self) -> Includes {
        self.public_includes
            .iter()
            .copied()
            .filter(|_| self.public)
            .collect()
    }

    /// Whether an event with this score is accepted.
    pub fn takes_score(&self, score: Score) -> bool {
        let within = |bound: Option<Bound>, is_within: fn(&Score, &Score) -> bool| {
            // A bound that is not a valid score of the board was refused with the definition.
            let bound = bound.and_then(|bound| bound.score(self.decimals).ok());
            bound.is_none_or(|bound| is_within(&score, &bound))
        };
        within(self.score_min, Score::ge) && within(self.score_max, Score::le)
    }

    /// Which of these bounds a score is beyond, for people.
    pub fn bound_beyond(&self, score: Score) -> Option<String> {
        let beyond = |bound: Option<Bound>, is_beyond: fn(&Score, &Score) -> bool| {
            bound.filter(|bound| {
                let bound = bound.score(self.decimals);
                bound.is_ok_and(|bound| is_beyond(&score, &bound))
            })
        };
        let shown = score.shown(self.decimals);
        let below = beyond(self.score_min, Score::lt);
        let above = beyond(self.score_max, Score::gt);
        below
            .map(|min| format!("score {shown} is below this board's minimum, {min}"))
            .or_else(|| {
                above.map(|max| format!("score {shown} is above this board's maximum, {max}"))
            })
    }

    /// Whether a rolling window counts this unit.
    pub fn rolls(&self, unit: Unit) -> bool {
        self.longest_rolling(unit) > 0
    }

    /// The periods of the longest rolling window that counts this unit, 0 without one.
    pub(super) fn longest_rolling(&self, unit: Unit) -> u16 {
        self.windows
            .iter()
            .map(|window| match *window {
                Window::Rolling { unit: of, periods } if of == unit => periods,
                _ => 0,
            })
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        let definition: Definition = serde_json::from_str(r#"{"windows": ["day"]}"#).unwrap();
        let shown = serde_json::to_value(definition).unwrap();
        let expected = serde_json::json!({
            "title": "", "tags": [], "public": false, "public_includes": [], "names": "any", "update": "sum", "order": "desc", "decimals": 0, "ties": "first",
            "ranking": "ordinal", "timezone": "UTC", "week_start": "monday", "windows": ["day"],
            "season": null, "carryover": {}, "accept_late": "48h", "idempotency": "1h",
            "retention": {}, "quotas": [], "score_min": null, "score_max": null,
            "weight": null, "initial": [], "uniques": null, "keep_top": null, "entry_data": false, "rewards": [], "league": null, "shards": 1, "ingest": "sync",
            "opens_at": null, "closes_at": null, "finalize": null, "max_delay": null, "history": null
        });
        assert_eq!(shown, expected);
    }
}
