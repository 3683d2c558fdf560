//! Forms: which ones are taken, and what they say.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::session::Visitor;
use crate::http::extract::JsonBytes;
use crate::http::problem::{FORM_REFUSED, INTERNAL, Problem};

/// The field of the token.
const TOKEN: &str = "token";

/// The fields of a form that a page of the console has sent.
#[derive(Clone, Debug)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a form, if it comes from a page of the console: with its origin, which browsers don't let pages choose, and with
    /// its token, which pages of other origins can't read.
    pub(super) async fn read(
        visitor: &Visitor,
        parts: &Parts,
        body: Body,
    ) -> Result<Self, Problem> {
        let refused = |detail: &str| Problem::new(FORM_REFUSED, detail);
        let origin = parts.headers.get(header::ORIGIN);
        let origin = origin.and_then(|origin| origin.to_str().ok());
        if !origin.is_some_and(|origin| visitor.is_own(origin)) {
            let sent = origin.unwrap_or("no origin");
            let own = visitor.origin();
            let detail = format!("the form comes from {sent}, and the console is at {own}");
            return Err(refused(&detail));
        }
        let body = JsonBytes::read(&parts.headers, body, &visitor.console.app.memory).await?;
        let fields = form_urlencoded::parse(&body.0).into_owned();
        let form = Self(fields.collect());
        let (sent, own) = (form.field(TOKEN), visitor.token());
        if !bool::from(sent.as_bytes().ct_eq(own.as_bytes())) {
            return Err(refused("the form has not the token of this browser"));
        }
        Ok(form)
    }

    /// A field; empty if it is not there.
    pub(super) fn field(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// A field, if it is filled in.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(own, _)| own == name);
        field
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let form = parts.extensions.get::<Self>().cloned();
        form.ok_or_else(|| Problem::new(INTERNAL, "a page without a form"))
    }
}
