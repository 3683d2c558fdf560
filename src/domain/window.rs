//! Windows: the lists that a board keeps, one per period or for the last N periods.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::period::Unit;
use super::texts::serde_as_text;

/// The fewest periods of a rolling window.
pub const ROLLING_PERIODS_MIN: u16 = 2;
/// The maximum number of periods of a rolling window.
pub const ROLLING_PERIODS_MAX: u16 = 366;
/// A window's code has nine bits for the number of periods.
const CODE_PERIODS: u16 = 1 << 9;
/// How many codes there are: each [`Window::code`] is less.
pub(crate) const CODES: usize = Unit::ALL.len() * CODE_PERIODS as usize;

/// The units that a rolling window can count, with their plural in its name.
const ROLLING_UNITS: [(Unit, &str); 5] = [
    (Unit::Minute, "minutes"),
    (Unit::Hour, "hours"),
    (Unit::Day, "days"),
    (Unit::Week, "weeks"),
    (Unit::Month, "months"),
];

/// What a standing covers: `day`, `all`, `last-7-days`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Window {
    /// One calendar period, a season, or all time.
    Period(Unit),
    /// The last `periods` periods of `unit`, the running one included.
    Rolling {
        /// What it counts: `day` in `last-7-days`.
        unit: Unit,
        /// The number of periods: 2 to 366.
        periods: u16,
    },
}

/// A text that is not the name of a window.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "{0:?} is not a window: use minute, hour, day, week, month, year, all, season, or last-N-minutes, -hours, -days, -weeks or -months with N from 2 to 366"
)]
pub struct WindowError(String);

impl Window {
    /// The unit of the period whose key names the standing: for a rolling window, the newest one in it.
    pub fn unit(self) -> Unit {
        match self {
            Self::Period(unit) | Self::Rolling { unit, .. } => unit,
        }
    }

    /// Whether it covers the last periods of a unit.
    pub fn is_rolling(&self) -> bool {
        matches!(self, Self::Rolling { .. })
    }

    /// A permanent number below 2^12, stored with remembered outcomes.
    pub fn code(self) -> u16 {
        let (unit, periods) = match self {
            Self::Period(unit) => (unit, 0),
            Self::Rolling { unit, periods } => (unit, periods),
        };
        unit as u16 * CODE_PERIODS + periods
    }

    /// The window of a [`Window::code`].
    pub fn from_code(code: u16) -> Option<Self> {
        let unit = *Unit::ALL.get(usize::from(code / CODE_PERIODS))?;
        match code % CODE_PERIODS {
            0 => Some(Self::Period(unit)),
            periods => Some(Self::Rolling { unit, periods }),
        }
    }
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        parse_rolling(text)
            .or_else(|| Unit::named(text).map(Self::Period))
            .ok_or_else(|| WindowError(text.chars().take(64).collect()))
    }
}

fn parse_rolling(text: &str) -> Option<Window> {
    let (count, plural) = text.strip_prefix("last-")?.split_once('-')?;
    let (unit, _) = ROLLING_UNITS
        .into_iter()
        .find(|(_, name)| *name == plural)?;
    let periods: u16 = count.parse().ok()?;
    // A name has one spelling: no sign, no leading zero.
    let canonical = periods.to_string() == count;
    let allowed = (ROLLING_PERIODS_MIN..=ROLLING_PERIODS_MAX).contains(&periods);
    (canonical && allowed).then_some(Window::Rolling { unit, periods })
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period(unit) => write!(f, "{unit}"),
            Self::Rolling { unit, periods } => {
                let plural = ROLLING_UNITS
                    .iter()
                    .find(|(other, _)| other == unit)
                    .map_or("periods", |(_, name)| name);
                write!(f, "last-{periods}-{plural}")
            }
        }
    }
}

serde_as_text!(Window);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_parsed_back() {
        let names = [
            "minute",
            "hour",
            "day",
            "week",
            "month",
            "year",
            "all",
            "season",
            "last-2-minutes",
            "last-24-hours",
            "last-7-days",
            "last-366-days",
            "last-4-weeks",
            "last-12-months",
        ];
        for name in names {
            let window: Window = name.parse().unwrap();
            assert_eq!(window.to_string(), name);
            assert_eq!(Window::from_code(window.code()), Some(window));
        }
        let codes = ["minute", "hour", "season", "last-7-days"]
            .map(|name| name.parse::<Window>().unwrap().code());
        assert_eq!(codes, [0, 512, 7 * 512, 2 * 512 + 7]);
        let bad = [
            "",
            "days",
            "Day",
            "last-1-days",
            "last-367-days",
            "last-07-days",
            "last-+7-days",
            "last-7-years",
            "last-7-day",
            "last-7-seasons",
            "last--days",
            "last-7",
        ];
        for name in bad {
            assert!(name.parse::<Window>().is_err(), "{name}");
        }
    }
}
