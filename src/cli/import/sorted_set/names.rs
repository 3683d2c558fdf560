//! Which sorted sets hold the members of which periods.

use std::str::FromStr;

use chrono::format::{Item, Parsed, StrftimeItems};
use chrono::{NaiveDate, NaiveDateTime, Weekday};

use super::args::Work;
use super::target::Target;
use crate::cli::Failure;
use crate::cli::text::shortened;
use crate::domain::period::{Period, Unit};
use crate::redis::source::Source;

/// How many faulty names are listed.
const EXAMPLES_MAX: usize = 10;

/// A sorted set, and the period of its members.
#[derive(Clone, Debug)]
pub(super) struct SortedSet {
    pub(super) key: String,
    pub(super) period: Period,
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
        let parts = text.split_once('{').and_then(|(before, rest)| {
            let (form, after) = rest.split_once('}')?;
            Some((before, form, after))
        });
        let (before, form, after) =
            parts.ok_or("must have the form of the period in braces, as in 'weekly_{%G-%V}'")?;
        if StrftimeItems::new(form).any(|item| item == Item::Error) {
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

    /// The key of the period that a name has, as the board would write it for a unit; it may be none of the board's.
    fn period_key(&self, name: &str, unit: Unit) -> Option<String> {
        let text = name.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        let time = self.parse(text)?;
        let form = match unit {
            Unit::Minute | Unit::Hour | Unit::Season => "%Y-%m-%dT%H:%MZ",
            Unit::Day | Unit::Week => "%Y-%m-%d",
            Unit::Month => "%Y-%m",
            Unit::Year => "%Y",
            Unit::All => return None,
        };
        Some(time.format(form).to_string())
    }

    /// The first instant that a text can mean: what its form does not say is the first day, and midnight.
    fn parse(&self, text: &str) -> Option<NaiveDateTime> {
        let mut parsed = Parsed::new();
        chrono::format::parse(&mut parsed, text, StrftimeItems::new(&self.form)).ok()?;
        if let Some(seconds) = parsed.timestamp() {
            return Some(chrono::DateTime::from_timestamp(seconds, 0)?.naive_utc());
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
        if parsed.hour_div_12().is_none() {
            return date.and_hms_opt(0, 0, 0);
        }
        if parsed.minute().is_none() {
            let _ = parsed.set_minute(0);
        }
        Some(date.and_time(parsed.to_naive_time().ok()?))
    }
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
    for key in source.sorted_sets(&glob).await? {
        let name = pattern.period_key(&key, unit);
        let period = name
            .ok_or_else(|| format!("its name does not have the form {{{}}}", pattern.form))
            .and_then(|name| {
                let period = calendar.parse_key(unit, &name);
                period.map_err(|error| error.to_string())
            });
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
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pattern: &str, name: &str, unit: Unit) -> Option<String> {
        pattern
            .parse::<NamePattern>()
            .unwrap()
            .period_key(name, unit)
    }

    #[test]
    fn a_name_gives_the_first_instant_of_its_period() {
        for (pattern, name, unit, expected) in [
            (
                "weekly_{%G-%V}",
                "weekly_2026-48",
                Unit::Week,
                Some("2026-11-23"),
            ),
            ("weekly_{%G-%V}", "weekly_2026-54", Unit::Week, None),
            ("w{%Y-%U}", "w2026-47", Unit::Week, Some("2026-11-22")),
            (
                "{%Y%m%d}:points",
                "20261130:points",
                Unit::Day,
                Some("2026-11-30"),
            ),
            ("{%Y%m%d}:points", "20260231:points", Unit::Day, None),
            ("lb:{%Y-%m}", "lb:2026-11", Unit::Month, Some("2026-11")),
            ("lb:{%Y}", "lb:2026", Unit::Year, Some("2026")),
            (
                "h:{%Y-%m-%dT%H}",
                "h:2026-11-30T07",
                Unit::Hour,
                Some("2026-11-30T07:00Z"),
            ),
            ("s:{%s}", "s:1795996800", Unit::Day, Some("2026-11-30")),
            ("lb:{%Y}", "lb:total", Unit::Year, None),
            ("lb:{%Y}", "other:2026", Unit::Year, None),
        ] {
            assert_eq!(
                key(pattern, name, unit).as_deref(),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_needs_the_form_of_a_period() {
        for text in ["weekly", "weekly_{%G-%V", "weekly_{%!}"] {
            assert!(text.parse::<NamePattern>().is_err(), "{text}");
        }
        let pattern: NamePattern = "a*[b]_{%Y}?".parse().unwrap();
        assert_eq!(pattern.glob(), r"a\*\[b\]_*\?");
    }
}
