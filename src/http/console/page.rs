//! What all pages have in common.

use askama::Template;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::de::DeserializeOwned;

use super::address::address;
use super::members::is_for_people;
use super::session::{Viewer, Visitor};
use crate::domain::access::Scope;
use crate::http::extract::{Path, Query};
use crate::http::observe::HasBody;
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
    /// The pages for the viewer.
    pub(super) pages: Vec<Tab>,
    /// Whether one can sign out.
    pub(super) has_session: bool,
    /// What forms bring along.
    pub(super) token: String,
}

/// The way to a page.
pub(super) struct Tab {
    pub(super) name: &'static str,
    pub(super) address: String,
    /// Whether one is there.
    pub(super) is_current: bool,
}

/// The pages of the service as a whole, as far as they are for the viewer.
fn pages(viewer: &Viewer) -> Vec<Tab> {
    let pages = [
        ("Boards", "boards", true),
        ("Members", "members", is_for_people(viewer)),
        ("Names", "names", viewer.may(Scope::Moderate)),
        (
            "Webhooks",
            "webhooks",
            viewer.may_anywhere(Scope::Configure),
        ),
        ("Keys", "keys", viewer.may(Scope::Admin)),
        ("Service", "service", true),
        ("Audit log", "audit", viewer.may(Scope::Admin)),
    ];
    let own = viewer.visitor.address.strip_prefix("/console/");
    let own = own.and_then(|page| page.split(['/', '?']).next());
    let own = own.map(|page| match page {
        "define" => "boards",
        "member" | "profiles" => "members",
        "jobs" => "service",
        page => page,
    });
    let pages = pages
        .into_iter()
        .filter(|(.., is_for_viewer)| *is_for_viewer);
    let pages = pages.map(|(name, page, _)| Tab {
        name,
        address: address(&["console", page], &[]),
        is_current: own == Some(page),
    });
    pages.collect()
}

impl Frame {
    /// That of a page for anybody.
    pub(super) fn for_visitor(visitor: &Visitor, title: impl Into<String>) -> Self {
        let viewer = visitor.viewer();
        Self {
            title: title.into(),
            pages: viewer.as_ref().map(pages).unwrap_or_default(),
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

/// Writes a page again whose form was refused: `fill` puts the problem into it, and what was filled in.
pub(super) fn refused<P: Template>(
    problem: Problem,
    mut page: P,
    fill: impl FnOnce(&mut P, Problem),
) -> Result<Response, Problem> {
    let status = problem.kind.status;
    fill(&mut page, problem);
    let mut page = html(&page)?;
    *page.status_mut() = status;
    page.extensions_mut().insert(HasBody);
    Ok(page)
}

/// Carries out what a form asks for. If that is refused, the page of the form is read and says so: `fill` puts the problem into it,
/// and what was filled in.
pub(super) async fn carry_out<P: Template>(
    what: impl Future<Output = Result<Response, Problem>>,
    page: impl Future<Output = Result<P, Problem>>,
    fill: impl FnOnce(&mut P, Problem),
) -> Result<Response, Problem> {
    match what.await {
        Ok(response) => Ok(response),
        Err(problem) => refused(problem.mendable()?, page.await?, fill),
    }
}

/// A page about what its path names, or about all of a kind.
pub(super) trait Page: Template + Sized {
    /// What the path names: a board, a webhook, a key; nothing for a list of all.
    type Of: DeserializeOwned + Send + Sync;
    /// The parameters.
    type Params: DeserializeOwned + Send;

    /// What it shows.
    fn read(
        viewer: &Viewer,
        of: &Self::Of,
        params: Self::Params,
    ) -> impl Future<Output = Result<Self, Problem>> + Send;
}

/// Shows such a page.
pub(super) async fn show<P: Page>(
    viewer: Viewer,
    Path(of): Path<P::Of>,
    Query(params): Query<P::Params>,
) -> Result<Response, Problem> {
    html(&P::read(&viewer, &of, params).await?)
}

/// Leads to a page after something was done.
pub(super) fn to(path: &[&str], query: &[(&str, &str)]) -> Response {
    Redirect::to(&address(path, query)).into_response()
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
