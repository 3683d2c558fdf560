//! A board: what an operator defines, and what follows from that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::closing::{Closings, FINALIZE_MAX, MAX_DELAY_MIN};
use super::ids::BoardId;
use super::include::{Include, Includes};
use super::league::{self, FormerLeague, League};
use super::period::{Calendar, Period, Season, Unit};
use super::placement::Placement;
use super::queued::AGE_MAX;
use super::quota::{self, Quota};
use super::reward::{self, Rule};
use super::score::{Bound, Decimals, Ratio, Score};
use super::shard::SHARDS_MAX;
use super::ties::Ties;
use super::time::{Span, Timestamp};
use super::timezone::Zone;
use super::weight::Weights;
use super::window::Window;

/// The most windows of one board.
pub const WINDOWS_MAX: usize = 16;
/// The longest list of a board with `keep_top`.
pub const KEEP_TOP_MAX: u32 = 100_000;
/// The most tags of a board.
const TAGS_MAX: usize = 16;
/// The longest tag, in bytes.
const TAG_BYTES_MAX: usize = 64;
/// The longest title, in bytes.
pub const TITLE_BYTES_MAX: usize = 256;
/// The shortest time for which event ids are remembered, in milliseconds.
pub const IDEMPOTENCY_MS_MIN: u64 = 1_000;
/// The longest time for which event ids are remembered, in milliseconds: 366 days.
pub const IDEMPOTENCY_MS_MAX: u64 = 366 * 86_400_000;
/// How long the history of a rolling window outlives its last use, in milliseconds: one day, so that a
/// service that was down over a boundary still finds what it needs.
const HISTORY_SLACK_MS: u64 = 86_400_000;

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
    /// The one with the greatest `at` is kept; at the same `at` the greater score.
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

/// How equal scores are ranked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ranking {
    /// 1, 2, 3, 4: every entry has its own.
    #[default]
    Ordinal,
    /// 1, 2, 2, 4: equal scores share one, and the next is left out.
    Competition,
    /// 1, 2, 2, 3: equal scores share one, and none is left out.
    Dense,
}

impl Ranking {
    /// The rank of the entry at a place, from 1, next to one with the rank `before` (0: there is none). `is_tied`: the two have
    /// equal scores.
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
    /// An event is answered once it is applied.
    #[default]
    Sync,
    /// An event is answered once it is queued, and applied as soon as it can be.
    Async,
}

/// How old an event may be when it comes in.
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

/// The definition of a board. Only `windows` is required.
///
/// `update`, `order`, `decimals`, `ties`, `timezone`, `week_start`, `season`, `weight`, `initial`, `uniques`, `keep_top` and
/// `entry_data` can't change while the board has events. Neither can `ranking` change to or from `dense`, which is stored
/// with the scores; nor `carryover` start or stop for a period that a rolling window sums up; nor the period of a league.
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
    /// Whether anybody may read its standings and its summary, even if API keys are configured.
    #[serde(default)]
    pub public: bool,
    /// What anybody may read on a public board in addition to scores, with `include`. With a key, all of it can be read.
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
    /// The IANA time zone in which periods begin and end.
    #[serde(default = "utc")]
    #[schema(default = "UTC")]
    pub timezone: Zone,
    /// The first day of a week.
    #[serde(default)]
    pub week_start: WeekStart,
    /// The standings that are kept, 1 to 16 of them: `minute`, `hour`, `day`, `week`, `month`, `year`,
    /// `all`, `season`, and `last-N-minutes` (`-hours`, `-days`, `-weeks`, `-months`) with N from 2 to 366.
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
    /// How much an event counts in public standings. The *raw* standings, without weights and initial scores, are kept too:
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
}

/// A window: a period, or the last N of one.
#[derive(ToSchema)]
#[schema(as = Window, value_type = String, example = "last-7-days",
    pattern = r"^(minute|hour|day|week|month|year|all|season|last-([2-9]|[1-9][0-9]|[12][0-9][0-9]|3[0-5][0-9]|36[0-6])-(minutes|hours|days|weeks|months))$")]
#[expect(dead_code, reason = "describes `Window` to the OpenAPI document")]
pub struct WindowSchema(String);

/// Describes a map whose keys are periods.
macro_rules! by_period {
    ($(#[$doc:meta])* $name:ident as $shown:ident { $($unit:ident)* }: $value:ty, $schema:tt) => {
        $(#[$doc])*
        #[derive(ToSchema)]
        #[schema(as = $shown)]
        #[expect(dead_code, reason = "describes a map by period to the OpenAPI document")]
        pub struct $name {
            $(#[schema $schema] $unit: $value,)*
        }
    };
}

by_period! {
    /// The share of each score that the next period opens with, by kind of period: above 0, up to 1, at most 6 decimals.
    CarryoverSchema as Carryover { minute hour day week month year season }:
        f64, (required = false, exclusive_minimum = 0, maximum = 1)
}
by_period! {
    /// How long a standing is kept after the end of its period, by kind of period: a duration.
    RetentionSchema as Retention { minute hour day week month year season }:
        String, (required = false, pattern = r"^[0-9]{1,9}[smhd]$")
}

/// Reads an instant that a definition names.
fn whole_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let read = Option::<Timestamp>::deserialize(deserializer)?;
    Ok(read.map(Timestamp::to_whole_ms))
}

/// What is one where it is left out.
pub(super) fn one<T: From<u8>>() -> T {
    1.into()
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

/// An error in a document: where, as a JSON pointer, and what.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct FieldError {
    /// Where, as a JSON pointer (RFC 6901).
    #[schema(example = "/score")]
    pub pointer: String,
    /// What is wrong.
    pub detail: String,
}

impl FieldError {
    /// Says what is wrong at a place.
    pub fn new(pointer: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self {
            pointer: pointer.into(),
            detail: detail.to_string(),
        }
    }

    /// The JSON pointer (RFC 6901) of these steps.
    pub fn pointer<T: AsRef<str>>(steps: impl IntoIterator<Item = T>) -> String {
        let escaped = |step: T| step.as_ref().replace('~', "~0").replace('/', "~1");
        let steps = steps.into_iter().map(|step| format!("/{}", escaped(step)));
        steps.collect()
    }
}

/// Adds to a list of `FieldError` for each rule that does not hold: `pointer, what must hold => what is wrong otherwise;`.
macro_rules! require {
    ($errors:expr; $($pointer:expr, $holds:expr => $detail:expr;)+) => {
        $(if !$holds {
            $errors.push($crate::domain::board::FieldError::new($pointer, $detail));
        })+
    };
}
pub(super) use require;

/// What is said of a field that can't change.
const FROZEN: &str = "can't change while the board has events or initial scores";

/// Which fields of the first list are the same in two definitions. The second list has all others: a field that is added has to
/// be put into one of them.
macro_rules! unchanged {
    ($one:expr, $other:expr; $($fixed:ident)+; $($free:ident)+) => {{
        let Definition { $($fixed,)+ $($free: _,)+ } = $one;
        [$((concat!("/", stringify!($fixed)), *$fixed == $other.$fixed)),+]
    }};
}

impl Definition {
    /// Everything that is wrong with it where fields depend on each other; empty if nothing is.
    pub fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check_words(&mut errors);
        self.check_windows(&mut errors);
        self.check_bounds(&mut errors);
        errors.extend(quota::check(self));
        errors.extend(reward::check(self));
        errors.extend(league::check(self));
        errors.extend(self.weight.iter().flat_map(Weights::check));
        self.check_initial(&mut errors);
        self.check_shards(&mut errors);
        self.check_keep_top(&mut errors);
        self.check_carryover(&mut errors);
        self.check_times(&mut errors);
        errors
    }

    fn check_words(&self, errors: &mut Vec<FieldError>) {
        let is_word = |text: &str| !text.chars().any(char::is_control);
        let is_tag = |tag: &String| (1..=TAG_BYTES_MAX).contains(&tag.len()) && is_word(tag);
        require! { errors;
            "/title", self.title.len() <= TITLE_BYTES_MAX && is_word(&self.title)
                => "a title has up to 256 bytes and no control characters";
            "/tags", self.tags.len() <= TAGS_MAX && self.tags.iter().all(is_tag)
                => "a board has up to 16 tags, each of 1 to 64 bytes without control characters";
        }
    }

    fn check_windows(&self, errors: &mut Vec<FieldError>) {
        require! { errors;
            "/windows", (1..=WINDOWS_MAX).contains(&self.windows.len()) => "a board has 1 to 16 windows";
        }
        for (index, window) in self.windows.iter().enumerate() {
            let pointer = format!("/windows/{index}");
            let is_season = *window == Window::Period(Unit::Season);
            require! { errors;
                &pointer, !self.windows[..index].contains(window) => "this window is named twice";
                &pointer, self.is_sum() || !window.is_rolling() => "rolling windows need `update: sum`";
                &pointer, self.season.is_some() || !is_season
                    => "the window `season` needs the field `season`";
            }
        }
    }

    fn check_bounds(&self, errors: &mut Vec<FieldError>) {
        let bounds = [
            ("/score_min", self.score_min),
            ("/score_max", self.score_max),
        ];
        let [min, max] = bounds.map(|(pointer, bound)| {
            let score = bound?.score(self.decimals);
            let wrong = |error| FieldError::new(pointer, format!("this bound {error}"));
            score.map_err(|error| errors.push(wrong(error))).ok()
        });
        require! { errors;
            "/score_max", min.zip(max).is_none_or(|(min, max)| min <= max) => "is less than `score_min`";
        }
    }

    fn check_initial(&self, errors: &mut Vec<FieldError>) {
        require! { errors;
            "/weight", self.is_sum() || self.weight.is_none() => "weights need `update: sum`";
        }
        for unit in &self.initial {
            require! { errors;
                "/initial", self.is_sum() => "initial scores need `update: sum`";
                "/initial", self.windows.contains(&Window::Period(*unit))
                    => format!("`{unit}` is not among the windows");
            }
        }
    }

    fn check_shards(&self, errors: &mut Vec<FieldError>) {
        // Dense ranks are no sum of the shards' ranks.
        let is_dense = self.ranking == Ranking::Dense && self.league.is_none();
        require! { errors;
            "/shards", (1..=SHARDS_MAX).contains(&self.shards) => "a board has 1 to 64 shards";
            "/ranking", self.shards <= 1 || !is_dense => "`dense` needs a board with one shard";
        }
    }

    /// Whether the board can list only its best members. If the score of a listed member could fall, another member would
    /// have to take its place, and nobody knows which.
    fn check_keep_top(&self, errors: &mut Vec<FieldError>) {
        let min = self.score_min.and_then(|min| min.score(self.decimals).ok());
        let rises = match (self.update, self.order) {
            (Update::Sum, Order::Desc) => min.is_some_and(|min| min.scaled() > 0),
            (Update::Max, Order::Desc) | (Update::Min, Order::Asc) => self.ties != Ties::Last,
            _ => false,
        };
        if let Some(keep_top) = self.keep_top {
            require! { errors;
                "/keep_top", (1..=KEEP_TOP_MAX).contains(&keep_top) => "must be from 1 to 100,000";
                "/keep_top", !self.windows.iter().any(Window::is_rolling)
                    => "can't be combined with rolling windows";
                "/keep_top", self.carryover.is_empty() => "can't be combined with `carryover`";
                "/keep_top", rises
                    => "needs scores that can't fall: `update: sum` with `order: desc` and a `score_min` above 0, or `update: max` with `desc` or `min` with `asc`, without `ties: last`";
            }
        }
        require! { errors;
            "/entry_data", !self.entry_data || self.ties != Ties::Member
                => "needs `ties: first` or `last`: with `member` nobody knows which event an entry's score is of";
        }
    }

    fn check_carryover(&self, errors: &mut Vec<FieldError>) {
        for unit in self.carryover.keys() {
            let pointer = format!("/carryover/{unit}");
            let is_window = self.windows.contains(&Window::Period(*unit));
            require! { errors;
                &pointer, self.is_sum() => "carryover needs `update: sum`";
                &pointer, *unit != Unit::All => "`all` has no next period";
                &pointer, *unit == Unit::All || is_window
                    => "carryover names a period that is not among the windows";
            }
        }
    }

    fn check_times(&self, errors: &mut Vec<FieldError>) {
        let idempotency = IDEMPOTENCY_MS_MIN..=IDEMPOTENCY_MS_MAX;
        let opening = self.opens_at.zip(self.closes_at);
        require! { errors;
            "/retention/all", !self.retention.contains_key(&Unit::All)
                => "`all` has no end after which it could be dropped";
            "/idempotency", idempotency.contains(&self.idempotency.ms())
                => "event ids are remembered for 1s to 366d";
            "/closes_at", opening.is_none_or(|(opens, closes)| opens < closes)
                => "a board closes after it opens";
            "/finalize", self.finalize.is_none_or(|finalize| finalize <= FINALIZE_MAX) => "is at most 31d";
        }
        for (unit, retention) in &self.retention {
            require! { errors;
                format!("/retention/{unit}"), self.finalize.is_none_or(|finalize| finalize <= *retention)
                    => "a standing has to be kept until it is final: at least for `finalize`";
            }
        }
        require! { errors;
            "/max_delay", self.max_delay.is_none() || self.finalize.is_some()
                => "closings wait for events only on boards with `finalize`";
            "/max_delay", self.max_delay.is_none_or(|delay| (MAX_DELAY_MIN..=AGE_MAX).contains(&delay))
                => "a closing waits for 1s to 24h";
        }
    }

    fn is_sum(&self) -> bool {
        self.update == Update::Sum
    }

    /// What anybody may read beside scores: nothing where the board is not public.
    pub fn public_includes(&self) -> Includes {
        let words = self.public_includes.iter().copied();
        words.filter(|_| self.public).collect()
    }

    /// Whether an event of this score is taken.
    pub fn takes_score(&self, score: Score) -> bool {
        let within = |bound: Option<Bound>, is_within: fn(&Score, &Score) -> bool| {
            // A bound that is no score of the board was refused with the definition.
            let bound = bound.and_then(|bound| bound.score(self.decimals).ok());
            bound.is_none_or(|bound| is_within(&score, &bound))
        };
        within(self.score_min, Score::ge) && within(self.score_max, Score::le)
    }

    /// The fields in which `other` would change what is stored already.
    pub fn frozen_changes(&self, other: &Self) -> Vec<FieldError> {
        let fixed = unchanged! { self, other;
            update order decimals ties timezone week_start season weight initial uniques keep_top entry_data;
            title tags public public_includes names score_min score_max ranking windows carryover accept_late idempotency
            retention quotas rewards league shards ingest opens_at closes_at finalize max_delay
        };
        let is_dense = |definition: &Self| definition.ranking == Ranking::Dense;
        let mut changes = Vec::new();
        for (pointer, is_same) in fixed {
            require! { changes; pointer, is_same => FROZEN; }
        }
        require! { changes;
            "/windows", self.league.is_none() || self.windows == other.windows => FROZEN;
            "/ranking", is_dense(self) == is_dense(other) => FROZEN;
        }
        for unit in Unit::ALL {
            let rolls = self.rolls(unit) || other.rolls(unit);
            let carries = |definition: &Self| definition.carryover.contains_key(&unit);
            require! { changes;
                format!("/carryover/{unit}"), !rolls || carries(self) == carries(other) => FROZEN;
            }
        }
        changes
    }

    /// Whether a rolling window counts this unit.
    pub fn rolls(&self, unit: Unit) -> bool {
        self.longest_rolling(unit) > 0
    }

    /// The periods of the longest rolling window that counts this unit, 0 without one.
    fn longest_rolling(&self, unit: Unit) -> u16 {
        let periods = self.windows.iter().map(|window| match *window {
            Window::Rolling { unit: of, periods } if of == unit => periods,
            _ => 0,
        });
        periods.max().unwrap_or(0)
    }
}

/// A board as the service works with it: the definition, and what Redis knows it by.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// Its name.
    pub id: BoardId,
    /// What was defined.
    pub definition: Definition,
    /// Tells it apart from any other board, also from an earlier one of the same name: the stamp
    /// (`scripts/begin.lua`) at which it was created.
    pub generation: u64,
    /// Tells its definition apart from any other that it has had, and is greater than those before: 1, and then the
    /// stamp of the last change.
    pub revision: u64,
    /// The revisions at which a window's data began, where that was not the first: a window that is
    /// taken away and added again must not show what it missed.
    pub epochs: BTreeMap<Window, u64>,
    /// The boundaries of its periods.
    pub calendar: Calendar,
    /// Where its data lies.
    pub placement: Placement,
    /// Since when it has `finalize`, if it has: periods that ended by then have no result.
    pub finalize_since: Option<Timestamp>,
    /// How far its closings have come.
    pub closings: Closings,
    /// Of a league, the settings that were replaced, the oldest first: see [`Board::league_of`].
    pub league_before: Vec<FormerLeague>,
}

impl Board {
    /// Puts a new board together. The definition was checked before.
    pub fn new(
        id: BoardId,
        definition: Definition,
        generation: u64,
        revision: u64,
        epochs: BTreeMap<Window, u64>,
    ) -> Self {
        let calendar = Calendar {
            tz: definition.timezone,
            week_start: definition.week_start.into(),
            season: definition.season,
        };
        Self {
            id,
            placement: Placement::first(definition.shards),
            definition,
            generation,
            revision,
            epochs,
            calendar,
            finalize_since: None,
            closings: Closings::default(),
            league_before: Vec::new(),
        }
    }

    /// The revision that a change with this stamp leads to.
    fn revision_at(&self, stamp: u64) -> u64 {
        stamp.max(self.revision + 1)
    }

    /// The next revision of this board, with another definition, at a stamp and a time. Windows that it begins to record get the
    /// new revision as their epoch. If the number of shards is another one, a move begins.
    #[must_use]
    pub fn replaced(&self, definition: Definition, stamp: u64, now: Timestamp) -> Self {
        let revision = self.revision_at(stamp);
        let recorded = recorded(&self.definition);
        let epochs = self::recorded(&definition).into_iter();
        let epochs = epochs.filter_map(|window| {
            let new = (!recorded.contains(&window)).then_some(revision);
            let epoch = new.or_else(|| self.epochs.get(&window).copied())?;
            Some((window, epoch))
        });
        let epochs = epochs.collect();
        let placement = self.placement.towards(definition.shards);
        let id = self.id.clone();
        Self {
            placement,
            finalize_since: self
                .finalize_since
                .filter(|_| definition.finalize.is_some()),
            closings: self.closings.clone(),
            league_before: self.league_before_with(&definition, now),
            ..Self::new(id, definition, self.generation, revision, epochs)
        }
    }

    /// The next revision of this board with its data elsewhere, at a stamp.
    #[must_use]
    pub fn placed(&self, placement: Placement, stamp: u64) -> Self {
        Self {
            revision: self.revision_at(stamp),
            placement,
            ..self.clone()
        }
    }

    /// This board, where it has `finalize` since now unless it had it before.
    #[must_use]
    pub fn finalized(self, now: Timestamp) -> Self {
        let since = self.definition.finalize.map(|_| now);
        Self {
            finalize_since: self.finalize_since.or(since),
            ..self
        }
    }

    /// The name of this definition. Each change of the definition gives another name, and no name is given twice.
    pub fn version(&self) -> String {
        format!("{}-{}", self.generation, self.revision)
    }

    /// The windows that another definition leaves out, and whose data could not be made again from what stays. A unit
    /// is lost if it is not recorded any more. A rolling window is lost if its periods would not be kept for long
    /// enough, or only with what is carried over.
    pub fn windows_lost(&self, definition: &Definition) -> Vec<Window> {
        let recorded = recorded(definition);
        let is_lost = |window: &Window| match window {
            window if definition.windows.contains(window) => false,
            window if !recorded.contains(&Window::Period(window.unit())) => true,
            Window::Period(_) => false,
            Window::Rolling { unit, periods } => {
                definition.longest_rolling(*unit) < *periods
                    && (definition.retention.contains_key(unit)
                        || definition.carryover.contains_key(unit))
            }
        };
        let windows = self.definition.windows.iter().copied();
        windows.filter(is_lost).collect()
    }

    /// The first revision whose events these windows hold.
    pub fn recorded_since(&self, windows: &[Window]) -> Option<u64> {
        let began = |window: &Window| self.epoch(Some(Window::Period(window.unit())));
        windows.iter().map(began).min()
    }

    /// The last time at which an event of the period can come in, in milliseconds; `None`: at any time.
    pub fn last_event_ms(&self, period: &Period) -> Option<i64> {
        match self.definition.accept_late {
            AcceptLate::Any => None,
            AcceptLate::Within(span) => Some(period.end_ms.saturating_add_unsigned(span.ms())),
        }
    }

    /// The revision at which a window began to be recorded, 0 for the first.
    pub fn epoch(&self, window: Option<Window>) -> u64 {
        let epoch = window.and_then(|window| self.epochs.get(&window).copied());
        epoch.unwrap_or(0)
    }

    /// The units whose periods an event is added to: those among the windows, and those that a rolling
    /// window counts.
    pub fn recorded_units(&self) -> impl Iterator<Item = Unit> {
        Unit::ALL.into_iter().filter(|unit| {
            self.definition.windows.contains(&Window::Period(*unit)) || self.definition.rolls(*unit)
        })
    }

    /// When a period's standing may be dropped, in milliseconds since the epoch: `None` for never.
    ///
    /// At least the retention after its end, and not before the last rolling standing that contains it
    /// could have been completed from it.
    pub fn expires_at_ms(&self, period: &Period) -> Option<i64> {
        let unit = period.unit;
        let retention = self.definition.retention.get(&unit)?.ms();
        let needed = match self.definition.longest_rolling(unit) {
            0 => 0,
            periods => {
                let late = match self.definition.accept_late {
                    AcceptLate::Any => 0,
                    AcceptLate::Within(span) => span.ms(),
                };
                (u64::from(periods) + 2) * unit.longest_ms() + late + HISTORY_SLACK_MS
            }
        };
        Some(period.end_ms.saturating_add_unsigned(retention.max(needed)))
    }
}

/// The windows that have data of their own: those defined, and the units of the rolling ones.
fn recorded(definition: &Definition) -> BTreeSet<Window> {
    let windows = definition.windows.iter();
    let with_units = windows.flat_map(|window| [*window, Window::Period(window.unit())]);
    with_units.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(json: &str) -> Definition {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn defaults_are_what_the_contract_says() {
        let shown = serde_json::to_value(definition(r#"{"windows": ["day"]}"#)).unwrap();
        let expected = serde_json::json!({
            "title": "", "tags": [], "public": false, "public_includes": [], "names": "any", "update": "sum", "order": "desc", "decimals": 0, "ties": "first",
            "ranking": "ordinal", "timezone": "UTC", "week_start": "monday", "windows": ["day"],
            "season": null, "carryover": {}, "accept_late": "48h", "idempotency": "1h",
            "retention": {}, "quotas": [], "score_min": null, "score_max": null,
            "weight": null, "initial": [], "uniques": null, "keep_top": null, "entry_data": false, "rewards": [], "league": null, "shards": 1, "ingest": "sync",
            "opens_at": null, "closes_at": null, "finalize": null, "max_delay": null
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_depends_on_another_field_is_checked() {
        let pointers = |json: &str| -> Vec<String> {
            definition(json)
                .check()
                .into_iter()
                .map(|error| error.pointer)
                .collect()
        };
        assert!(
            pointers(r#"{"windows": ["day", "last-7-days"], "carryover": {"day": 0.5}}"#)
                .is_empty()
        );
        assert_eq!(pointers(r#"{"windows": []}"#), ["/windows"]);
        assert_eq!(pointers(r#"{"windows": ["day", "day"]}"#), ["/windows/1"]);
        assert_eq!(
            pointers(r#"{"windows": ["last-7-days"], "update": "max"}"#),
            ["/windows/0"]
        );
        assert_eq!(pointers(r#"{"windows": ["season"]}"#), ["/windows/0"]);
        for weight in [r#"{"default": 0}"#, r#"{"default": 1000001}"#] {
            let json = format!(r#"{{"windows": ["all"], "weight": {weight}}}"#);
            assert_eq!(pointers(&json), ["/weight/default"]);
        }
        assert_eq!(
            pointers(r#"{"windows": ["all"], "update": "max", "weight": {"members": {"a/b": 0}}}"#),
            ["/weight/members/a~1b", "/weight"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["all"], "shards": 0}"#),
            ["/shards"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["all"], "shards": 2, "ranking": "dense"}"#),
            ["/ranking"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["all"], "initial": ["day", "all"]}"#),
            ["/initial"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["all"], "update": "min", "initial": ["all"]}"#),
            ["/initial"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["all"], "carryover": {"all": 1}}"#),
            ["/carryover/all"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["day"], "carryover": {"week": 1}}"#),
            ["/carryover/week"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["day"], "retention": {"all": "1d"}}"#),
            ["/retention/all"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["day"], "idempotency": "0s"}"#),
            ["/idempotency"]
        );
        assert_eq!(
            pointers(r#"{"windows": ["day"], "finalize": "32d"}"#),
            ["/finalize"]
        );
        for (rest, refused) in [
            (r#""max_delay": "1s""#, vec!["/max_delay"]),
            (r#""finalize": "0s", "max_delay": "0s""#, vec!["/max_delay"]),
            (
                r#""finalize": "0s", "max_delay": "25h""#,
                vec!["/max_delay"],
            ),
            (r#""finalize": "0s", "max_delay": "24h""#, vec![]),
            (r#""finalize": "0s", "max_delay": "1s""#, vec![]),
        ] {
            let json = format!(r#"{{"windows": ["day"], {rest}}}"#);
            assert_eq!(pointers(&json), refused, "{json}");
        }
        assert_eq!(
            pointers(
                r#"{"windows": ["day", "week"], "finalize": "2h", "retention": {"day": "1h", "week": "2h"}}"#
            ),
            ["/retention/day"]
        );
    }

    #[test]
    fn a_list_is_kept_short_only_where_nobody_can_fall() {
        let errors = |fields: &str| {
            let json = format!(r#"{{"windows": ["day"], "keep_top": 3, {fields}}}"#);
            definition(&json).check().len()
        };
        for sound in [
            r#""score_min": 1"#,
            r#""score_min": 0.01, "decimals": 2, "ties": "last", "ranking": "dense""#,
            r#""update": "max""#,
            r#""update": "min", "order": "asc", "ties": "member""#,
            r#""score_min": 1, "weight": {}, "initial": ["day"]"#,
        ] {
            assert_eq!(errors(sound), 0, "{sound}");
        }
        for unsound in [
            r#""update": "sum""#,
            r#""score_min": 0"#,
            r#""score_min": 1, "order": "asc""#,
            r#""score_min": 1, "carryover": {"day": 0.5}"#,
            r#""update": "max", "order": "asc""#,
            r#""update": "max", "ties": "last""#,
            r#""update": "last""#,
        ] {
            assert_eq!(errors(unsound), 1, "{unsound}");
        }
        let rolling = r#"{"windows": ["last-7-days"], "score_min": 1, "keep_top": 3}"#;
        assert_eq!(definition(rolling).check()[0].pointer, "/keep_top");
    }

    #[test]
    fn entries_have_data_only_where_they_have_the_time_of_an_event() {
        let errors = |ties: &str| {
            let json = format!(r#"{{"windows": ["day"], "entry_data": true, "ties": "{ties}"}}"#);
            definition(&json).check().len()
        };
        assert_eq!(["first", "last", "member"].map(errors), [0, 0, 1]);
    }

    #[test]
    fn a_window_that_comes_back_begins_anew() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let id = BoardId::parse("b").unwrap();
        let first = Board::new(
            id,
            definition(r#"{"windows": ["day", "last-7-days"]}"#),
            1,
            1,
            BTreeMap::new(),
        );
        let hidden = first.replaced(definition(r#"{"windows": ["last-7-days"]}"#), 7, now);
        assert_eq!(
            hidden.epochs,
            BTreeMap::new(),
            "the day goes on as the rolling window's base"
        );
        // A clock that has gone back.
        let gone = hidden.replaced(definition(r#"{"windows": ["all"]}"#), 3, now);
        assert_eq!(gone.epoch(Some(Window::Period(Unit::All))), 8);
        let back = gone.replaced(definition(r#"{"windows": ["all", "day"]}"#), 20, now);
        assert_eq!(back.epoch(Some(Window::Period(Unit::Day))), 20);
        assert_eq!(back.epoch(Some(Window::Period(Unit::All))), 8);
        assert_eq!(back.recorded_since(&back.definition.windows), Some(8));
    }

    #[test]
    fn a_window_is_lost_if_nothing_is_left_to_make_it_from() {
        let lost = |before: &str, after: &str| {
            let id = BoardId::parse("b").unwrap();
            let board = Board::new(id, definition(before), 1, 1, BTreeMap::new());
            let lost = board.windows_lost(&definition(after));
            let names: Vec<String> = lost.iter().map(ToString::to_string).collect();
            names.join(",")
        };
        let all = r#"{"windows": ["all"]}"#;
        assert_eq!(
            lost(r#"{"windows": ["all", "day", "week"]}"#, all),
            "day,week"
        );
        assert_eq!(
            lost(r#"{"windows": ["all", "last-7-days"]}"#, all),
            "last-7-days"
        );
        let both = r#"{"windows": ["day", "last-7-days"]}"#;
        assert_eq!(lost(both, all), "day,last-7-days");
        assert_eq!(lost(both, both), "");
        for kept in [
            r#"{"windows": ["last-7-days"]}"#,
            r#"{"windows": ["day"]}"#,
            r#"{"windows": ["last-2-days"]}"#,
            r#"{"windows": ["last-9-days"], "retention": {"day": "1d"}}"#,
        ] {
            assert_eq!(lost(both, kept), "", "{kept}");
        }
        for short in [
            r#"{"windows": ["day"], "retention": {"day": "90d"}}"#,
            r#"{"windows": ["day", "last-2-days"], "retention": {"day": "1d"}}"#,
            r#"{"windows": ["day"], "carryover": {"day": 0.5}}"#,
        ] {
            assert_eq!(lost(both, short), "last-7-days", "{short}");
        }
    }

    #[test]
    fn history_outlives_its_retention_while_a_rolling_window_needs_it() {
        let id = BoardId::parse("b").unwrap();
        let at = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let days = |json: &str| {
            let board = Board::new(id.clone(), definition(json), 1, 1, BTreeMap::new());
            let period = board.calendar.containing(Unit::Day, at);
            board
                .expires_at_ms(&period)
                .map(|ms| (ms - period.end_ms) / 86_400_000)
        };
        assert_eq!(days(r#"{"windows": ["day"]}"#), None);
        assert_eq!(
            days(r#"{"windows": ["day"], "retention": {"day": "1d"}}"#),
            Some(1)
        );
        let rolling = r#"{"windows": ["last-7-days"], "retention": {"day": "1d"}}"#;
        assert!(days(rolling).unwrap() >= 7 + 1 + 2);
    }
}
