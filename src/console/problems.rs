//! `/problems`: what each problem means, and what to do about it; as pages for browsers, and as plain text for all others.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

use super::page::set_headers;
use super::prelude::*;
use crate::http::extract::Path;
use crate::http::problem::{self, KINDS, Kind};

#[derive(Template)]
#[template(path = "console/problems.html")]
struct ProblemsPage {
    /// All of them, by their status.
    statuses: BTreeMap<u16, Vec<&'static Kind>>,
}

#[derive(Template)]
#[template(path = "console/explained.html")]
struct ExplainedPage {
    kind: &'static Kind,
    example: String,
    /// The others of the same status.
    others: Vec<&'static Kind>,
}

impl ProblemsPage {
    /// The words of HTTP for a status.
    fn reason(kinds: &[&Kind]) -> &'static str {
        let status = kinds.first().map(|kind| kind.status);
        status
            .and_then(|status| status.canonical_reason())
            .unwrap_or_default()
    }
}

/// All problems.
pub(super) async fn list(headers: HeaderMap) -> Answer {
    if !wants_page(&headers) {
        return Ok(negotiated(problem::list()));
    }
    let mut statuses: BTreeMap<u16, Vec<&Kind>> = BTreeMap::new();
    for kind in KINDS {
        statuses.entry(kind.status.as_u16()).or_default().push(kind);
    }
    Ok(finished(html(&ProblemsPage { statuses })?))
}

/// One problem, by the end of its `type`.
pub(super) async fn explain(Path(name): Path<String>, headers: HeaderMap) -> Answer {
    let kind = problem::named(&name)?;
    if !wants_page(&headers) {
        return Ok(negotiated(problem::explain(kind)));
    }
    let is_other = |other: &&Kind| other.status == kind.status && other.name != kind.name;
    Ok(finished(html(&ExplainedPage {
        kind,
        example: kind.example(),
        others: KINDS.iter().filter(is_other).collect(),
    })?))
}

/// Whether the client is a browser that shows a page: other clients accept anything, or JSON.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    accepted
        .filter_map(|accepted| accepted.to_str().ok())
        .any(|accepted| accepted.contains("text/html"))
}

fn finished(mut page: Response) -> Response {
    set_headers(page.headers_mut(), "");
    negotiated(page)
}

/// A response of which there is another form.
fn negotiated(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    response
}
