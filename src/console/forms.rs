//! Forms: which ones are accepted, and their fields.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use serde_json::Value;
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::shown;
use super::{Console, Visitor};
use crate::domain::timezone::Zone;
use crate::http::extract::{BODY_BYTES_MAX, JsonBytes};
use crate::http::problem::{FORM_REFUSED, INTERNAL, Problem};

/// The page of the only form for visitors that are not signed in, and its largest body, in bytes.
const SIGN_IN: &str = "/console/sign-in";
const SIGN_IN_BYTES_MAX: usize = 16 << 10;
/// The field of the token.
const TOKEN: &str = "token";
/// The field into which the name of what is deleted permanently is typed.
const CONFIRMED: &str = "confirm";

/// The fields of a form: as sent by a page of the console, or to be shown filled in.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl<'a> FromIterator<(&'a str, String)> for Form {
    fn from_iter<I: IntoIterator<Item = (&'a str, String)>>(fields: I) -> Self {
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        Self(fields.into_iter().map(owned).collect())
    }
}

impl Form {
    /// Reads a form if it comes from a page of the console: with its origin, which browsers don't let pages choose, and
    /// with its token, which pages of other origins can't read. As much as possible is checked before the body is read.
    pub(super) async fn read(
        visitor: &Visitor,
        parts: &Parts,
        body: Body,
    ) -> Result<Self, Problem> {
        let refused = |detail: &str| Problem::new(FORM_REFUSED, detail);
        let origin = parts.headers.get(header::ORIGIN);
        let origin = origin.and_then(|origin| origin.to_str().ok());
        let sent = origin.unwrap_or("no origin");
        if !visitor.is_own(sent) {
            let own = visitor.origin();
            let detail = format!("the form comes from {sent}, and the console is at {own}");
            return Err(refused(&detail));
        }
        if !visitor.has_sent_cookie() {
            return Err(refused("the browser has sent no cookie of the console"));
        }
        let is_signed_in = visitor.holder.is_some();
        if !is_signed_in && parts.uri.path() != SIGN_IN {
            return Err(refused("nobody is signed in any more"));
        }
        let bytes_max = if is_signed_in {
            BODY_BYTES_MAX
        } else {
            SIGN_IN_BYTES_MAX
        };
        let Console { app, gate, .. } = &*visitor.console;
        let memory = (
            &app.memory,
            gate.takers_of_form(visitor.holder.as_ref(), parts),
        );
        let body = JsonBytes::read(&parts.headers, (body, bytes_max), memory).await?;
        let fields = form_urlencoded::parse(&body.0).into_owned();
        let form = Self(fields.collect());
        let (sent, own) = (form.field(TOKEN), visitor.token());
        if !bool::from(sent.as_bytes().ct_eq(own.as_bytes())) {
            return Err(refused("the form has not the token of this browser"));
        }
        Ok(form)
    }

    /// A field; empty if it is absent.
    pub(super) fn field(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// A field that has to be filled in, trimmed.
    pub(super) fn required(&self, name: &str) -> Result<&str, Problem> {
        match self.field(name).trim() {
            "" => Err(Problem::invalid_field(format!("/{name}"), "is missing")),
            filled_in => Ok(filled_in),
        }
    }

    /// All values that were chosen for a field.
    pub(super) fn chosen(&self, name: &str) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Whether this value was chosen for a field.
    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        self.chosen(name).contains(&value)
    }

    /// The lines of a field that are not blank.
    pub(super) fn lines(&self, name: &str) -> Vec<&str> {
        let lines = self.field(name).lines().map(str::trim);
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// Adds a field.
    pub(super) fn fill_field(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// The numbers of the rows of this name, whose fields are named `NAME.NUMBER.COLUMN`.
    pub(super) fn rows(&self, name: &str) -> BTreeSet<usize> {
        let row = |(field, _): &(String, String)| {
            let row = field.strip_prefix(name)?.strip_prefix('.')?;
            row.split('.').next()?.parse().ok()
        };
        self.0.iter().filter_map(row).collect()
    }

    /// An instant that is filled in as a local time of a time zone.
    pub(super) fn local(&self, name: &str, zone: Zone) -> Result<Option<String>, Problem> {
        let instant = self.given(name).map(|text| {
            let wrong = || Problem::invalid_field(format!("/{name}"), "is not a date and a time");
            shown::instant(text, zone).ok_or_else(wrong)
        });
        instant.transpose()
    }

    /// An instant, if it is filled in: in UTC, without seconds if these are zero.
    pub(super) fn instant(&self, name: &str) -> Option<String> {
        self.given(name).map(utc)
    }

    /// Checks that the name of what is deleted permanently was typed.
    pub(super) fn confirm(&self, name: &str) -> Result<(), Problem> {
        if self.field(CONFIRMED) == name {
            return Ok(());
        }
        let detail = format!("type {name} here to confirm");
        Err(Problem::invalid_field(format!("/{CONFIRMED}"), detail))
    }

    /// Whether it is a form that only confirms what is deleted.
    pub(super) fn is_confirmation(&self) -> bool {
        self.0.iter().any(|(name, _)| name == CONFIRMED)
    }

    /// A field, if it is filled in.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(own, _)| own == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Adds a field to the body of a request, if there is a value for it.
pub(super) fn add(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

/// An instant as browsers send it, in UTC.
fn utc(instant: &str) -> String {
    let seconds = if instant.len() == "2026-11-21T08:30".len() {
        ":00"
    } else {
        ""
    };
    format!("{instant}{seconds}Z")
}

impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let form = parts.extensions.get::<Self>().cloned();
        form.ok_or_else(|| Problem::new(INTERNAL, "a page without a form"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    #[test]
    fn an_instant_of_a_form_is_one_of_utc() {
        for (sent, read) in [
            ("2026-11-21T08:30", "2026-11-21T08:30:00Z"),
            ("2026-11-21T08:30:15", "2026-11-21T08:30:15Z"),
        ] {
            assert_eq!(utc(sent), read);
            assert!(Timestamp::parse(&utc(sent)).is_ok());
        }
    }

    #[test]
    fn what_ends_for_ever_is_named_as_it_is() {
        let typed = |text: &str| Form(vec![(CONFIRMED.to_owned(), text.to_owned())]);
        assert!(typed("votes").confirm("votes").is_ok());
        for wrong in ["", "vote", "Votes", "votes "] {
            assert!(typed(wrong).confirm("votes").is_err(), "{wrong:?}");
        }
        assert!(Form(Vec::new()).confirm("votes").is_err());
    }
}
