//! Finds the standing to read.

use crate::core::{Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::league::Cohort;
use crate::domain::period::Period;
use crate::domain::plan::{StandingName, stretch};
use crate::domain::problems::{PERIOD_NOT_FINAL, Problem};
use crate::domain::series::{Series, Standing, Track};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;

/// How a request names a period of a window.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Choice {
    #[default]
    Current,
    Previous,
    Key(String),
    /// The one that contains this instant.
    At(Timestamp),
}

/// How a request names a cohort of a league.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CohortChoice {
    /// Not at all: it reads a whole standing.
    #[default]
    Unnamed,
    /// By the name that users see: `silver-17`.
    Named(String),
    /// By a member that has its seat there. On a board without cohorts this means the whole standing.
    Of(MemberId),
    All,
}

impl From<Option<String>> for CohortChoice {
    fn from(name: Option<String>) -> Self {
        name.map_or(Self::Unnamed, Self::Named)
    }
}

/// The standing that a request names.
#[derive(Clone, Debug)]
pub struct Target {
    pub window: Window,
    pub standing: Standing,
    pub key: String,
    /// In a league, the name of its cohort, as users see it.
    pub cohort: Option<String>,
    /// When the standing begins and ends: for a rolling one, its oldest period's start and its newest's end.
    pub starts_at: Option<Timestamp>,
    /// See `starts_at`.
    pub ends_at: Option<Timestamp>,
    /// Whether there is nothing to show: some of its history may have been dropped, or the member has no cohort.
    pub is_empty: bool,
    /// Whether events of its last period would be too late by now.
    pub is_late: bool,
}

impl Target {
    /// Finds the standing of a window at a period.
    pub fn find(
        live: &LiveBoard,
        window: &str,
        track: Track,
        choice: &Choice,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let board = &live.board;
        let window = find_window(board, window)?;
        let period = find_period(board, window, choice, now)?;
        Self::of_period(board, window, board.series(window, track), period, now)
    }

    /// This target in a cohort, by the name that users see. A league is read cohort by cohort, another board as a whole.
    pub fn in_cohort(self, board: &Board, name: Option<&str>) -> Result<Self, Error> {
        let league = board.league_of(&self.standing.period);
        match (name, league) {
            (None, None) => Ok(self),
            (Some(_), None) => Err(Problem::no_league(&board.id).into()),
            (None, Some(_)) => Err(Problem::cohort_required(&board.id, self.window).into()),
            (Some(name), Some(league)) => match league.cohort_named(name) {
                Some(cohort) => Ok(self.of_cohort(board, cohort)),
                None => Err(self.cohort_not_found(board, name)),
            },
        }
    }

    /// This target in a cohort of its period.
    pub(crate) fn of_cohort(self, board: &Board, cohort: Cohort) -> Self {
        Self {
            standing: Standing {
                cohort: Some(cohort),
                ..self.standing
            },
            cohort: board.cohort_name(&self.standing.period, cohort),
            ..self
        }
    }

    pub(crate) fn name(&self) -> StandingName {
        StandingName {
            window: self.window.to_string().into(),
            key: self.key.as_str().into(),
        }
    }

    /// The error that there is no such cohort.
    pub(crate) fn cohort_not_found(&self, board: &Board, name: &str) -> Error {
        let cohort: String = name.chars().take(64).collect();
        Problem::cohort_not_found(&board.id, &self.name(), &cohort).into()
    }

    /// The error that it has no result: if it is final, it has no data.
    pub(crate) fn without_result(&self, board: &Board, is_final: bool) -> Error {
        let (id, name) = (&board.id, self.name());
        if is_final {
            return Problem::period_not_found(id, &name).into();
        }
        if board.finalize_since.is_none() {
            let detail = format!(
                "board {id} has no `finalize`, so its periods never become final: set `finalize` in its definition, for periods that \
                 end after that"
            );
            return Problem::new(PERIOD_NOT_FINAL, detail).into();
        }
        Problem::period_not_final(id, &name).into()
    }

    /// The periods whose events it contains.
    pub fn periods(&self, board: &Board) -> Vec<Period> {
        let periods = match self.window {
            Window::Period(_) => 1,
            Window::Rolling { periods, .. } => periods,
        };
        stretch(board, self.standing.period, periods)
    }

    /// The standing of the period before; `None` if there is none.
    pub fn previous(&self, board: &Board, now: Timestamp) -> Option<Self> {
        let period = board.calendar.previous(&self.standing.period)?;
        Self::of_period(board, self.window, self.standing.series, period, now)
            .ok()
            .filter(|target| !target.is_empty)
    }

    fn of_period(
        board: &Board,
        window: Window,
        series: Series,
        period: Period,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let calendar = &board.calendar;
        let derived = board.derived_as(series);
        let oldest = match derived {
            None => period,
            Some(derived) => {
                let running = calendar.containing(window.unit(), now);
                // Otherwise such a standing would be stored for every key in a request.
                if period.start_ms > running.end_ms {
                    let detail = "a rolling window, or one with initial scores, can be read up to the next period at most";
                    return Err(Problem::invalid_parameter("key", detail).into());
                }
                stretch(board, period, derived.periods)
                    .last()
                    .copied()
                    .unwrap_or(period)
            }
        };
        let is_expired = derived.is_some()
            && board
                .expires_at_ms(&oldest)
                .is_some_and(|expires| expires <= now.ms());
        Ok(Self {
            window,
            standing: Standing::of(series, period),
            key: calendar.key(&period),
            cohort: None,
            starts_at: oldest.start(),
            ends_at: period.end(),
            is_empty: is_expired,
            is_late: board
                .last_event_ms(&period)
                .is_some_and(|last_ms| last_ms < now.ms()),
        })
    }
}

pub(crate) fn find_window(board: &Board, name: &str) -> Result<Window, Error> {
    let windows = &board.definition.windows;
    let parsed = name.parse().ok();
    let found = parsed.filter(|window| windows.contains(window));
    found.ok_or_else(|| {
        let known: Vec<String> = windows.iter().map(Window::to_string).collect();
        let window: String = name.chars().take(64).collect();
        Problem::unknown_window(&board.id, &window, &known.join(", ")).into()
    })
}

fn find_period(
    board: &Board,
    window: Window,
    choice: &Choice,
    now: Timestamp,
) -> Result<Period, Error> {
    let calendar = &board.calendar;
    let unit = window.unit();
    let running = calendar.containing(unit, now);
    match choice {
        Choice::Current => Ok(running),
        Choice::Previous => {
            let previous = calendar.previous(&running);
            let none =
                || Problem::invalid_parameter("key", format!("{window} has no previous period"));
            Ok(previous.ok_or_else(none)?)
        }
        Choice::At(at) => Ok(calendar.containing(unit, *at)),
        Choice::Key(key) => calendar
            .parse_key(unit, key)
            .map_err(|error| Problem::invalid_parameter("key", error).into()),
    }
}
