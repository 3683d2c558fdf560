//! How values are shown to people.

use std::fmt::Display;

use askama::filters::{Html, Safe, escape};
use chrono::{DateTime, Datelike, NaiveDateTime, Utc};
use serde::Serialize;

pub(super) use crate::domain::face::{initial, tint};
use crate::domain::period::Unit;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::domain::window::Window;

/// The clock of a time zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) zone: Zone,
    /// The time at which the page is made.
    pub(super) now: Timestamp,
}

/// The units in which a distance in time is shown, with their lengths in seconds.
const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];

/// The length of a time in its greatest unit, such as `9 s`; below two days and below two hours in two units, such as
/// `2 h 14 min`, if `is_fine`.
fn length(seconds: i64, is_fine: bool) -> String {
    let unit = UNITS.iter().position(|(size, _)| seconds >= *size);
    let index = unit.unwrap_or(UNITS.len() - 1);
    let (size, name) = UNITS[index];
    let whole = format!("{} {name}", seconds / size);
    match UNITS.get(index + 1) {
        Some((smaller, name)) if is_fine && size > 60 && seconds % size >= *smaller => {
            format!("{whole} {} {name}", seconds % size / smaller)
        }
        _ => whole,
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates pass references"
)]
impl Clock {
    fn local(self, at: &Timestamp) -> DateTime<Utc> {
        let at_s = at.ms().div_euclid(1_000);
        DateTime::from_timestamp(at_s + self.zone.offset(at_s), 0).unwrap_or_default()
    }

    fn element(self, at: &Timestamp, attributes: &str, text: &str) -> Safe<String> {
        let machine = at.to_rfc3339_seconds();
        let local = self.local(at).format("%Y-%m-%d %H:%M:%S");
        let zone = self.zone.name();
        Safe(format!(
            r#"<time datetime="{machine}" title="{local} {zone}"{attributes}>{text}</time>"#
        ))
    }

    /// A local time as fields of forms have it.
    pub(super) fn local_text(zone: Zone, at: Timestamp) -> String {
        let local = Self { zone, now: at }.local(&at);
        match at.ms().rem_euclid(60_000) {
            0 => local.format("%Y-%m-%dT%H:%M").to_string(),
            ms if ms % 1_000 == 0 => local.format("%Y-%m-%dT%H:%M:%S").to_string(),
            ms => format!("{}.{:03}", local.format("%Y-%m-%dT%H:%M:%S"), ms % 1_000),
        }
    }

    /// An instant in this time zone, as an element `<time>` whose title names the zone. Nothing in it needs escaping.
    pub(super) fn at(&self, at: &Timestamp) -> Safe<String> {
        let local = self.local(at).format("%Y-%m-%d %H:%M:%S");
        let zone = if self.zone == Zone::UTC { " UTC" } else { "" };
        self.element(at, "", &format!("{local}{zone}"))
    }

    /// How long ago an instant is, or how long it is ahead, as an element `<time>` whose title has the instant.
    pub(super) fn ago(&self, at: &Timestamp) -> Safe<String> {
        let seconds = (self.now.ms() - at.ms()).div_euclid(1_000);
        if seconds >= 0 {
            self.element(at, " data-ago", &format!("{} ago", length(seconds, false)))
        } else {
            self.element(at, "", &format!("in {}", self.distance(at)))
        }
    }

    /// How far an instant is away, such as `2 h 14 min`.
    pub(super) fn distance(&self, at: &Timestamp) -> String {
        length((at.ms() - self.now.ms()).abs() / 1_000, true)
    }

    /// A short name of a period, for an axis.
    pub(super) fn short(&self, window: &str, key: &str, starts_at: Option<&Timestamp>) -> String {
        let (Ok(Window::Period(unit)), Some(start)) = (window.parse(), starts_at) else {
            return key.to_owned();
        };
        let pattern = match unit {
            Unit::Minute | Unit::Hour => "%H:%M",
            Unit::Day | Unit::Week | Unit::Season => "%-d %b",
            Unit::Month => "%b %Y",
            Unit::Year | Unit::All => "%Y",
        };
        self.local(start).format(pattern).to_string()
    }

    /// The name of a period for people: `Today, Wed 25 Nov`, `Week of 23 Nov`, `November 2026`; otherwise its key.
    pub(super) fn period(&self, window: &str, key: &str, starts_at: Option<&Timestamp>) -> String {
        let (Ok(Window::Period(unit)), Some(start)) = (window.parse(), starts_at) else {
            return if window == "all" {
                "All time".to_owned()
            } else {
                key.to_owned()
            };
        };
        let (start, today) = (self.local(start), self.local(&self.now));
        let year = if start.year() == today.year() {
            ""
        } else {
            " %Y"
        };
        let pattern = match unit {
            Unit::Day if start.date_naive() == today.date_naive() => "Today, %a %-d %b".to_owned(),
            Unit::Day => format!("%a %-d %b{year}"),
            Unit::Week => format!("Week of %-d %b{year}"),
            Unit::Month => "%B %Y".to_owned(),
            _ => return key.to_owned(),
        };
        start.format(&pattern).to_string()
    }
}

/// The instant of a local time, as fields of forms have it. Of a time that clocks show twice it is the first one.
pub(super) fn instant(local: &str, zone: Zone) -> Option<String> {
    let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f"];
    let read = |format: &&str| NaiveDateTime::parse_from_str(local, format).ok();
    let local = formats.iter().find_map(read)?.and_utc();
    let (local_s, ms) = (
        local.timestamp(),
        i64::from(local.timestamp_subsec_millis()),
    );
    // The offset before a change is that of half a day earlier.
    let before = local_s - zone.offset(local_s - 43_200);
    let after = local_s - zone.offset(before);
    let is_shown = |at_s: &i64| at_s + zone.offset(*at_s) == local_s;
    let at_s = [before, after].into_iter().find(is_shown).unwrap_or(before);
    let at = Timestamp::from_ms(at_s * 1_000 + ms).ok()?;
    Some(at.to_string())
}

/// The name of a window for people: `Day`, `7 days`, `All time`.
pub(super) fn window(window: &str) -> String {
    if window == "all" {
        return "All time".to_owned();
    }
    let words = window
        .strip_prefix("last-")
        .unwrap_or(window)
        .replace('-', " ");
    capitalized(&words)
}

/// A text that begins with a capital.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// A number with separators between thousands, and with at least as many decimals as `decimals` says.
pub(super) fn padded(number: &(impl Display + ?Sized), decimals: u8) -> String {
    let text = number.to_string();
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or(("", text.as_str()), |rest| ("−", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut shown = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    let decimals = usize::from(decimals).max(fraction.len());
    if decimals > 0 {
        shown.extend([".", fraction]);
        shown.extend(std::iter::repeat_n('0', decimals - fraction.len()));
    }
    shown
}

/// A number with separators between thousands.
pub(super) fn grouped(number: &(impl Display + ?Sized)) -> String {
    padded(number, 0)
}

/// The name of an enum's value in JSON.
pub(super) fn name(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// Indented JSON.
pub(super) fn pretty(json: &impl Serialize) -> String {
    // A raw value would keep its own line breaks.
    let value = serde_json::to_value(json).unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// A number of bytes in a readable unit.
pub(super) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1 << 10 {
        return format!("{count} B");
    }
    let index = usize::try_from(count.ilog2() / 10 - 1).unwrap_or_default();
    let index = index.min(units.len() - 1);
    let tenths = (u128::from(count) * 10) >> (10 * (index + 1));
    format!("{}.{} {}", tenths / 10, tenths % 10, units[index])
}

/// The notice after something was done; `{}` is the name of what it was done to, or how many there were.
pub(super) fn done(what: &str) -> Option<&'static str> {
    Some(match what {
        "created" => {
            "The board is created. Send its first event: with the curl command below, or in Events."
        }
        "hidden" => "The member is hidden: no standing of this board shows it.",
        "unhidden" => "The member is back in the standings of this board.",
        "all-unhidden" => "The members are back in the standings of this board.",
        "nobody" => "Nobody was ticked, so nothing was changed.",
        "hiding" => {
            "The member is hidden on one board after the other, and on boards created later."
        }
        "returning" => "Who was hidden on all boards comes back, on one board after the other.",
        "approved" => "The name is approved.",
        "blocked" => "The name is blocked.",
        "pending" => "The name waits for a review again.",
        "claimed" => "The reward is claimed.",
        "erased" => "The member is erased: nothing of it is shown any more on this board.",
        "joined" => "The member has its seat in the running period.",
        "left" => {
            "The member has left: from the next period on its events are refused until it joins again."
        }
        "retracted" => "The event is retracted: no standing counts it any more.",
        "restored" => "The event is restored: it counts again.",
        "revoked" => "The events are revoked, or are being revoked: see below.",
        "counted" => "Nothing has changed: see below what would be revoked.",
        "events-restored" => "The events are restored, or are being restored: see below.",
        "corrected" => "The score of the event is corrected.",
        "sent" => "The event is sent. This is what has become of it.",
        "profiles" => "The profiles are stored.",
        "ordered" => "The order is given. It holds from the next period on.",
        "changed" => "It is saved.",
        "deleted" => "It is deleted.",
        "key-changed" => "Key `{}` changed.",
        "key-deleted" => "Key `{}` deleted.",
        "exists" => "There is already a webhook `{}`. Nothing was changed; you can change it here.",
        "webhook-changed" => "Webhook `{}` changed.",
        "webhook-enabled" => "Webhook `{}` enabled.",
        "webhook-deleted" => "Webhook `{}` deleted.",
        "tested" => "A test message was sent. Its delivery below shows the outcome.",
        "resent" => "The message is sent again.",
        "retried" => "Messages that are sent again: {}.",
        "replayed" => "Events that wait in the queue again: {}.",
        "discarded" => "Dead letters deleted: {}. Their events never count.",
        "final" => "The period is final. No event counts for it any more.",
        "moving" => "The data is moving. Load the page again to see how far it has come.",
        "stored" => "The profile is stored.",
        "set" => "The initial scores are set.",
        _ => return None,
    })
}

/// A text of the program as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let end = if text.ends_with('.') { "" } else { "." };
    capitalized(text) + end
}

/// A warning as a sentence, with code in backquotes.
pub(super) fn warned(warning: &str) -> Safe<String> {
    prose(&sentence(warning))
}

/// A number of things in words: `1 event`, `12,000 events`.
pub(super) fn counted(count: impl Display, thing: &str) -> String {
    let count = grouped(&count);
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A text of the HTTP interface, with code in backquotes.
pub(super) fn prose(text: &str) -> Safe<String> {
    let parts = text.split('`').enumerate().map(|(index, part)| {
        let Ok(text) = escape(part, Html);
        match index % 2 {
            0 => text.to_string(),
            _ => format!("<code>{text}</code>"),
        }
    });
    Safe(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(now: &str) -> Clock {
        Clock {
            zone: "Asia/Shanghai".parse().unwrap(),
            now: Timestamp::parse(now).unwrap(),
        }
    }

    #[test]
    fn an_instant_is_shown_as_local_clocks_show_it() {
        let at = Timestamp::parse("2026-11-21T00:30:00Z").unwrap();
        let clock = clock("2026-11-21T00:30:09Z");
        let start =
            r#"<time datetime="2026-11-21T00:30:00Z" title="2026-11-21 08:30:00 Asia/Shanghai""#;
        let expected = format!("{start}>2026-11-21 08:30:00</time>");
        assert_eq!(clock.at(&at).to_string(), expected);
        let expected = format!("{start} data-ago>9 s ago</time>");
        assert_eq!(clock.ago(&at).to_string(), expected);
    }

    #[test]
    fn a_local_time_in_a_form_is_the_instant_that_clocks_show() {
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        for (local, utc) in [
            ("2026-07-01T12:00", "2026-07-01T10:00:00.000Z"),
            ("2026-12-24T18:00:15", "2026-12-24T17:00:15.000Z"),
            ("2026-12-24T18:00:15.250", "2026-12-24T17:00:15.250Z"),
            ("2026-03-29T03:30", "2026-03-29T01:30:00.000Z"),
            ("2026-10-25T02:30", "2026-10-25T00:30:00.000Z"),
            ("2026-10-25T03:30", "2026-10-25T02:30:00.000Z"),
        ] {
            let read = Timestamp::parse(&instant(local, zone).unwrap()).unwrap();
            assert_eq!(read, Timestamp::parse(utc).unwrap(), "{local}");
            assert_eq!(Clock::local_text(zone, read), local);
        }
        // A time that clocks skip is the one an hour later.
        let skipped = instant("2026-03-29T02:30", zone).unwrap();
        let skipped = Timestamp::parse(&skipped).unwrap();
        assert_eq!(Clock::local_text(zone, skipped), "2026-03-29T03:30");
        assert_eq!(instant("tomorrow", zone), None);
    }

    #[test]
    fn a_distance_in_time_has_the_units_that_matter() {
        let clock = clock("2026-11-21T00:00:00Z");
        for (at, shown) in [
            ("2026-11-21T00:00:00Z", "0 s"),
            ("2026-11-21T00:01:30Z", "1 min"),
            ("2026-11-21T02:14:59Z", "2 h 14 min"),
            ("2026-11-24T00:00:00Z", "3 d"),
            ("2026-11-24T05:10:00Z", "3 d 5 h"),
        ] {
            assert_eq!(clock.distance(&Timestamp::parse(at).unwrap()), shown);
        }
    }

    #[test]
    fn a_period_is_called_as_people_call_it() {
        let clock = clock("2026-11-25T12:00:00Z");
        for (window, key, start, name) in [
            (
                "day",
                "2026-11-25",
                "2026-11-24T16:00:00Z",
                "Today, Wed 25 Nov",
            ),
            (
                "day",
                "2025-11-25",
                "2025-11-24T16:00:00Z",
                "Tue 25 Nov 2025",
            ),
            ("week", "2026-W48", "2026-11-22T16:00:00Z", "Week of 23 Nov"),
            ("month", "2026-11", "2026-10-31T16:00:00Z", "November 2026"),
            (
                "last-7-days",
                "2026-11-25",
                "2026-11-18T16:00:00Z",
                "2026-11-25",
            ),
        ] {
            let start = Timestamp::parse(start).unwrap();
            assert_eq!(clock.period(window, key, Some(&start)), name);
        }
    }

    #[test]
    fn numbers_have_separators_and_the_decimals_of_their_board() {
        let shown = [
            ("0", 0),
            ("1234567", 0),
            ("-1234.5", 3),
            ("301.5", 3),
            ("999", 2),
        ]
        .map(|(number, decimals)| padded(&number, decimals));
        assert_eq!(shown, ["0", "1,234,567", "−1,234.500", "301.500", "999.00"]);
    }

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let shown = [0, 1_023, 1_024, 1_600_000, 3 << 40, u64::MAX].map(bytes);
        let expected = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "1.5 MiB",
            "3.0 TiB",
            "16777215.9 TiB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn code_stands_out_and_nothing_of_it_is_html() {
        let shown = prose("Send `<b>`, or <i>.").to_string();
        assert_eq!(shown, "Send <code>&#60;b&#62;</code>, or &#60;i&#62;.");
    }
}
