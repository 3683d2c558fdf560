//! Which sorted sets hold the members of which periods.

use std::str::FromStr;

use chrono::format::{Fixed, Item, Parsed, StrftimeItems};
use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Weekday};

use super::args::Work;
use super::read_there;
use super::target::Target;
use crate::cli::Failure;
use crate::cli::text::shortened;
use crate::domain::period::{Calendar, Period, Unit};
use crate::domain::time::Timestamp;
use crate::redis::source::Source;

/// The time of events for all time, if the user names no other: before any event of another source.
const EARLY: &str = "2000-01-01T00:00:00Z";
/// How many faulty names are listed.
const EXAMPLES_MAX: usize = 10;

/// A sorted set, and the period of its members.
#[derive(Clone, Debug)]
pub(super) struct SortedSet {
    pub(super) key: String,
    pub(super) period: Period,
}

impl SortedSet {
    /// When the first event of its members happens: at the time that the user names, or at the start of the period.
    pub(super) fn begin(&self, at: Option<Timestamp>) -> Timestamp {
        let early = || Timestamp::parse(EARLY).expect("invariant: it is a time");
        at.or_else(|| self.period.start()).unwrap_or_else(early)
    }
}

/// The names of sorted sets: a text before the period, the form of the period (`strftime`), and a text after it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamePattern {
    before: String,
    form: String,
    after: String,
}

impl FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Braces without a form, as of a hash tag, belong to the name.
        let braces = text.match_indices('{').find_map(|(index, _)| {
            let (form, after) = text[index + 1..].split_once('}')?;
            form.contains('%').then_some((&text[..index], form, after))
        });
        let (before, form, after) =
            braces.ok_or("must have the form of the period in braces, as in 'weekly_{%G-%V}'")?;
        // The name of a zone says nothing certain.
        let is_unusable = |item| matches!(item, Item::Error | Item::Fixed(Fixed::TimezoneName));
        if StrftimeItems::new(form).any(is_unusable) {
            return Err(format!(
                "{form:?} is not the form of a date, such as %G-%V or %Y-%m-%d"
            ));
        }
        Ok(Self {
            before: before.to_owned(),
            form: form.to_owned(),
            after: after.to_owned(),
        })
    }
}

impl NamePattern {
    /// The pattern of `SCAN` for these names.
    fn glob(&self) -> String {
        let literal = |text: &str| -> String {
            let is_special = |char| matches!(char, '*' | '?' | '[' | ']' | '\\' | '^');
            text.chars()
                .flat_map(|char| [is_special(char).then_some('\\'), Some(char)])
                .flatten()
                .collect()
        };
        format!("{}*{}", literal(&self.before), literal(&self.after))
    }

    /// The period that a name has, which must be one of the calendar's.
    fn period(&self, name: &str, unit: Unit, calendar: &Calendar) -> Result<Period, String> {
        let text = name.strip_prefix(&self.before);
        let text = text.and_then(|text| text.strip_suffix(&self.after));
        let moment = text.and_then(|text| self.parse(text));
        let moment =
            moment.ok_or_else(|| format!("its name does not have the form {{{}}}", self.form))?;
        let time = match moment {
            Moment::Instant(at) => {
                let period = calendar.containing(unit, at);
                let starts = period.start() == Some(at);
                return starts
                    .then_some(period)
                    .ok_or_else(|| format!("no {unit} of the board begins at {at}"));
            }
            Moment::Local(time) => time,
        };
        let form = match unit {
            Unit::Minute | Unit::Hour | Unit::Season => "%Y-%m-%dT%H:%MZ",
            Unit::Day | Unit::Week => "%Y-%m-%d",
            Unit::Month => "%Y-%m",
            Unit::Year => "%Y",
            Unit::All => return Err("all time has no periods".to_owned()),
        };
        let is_first = match unit {
            Unit::Month => time.day() == 1,
            Unit::Year => time.ordinal() == 1,
            _ => true,
        };
        let has_time = matches!(unit, Unit::Minute | Unit::Hour | Unit::Season);
        if !is_first || !has_time && time.time() != NaiveTime::MIN {
            return Err(format!("{time} is not the beginning of a {unit}"));
        }
        calendar
            .parse_key(unit, &time.format(form).to_string())
            .map_err(|error| error.to_string())
    }

    /// The first instant that a text can mean: what its form does not say is the first day, and midnight.
    fn parse(&self, text: &str) -> Option<Moment> {
        let mut parsed = Parsed::new();
        chrono::format::parse(&mut parsed, text, StrftimeItems::new(&self.form)).ok()?;
        if let Some(seconds) = parsed.timestamp() {
            let at = Timestamp::from_ms(seconds.checked_mul(1_000)?);
            return at.ok().map(Moment::Instant);
        }
        // A number of a week needs a day, and a month or a year its first.
        if parsed.isoweek().is_some() || parsed.week_from_mon().is_some() {
            let _ = parsed.set_weekday(Weekday::Mon);
        } else if parsed.week_from_sun().is_some() {
            let _ = parsed.set_weekday(Weekday::Sun);
        } else if parsed.ordinal().is_none() {
            if parsed.month().is_none() {
                let _ = parsed.set_month(1);
            }
            if parsed.day().is_none() {
                let _ = parsed.set_day(1);
            }
        }
        let date: NaiveDate = parsed.to_naive_date().ok()?;
        if parsed.minute().is_none() {
            let _ = parsed.set_minute(0);
        }
        let time = match parsed.hour_div_12() {
            Some(_) => parsed.to_naive_time().ok()?,
            None => NaiveTime::MIN,
        };
        let time = date.and_time(time);
        Some(match parsed.offset() {
            None => Moment::Local(time),
            Some(offset) => {
                let seconds = time.and_utc().timestamp() - i64::from(offset);
                Moment::Instant(Timestamp::from_ms(seconds * 1_000).ok()?)
            }
        })
    }
}

/// What the name of a sorted set says.
enum Moment {
    Instant(Timestamp),
    /// A date, or a time, of the board.
    Local(NaiveDateTime),
}

/// The sorted sets of the options.
///
/// # Errors
/// If there are none, or if one belongs to no period of the board.
pub(super) async fn find(
    source: &Source,
    work: &Work,
    target: &Target,
) -> Result<Vec<SortedSet>, Failure> {
    let (sets, unit, calendar) = (&work.sets, work.window(), target.board.calendar);
    let Some(pattern) = &sets.keys else {
        let key = sets.key.clone().unwrap_or_default();
        let name = sets.period.as_deref();
        let name = name.or((unit == Unit::All).then_some("all"));
        let name = name.ok_or("--window needs the --period of --key, or --keys")?;
        let period = calendar.parse_key(unit, name);
        let period = period.map_err(|error| format!("--period: {error}"))?;
        return Ok(vec![SortedSet { key, period }]);
    };
    if unit == Unit::All {
        return Err("--keys needs the --window that its periods belong to".into());
    }
    let glob = pattern.glob();
    let mut found = Vec::new();
    let mut faults = Vec::new();
    for key in read_there(|| source.sorted_sets(&glob)).await? {
        let period = pattern.period(&key, unit, &calendar);
        match period {
            Ok(period) => found.push(SortedSet { key, period }),
            Err(fault) => faults.push(format!("{}: {fault}", shortened(&key))),
        }
    }
    if !faults.is_empty() {
        let count = faults.len();
        faults.truncate(EXAMPLES_MAX);
        let listed = faults.join("; ");
        return Err(
            format!("{count} sorted sets belong to no period of the board: {listed}").into(),
        );
    }
    if found.is_empty() {
        return Err(format!("no sorted set matches {glob}").into());
    }
    found.sort_by_key(|set| set.period.start_ms);
    if let Some([one, other]) = found
        .array_windows()
        .find(|[one, other]| one.period == other.period)
    {
        let (one, other) = (shortened(&one.key), shortened(&other.key));
        return Err(format!("{one} and {other} are of the same {unit}").into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::board::Board;

    fn key(timezone: &str, pattern: &str, name: &str, unit: Unit) -> Option<String> {
        let board = format!(r#"{{"timezone": "{timezone}", "week_start": "sunday"}}"#);
        let mut calendar = Board::defined(&board).calendar;
        if pattern.contains("%V") {
            calendar.week_start = Weekday::Mon;
        }
        let pattern: NamePattern = pattern.parse().unwrap();
        let period = pattern.period(name, unit, &calendar).ok()?;
        Some(calendar.key(&period))
    }

    #[test]
    fn a_name_gives_the_period_that_begins_then() {
        let (utc, berlin) = ("UTC", "Europe/Berlin");
        for (zone, pattern, name, unit, expected) in [
            (
                utc,
                "weekly_{%G-%V}",
                "weekly_2026-48",
                Unit::Week,
                Some("2026-11-23"),
            ),
            (utc, "weekly_{%G-%V}", "weekly_2026-54", Unit::Week, None),
            (utc, "w{%Y-%U}", "w2026-47", Unit::Week, Some("2026-11-22")),
            (utc, "w{%Y-%m-%d}", "w2026-11-23", Unit::Week, None),
            (
                utc,
                "{%Y%m%d}:points",
                "20261130:points",
                Unit::Day,
                Some("2026-11-30"),
            ),
            (utc, "{%Y%m%d}:points", "20260231:points", Unit::Day, None),
            (
                utc,
                "{lb}:{%Y-%m}",
                "{lb}:2026-11",
                Unit::Month,
                Some("2026-11"),
            ),
            (utc, "lb:{%Y-%m-%d}", "lb:2026-11-02", Unit::Month, None),
            (utc, "lb:{%Y}", "lb:2026", Unit::Year, Some("2026")),
            (
                utc,
                "h:{%Y-%m-%dT%H}",
                "h:2026-11-30T07",
                Unit::Hour,
                Some("2026-11-30T07:00Z"),
            ),
            (utc, "h:{%Y-%m-%dT%H}", "h:2026-11-30T07", Unit::Day, None),
            (utc, "s:{%s}", "s:1795996800", Unit::Day, Some("2026-11-30")),
            (berlin, "s:{%s}", "s:1795996800", Unit::Day, None),
            (
                berlin,
                "s:{%s}",
                "s:1795993200",
                Unit::Day,
                Some("2026-11-30"),
            ),
            (
                utc,
                "h:{%Y-%m-%dT%H%z}",
                "h:2026-11-30T07+0200",
                Unit::Hour,
                Some("2026-11-30T05:00Z"),
            ),
            (
                berlin,
                "d:{%Y-%m-%d%z}",
                "d:2026-11-30+0100",
                Unit::Day,
                Some("2026-11-30"),
            ),
            (
                berlin,
                "d:{%Y-%m-%d%z}",
                "d:2026-11-30+0000",
                Unit::Day,
                None,
            ),
            (utc, "lb:{%Y}", "lb:total", Unit::Year, None),
            (utc, "lb:{%Y}", "other:2026", Unit::Year, None),
        ] {
            let found = key(zone, pattern, name, unit);
            assert_eq!(found.as_deref(), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_needs_the_form_of_a_period() {
        for text in ["weekly", "weekly_{%G-%V", "weekly_{%!}", "d_{%F%Z}", "{lb}"] {
            assert!(text.parse::<NamePattern>().is_err(), "{text}");
        }
        let pattern: NamePattern = "a*[b]_{%Y}?".parse().unwrap();
        assert_eq!(pattern.glob(), r"a\*\[b\]_*\?");
    }
}
