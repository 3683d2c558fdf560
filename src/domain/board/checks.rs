//! The rules of a definition: how fields depend on each other, and which are frozen while a board has events.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definition::{AcceptLate, Definition, History, Order, Ranking, Update};
use crate::domain::closing::{FINALIZE_MAX, MAX_DELAY_MIN};
use crate::domain::period::Unit;
use crate::domain::queued::AGE_MAX;
use crate::domain::shard::SHARDS_MAX;
use crate::domain::ties::Ties;
use crate::domain::weight::Weights;
use crate::domain::window::Window;
use crate::domain::{league, quota, reward};

/// The maximum number of windows of one board.
pub const WINDOWS_MAX: usize = 16;
/// The longest list of a board with `keep_top`.
const KEEP_TOP_MAX: u32 = 100_000;
/// The maximum number of tags of a board.
const TAGS_MAX: usize = 16;
const TAG_BYTES_MAX: usize = 64;
const TITLE_BYTES_MAX: usize = 256;
/// The shortest time for which event ids are remembered, in milliseconds.
const IDEMPOTENCY_MS_MIN: u64 = 1_000;
/// The longest time for which event ids are remembered, in milliseconds: 366 days.
const IDEMPOTENCY_MS_MAX: u64 = 366 * 86_400_000;
/// An error in a document: where, as a JSON pointer, and what.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct FieldError {
    /// Where, as a JSON pointer (RFC 6901).
    #[schema(example = "/score")]
    pub pointer: String,
    /// What is wrong.
    pub detail: String,
    /// The other fields that it depends on. If one of these is wrong, it may only follow from that.
    #[serde(skip)]
    others: Vec<String>,
}

impl FieldError {
    /// The same in a value that is at another place in the body.
    #[must_use]
    pub fn within(self, pointer: &str) -> Self {
        Self {
            pointer: format!("{pointer}{}", self.pointer),
            ..self
        }
    }

    /// An error at a place in the body.
    pub fn new(pointer: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self {
            pointer: pointer.into(),
            detail: detail.to_string(),
            others: Vec::new(),
        }
    }

    /// This error, which depends on these other fields, too.
    #[must_use]
    pub fn with<T: Into<String>>(mut self, others: impl IntoIterator<Item = T>) -> Self {
        self.others.extend(others.into_iter().map(Into::into));
        self
    }

    /// The fields of the document that it depends on: the one that it is in, and others.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let own = self.pointer.split('/').nth(1);
        own.into_iter()
            .chain(self.others.iter().map(String::as_str))
    }

    /// The JSON pointer (RFC 6901) of these steps.
    pub fn pointer<T: AsRef<str>>(steps: impl IntoIterator<Item = T>) -> String {
        let escaped = |step: T| step.as_ref().replace('~', "~0").replace('/', "~1");
        steps
            .into_iter()
            .flat_map(|step| ["/".to_owned(), escaped(step)])
            .collect()
    }
}

/// Adds a `FieldError` to a list for each rule that does not hold: `pointer, what must hold => what is wrong otherwise;`. Other
/// fields that the rule compares follow: `, with [order ties];`.
macro_rules! require {
    ($errors:expr; $($pointer:expr, $holds:expr => $detail:expr $(, with [$($other:ident)+])?;)+) => {
        $(if !$holds {
            let error = $crate::domain::board::FieldError::new($pointer, $detail);
            $errors.push(error$(.with([$(stringify!($other)),+]))?);
        })+
    };
}
pub(crate) use require;

/// The error for a field that can't change.
const FROZEN: &str = "can't change while the board has events or initial scores";

/// Which fields of the first list are equal in two definitions. The second list has all others: a new field must be put
/// into one of them.
macro_rules! unchanged {
    ($one:expr, $other:expr; $($fixed:ident)+; $($free:ident)+) => {{
        let Definition { $($fixed,)+ $($free: _,)+ } = $one;
        [$((concat!("/", stringify!($fixed)), *$fixed == $other.$fixed)),+]
    }};
}

impl Definition {
    /// All errors where fields depend on each other.
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
        self.check_history(&mut errors);
        errors
    }

    fn check_words(&self, errors: &mut Vec<FieldError>) {
        let is_word = |text: &str| !text.chars().any(char::is_control);
        let is_tag = |tag: &String| (1..=TAG_BYTES_MAX).contains(&tag.len()) && is_word(tag);
        require! { errors;
            "/title", self.title.len() <= TITLE_BYTES_MAX && is_word(&self.title)
                => "must have at most 256 bytes, and no control characters";
            "/tags", self.tags.len() <= TAGS_MAX && self.tags.iter().all(is_tag)
                => "must be at most 16 tags, each of 1 to 64 bytes without control characters";
        }
    }

    fn check_windows(&self, errors: &mut Vec<FieldError>) {
        require! { errors;
            "/windows", (1..=WINDOWS_MAX).contains(&self.windows.len()) => "must have 1 to 16 windows";
            "/season", self.season.is_some() || !self.windows.contains(&Window::Period(Unit::Season))
                => "is missing: the window `season` needs it";
        }
        for (index, window) in self.windows.iter().enumerate() {
            let pointer = format!("/windows/{index}");
            require! { errors;
                &pointer, !self.windows[..index].contains(window) => "is in the list twice";
                &pointer, self.is_sum() || !window.is_rolling() => "rolling windows need `update: sum`", with [update];
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
            let wrong = |error| FieldError::new(pointer, error).with(["decimals"]);
            score.map_err(|error| errors.push(wrong(error))).ok()
        });
        require! { errors;
            "/score_max", min.zip(max).is_none_or(|(min, max)| min <= max) => "must not be less than `score_min`", with [score_min];
        }
    }

    fn check_initial(&self, errors: &mut Vec<FieldError>) {
        require! { errors;
            "/weight", self.is_sum() || self.weight.is_none() => "weights need `update: sum`", with [update];
        }
        for unit in &self.initial {
            require! { errors;
                "/initial", self.is_sum() => "initial scores need `update: sum`", with [update];
                "/initial", self.windows.contains(&Window::Period(*unit))
                    => format!("`{unit}` is not one of the board's windows"), with [windows];
            }
        }
    }

    fn check_shards(&self, errors: &mut Vec<FieldError>) {
        // Dense ranks are not the sum of the shards' ranks.
        let is_dense = self.ranking == Ranking::Dense && self.league.is_none();
        require! { errors;
            "/shards", (1..=SHARDS_MAX).contains(&self.shards) => "must be from 1 to 64";
            "/ranking", self.shards <= 1 || !is_dense => "`dense` needs `shards: 1`", with [shards];
        }
    }

    /// Checks `keep_top`. If the score of a listed member could fall, an unknown unlisted member would have to take its
    /// place.
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
                    => "can't be combined with rolling windows", with [windows];
                "/keep_top", self.carryover.is_empty() => "can't be combined with `carryover`", with [carryover];
                "/keep_top", rises
                    => "needs scores that never get worse: `update: sum` with `order: desc` and a `score_min` above 0, `update: max` with `order: desc`, or `update: min` with `order: asc`; and not `ties: last`",
                    with [update order score_min ties];
            }
        }
        require! { errors;
            "/entry_data", !self.entry_data || self.ties != Ties::Member
                => "needs `ties: first` or `ties: last`: with `ties: member` the event of a score is not stored",
                with [ties];
        }
    }

    fn check_carryover(&self, errors: &mut Vec<FieldError>) {
        for unit in self.carryover.keys() {
            let pointer = format!("/carryover/{unit}");
            let is_window = self.windows.contains(&Window::Period(*unit));
            require! { errors;
                &pointer, self.is_sum() => "carryover needs `update: sum`", with [update];
                &pointer, *unit != Unit::All => "`all` has no next period";
                &pointer, *unit == Unit::All || is_window
                    => "must be one of the board's windows", with [windows];
            }
        }
    }

    fn check_times(&self, errors: &mut Vec<FieldError>) {
        let idempotency = IDEMPOTENCY_MS_MIN..=IDEMPOTENCY_MS_MAX;
        let opening = self.opens_at.zip(self.closes_at);
        require! { errors;
            "/retention/all", !self.retention.contains_key(&Unit::All)
                => "`all` never ends, so it can't be dropped";
            "/idempotency", idempotency.contains(&self.idempotency.ms())
                => "must be from 1s to 366d";
            "/closes_at", opening.is_none_or(|(opens, closes)| opens < closes)
                => "must be after `opens_at`", with [opens_at];
            "/finalize", self.finalize.is_none_or(|finalize| finalize <= FINALIZE_MAX) => "must be at most 31d";
        }
        for (unit, retention) in &self.retention {
            require! { errors;
                format!("/retention/{unit}"), self.finalize.is_none_or(|finalize| finalize <= *retention)
                    => "must be at least `finalize`: a standing is kept until it is final", with [finalize];
            }
        }
        require! { errors;
            "/max_delay", self.max_delay.is_none() || self.finalize.is_some()
                => "needs `finalize`", with [finalize];
            "/max_delay", self.max_delay.is_none_or(|delay| (MAX_DELAY_MIN..=AGE_MAX).contains(&delay))
                => "must be from 1s to 24h";
        }
    }

    fn check_history(&self, errors: &mut Vec<FieldError>) {
        let Some(history) = self.history else {
            return;
        };
        require! { errors;
            "/history", self.keep_top.is_none() => "can't be combined with `keep_top`", with [keep_top];
            "/history", self.league.is_none() => "can't be set in a league", with [league];
        }
        let History::For(span) = history else {
            return;
        };
        let accept_late = match self.accept_late {
            AcceptLate::Any => None,
            AcceptLate::Within(late) => Some(late),
        };
        require! { errors;
            "/history", accept_late.is_some() => "must be `board` with `accept_late: any`", with [accept_late];
            "/history", accept_late.is_none_or(|late| late <= span) => "must be at least `accept_late`", with [accept_late];
            "/history", self.idempotency <= span => "must be at least `idempotency`", with [idempotency];
        }
    }

    fn is_sum(&self) -> bool {
        self.update == Update::Sum
    }

    /// The fields in which `other` would change data that is already stored.
    pub fn frozen_changes(&self, other: &Self) -> Vec<FieldError> {
        let fixed = unchanged! { self, other;
            update order decimals ties week_start weight initial uniques keep_top entry_data;
            timezone title tags public public_includes names score_min score_max ranking windows season carryover accept_late idempotency
            retention quotas rewards league shards ingest opens_at closes_at finalize max_delay history
        };
        let is_dense = |definition: &Self| definition.ranking == Ranking::Dense;
        let mut changes = Vec::new();
        for (pointer, is_same) in fixed {
            require! { changes; pointer, is_same => FROZEN; }
        }
        require! { changes;
            "/timezone", self.timezone.is_same_clock(other.timezone) => FROZEN;
            "/season", self.season.is_none() || self.season == other.season => FROZEN;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(json: &str) -> Definition {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn dependent_fields_are_checked() {
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
        assert_eq!(pointers(r#"{"windows": ["season"]}"#), ["/season"]);
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
    fn keep_top_needs_scores_that_never_fall() {
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
    fn events_are_kept_at_least_as_long_as_late_events_and_ids_need() {
        let errors = |fields: &str| {
            let json = format!(r#"{{"windows": ["day"], {fields}}}"#);
            let errors = definition(&json).check().into_iter();
            errors
                .map(|error| (error.pointer, error.detail))
                .collect::<Vec<_>>()
        };
        for sound in [
            r#""history": "board", "accept_late": "any""#,
            r#""history": "2d""#,
            r#""history": "1h", "accept_late": "1h""#,
        ] {
            assert_eq!(errors(sound), [], "{sound}");
        }
        for (unsound, detail) in [
            (r#""history": "47h""#, "must be at least `accept_late`"),
            (
                r#""history": "1h", "accept_late": "1s", "idempotency": "2h""#,
                "must be at least `idempotency`",
            ),
            (
                r#""history": "90d", "accept_late": "any""#,
                "must be `board` with `accept_late: any`",
            ),
            (
                r#""history": "board", "keep_top": 3, "update": "max""#,
                "can't be combined with `keep_top`",
            ),
        ] {
            let expected = ("/history".to_owned(), detail.to_owned());
            assert_eq!(errors(unsound), [expected], "{unsound}");
        }
    }

    #[test]
    fn entries_can_have_data_only_with_the_time_of_an_event() {
        let errors = |ties: &str| {
            let json = format!(r#"{{"windows": ["day"], "entry_data": true, "ties": "{ties}"}}"#);
            definition(&json).check().len()
        };
        assert_eq!(["first", "last", "member"].map(errors), [0, 0, 1]);
    }
}
