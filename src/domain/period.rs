//! Periods: how time is cut into minutes, hours, days and so on, and the key of each piece.
//!
//! All periods of one unit in one [`Calendar`] tile time: they are half-open intervals `[start, end)`, each begins where
//! the one before it ends, and each instant is in exactly one. So the boundaries are found first. The period of an instant
//! follows from them, not from the local time; the two differ if a clock is turned back over midnight. The rules:
//!
//! - **Day, week, month, year** begin at the first instant whose local date is on or after their
//!   first date. (`java.time`'s `LocalDate.atStartOfDay(zone)` is the same rule.) Hence
//!   - where midnight is skipped (Sao Paulo 2017-10-15), the day begins with the first instant
//!     after the gap;
//!   - where midnight comes twice (Havana 2016-11-06), it begins with the first;
//!   - where the clock goes from 00:01 back to 23:01 of the day before (St John's 2000-10-29), the
//!     day has begun with the first midnight, and the second 23:01 to 24:00 is part of it;
//!   - a date that is skipped whole (Apia 2011-12-30) has no instant, so there is no such day: the
//!     day after the 29th is the 31st, and the last seven days are seven days that took place.
//! - **Hours** begin when the local time is a whole hour, and whenever the offset from UTC changes. So an hour is a longest
//!   run of instants with one offset in one local hour: a repeated hour is two periods, and half an hour that is repeated
//!   or skipped (Lord Howe Island) leaves a period of its own or a shorter one. None is longer than 60 minutes, and none is
//!   in two days.
//! - **Minutes** are those of UTC. They are also the local minutes wherever the offset is in whole minutes, which is
//!   everywhere since 1972-01-07 (Monrovia was the last).
//! - **Seasons** have a fixed length in UTC, counted from a base instant in both directions.
//! - **All** is one period without beginning or end.
//!
//! A key names a period by its start: `2026-11-01T05:30Z` (minute, hour, season: in UTC, with
//! seconds and milliseconds only if they are not zero), `2026-11-01` (day), `2026-10-26` (week: its
//! first date, even if that date was skipped), `2026-11`, `2026`, `all`.
//!
//! Offsets are those of the IANA time zone database ([`Zone`]). The calculation relies on one fact
//! of that database: from 1898 on, no zone changes its offset twice within 48 hours (the closest
//! pair is 167 hours apart).

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime};
use chrono::{Timelike, Utc, Weekday};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use super::texts::words;
use super::time::{Span, Timestamp, no_such_day};
use super::timezone::Zone;

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
/// More than any offset from UTC in the database.
const DAY_S: i64 = 24 * HOUR_S;

words! {
    // Their order is stored: a new one comes last.
    /// The kinds of period.
    #[derive(PartialOrd, Ord, Hash, ToSchema)]
    #[schema(as = Period)]
    pub enum Unit {
        /// 60 seconds from a whole minute of UTC.
        Minute = "minute",
        /// A local hour, or the part of one that has a single offset from UTC.
        Hour = "hour",
        /// A local date.
        Day = "day",
        /// Seven local dates from the calendar's first day of the week.
        Week = "week",
        /// A month of local dates.
        Month = "month",
        /// A year of local dates.
        Year = "year",
        /// The whole of time.
        All = "all",
        /// A fixed length, given by the calendar's [`Season`].
        Season = "season",
    }
}

impl Unit {
    /// A length in milliseconds that no period of this unit exceeds, in any time zone. Dates get an extra day, as a clock
    /// that is turned back makes a day longer (by 23 hours on Kwajalein, 1969-09-30).
    pub const fn longest_ms(self) -> u64 {
        let days = match self {
            Self::Minute => return Span::minutes(1).ms(),
            Self::Hour => return Span::hours(1).ms(),
            Self::All => return u64::MAX,
            Self::Season => return Span::MAX.ms(),
            Self::Day => 2,
            Self::Week => 8,
            Self::Month => 32,
            Self::Year => 367,
        };
        Span::days(days).ms()
    }
}

/// Seasons of equal length, one of which begins at `start`. Times before `start` are in earlier seasons.
///
/// In JSON it is `{"start": "2026-01-05T00:00:00+08:00", "length": "14d"}`. The start is stored and returned in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "SeasonFields")]
pub struct Season {
    /// When one of the seasons begins.
    start: Timestamp,
    /// The length of a season: a duration of at least one minute.
    length: Span,
}

/// A season's length below [`Season::LENGTH_MIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the length of a season must be at least 1m")]
pub struct SeasonTooShort;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeasonFields {
    start: Timestamp,
    length: Span,
}

impl TryFrom<SeasonFields> for Season {
    type Error = SeasonTooShort;

    fn try_from(fields: SeasonFields) -> Result<Self, SeasonTooShort> {
        Self::new(fields.start, fields.length)
    }
}

impl Season {
    /// The shortest length of a season, one minute. The longest is [`Span::MAX`].
    pub const LENGTH_MIN: Span = Span::minutes(1);

    /// Seasons of the given length, one of which begins at `start`, or at the last whole millisecond before it.
    ///
    /// # Errors
    /// [`SeasonTooShort`] if `length` is below [`Self::LENGTH_MIN`].
    pub fn new(start: Timestamp, length: Span) -> Result<Self, SeasonTooShort> {
        if length < Self::LENGTH_MIN {
            Err(SeasonTooShort)
        } else {
            let start = start.to_whole_ms();
            Ok(Self { start, length })
        }
    }

    /// The instant at which one of the seasons begins.
    pub const fn start(self) -> Timestamp {
        self.start
    }

    /// The length of each season.
    pub const fn length(self) -> Span {
        self.length
    }

    fn containing(self, at: Timestamp) -> Period {
        let length_ms = self.length.ms().cast_signed();
        let into_ms = (at.ms() - self.start.ms()).rem_euclid(length_ms);
        let start_ms = at.ms() - into_ms;
        Period {
            unit: Unit::Season,
            start_ms,
            end_ms: start_ms + length_ms,
        }
    }
}

/// A period of a [`Calendar`], which creates it: a half-open interval of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    /// The kind of period.
    pub unit: Unit,
    /// The first instant, in milliseconds since 1970-01-01T00:00:00Z. May be outside the range of [`Timestamp`], as the
    /// year that contains [`Timestamp::MIN`] began before it; `i64::MIN` if there is no beginning.
    pub start_ms: i64,
    /// The first instant after the period, likewise; `i64::MAX` if there is no end.
    pub end_ms: i64,
}

impl Period {
    /// The one that contains every instant.
    pub const fn endless(unit: Unit) -> Self {
        Self {
            unit,
            start_ms: i64::MIN,
            end_ms: i64::MAX,
        }
    }

    /// The first instant of the period. `None` if it has no beginning, like `all`, or began before [`Timestamp::MIN`].
    pub fn start(&self) -> Option<Timestamp> {
        Timestamp::from_ms(self.start_ms).ok()
    }

    /// The first instant after the period, which is the start of the next one. `None` if it has no end, like `all`, or ends
    /// after [`Timestamp::MAX`].
    pub fn end(&self) -> Option<Timestamp> {
        Timestamp::from_ms(self.end_ms).ok()
    }

    /// Whether `at` is in the period: on or after its start, and before its end.
    pub const fn contains(&self, at: Timestamp) -> bool {
        self.start_ms <= at.ms() && at.ms() < self.end_ms
    }
}

/// Why a text is not the key of a period.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text does not have the form of this unit's keys, or is not a date, like `2026-02-30`.
    #[error("a key of `{unit}` must have the form `{example}`")]
    Malformed {
        /// The unit asked for.
        unit: Unit,
        /// A well-formed key of that unit.
        example: &'static str,
    },
    /// The calendar does not have the day of the key.
    #[error("there is no such day: {0:04}-{1:02}-{2:02}")]
    NoSuchDay(u16, u8, u8),
    /// The text is well-formed, but no period of this calendar has that key.
    #[error("no period of `{unit}` has this key; the nearest one has the key `{holder}`")]
    NotAStart {
        /// The unit asked for.
        unit: Unit,
        /// The key of the period that contains the instant or the date; for a skipped date, of the period after it.
        holder: String,
    },
    /// The key names a period that contains no [`Timestamp`].
    #[error("the key must name a period in the years 1900 to 2185")]
    OutOfRange,
}

/// What decides where periods begin: the time zone, the first day of the week, and the seasons.
///
/// Without a `season`, the unit [`Unit::Season`] is one period that contains all of time, with the key `all`. (The board
/// must refuse a window of seasons without their definition.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The time zone in which hours, dates, months and years are counted.
    pub tz: Zone,
    /// The day on which weeks begin.
    pub week_start: Weekday,
    /// The seasons, if the board has any.
    pub season: Option<Season>,
}

impl Calendar {
    /// The period of the given unit that contains `at`; there is always exactly one.
    pub fn containing(&self, unit: Unit, at: Timestamp) -> Period {
        let at_s = at.ms().div_euclid(1_000);
        let (start_s, end_s) = match unit {
            Unit::Minute => {
                let start = at_s - at_s.rem_euclid(MINUTE_S);
                (start, start + MINUTE_S)
            }
            Unit::Hour => self.hour(at_s),
            Unit::Day | Unit::Week | Unit::Month | Unit::Year => self.dates(unit, at_s),
            Unit::All => return Period::endless(unit),
            Unit::Season => {
                return self
                    .season
                    .map_or(Period::endless(unit), |season| season.containing(at));
            }
        };
        Period {
            unit,
            start_ms: start_s * 1_000,
            end_ms: end_s * 1_000,
        }
    }

    /// The period that begins where this one ends. `None` for `all`, and if that is after [`Timestamp::MAX`].
    pub fn next(&self, period: &Period) -> Option<Period> {
        Some(self.containing(period.unit, period.end()?))
    }

    /// The period that ends where this one begins. `None` for `all`, and if that is at or before [`Timestamp::MIN`].
    pub fn previous(&self, period: &Period) -> Option<Period> {
        let last = Timestamp::from_ms(period.start_ms.saturating_sub(1)).ok()?;
        Some(self.containing(period.unit, last))
    }

    /// The key of a period of this calendar. No two periods of a unit share a key.
    pub fn key(&self, period: &Period) -> String {
        let start_s = period.start_ms.div_euclid(1_000);
        match period.unit {
            _ if period.start_ms == i64::MIN => ALL_KEY.to_owned(),
            unit @ (Unit::Day | Unit::Week | Unit::Month | Unit::Year) => {
                date_key(unit, self.first_date(unit, self.local_date(start_s)))
            }
            Unit::Minute | Unit::Hour | Unit::All | Unit::Season => instant_key(period.start_ms),
        }
    }

    /// The period that has the given key: the exact inverse of [`Self::key`].
    ///
    /// # Errors
    /// [`KeyError`] if no period has it, with the form of a key or with the key that may have been meant.
    pub fn parse_key(&self, unit: Unit, key: &str) -> Result<Period, KeyError> {
        let (start_ms, example) = match unit {
            Unit::Minute | Unit::Hour => (read_instant(key), "2026-11-01T05:30Z"),
            Unit::Season if self.season.is_some() => (read_instant(key), "2026-01-04T16:00Z"),
            Unit::All | Unit::Season => ((key == ALL_KEY).then_some(i64::MIN), ALL_KEY),
            Unit::Day => (self.read_date(unit, key), "2026-11-01"),
            Unit::Week => (self.read_date(unit, key), "2026-10-26"),
            Unit::Month => (self.read_date(unit, key), "2026-11"),
            Unit::Year => (self.read_date(unit, key), "2026"),
        };
        let start_ms = start_ms.ok_or_else(|| match no_such_day(key) {
            Some((year, month, day)) if !matches!(example.len(), 4 | 7) => {
                KeyError::NoSuchDay(year, month, day)
            }
            _ => KeyError::Malformed { unit, example },
        })?;
        // The very first period may begin before the first timestamp: it is found all the same.
        let period = self.containing(unit, Timestamp::from_ms_clamped(start_ms));
        let holder = self.key(&period);
        if holder == key {
            Ok(period)
        } else if Timestamp::from_ms(start_ms).is_ok() {
            Err(KeyError::NotAStart { unit, holder })
        } else {
            Err(KeyError::OutOfRange)
        }
    }

    /// The start and end, in seconds, of the hour that contains `at_s`.
    fn hour(&self, at_s: i64) -> (i64, i64) {
        let offset = self.offset(at_s);
        let start = at_s - (at_s + offset).rem_euclid(HOUR_S);
        let last = start + HOUR_S - 1;
        (
            if self.offset(start) == offset {
                start
            } else {
                self.change(start, at_s)
            },
            if self.offset(last) == offset {
                last + 1
            } else {
                self.change(at_s, last)
            },
        )
    }

    /// The start and end, in seconds, of the day, week, month or year that contains `at_s`.
    fn dates(&self, unit: Unit, at_s: i64) -> (i64, i64) {
        let mut first = self.first_date(unit, self.local_date(at_s));
        let mut start = self.begin(first);
        loop {
            let next = date_after(unit, first);
            let end = self.begin(next);
            if at_s < end {
                return (start, end);
            }
            // The clock was turned back over midnight: `at_s` has a date of the period before, but the next one has begun.
            (first, start) = (next, end);
        }
    }

    /// The first second whose local date is on or after `date`.
    fn begin(&self, date: NaiveDate) -> i64 {
        let midnight = date.and_time(NaiveTime::MIN).and_utc().timestamp();
        // One day is more than any offset, so the instant is between these two.
        let before = self.offset(midnight - DAY_S);
        let after = self.offset(midnight + DAY_S);
        let by_before = midnight - before;
        if before == after || self.offset(by_before) == before {
            return by_before;
        }
        // The offset changed, once, before midnight was reached.
        let by_after = midnight - after;
        if self.offset(by_after) == after {
            return by_after;
        }
        // Neither offset ever shows midnight: the change skips it.
        self.change(by_after, by_before)
    }

    /// The first second in `(low, high]` whose offset is not that at `low`, if the offset changes once in between.
    fn change(&self, mut low: i64, mut high: i64) -> i64 {
        let offset = self.offset(low);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.offset(middle) == offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Local time minus UTC, in seconds, at the given second of UTC.
    fn offset(&self, at_s: i64) -> i64 {
        self.tz.offset(at_s)
    }

    fn local_date(&self, at_s: i64) -> NaiveDate {
        let local_s = at_s + self.offset(at_s);
        DateTime::from_timestamp(local_s, 0)
            .unwrap_or_default()
            .date_naive()
    }

    /// The first date of the day, week, month or year that `date` is in.
    fn first_date(&self, unit: Unit, date: NaiveDate) -> NaiveDate {
        let first = match unit {
            Unit::Week => date.week(self.week_start).checked_first_day(),
            Unit::Month => date.with_day(1),
            Unit::Year => date.with_ordinal(1),
            Unit::Day | Unit::Minute | Unit::Hour | Unit::All | Unit::Season => Some(date),
        };
        first.unwrap_or(NaiveDate::MIN)
    }

    /// The start, in milliseconds, of the date that a well-formed key names.
    fn read_date(&self, unit: Unit, key: &str) -> Option<i64> {
        let date: NaiveDate = format!("{key}{}", date_suffix(unit)).parse().ok()?;
        (date_key(unit, date) == key).then(|| self.begin(date) * 1_000)
    }
}

const ALL_KEY: &str = "all";

/// The first date of the period after the one whose first date is `first`.
fn date_after(unit: Unit, first: NaiveDate) -> NaiveDate {
    let next = match unit {
        Unit::Week => first.checked_add_days(Days::new(7)),
        Unit::Month => first.checked_add_months(Months::new(1)),
        Unit::Year => first.checked_add_months(Months::new(12)),
        Unit::Day | Unit::Minute | Unit::Hour | Unit::All | Unit::Season => first.succ_opt(),
    };
    next.unwrap_or(NaiveDate::MAX)
}

/// What the key of a month or a year leaves out of the period's first date.
const fn date_suffix(unit: Unit) -> &'static str {
    match unit {
        Unit::Month => "-01",
        Unit::Year => "-01-01",
        Unit::Day | Unit::Week | Unit::Minute | Unit::Hour | Unit::All | Unit::Season => "",
    }
}

fn date_key(unit: Unit, first: NaiveDate) -> String {
    let mut key = first.to_string();
    key.truncate(key.len() - date_suffix(unit).len());
    key
}

fn instant_key(start_ms: i64) -> String {
    let start = DateTime::<Utc>::from_timestamp_millis(start_ms).unwrap_or_default();
    let (date, hour, minute) = (start.date_naive(), start.hour(), start.minute());
    match (start.second(), start.timestamp_subsec_millis()) {
        (0, 0) => format!("{date}T{hour:02}:{minute:02}Z"),
        (second, 0) => format!("{date}T{hour:02}:{minute:02}:{second:02}Z"),
        (second, ms) => format!("{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"),
    }
}

/// The instant, in milliseconds, that a well-formed key names.
fn read_instant(key: &str) -> Option<i64> {
    let start = NaiveDateTime::parse_from_str(key, "%Y-%m-%dT%H:%MZ")
        .or_else(|_| NaiveDateTime::parse_from_str(key, "%Y-%m-%dT%H:%M:%S%.fZ"))
        .ok()?;
    let start_ms = start.and_utc().timestamp_millis();
    (instant_key(start_ms) == key).then_some(start_ms)
}

#[cfg(test)]
mod tests {
    use super::super::time::at;
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::collections::HashSet;

    const DAY_MS: i64 = DAY_S * 1_000;

    fn calendar(zone: &str) -> Calendar {
        let season = Season::new(at("2026-01-05T00:00:00+08:00"), Span::days(14)).unwrap();
        Calendar {
            tz: zone.parse().unwrap(),
            week_start: Weekday::Mon,
            season: Some(season),
        }
    }

    /// The periods from the one that contains `from` on: each key, and the start where the key does not say it.
    fn periods(zone: &str, unit: Unit, from: &str, count: usize) -> Vec<String> {
        let calendar = calendar(zone);
        let first = calendar.containing(unit, at(from));
        std::iter::successors(Some(first), |period| calendar.next(period))
            .take(count)
            .map(|period| {
                let key = calendar.key(&period);
                assert_eq!(calendar.parse_key(unit, &key), Ok(period));
                if key.ends_with('Z') {
                    key
                } else {
                    format!("{key} {}", instant_key(period.start_ms))
                }
            })
            .collect()
    }

    fn key_of(zone: &str, unit: Unit, instant: &str) -> String {
        let calendar = calendar(zone);
        calendar.key(&calendar.containing(unit, at(instant)))
    }

    fn key_error(zone: &str, unit: Unit, key: &str) -> String {
        calendar(zone).parse_key(unit, key).unwrap_err().to_string()
    }

    #[test]
    fn new_york_has_days_of_23_and_25_hours() {
        let zone = "America/New_York";
        assert_eq!(
            periods(zone, Unit::Day, "2013-03-10T12:00:00Z", 2),
            [
                "2013-03-10 2013-03-10T05:00Z",
                "2013-03-11 2013-03-11T04:00Z"
            ]
        );
        assert_eq!(
            periods(zone, Unit::Day, "2013-11-03T12:00:00Z", 2),
            [
                "2013-11-03 2013-11-03T04:00Z",
                "2013-11-04 2013-11-04T05:00Z"
            ]
        );
        // 01:00 EDT, 01:00 EST, 02:00 EST: the repeated hour has two keys.
        assert_eq!(
            periods(zone, Unit::Hour, "2013-11-03T05:59:59.999Z", 3),
            [
                "2013-11-03T05:00Z",
                "2013-11-03T06:00Z",
                "2013-11-03T07:00Z"
            ]
        );
        assert_eq!(
            periods(zone, Unit::Month, "2013-11-03T12:00:00Z", 2),
            ["2013-11 2013-11-01T04:00Z", "2013-12 2013-12-01T05:00Z"]
        );
        assert_eq!(
            periods(zone, Unit::Week, "2013-11-04T04:59:59Z", 2),
            [
                "2013-10-28 2013-10-28T04:00Z",
                "2013-11-04 2013-11-04T05:00Z"
            ]
        );
        assert_eq!(
            periods(zone, Unit::Year, "2013-11-03T12:00:00Z", 2),
            ["2013 2013-01-01T05:00Z", "2014 2014-01-01T05:00Z"]
        );
    }

    #[test]
    fn offsets_of_half_and_quarter_hours_shift_the_hours() {
        assert_eq!(
            periods("Asia/Kolkata", Unit::Hour, "2026-11-01T05:45:00Z", 2),
            ["2026-11-01T05:30Z", "2026-11-01T06:30Z"]
        );
        assert_eq!(
            periods("Asia/Kolkata", Unit::Day, "2026-10-31T18:30:00Z", 1),
            ["2026-11-01 2026-10-31T18:30Z"]
        );
        // Kathmandu went from 1985-12-31 24:00 (+05:30) to 1986-01-01 00:15 (+05:45).
        assert_eq!(
            periods("Asia/Kathmandu", Unit::Hour, "1985-12-31T17:30:00Z", 3),
            [
                "1985-12-31T17:30Z",
                "1985-12-31T18:30Z",
                "1985-12-31T19:15Z"
            ]
        );
        assert_eq!(
            periods("Asia/Kathmandu", Unit::Year, "1985-12-31T18:30:00Z", 1),
            ["1986 1985-12-31T18:30Z"]
        );
    }

    #[test]
    fn lord_howe_repeats_and_skips_half_an_hour() {
        // 01:00 +11, 01:30 +10:30 (the repeated half), 02:00 +10:30.
        assert_eq!(
            periods("Australia/Lord_Howe", Unit::Hour, "2026-04-04T14:00:00Z", 4),
            [
                "2026-04-04T14:00Z",
                "2026-04-04T15:00Z",
                "2026-04-04T15:30Z",
                "2026-04-04T16:30Z"
            ]
        );
        // 01:00 +10:30, 02:30 +11 (02:00 is skipped), 03:00 +11.
        assert_eq!(
            periods("Australia/Lord_Howe", Unit::Hour, "2026-10-03T14:30:00Z", 4),
            [
                "2026-10-03T14:30Z",
                "2026-10-03T15:30Z",
                "2026-10-03T16:00Z",
                "2026-10-03T17:00Z"
            ]
        );
    }

    #[test]
    fn a_clock_turned_back_over_midnight_does_not_reopen_the_day() {
        // St John's: 00:01 on the 29th (-02:30) became 23:01 on the 28th (-03:30) at 02:31Z.
        let zone = "America/St_Johns";
        assert_eq!(
            periods(zone, Unit::Day, "2000-10-29T02:29:59.999Z", 3),
            [
                "2000-10-28 2000-10-28T02:30Z",
                "2000-10-29 2000-10-29T02:30Z",
                "2000-10-30 2000-10-30T03:30Z"
            ]
        );
        assert_eq!(
            key_of(zone, Unit::Day, "2000-10-29T03:00:00Z"),
            "2000-10-29"
        );
        assert_eq!(
            periods(zone, Unit::Hour, "2000-10-29T02:30:00Z", 3),
            [
                "2000-10-29T02:30Z",
                "2000-10-29T02:31Z",
                "2000-10-29T03:30Z"
            ]
        );
        // Kwajalein went back 23 hours, from the end of 1969-09-30: that day has 47 hours.
        assert_eq!(
            periods("Pacific/Kwajalein", Unit::Day, "1969-09-30T13:00:00Z", 2),
            [
                "1969-09-30 1969-09-29T13:00Z",
                "1969-10-01 1969-10-01T12:00Z"
            ]
        );
    }

    #[test]
    fn a_midnight_that_is_skipped_or_repeated_begins_one_day() {
        assert_eq!(
            periods(
                "America/Sao_Paulo",
                Unit::Day,
                "2017-10-15T02:59:59.999Z",
                3
            ),
            [
                "2017-10-14 2017-10-14T03:00Z",
                "2017-10-15 2017-10-15T03:00Z",
                "2017-10-16 2017-10-16T02:00Z"
            ]
        );
        assert_eq!(
            periods("America/Sao_Paulo", Unit::Day, "2018-02-18T02:30:00Z", 2),
            [
                "2018-02-17 2018-02-17T02:00Z",
                "2018-02-18 2018-02-18T03:00Z"
            ]
        );
        assert_eq!(
            periods("Asia/Beirut", Unit::Day, "2022-03-26T22:00:00Z", 2),
            [
                "2022-03-27 2022-03-26T22:00Z",
                "2022-03-28 2022-03-27T21:00Z"
            ]
        );
        assert_eq!(
            periods("America/Havana", Unit::Day, "2016-11-06T05:30:00Z", 2),
            [
                "2016-11-06 2016-11-06T04:00Z",
                "2016-11-07 2016-11-07T05:00Z"
            ]
        );
        assert_eq!(
            periods("America/Havana", Unit::Hour, "2016-11-06T04:30:00Z", 2),
            ["2016-11-06T04:00Z", "2016-11-06T05:00Z"]
        );
    }

    #[test]
    fn a_skipped_date_is_not_a_day() {
        let zone = "Pacific/Apia";
        assert_eq!(
            periods(zone, Unit::Day, "2011-12-30T09:59:59.999Z", 2),
            [
                "2011-12-29 2011-12-29T10:00Z",
                "2011-12-31 2011-12-30T10:00Z"
            ]
        );
        let day = calendar(zone).containing(Unit::Day, at("2011-12-30T10:00:00Z"));
        let before = calendar(zone).previous(&day).unwrap();
        assert_eq!(calendar(zone).key(&before), "2011-12-29");
        assert_eq!(
            key_error(zone, Unit::Day, "2011-12-30"),
            "no period of `day` has this key; the nearest one has the key `2011-12-31`"
        );
        // A week or a year is named by its first date even if that one was skipped.
        let week = Calendar {
            week_start: Weekday::Fri,
            ..calendar(zone)
        };
        let period = week.containing(Unit::Week, at("2012-01-01T00:00:00Z"));
        assert_eq!(week.key(&period), "2011-12-30");
        assert_eq!(week.parse_key(Unit::Week, "2011-12-30"), Ok(period));
        assert_eq!(period.start(), Some(at("2011-12-30T10:00:00Z")));
    }

    #[test]
    fn shanghai_had_daylight_saving_from_1986_to_1991() {
        let zone = "Asia/Shanghai";
        assert_eq!(
            periods(zone, Unit::Day, "1986-05-03T16:00:00Z", 2),
            [
                "1986-05-04 1986-05-03T16:00Z",
                "1986-05-05 1986-05-04T15:00Z"
            ]
        );
        assert_eq!(
            periods(zone, Unit::Day, "1991-09-14T15:00:00Z", 2),
            [
                "1991-09-15 1991-09-14T15:00Z",
                "1991-09-16 1991-09-15T16:00Z"
            ]
        );
        assert_eq!(
            key_of(zone, Unit::Day, "1991-07-31T15:00:00Z"),
            "1991-08-01"
        );
        assert_eq!(
            key_of(zone, Unit::Day, "1992-07-31T15:59:59Z"),
            "1992-07-31"
        );
    }

    #[test]
    fn offsets_with_seconds_give_hours_with_seconds() {
        // Monrovia: -00:44:30 until 1972-01-07 00:00, which became 00:44:30 (+00:00).
        let zone = "Africa/Monrovia";
        assert_eq!(
            periods(zone, Unit::Hour, "1972-01-06T23:44:30Z", 3),
            [
                "1972-01-06T23:44:30Z",
                "1972-01-07T00:44:30Z",
                "1972-01-07T01:00Z"
            ]
        );
        assert_eq!(
            periods(zone, Unit::Day, "1972-01-07T00:44:30Z", 2),
            [
                "1972-01-07 1972-01-07T00:44:30Z",
                "1972-01-08 1972-01-08T00:00Z"
            ]
        );
        assert_eq!(
            periods(zone, Unit::Minute, "1972-01-07T00:44:45Z", 2),
            ["1972-01-07T00:44Z", "1972-01-07T00:45Z"]
        );
    }

    #[test]
    fn weeks_begin_on_the_day_of_the_calendar() {
        let sunday = Calendar {
            week_start: Weekday::Sun,
            ..calendar("UTC")
        };
        let week = |instant| sunday.key(&sunday.containing(Unit::Week, at(instant)));
        assert_eq!(week("2026-10-31T23:59:59.999Z"), "2026-10-25");
        assert_eq!(week("2026-11-01T00:00:00Z"), "2026-11-01");
        assert_eq!(
            key_of("UTC", Unit::Week, "2026-11-01T00:00:00Z"),
            "2026-10-26"
        );
        assert_eq!(
            key_of("UTC", Unit::Week, "2026-01-01T00:00:00Z"),
            "2025-12-29"
        );
    }

    #[test]
    fn seasons_run_in_both_directions_from_their_start() {
        assert_eq!(
            periods("UTC", Unit::Season, "2025-12-21T15:59:59.999Z", 3),
            [
                "2025-12-07T16:00Z",
                "2025-12-21T16:00Z",
                "2026-01-04T16:00Z"
            ]
        );
        let odd = |start, length| Calendar {
            season: Some(Season::new(at(start), length).unwrap()),
            ..calendar("UTC")
        };
        let keys = |calendar: Calendar| {
            let period = calendar.containing(Unit::Season, at("2026-01-04T16:02:00Z"));
            assert_eq!(
                calendar.parse_key(Unit::Season, &calendar.key(&period)),
                Ok(period)
            );
            calendar.key(&period)
        };
        assert_eq!(
            keys(odd("2026-01-04T16:00:30Z", Span::minutes(1))),
            "2026-01-04T16:01:30Z"
        );
        assert_eq!(
            keys(odd("2026-01-04T16:00:30.007Z", Span::minutes(1))),
            "2026-01-04T16:01:30.007Z"
        );
        let none = Calendar {
            season: None,
            ..calendar("UTC")
        };
        assert_eq!(keys(none), "all");
    }

    #[test]
    fn a_season_is_read_and_checked() {
        let read = |json| serde_json::from_str::<Season>(json);
        let season = read(r#"{"start": "2026-01-05T00:00:00+08:00", "length": "14d"}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&season).unwrap(),
            r#"{"start":"2026-01-04T16:00:00.000Z","length":"14d"}"#
        );
        for (json, message) in [
            (
                r#"{"start": "2026-01-05T00:00:00Z", "length": "59s"}"#,
                "at least 1m",
            ),
            (r#"{"start": "2026-01-05", "length": "14d"}"#, "RFC 3339"),
            (
                r#"{"start": "2026-01-05T00:00:00Z", "length": "2w"}"#,
                "a whole number and s, m, h or d",
            ),
            (
                r#"{"start": "2026-01-05T00:00:00Z", "length": "1d", "end": 1}"#,
                "unknown field",
            ),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn all_has_neither_start_nor_end() {
        let calendar = calendar("UTC");
        let all = calendar.containing(Unit::All, at("2026-11-01T00:00:00Z"));
        assert_eq!((all.start(), all.end()), (None, None));
        assert_eq!((calendar.next(&all), calendar.previous(&all)), (None, None));
        assert!(all.contains(Timestamp::MIN) && all.contains(Timestamp::MAX));
        assert_eq!(calendar.key(&all), "all");
        assert_eq!(calendar.parse_key(Unit::All, "all"), Ok(all));
    }

    #[test]
    fn units_have_names() {
        for unit in Unit::ALL {
            assert_eq!(Unit::named(unit.name()), Some(unit));
            assert_eq!(serde_json::to_string(&unit).unwrap(), format!("\"{unit}\""));
        }
        assert_eq!(Unit::named("Day"), None);
    }

    #[test]
    fn an_invalid_key_gets_the_expected_format() {
        let zone = "America/New_York";
        let nearest = |unit, key| match calendar(zone).parse_key(unit, key) {
            Err(KeyError::NotAStart { holder, .. }) => holder,
            other => panic!("{key}: {other:?}"),
        };
        assert_eq!(nearest(Unit::Week, "2026-10-27"), "2026-10-26");
        assert_eq!(
            nearest(Unit::Hour, "2026-11-01T05:31Z"),
            "2026-11-01T05:00Z"
        );
        assert_eq!(
            nearest(Unit::Hour, "2026-11-01T05:30:30Z"),
            "2026-11-01T05:00Z"
        );
        assert_eq!(
            nearest(Unit::Minute, "2026-11-01T05:30:30Z"),
            "2026-11-01T05:30Z"
        );
        assert_eq!(
            nearest(Unit::Season, "2026-01-05T00:00Z"),
            "2026-01-04T16:00Z"
        );
        assert_eq!(
            key_error(zone, Unit::Day, "2026-02-30"),
            "there is no such day: 2026-02-30"
        );
        assert_eq!(
            key_error(zone, Unit::Day, "2026-11"),
            "a key of `day` must have the form `2026-11-01`"
        );
        for (unit, key) in [
            (Unit::Minute, "2026-11-01T05:30"),
            (Unit::Minute, "2026-11-01T05:30:00Z"),
            (Unit::Minute, "2026-11-01T05:30:30.000Z"),
            (Unit::Minute, "2026-11-01T05:59:60Z"),
            (Unit::Hour, "2026-11-01T5:00Z"),
            (Unit::Hour, "2026-11-01T05:00+00:00"),
            (Unit::Hour, "2026-11-01T24:00Z"),
            (Unit::Day, "2026-11-1"),
            (Unit::Day, " 2026-11-01"),
            (Unit::Day, "2026-11-01Z"),
            (Unit::Day, "+2026-11-01"),
            (Unit::Day, ""),
            (Unit::Week, "2026-W44"),
            (Unit::Month, "2026-13"),
            (Unit::Month, "2026-11-01"),
            (Unit::Year, "26"),
            (Unit::Year, "2026-01"),
            (Unit::All, "ALL"),
            (Unit::Season, "all"),
        ] {
            let error = calendar(zone).parse_key(unit, key).unwrap_err();
            assert!(
                matches!(error, KeyError::Malformed { .. }),
                "{key}: {error:?}"
            );
        }
        for (unit, key) in [
            (Unit::Day, "1899-12-30"),
            (Unit::Day, "+262142-12-31"),
            (Unit::Day, "-262143-01-01"),
            (Unit::Week, "+262142-12-31"),
            (Unit::Month, "1899-11"),
            (Unit::Year, "0000"),
            (Unit::Year, "+10001"),
            (Unit::Hour, "1899-12-31T22:00Z"),
            (Unit::Season, "-262143-01-01T00:00Z"),
        ] {
            assert_eq!(
                calendar(zone).parse_key(unit, key),
                Err(KeyError::OutOfRange),
                "{key}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_range_are_in_a_period_like_any_other() {
        // Local dates reach into 1899 west of Greenwich, and a day further east of it.
        let (first, last) = (Timestamp::MIN.to_string(), Timestamp::MAX.to_string());
        assert_eq!(key_of("America/New_York", Unit::Year, &first), "1899");
        assert_eq!(key_of("Asia/Tokyo", Unit::Day, &last), "2185-06-05");
        for tz in Zone::all() {
            let calendar = Calendar {
                tz,
                ..calendar("UTC")
            };
            for unit in Unit::ALL {
                for end in [Timestamp::MIN, Timestamp::MAX] {
                    let period = calendar.containing(unit, end);
                    assert!(period.contains(end));
                    assert_eq!(calendar.parse_key(unit, &calendar.key(&period)), Ok(period));
                }
                let first = calendar.containing(unit, Timestamp::MIN);
                let previous = calendar.previous(&first);
                assert_eq!(previous, None, "{tz} {unit}");
                let last = calendar.containing(unit, Timestamp::MAX);
                assert_eq!(calendar.next(&last), None, "{tz} {unit}");
            }
        }
    }

    /// An instant of a zone, more often than not within two days of a change of its offset.
    fn zone_and_instant() -> impl Strategy<Value = (Zone, Timestamp)> {
        let years = prop_oneof![
            1 => Timestamp::MIN.ms()..=Timestamp::MAX.ms(),
            9 => Timestamp::MIN.ms()..=4_102_444_800_000, // to 2100
        ];
        let nudge = prop_oneof![
            Just(None),
            (-2 * DAY_MS..=2 * DAY_MS).prop_map(Some),
            (-90 * 60..=90_i64).prop_map(|s| Some(s * 60_000)),
            (-1..=1_i64).prop_map(Some),
        ];
        (select(Zone::all()), years, nudge).prop_map(|(tz, ms, nudge)| {
            let calendar = Calendar {
                tz,
                ..calendar("UTC")
            };
            let change_ms = || {
                let from_s = ms.div_euclid(1_000);
                let weeks = || (0..110).map(|week| from_s + week * 7 * DAY_S);
                let (low, high) = weeks()
                    .zip(weeks().skip(1))
                    .find(|&(low, high)| calendar.offset(low) != calendar.offset(high))?;
                Some(calendar.change(low, high) * 1_000)
            };
            let ms = nudge
                .and_then(|nudge| Some(change_ms()? + nudge))
                .unwrap_or(ms);
            (calendar.tz, Timestamp::from_ms_clamped(ms))
        })
    }

    fn weekday() -> impl Strategy<Value = Weekday> {
        (0..7_u8).prop_map(|day| Weekday::try_from(day).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn periods_tile_time_and_keys_name_them(
            (tz, at) in zone_and_instant(),
            week_start in weekday(),
            season_start in Timestamp::MIN.ms()..=Timestamp::MAX.ms(),
            season_s in 60..=Span::MAX.ms() / 1_000,
        ) {
            let start = Timestamp::from_ms_clamped(season_start);
            let season = Some(Season::new(start, Span::seconds(season_s)).unwrap());
            let calendar = Calendar { tz, week_start, season };
            for unit in Unit::ALL {
                let period = calendar.containing(unit, at);
                prop_assert!(period.contains(at));
                prop_assert!(period.start_ms < period.end_ms);
                prop_assert!(period.end_ms.abs_diff(period.start_ms) <= unit.longest_ms());
                let mut keys = HashSet::from([calendar.key(&period)]);
                prop_assert_eq!(calendar.parse_key(unit, &calendar.key(&period)), Ok(period));
                for inside in [period.start_ms, period.end_ms - 1] {
                    if let Ok(inside) = Timestamp::from_ms(inside) {
                        prop_assert_eq!(calendar.containing(unit, inside), period);
                    }
                }
                let (mut earlier, mut later) = (period, period);
                for _ in 0..3 {
                    if let Some(next) = calendar.next(&later) {
                        prop_assert_eq!(next.start_ms, later.end_ms);
                        prop_assert_eq!(calendar.previous(&next), Some(later));
                        prop_assert!(keys.insert(calendar.key(&next)));
                        later = next;
                    }
                    if let Some(previous) = calendar.previous(&earlier) {
                        prop_assert_eq!(previous.end_ms, earlier.start_ms);
                        prop_assert_eq!(calendar.next(&previous), Some(earlier));
                        prop_assert!(keys.insert(calendar.key(&previous)));
                        earlier = previous;
                    }
                }
            }
        }

        #[test]
        fn boundaries_are_where_the_rules_say((tz, at) in zone_and_instant()) {
            let calendar = Calendar { tz, ..calendar("UTC") };
            for unit in [Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
                let period = calendar.containing(unit, at);
                let start_s = period.start_ms / 1_000;
                let first = calendar.first_date(unit, calendar.local_date(start_s));
                prop_assert!(calendar.local_date(start_s - 1) < first);
                for step in 1..=120 {
                    prop_assert!(calendar.local_date(start_s - step * 900) < first);
                }
            }
            let hour = calendar.containing(Unit::Hour, at);
            let state = |s: i64| (calendar.offset(s), (s + calendar.offset(s)).div_euclid(HOUR_S));
            let (start_s, end_s) = (hour.start_ms / 1_000, hour.end_ms / 1_000);
            prop_assert_eq!(state(start_s), state(end_s - 1));
            prop_assert_ne!(state(start_s), state(start_s - 1));
            prop_assert_ne!(state(start_s), state(end_s));
        }

        #[test]
        fn smaller_periods_are_within_larger_ones((tz, at) in zone_and_instant()) {
            let calendar = Calendar { tz, ..calendar("UTC") };
            let within = |small, large| {
                let small = calendar.containing(small, at);
                let large = calendar.containing(large, at);
                large.start_ms <= small.start_ms && small.end_ms <= large.end_ms
            };
            prop_assert!(within(Unit::Hour, Unit::Day));
            prop_assert!(within(Unit::Day, Unit::Week));
            prop_assert!(within(Unit::Day, Unit::Month));
            prop_assert!(within(Unit::Month, Unit::Year));
        }

        #[test]
        fn a_parsed_key_formats_back(
            tz in select(Zone::all()),
            key in "\\PC{0,30}|[+]?[0-9]{4,5}(-[01]1){0,2}(T[0-2][0-9](:[0-5]0){1,2}[.0-9]{0,5}Z)?"
        ) {
            let calendar = Calendar { tz, ..calendar("UTC") };
            for unit in Unit::ALL {
                if let Ok(period) = calendar.parse_key(unit, &key) {
                    prop_assert_eq!(calendar.key(&period), key.as_str());
                }
            }
        }
    }
}
