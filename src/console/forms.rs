//! Forms: which ones are accepted, and their fields.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::Console;
use super::prelude::*;
use super::shown;
use crate::domain::timezone::Zone;
use crate::http::extract::{BODY_BYTES_MAX, JsonBytes};
use crate::http::problem::{FORM_REFUSED, INTERNAL};

/// The page of the only form for visitors that are not signed in, and its largest body, in bytes.
const SIGN_IN: &str = "/console/sign-in";
const SIGN_IN_BYTES_MAX: usize = 16 << 10;
/// The field of the token.
const TOKEN: &str = "token";
/// The field into which the name of what is deleted permanently is typed.
const CONFIRMED: &str = "confirm";

/// Fields of a form with their values: as a page of the console has sent them, after the parts of the path that it was sent
/// to, or to be shown filled in. The parameters of an address are fields, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl<N: Into<String>> FromIterator<(N, String)> for Form {
    fn from_iter<I: IntoIterator<Item = (N, String)>>(fields: I) -> Self {
        let fields = fields.into_iter();
        Self(fields.map(|(name, value)| (name.into(), value)).collect())
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

    /// These fields, and then those of another form.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The names of the fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
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

impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Visitor { path, .. } = Visitor::from_request_parts(parts, state).await?;
        let form = parts.extensions.get::<Self>().cloned();
        let form = form.ok_or_else(|| Problem::new(INTERNAL, "a page without a form"))?;
        Ok(path.and(form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
