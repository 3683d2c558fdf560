//! How values are shown to people.

use askama::filters::{Html, Safe, escape};
use chrono::DateTime;
use serde::Serialize;

use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;

/// The clock of a time zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(pub(super) Zone);

impl Clock {
    /// An instant in this time zone, as an element `<time>`. It has only digits, and letters from the time zone database.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    pub(super) fn at(&self, at: &Timestamp) -> Safe<String> {
        let machine = at.to_rfc3339_seconds();
        let at_s = at.ms().div_euclid(1_000);
        let local = DateTime::from_timestamp(at_s + self.0.offset(at_s), 0).unwrap_or_default();
        let local = local.format("%Y-%m-%d %H:%M:%S");
        let zone = self.0.abbreviation(at_s);
        Safe(format!(
            r#"<time datetime="{machine}">{local} {zone}</time>"#
        ))
    }
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

/// The notice after something was done.
pub(super) fn done(what: &str) -> Option<&'static str> {
    Some(match what {
        "hidden" => "The member is hidden: no standing of this board shows it.",
        "unhidden" => "The member is back in the standings of this board.",
        "claimed" => "The reward is claimed.",
        "erased" => "The member is erased: nothing of it is shown any more on this board.",
        "joined" => "The member has its seat in the running period.",
        "left" => {
            "The member has left: from the next period on its events are refused until it joins again."
        }
        "sent" => "The event is sent. This is what has become of it.",
        "profiles" => "The profiles are stored.",
        "ordered" => "The order is given. It holds from the next period on.",
        "deleted" => "It is deleted.",
        "exists" => {
            "There is one of this name already, and nothing was done. Here it can be changed."
        }
        "changed" => "It is changed.",
        "tested" => "A message is on its way. Its delivery says what becomes of it.",
        "retried" => "The message is on its way again.",
        "replayed" => "The event waits in the queue again.",
        "discarded" => "The dead letter is deleted. Its event never counts.",
        "final" => "The period is final. No event counts for it any more.",
        "moving" => "The data is moving. Load the page again to see how far it has come.",
        "reviewed" => "The review is written down.",
        "stored" => "The profile is stored.",
        "set" => "The initial scores are set.",
        _ => return None,
    })
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

    #[test]
    fn an_instant_is_shown_as_local_clocks_show_it() {
        let at = Timestamp::parse("2026-11-21T00:30:00Z").unwrap();
        let shown = Clock("Asia/Shanghai".parse().unwrap());
        let shown = shown.at(&at).to_string();
        let expected = r#"<time datetime="2026-11-21T00:30:00Z">2026-11-21 08:30:00 CST</time>"#;
        assert_eq!(shown, expected);
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
