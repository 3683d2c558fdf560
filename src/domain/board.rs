//! A board: what an operator defines (`definition.rs`), its rules (`checks.rs`), and what follows from that.

mod checks;
mod definition;

use std::collections::{BTreeMap, BTreeSet};

use super::closing::Closings;
use super::history::HistoryState;
use super::ids::BoardId;
use super::league::FormerLeague;
use super::period::{Calendar, Period, Unit};
use super::placement::Placement;
use super::time::Timestamp;
use super::window::Window;

pub(crate) use self::checks::require;
pub use self::checks::{FieldError, WINDOWS_MAX};
pub(crate) use self::definition::one;
pub use self::definition::{
    AcceptLate, Definition, History, Ingest, Names, Order, Ranking, Uniques, Update, WeekStart,
};

/// The amendment of a new board.
pub const FIRST_AMENDMENT: u64 = 1;
/// How long the history of a rolling window outlives its last use, in milliseconds: one day, so that a service that was
/// down at a boundary still finds the data it needs.
const HISTORY_SLACK_MS: u64 = 86_400_000;

/// A board as the service uses it: the definition, and its identity and state in Redis.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// Its id.
    pub id: BoardId,
    /// Its definition.
    pub definition: Definition,
    /// Identifies the board even among earlier ones of the same name: the stamp (`scripts/core/board/begin.lua`) of its creation.
    pub generation: u64,
    /// Identifies its definition among all that it has had, in ascending order: 1, and then the stamp of the last change.
    pub amendment: u64,
    /// The amendments at which a window's data began, if not the first: a window that is removed and added again must not
    /// show what it missed.
    pub epochs: BTreeMap<Window, u64>,
    /// The boundaries of its periods.
    pub calendar: Calendar,
    /// Where its data is stored.
    pub placement: Placement,
    /// Since when it has had `finalize`, if it does: periods that ended by then have no result.
    pub finalize_since: Option<Timestamp>,
    /// The progress of its closings.
    pub closings: Closings,
    /// In a league, the replaced settings, oldest first: see [`Board::league_of`].
    pub league_before: Vec<FormerLeague>,
    /// What it keeps of its events, from when that is turned on until all of it is removed.
    pub history: Option<HistoryState>,
}

impl Board {
    /// A new board with a checked definition.
    pub fn new(
        id: BoardId,
        definition: Definition,
        generation: u64,
        amendment: u64,
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
            amendment,
            epochs,
            calendar,
            finalize_since: None,
            closings: Closings::default(),
            league_before: Vec::new(),
            history: None,
        }
    }

    /// The amendment of a change with this stamp.
    fn amendment_at(&self, stamp: u64) -> u64 {
        stamp.max(self.amendment + 1)
    }

    /// The next amendment of this board, with another definition, at a stamp and a time. Windows that it starts to record
    /// get the new amendment as their epoch. If the number of shards differs, a move begins.
    #[must_use]
    pub fn replaced(&self, definition: Definition, stamp: u64, now: Timestamp) -> Self {
        let amendment = self.amendment_at(stamp);
        let recorded = recorded(&self.definition);
        let epochs = self::recorded(&definition)
            .into_iter()
            .filter_map(|window| {
                let new = (!recorded.contains(&window)).then_some(amendment);
                let epoch = new.or_else(|| self.epochs.get(&window).copied())?;
                Some((window, epoch))
            })
            .collect();
        let placement = self.placement.towards(definition.shards);
        let id = self.id.clone();
        let mut replaced = Self {
            placement,
            finalize_since: self
                .finalize_since
                .filter(|_| definition.finalize.is_some()),
            closings: self.closings.clone(),
            league_before: self.league_before_with(&definition, now),
            ..Self::new(id, definition, self.generation, amendment, epochs)
        };
        let history = self.history.as_ref();
        replaced.history = history.map(|history| history.replaced(self, &replaced, now));
        replaced
    }

    /// The next amendment of this board with another placement, at a stamp.
    #[must_use]
    pub fn placed(&self, placement: Placement, stamp: u64) -> Self {
        Self {
            amendment: self.amendment_at(stamp),
            placement,
            ..self.clone()
        }
    }

    /// This board with `finalize` set since now, unless it was set before.
    #[must_use]
    pub fn finalized(self, now: Timestamp) -> Self {
        let since = self.definition.finalize.map(|_| now);
        Self {
            finalize_since: self.finalize_since.or(since),
            ..self
        }
    }

    /// The name of this definition. Each change gives another name, and no name is used twice.
    pub fn version(&self) -> String {
        format!("{}-{}", self.generation, self.amendment)
    }

    /// The windows that another definition drops, and whose data could not be rebuilt from what stays. A unit is lost if it
    /// is no longer recorded. A rolling window is lost if its periods would not be kept for long enough, or only with what
    /// is carried over.
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
        self.definition
            .windows
            .iter()
            .copied()
            .filter(is_lost)
            .collect()
    }

    /// The first amendment whose events these windows include.
    pub fn recorded_since(&self, windows: &[Window]) -> Option<u64> {
        let began = |window: &Window| self.epoch(Some(Window::Period(window.unit())));
        windows.iter().map(began).min()
    }

    /// The last time at which an event of the period can arrive, in milliseconds; `None`: at any time.
    pub fn last_event_ms(&self, period: &Period) -> Option<i64> {
        match self.definition.accept_late {
            AcceptLate::Any => None,
            AcceptLate::Within(span) => Some(period.end_ms.saturating_add_unsigned(span.ms())),
        }
    }

    /// The amendment at which a window began to be recorded, 0 for the first.
    pub fn epoch(&self, window: Option<Window>) -> u64 {
        let epoch = window.and_then(|window| self.epochs.get(&window).copied());
        epoch.unwrap_or(0)
    }

    /// The units whose periods an event is added to: those of windows, and those that a rolling window counts.
    pub fn recorded_units(&self) -> impl Iterator<Item = Unit> {
        Unit::ALL.into_iter().filter(|unit| {
            self.definition.windows.contains(&Window::Period(*unit)) || self.definition.rolls(*unit)
        })
    }

    /// When a period's standing may expire, in milliseconds since the epoch: `None` for never.
    ///
    /// At least the retention after its end, and not before the last rolling standing that contains it could have been
    /// completed from it.
    pub fn expires_at_ms(&self, period: &Period) -> Option<i64> {
        let former = self
            .history
            .as_ref()
            .and_then(|history| history.kept_ms(period));
        let kept_ms = former.into_iter().chain(self.kept_ms(period.unit)).min()?;
        Some(period.end_ms.saturating_add_unsigned(kept_ms))
    }

    /// For how long a unit's standings are kept after their periods' ends, in milliseconds; `None`: permanently.
    pub fn kept_ms(&self, unit: Unit) -> Option<u64> {
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
        Some(retention.max(needed))
    }
}

/// The windows with their own data: those defined, and the units of the rolling ones.
fn recorded(definition: &Definition) -> BTreeSet<Window> {
    definition
        .windows
        .iter()
        .flat_map(|window| [*window, Window::Period(window.unit())])
        .collect()
}

#[cfg(test)]
impl Board {
    /// The board `b`, with this definition.
    pub(crate) fn defined(json: &str) -> Self {
        let id = BoardId::parse("b").unwrap();
        Self::new(
            id,
            serde_json::from_str(json).unwrap(),
            1,
            1,
            BTreeMap::new(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(json: &str) -> Definition {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_readded_window_starts_from_scratch() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let first = Board::defined(r#"{"windows": ["day", "last-7-days"]}"#);
        let hidden = first.replaced(definition(r#"{"windows": ["last-7-days"]}"#), 7, now);
        assert_eq!(
            hidden.epochs,
            BTreeMap::new(),
            "the day goes on as the rolling window's base"
        );
        // After the clock went back.
        let gone = hidden.replaced(definition(r#"{"windows": ["all"]}"#), 3, now);
        assert_eq!(gone.epoch(Some(Window::Period(Unit::All))), 8);
        let back = gone.replaced(definition(r#"{"windows": ["all", "day"]}"#), 20, now);
        assert_eq!(back.epoch(Some(Window::Period(Unit::Day))), 20);
        assert_eq!(back.epoch(Some(Window::Period(Unit::All))), 8);
        assert_eq!(back.recorded_since(&back.definition.windows), Some(8));
    }

    #[test]
    fn a_window_is_lost_if_nothing_remains_to_derive_it_from() {
        let lost = |before: &str, after: &str| {
            let lost = Board::defined(before).windows_lost(&definition(after));
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
        let at = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let days = |json: &str| {
            let board = Board::defined(json);
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
