//! The fixed words of a frame, in the languages that `languages.json` has, and how each writes numbers and periods.

use std::sync::LazyLock;

use chrono::{DateTime, Datelike, NaiveDateTime};
use serde::{Deserialize, Deserializer, de};

use crate::domain::period::Unit;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::domain::window::Window;

/// The languages; the first is that of a page that names none, or one that is not listed.
static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    let languages = serde_json::from_str(include_str!("languages.json"));
    languages.expect("invariant: a test reads the file")
});

/// A language. Patterns have names in braces where something is filled in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Language {
    /// Its tag in HTML.
    pub(super) tag: String,
    pub(super) rank: String,
    pub(super) member: String,
    pub(super) score: String,
    /// What the noun is after 1, and after other numbers.
    pub(super) members: (String, String),
    pub(super) nobody: String,
    pub(super) lost: String,
    pub(super) over: String,
    all: String,
    today: String,
    week: String,
    date: String,
    month: String,
    year: String,
    /// Between groups of three digits.
    pub(super) group: String,
    /// Before decimals.
    pub(super) point: String,
    months: [String; 12],
    /// The last minutes, hours, days, weeks and months.
    last: [String; 5],
}

/// The language that the address of a page chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen(pub(super) &'static Language);

/// The tags of the languages; the first is that of a page that names none.
pub(crate) fn languages() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|language| language.tag.as_str())
}

impl Default for Chosen {
    fn default() -> Self {
        Self(&LANGUAGES[0])
    }
}

impl<'de> Deserialize<'de> for Chosen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tag = String::deserialize(deserializer)?;
        let is_tag = |part: &str| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !tag.split('-').all(is_tag) {
            let wrong = "must be the tag of a language, such as `de` or `pt-BR`";
            return Err(de::Error::custom(wrong));
        }
        let primary = tag.split('-').next().unwrap_or_default();
        let mut languages = LANGUAGES.iter();
        let own = languages.find(|language| language.tag.eq_ignore_ascii_case(primary));
        Ok(own.map_or_else(Self::default, Self))
    }
}

impl Language {
    /// A number in digits, as this language groups them, with at least so many decimals.
    pub(super) fn number(&self, text: &str, decimals: u8) -> String {
        let (sign, size) = match text.strip_prefix('-') {
            Some(size) => ("-", size),
            None => ("", text),
        };
        let (whole, fraction) = size.split_once('.').unwrap_or((size, ""));
        let mut number = sign.to_owned();
        for (index, digit) in whole.char_indices() {
            if index > 0 && (whole.len() - index).is_multiple_of(3) {
                number.push_str(&self.group);
            }
            number.push(digit);
        }
        if decimals > 0 {
            number.push_str(&self.point);
            number.push_str(fraction);
            let missing = usize::from(decimals).saturating_sub(fraction.len());
            number.extend(std::iter::repeat_n('0', missing));
        }
        number
    }

    /// A running period in words, on the clocks of this time zone.
    pub(super) fn period(
        &self,
        window: Window,
        (starts_at, ends_at): (Option<Timestamp>, Option<Timestamp>),
        zone: Zone,
    ) -> String {
        if let Window::Rolling { unit, periods } = window {
            return self.last(unit, periods);
        }
        let (Some(starts_at), Some(ends_at)) = (starts_at, ends_at) else {
            return self.all.clone();
        };
        let start = local(starts_at.ms(), zone);
        let date = self.date(start);
        match window.unit() {
            Unit::Minute | Unit::Hour => format!("{date}, {}", start.format("%H:%M")),
            Unit::Day => self.today.replace("{date}", &date),
            Unit::Week => self.week.replace("{date}", &date),
            Unit::Month => self.month_and_year(start),
            Unit::Year => self.year.replace("{year}", &start.year().to_string()),
            Unit::Season | Unit::All => {
                format!("{date} – {}", self.date(local(ends_at.ms() - 1, zone)))
            }
        }
    }

    fn last(&self, unit: Unit, periods: u16) -> String {
        let pattern = match unit {
            Unit::Minute => 0,
            Unit::Hour => 1,
            Unit::Day | Unit::Season | Unit::Year | Unit::All => 2,
            Unit::Week => 3,
            Unit::Month => 4,
        };
        self.last[pattern].replace("{n}", &periods.to_string())
    }

    fn date(&self, at: NaiveDateTime) -> String {
        let day = match at.day() {
            1 if self.tag == "fr" => "1er".to_owned(),
            day => day.to_string(),
        };
        self.date
            .replace("{day}", &day)
            .replace("{month}", self.name_of_month(at))
    }

    fn month_and_year(&self, at: NaiveDateTime) -> String {
        self.month
            .replace("{month}", self.name_of_month(at))
            .replace("{year}", &at.year().to_string())
    }

    fn name_of_month(&self, at: NaiveDateTime) -> &str {
        &self.months[at.month0() as usize]
    }
}

/// What the clocks of a time zone show, at this time in milliseconds.
fn local(at_ms: i64, zone: Zone) -> NaiveDateTime {
    let seconds = at_ms.div_euclid(1_000);
    let shown = DateTime::from_timestamp(seconds + zone.offset(seconds), 0);
    shown.unwrap_or_default().naive_utc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::at;

    fn language(tag: &str) -> &'static Language {
        let chosen: Chosen = serde_json::from_value(tag.into()).unwrap();
        chosen.0
    }

    #[test]
    fn a_page_is_in_the_language_of_its_tag_or_else_in_english() {
        for (tag, own) in [
            ("de-AT", "de"),
            ("PT-br", "pt"),
            ("zh-Hant-TW", "zh"),
            ("xx", "en"),
        ] {
            assert_eq!(language(tag).tag, own);
        }
        for wrong in ["", "-", "d e", "de_AT", "<b>", "de-"] {
            assert!(serde_json::from_value::<Chosen>(wrong.into()).is_err());
        }
    }

    #[test]
    fn digits_are_grouped_and_decimals_filled_up() {
        for (tag, text, decimals, written) in [
            ("en", "1234567", 0, "1,234,567"),
            ("en", "-123456.5", 2, "-123,456.50"),
            ("de", "1000", 1, "1.000,0"),
            ("fr", "-1000.25", 2, "-1\u{202f}000,25"),
            ("ja", "999", 0, "999"),
        ] {
            assert_eq!(language(tag).number(text, decimals), written);
        }
    }

    #[test]
    fn a_period_is_named_as_the_clocks_of_its_board_show_it() {
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        let words = |tag: &str, window: &str, from: &str, to: &str| {
            let times = (Some(at(from)), Some(at(to)));
            language(tag).period(window.parse().unwrap(), times, berlin)
        };
        let day = ("2026-11-24T23:00:00Z", "2026-11-25T23:00:00Z");
        assert_eq!(words("en", "day", day.0, day.1), "Today, 25 November");
        assert_eq!(words("de", "day", day.0, day.1), "Heute, 25. November");
        assert_eq!(words("zh", "day", day.0, day.1), "今天，11月25日");
        let week = ("2026-11-22T23:00:00Z", "2026-11-29T23:00:00Z");
        assert_eq!(words("en", "week", week.0, week.1), "Week of 23 November");
        assert_eq!(words("tr", "week", week.0, week.1), "23 Kasım haftası");
        let month = ("2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z");
        assert_eq!(words("en", "month", month.0, month.1), "November 2026");
        assert_eq!(words("es", "month", month.0, month.1), "noviembre de 2026");
        assert_eq!(
            words("fr", "season", month.0, month.1),
            "1er novembre – 30 novembre"
        );
        assert_eq!(words("ja", "year", month.1, week.1), "2026年");
        assert_eq!(words("en", "hour", day.0, day.1), "25 November, 00:00");
        assert_eq!(words("ko", "last-7-days", day.0, day.1), "최근 7일");
        let all = language("en").period("all".parse().unwrap(), (None, None), berlin);
        assert_eq!(all, "All time");
    }
}
