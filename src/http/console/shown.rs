//! How values are shown to people.

use std::fmt;

use askama::filters::{Html, HtmlSafe, escape};
use chrono::TimeZone;
use chrono_tz::Tz;

use crate::domain::time::Timestamp;
use crate::http::problem::Problem;

/// An instant, as an element `<time>`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    at: Timestamp,
    zone: Tz,
}

/// The clocks of a time zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(pub(super) Tz);

impl Clock {
    /// An instant, as these clocks show it.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    pub(super) fn at(&self, at: &Timestamp) -> Time {
        Time {
            at: *at,
            zone: self.0,
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = self.at.to_rfc3339_seconds();
        match self.zone.timestamp_millis_opt(self.at.ms()).earliest() {
            Some(local) => {
                let shown = local.format("%Y-%m-%d %H:%M:%S %Z");
                write!(f, r#"<time datetime="{machine}">{shown}</time>"#)
            }
            None => write!(f, r#"<time datetime="{machine}">{machine}</time>"#),
        }
    }
}

/// It has nothing but digits, and letters of the database of time zones.
impl HtmlSafe for Time {}

/// A part of a text that has code between backquotes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prose<'a> {
    Text(&'a str),
    Code(&'a str),
}

/// A text of the HTTP interface, taken apart.
pub(super) fn prose(text: &str) -> Vec<Prose<'_>> {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => Prose::Text(part),
        _ => Prose::Code(part),
    });
    parts.collect()
}

impl Problem {
    /// What exactly is wrong.
    pub(super) fn told(&self) -> Vec<Prose<'_>> {
        prose(&self.detail)
    }

    /// What that means.
    pub(super) fn meaning(&self) -> Vec<Prose<'static>> {
        prose(self.kind.page.explanation)
    }

    /// What to do about it.
    pub(super) fn remedy(&self) -> Vec<Prose<'static>> {
        prose(self.kind.page.remedy)
    }
}

impl fmt::Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Text(text) | Self::Code(text)) = self;
        let Ok(text) = escape(text, Html);
        match self {
            Self::Text(_) => text.fmt(f),
            Self::Code(_) => write!(f, "<code>{text}</code>"),
        }
    }
}

/// It escapes its text itself.
impl HtmlSafe for Prose<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_shown_as_local_clocks_show_it() {
        let at = Timestamp::parse("2026-11-21T00:30:00Z").unwrap();
        let shown = Clock(Tz::Asia__Shanghai).at(&at).to_string();
        let expected = r#"<time datetime="2026-11-21T00:30:00Z">2026-11-21 08:30:00 CST</time>"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn code_stands_out_and_nothing_of_it_is_html() {
        let shown: String = prose("Send `<b>`, or <i>.")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, "Send <code>&#60;b&#62;</code>, or &#60;i&#62;.");
    }
}
