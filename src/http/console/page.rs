//! What all pages have in common.

use askama::Template;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};

use super::session::{Viewer, Visitor};
use crate::domain::access::Scope;
use crate::http::problem::Problem;

/// What browsers may do with a page: nothing of it comes from elsewhere, and it is shown in no frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);
/// The headers of every page.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    // With `no-referrer` browsers would keep back the origin of forms.
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
    (
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-store"),
    ),
];

/// What stands around a page.
pub(super) struct Frame {
    /// What the page is called.
    pub(super) title: String,
    /// Who is signed in; `None` where nobody is.
    pub(super) name: Option<String>,
    /// Whether the viewer may read the audit log.
    pub(super) may_audit: bool,
    /// Whether one can sign out.
    pub(super) has_session: bool,
    /// What forms bring along.
    pub(super) token: String,
}

impl Frame {
    /// That of a page for anybody.
    pub(super) fn for_visitor(visitor: &Visitor, title: impl Into<String>) -> Self {
        let viewer = visitor.viewer();
        Self {
            title: title.into(),
            may_audit: viewer
                .as_ref()
                .is_some_and(|viewer| viewer.may(Scope::Admin)),
            has_session: viewer.as_ref().is_some_and(|viewer| !viewer.is_anybody()),
            name: viewer.map(|viewer| viewer.holder.caller.name()),
            token: visitor.token(),
        }
    }

    /// That of a page for who is signed in.
    pub(super) fn new(viewer: &Viewer, title: impl Into<String>) -> Self {
        Self::for_visitor(&viewer.visitor, title)
    }
}

/// Writes a page.
pub(super) fn html(page: &impl Template) -> Result<Response, Problem> {
    let text = page.render();
    let text =
        text.map_err(|error| Problem::internal(format!("a page of the console: {error}")))?;
    Ok(Html(text).into_response())
}

/// Gives an answer what every page has.
pub(super) fn finish(visitor: &Visitor, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    if let Some(cookie) = visitor.forms_cookie() {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}
