//! Instants, exact to the microsecond, and spans of time, exact to the millisecond.
//!
//! A [`Timestamp`] is read and written as RFC 3339 and always kept in UTC, so it means the same on every machine. Its range
//! begins in 1900, when time zones had been standardised, and ends in 2185: a double holds that many microseconds exactly,
//! which scripts rely on. Arithmetic saturates at the ends.
//!
//! A [`Span`] is a length such as `48h`. It counts milliseconds of UTC: `1d` is 24 hours, even on a day that daylight
//! saving makes 23 hours long. For calendar days see [`period`](super::period).

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::texts::serde_as_text;

/// An instant outside [`Timestamp::MIN`] to [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be between 1900-01-01T00:00:00Z and {}", Timestamp::MAX)]
pub struct OutOfRange;

/// Why a text is not a [`Timestamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimestampError {
    /// The text is not an RFC 3339 date and time with an offset.
    #[error("must be a time in RFC 3339 with an offset, such as `2026-11-21T00:30:00Z`")]
    Malformed,
    /// It would be one with `+` for the space before its offset.
    #[error(
        "must be a time in RFC 3339 with an offset, such as `2026-11-21T00:30:00+01:00`. In an address, write `+` as `%2B`"
    )]
    Spaced,
    /// It would be one if this day existed.
    #[error("there is no such day: {0:04}-{1:02}-{2:02}")]
    NoSuchDay(u16, u8, u8),
    /// The time is well-formed, but too early or too late.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

/// An instant in UTC: microseconds since 1970-01-01T00:00:00Z, from [`Timestamp::MIN`] to
/// [`Timestamp::MAX`]. Leap seconds are not counted, as in Unix time.
///
/// Its text is RFC 3339 with `Z`, and with three fraction digits for a whole millisecond, otherwise with six:
/// `2026-11-21T00:30:00.000Z`, `2026-11-21T00:30:00.000250Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Microseconds per millisecond.
const US_OF_MS: i64 = 1_000;

impl Timestamp {
    /// The earliest instant, 1900-01-01T00:00:00Z.
    pub const MIN: Self = Self(-2_208_988_800_000_000);
    /// The latest instant, 2^53 − 1 microseconds later: in the year 2185.
    pub const MAX: Self = Self(Self::MIN.0 + ((1 << 53) - 1));

    /// The instant `us` microseconds after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not between [`Self::MIN`] and [`Self::MAX`].
    pub const fn from_us(us: i64) -> Result<Self, OutOfRange> {
        if Self::MIN.0 <= us && us <= Self::MAX.0 {
            Ok(Self(us))
        } else {
            Err(OutOfRange)
        }
    }

    /// The instant `ms` milliseconds after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not between [`Self::MIN`] and [`Self::MAX`].
    pub const fn from_ms(ms: i64) -> Result<Self, OutOfRange> {
        match ms.checked_mul(US_OF_MS) {
            Some(us) => Self::from_us(us),
            None => Err(OutOfRange),
        }
    }

    /// Like [`Self::from_us`], clamped to the range.
    pub fn from_us_clamped(us: i64) -> Self {
        Self(us.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Like [`Self::from_ms`], clamped to the range.
    pub fn from_ms_clamped(ms: i64) -> Self {
        Self::from_us_clamped(ms.saturating_mul(US_OF_MS))
    }

    /// Microseconds since 1970-01-01T00:00:00Z; negative before.
    pub const fn us(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since 1970-01-01T00:00:00Z, rounded down; negative before. An instant is before one of whole
    /// milliseconds, such as the beginning of a period, exactly if this number is smaller.
    pub const fn ms(self) -> i64 {
        self.0.div_euclid(US_OF_MS)
    }

    /// Rounded down to whole milliseconds, the precision of instants in definitions.
    #[must_use]
    pub fn to_whole_ms(self) -> Self {
        Self(self.ms() * US_OF_MS)
    }

    /// Whether it is a whole millisecond. The service gives no event such a time ([`Clock`](crate::domain::clock::Clock)).
    pub const fn is_whole_ms(self) -> bool {
        self.0.rem_euclid(US_OF_MS) == 0
    }

    /// Reads RFC 3339, with any offset and any number of fraction digits. Digits beyond
    /// microseconds are cut off, never rounded up, so that no event moves into a period that had
    /// not begun.
    ///
    /// A second 60, which RFC 3339 allows for leap seconds, is the last microsecond of its minute:
    /// the event stays in the minute, hour and day in which its sender's clock saw it.
    ///
    /// # Errors
    /// [`TimestampError::Malformed`] and similar ones if the text is not RFC 3339, [`TimestampError::OutOfRange`] if
    /// the instant is not between [`Self::MIN`] and [`Self::MAX`].
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| malformed(text))?;
        // chrono counts a leap second as 1,000,000 to 1,999,999 µs of second 59.
        let fraction_us = time.timestamp_subsec_micros().min(999_999);
        Ok(Self::from_us(
            time.timestamp() * 1_000_000 + i64::from(fraction_us),
        )?)
    }

    /// The text without a zero fraction, as for the start of a period: `2026-11-20T16:00:00Z`, but
    /// `2026-11-20T16:00:00.250Z`.
    pub fn to_rfc3339_seconds(self) -> String {
        let text = self.to_string();
        match text.strip_suffix(".000Z") {
            Some(seconds) => format!("{seconds}Z"),
            None => text,
        }
    }

    /// The seconds since another instant, rounded up; 0 if that is later.
    pub fn seconds_after(self, other: Self) -> u64 {
        let us = self.0.saturating_sub(other.0).max(0);
        us.unsigned_abs().div_ceil(1_000_000)
    }

    /// The instant `span` later, or [`Self::MAX`] if that is later still.
    #[must_use]
    pub fn saturating_add(self, span: Span) -> Self {
        Self::from_us_clamped(self.0.saturating_add_unsigned(span.us()))
    }

    /// The instant `span` earlier, or [`Self::MIN`] if that is earlier still.
    #[must_use]
    pub fn saturating_sub(self, span: Span) -> Self {
        Self::from_us_clamped(self.0.saturating_sub_unsigned(span.us()))
    }
}

/// Why a text is not an RFC 3339 date and time with an offset.
fn malformed(text: &str) -> TimestampError {
    let is_time = |text: &str| DateTime::parse_from_rfc3339(text).is_ok();
    // RFC 3339 allows a space before the time of day too.
    if let Some((time, offset)) = text.rsplit_once(' ')
        && is_time(&format!("{time}+{offset}"))
    {
        return TimestampError::Spaced;
    }
    let has_time = is_time(&format!("2000-01-01{}", text.get(10..).unwrap_or_default()));
    let day = no_such_day(text).filter(|_| has_time);
    day.map_or(TimestampError::Malformed, |(year, month, day)| {
        TimestampError::NoSuchDay(year, month, day)
    })
}

/// The year, month and day that a text begins with, if it has the form of a date and the calendar does not have that day.
pub fn no_such_day(text: &str) -> Option<(u16, u8, u8)> {
    let mut parts = text.get(..10)?.split('-');
    let mut number = |digits: usize| {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(part)
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let (year, month, day): (u16, u8, u8) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let date = NaiveDate::from_ymd_opt(year.into(), month.into(), day.into());
    date.is_none().then_some((year, month, day))
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let utc = DateTime::<Utc>::from_timestamp_micros(self.0)
            .expect("chrono holds every year from 1900 to 2185")
            .naive_utc();
        // Responses have many of them, and chrono's formatting takes several times as long.
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let mut write = |places: Range<usize>, mut number: u32| {
            for place in places.rev() {
                text[place] += u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        };
        write(0..4, utc.year().unsigned_abs());
        write(5..7, utc.month());
        write(8..10, utc.day());
        write(11..13, utc.hour());
        write(14..16, utc.minute());
        write(17..19, utc.second());
        let text = if self.is_whole_ms() {
            write(20..23, utc.nanosecond() / 1_000_000);
            text[23] = b'Z';
            &text[..24]
        } else {
            write(20..26, utc.nanosecond() / 1_000);
            &text[..]
        };
        f.write_str(str::from_utf8(text).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        Self::parse(text)
    }
}

serde_as_text!(Timestamp, Span);

/// Writes an instant as [`Timestamp::to_rfc3339_seconds`] does.
pub fn seconds<S: Serializer>(
    instant: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = instant.map(Timestamp::to_rfc3339_seconds);
    text.serialize(serializer)
}

/// Why a text is not a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpanError {
    /// The text is not a number followed by a unit.
    #[error("must be a duration: a whole number and s, m, h or d, such as `90s` or `48h`")]
    Malformed,
    /// The length is above [`Span::MAX`].
    #[error("must be at most 36600d")]
    TooLong,
}

/// A length of time in milliseconds, from zero to [`Span::MAX`]; callers that can't accept zero or a very long span check that
/// themselves.
///
/// Its text is a whole number and one of `s`, `m`, `h`, `d`, such as `90s`, `10m`, `48h`, `14d`.
/// The unit is kept, so that a user reads `48h` where they wrote `48h`; only leading zeros are
/// dropped. It does not take part in comparisons: `48h` equals `2d`.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    ms: u64,
    unit: SpanUnit,
}

/// The letter of a unit, and its length in milliseconds.
#[derive(Clone, Copy, Debug)]
struct SpanUnit(char, u64);

const SECOND: SpanUnit = SpanUnit('s', 1_000);
const MINUTE: SpanUnit = SpanUnit('m', 60_000);
const HOUR: SpanUnit = SpanUnit('h', 3_600_000);
const DAY: SpanUnit = SpanUnit('d', 86_400_000);

impl Span {
    /// The longest span, 36600 days (a little over 100 years).
    pub const MAX: Self = Self {
        ms: 36_600 * DAY.1,
        unit: DAY,
    };

    /// A span of whole seconds, at most [`Self::MAX`].
    pub const fn seconds(count: u64) -> Self {
        Self::saturating(count, SECOND)
    }

    /// A span of whole minutes, at most [`Self::MAX`].
    pub const fn minutes(count: u64) -> Self {
        Self::saturating(count, MINUTE)
    }

    /// A span of whole hours, at most [`Self::MAX`].
    pub const fn hours(count: u64) -> Self {
        Self::saturating(count, HOUR)
    }

    /// A span of whole days of 24 hours, at most [`Self::MAX`].
    pub const fn days(count: u64) -> Self {
        Self::saturating(count, DAY)
    }

    /// The length in milliseconds, at most 3,162,240,000,000.
    pub const fn ms(self) -> u64 {
        self.ms
    }

    /// The length in microseconds.
    const fn us(self) -> u64 {
        self.ms * US_OF_MS.unsigned_abs()
    }

    const fn checked(count: u64, unit: SpanUnit) -> Option<Self> {
        match count.checked_mul(unit.1) {
            Some(ms) if ms <= Self::MAX.ms => Some(Self { ms, unit }),
            _ => None,
        }
    }

    const fn saturating(count: u64, unit: SpanUnit) -> Self {
        match Self::checked(count, unit) {
            Some(span) => span,
            None => Self::MAX,
        }
    }
}

impl PartialEq for Span {
    fn eq(&self, other: &Self) -> bool {
        self.ms == other.ms
    }
}

impl Eq for Span {}

impl PartialOrd for Span {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Span {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ms.cmp(&other.ms)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpanUnit(letter, unit_ms) = self.unit;
        write!(f, "{}{letter}", self.ms / unit_ms)
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let (digits, unit) = [SECOND, MINUTE, HOUR, DAY]
            .into_iter()
            .find_map(|unit| Some((text.strip_suffix(unit.0)?, unit)))
            .ok_or(SpanError::Malformed)?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(SpanError::Malformed);
        }
        // All are digits, so only the size can be invalid.
        let count = digits.parse().map_err(|_| SpanError::TooLong)?;
        Self::checked(count, unit).ok_or(SpanError::TooLong)
    }
}

/// This instant.
#[cfg(test)]
pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> i64 {
        at(text).ms()
    }

    fn us(text: &str) -> i64 {
        at(text).us()
    }

    #[test]
    fn a_timestamp_is_read_in_any_offset_and_written_in_utc() {
        let time = Timestamp::parse("2026-11-21T06:00:00+05:30").unwrap();
        assert_eq!(time.to_string(), "2026-11-21T00:30:00.000Z");
        assert_eq!(time.to_rfc3339_seconds(), "2026-11-21T00:30:00Z");
        assert_eq!(ms("2026-11-20T16:30:00-08:00"), time.ms());
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            "\"2026-11-21T00:30:00.000Z\""
        );
        let read: Timestamp = serde_json::from_str("\"2026-11-21T00:30:00.25Z\"").unwrap();
        assert_eq!(read.to_rfc3339_seconds(), "2026-11-21T00:30:00.250Z");
    }

    #[test]
    fn fractions_are_cut_to_microseconds_on_both_sides_of_1970() {
        assert_eq!(us("1970-01-01T00:00:01.99999999999999999999Z"), 1_999_999);
        assert_eq!(us("1969-12-31T23:59:59.9999999Z"), -1);
        assert_eq!(us("1969-12-31T23:59:59.0000019Z"), -999_999);
        assert_eq!(ms("1969-12-31T23:59:59.9999Z"), -1);
        assert_eq!(ms("1970-01-01T00:00:00.0019Z"), 1);
    }

    #[test]
    fn only_fractions_of_a_millisecond_are_written_with_six_digits() {
        for text in [
            "2026-11-21T00:30:00.250Z",
            "2026-11-21T00:30:00.250001Z",
            "1969-12-31T23:59:59.999999Z",
        ] {
            let time = Timestamp::parse(text).unwrap();
            assert_eq!(time.to_string(), text);
            assert_eq!(time.is_whole_ms(), text.len() == 24, "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_last_microsecond_of_its_minute() {
        let last = us("2016-12-31T23:59:59.999999Z");
        assert_eq!(us("2016-12-31T23:59:60Z"), last);
        assert_eq!(us("2016-12-31T15:59:60.5-08:00"), last);
        assert_eq!(
            Timestamp::parse("2016-12-31T23:59:61Z"),
            Err(TimestampError::Malformed)
        );
    }

    #[test]
    fn the_range_is_1900_to_2185_in_utc() {
        let (first, last) = ("1900-01-01T00:00:00.000Z", "2185-06-04T23:47:34.740991Z");
        assert_eq!(us(first), Timestamp::MIN.us());
        assert_eq!(us(last), Timestamp::MAX.us());
        assert_eq!(Timestamp::MIN.to_string(), first);
        assert_eq!(Timestamp::MAX.to_string(), last);
        for text in [
            "1899-12-31T23:59:59.999999Z",
            "2185-06-04T23:47:34.740992Z",
            "2185-06-04T23:47:34-00:01",
            "9999-12-31T23:59:59Z",
            "0000-01-01T00:00:00+23:59",
        ] {
            assert_eq!(Timestamp::parse(text), Err(OutOfRange.into()), "{text}");
        }
        for ms in [
            i64::MIN,
            Timestamp::MIN.ms() - 1,
            Timestamp::MAX.ms() + 1,
            i64::MAX,
        ] {
            assert_eq!(Timestamp::from_ms(ms), Err(OutOfRange));
        }
        assert_eq!(Timestamp::from_ms_clamped(i64::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::from_ms_clamped(i64::MAX), Timestamp::MAX);
    }

    #[test]
    fn invalid_times_are_refused() {
        assert_eq!(
            Timestamp::parse("2026-02-30T00:00:00Z"),
            Err(TimestampError::NoSuchDay(2026, 2, 30))
        );
        for text in ["2026-11-21T00:30:00 01:00", "2026-11-21 00:30:00 01:00"] {
            assert_eq!(
                Timestamp::parse(text),
                Err(TimestampError::Spaced),
                "{text}"
            );
        }
        for text in [
            "",
            "now",
            "2026-11-21",
            "2026-11-21T00:30:00",
            "2026-11-21T00:30Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T00:30:00.Z",
            "2026-11-21T00:30:00Z ",
            "2026-11-21T00:30:00+24:00",
            "+12026-11-21T00:30:00Z",
            "1763683200000",
        ] {
            assert_eq!(
                Timestamp::parse(text),
                Err(TimestampError::Malformed),
                "{text}"
            );
        }
        assert!(serde_json::from_str::<Timestamp>("1763683200000").is_err());
    }

    #[test]
    fn adding_a_span_stops_at_the_ends() {
        let time = Timestamp::parse("2026-11-21T00:30:00Z").unwrap();
        let day = Span::days(1);
        assert_eq!(
            time.saturating_add(day).to_string(),
            "2026-11-22T00:30:00.000Z"
        );
        assert_eq!(
            time.saturating_sub(day).to_string(),
            "2026-11-20T00:30:00.000Z"
        );
        assert_eq!(Timestamp::MAX.saturating_add(Span::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_sub(Span::MAX), Timestamp::MIN);
    }

    #[test]
    fn a_span_keeps_its_unit() {
        for (text, ms, canonical) in [
            ("90s", 90_000, "90s"),
            ("10m", 600_000, "10m"),
            ("48h", 172_800_000, "48h"),
            ("014d", 1_209_600_000, "14d"),
            ("0s", 0, "0s"),
            ("36600d", 3_162_240_000_000, "36600d"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.ms(), span.to_string().as_str()), (ms, canonical));
            let json = serde_json::to_string(&span).unwrap();
            assert_eq!(json, format!("\"{canonical}\""));
            assert_eq!(
                serde_json::from_str::<Span>(&json).unwrap().to_string(),
                canonical
            );
        }
        assert_eq!(Span::hours(48), Span::days(2));
        assert!(Span::seconds(59) < Span::minutes(1));
        assert_eq!(Span::days(u64::MAX), Span::MAX);
    }

    #[test]
    fn invalid_spans_are_refused() {
        for text in [
            "", "s", "5", "-5s", "+5s", "5 s", "5S", "2w", "1.5h", "1h30m", "5ms", "٣d", "5é",
        ] {
            assert_eq!(text.parse::<Span>(), Err(SpanError::Malformed), "{text}");
        }
        for text in [
            "36601d",
            "878401h",
            "99999999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(text.parse::<Span>(), Err(SpanError::TooLong), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_text_of_a_timestamp_reads_back(us in Timestamp::MIN.us()..=Timestamp::MAX.us()) {
            let time = Timestamp::from_us(us).unwrap();
            prop_assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
            prop_assert_eq!(Timestamp::parse(&time.to_rfc3339_seconds()), Ok(time));
        }

        #[test]
        fn reading_never_panics(
            text in "\\PC{0,30}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{5,8}[.0-9]{0,12}[-+Z0-9:]{1,7}"
        ) {
            let _ = Timestamp::parse(&text);
            let _ = text.parse::<Span>();
        }
    }
}
