//! What all pages have in common.

use askama::Template;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use chrono_tz::Tz;
use serde::de::DeserializeOwned;

use super::address::{address, page};
use super::board::Heading;
use super::members::is_for_people;
use super::session::Visitor;
use super::shown::{self, Clock};
use super::{Form, Path, Query, Viewer};
use crate::domain::access::Scope;
use crate::http::observe::HasBody;
use crate::http::problem::Problem;

/// What a page, or a form, is answered with.
pub(super) type Answer = Result<Response, Problem>;

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

/// What stands around a page, and what pages have in common.
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
    /// What stands above a page of a board; without a board elsewhere.
    pub(super) heading: Heading,
    /// The clocks of the board's time zone; those of UTC elsewhere.
    pub(super) clock: Clock,
    /// What was done before the page was shown.
    pub(super) done: Option<&'static str>,
    /// What is filled in.
    pub(super) form: Form,
    /// Why the form was refused.
    pub(super) problem: Option<Problem>,
    /// How somebody does the same who has a shell: a command in a line.
    pub(super) curl: Vec<String>,
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
    pages
        .into_iter()
        .filter(|(.., is_for_viewer)| *is_for_viewer)
        .map(|(name, page, _)| Tab {
            name,
            address: address(&["console", page], &[]),
            is_current: own == Some(page),
        })
        .collect()
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
            heading: Heading::default(),
            clock: Clock(Tz::UTC),
            done: None,
            form: Form::default(),
            problem: None,
            curl: Vec::new(),
        }
    }

    /// That of a page for who is signed in.
    pub(super) fn new(viewer: &Viewer, title: impl Into<String>) -> Self {
        Self::for_visitor(&viewer.visitor, title)
    }

    /// Says what was done before the page was shown.
    pub(super) fn done(mut self, what: &str) -> Self {
        self.done = shown::done(what);
        self
    }

    /// Shows how somebody does the same who has a shell.
    pub(super) fn curl(mut self, commands: impl IntoIterator<Item = String>) -> Self {
        self.curl = commands.into_iter().collect();
        self
    }

    /// Says why the form was refused, and returns the status for that.
    pub(super) fn refuse(&mut self, problem: Problem) -> StatusCode {
        let status = problem.kind.status;
        self.problem = Some(problem);
        status
    }
}

/// Writes a page.
pub(super) fn html(page: &impl Template) -> Answer {
    let text = page.render();
    let text =
        text.map_err(|error| Problem::internal(format!("a page of the console: {error}")))?;
    Ok(Html(text).into_response())
}

/// Writes a page again whose form was refused, with this status.
pub(super) fn refused(status: StatusCode, page: &impl Template) -> Answer {
    let mut page = html(page)?;
    *page.status_mut() = status;
    page.extensions_mut().insert(HasBody);
    Ok(page)
}

/// Carries out what a form asks for. If that is refused, the page of the form is read and says so, with what was filled in; `frame`
/// is what stands around it.
pub(super) async fn carry_out<P: Template>(
    form: &Form,
    what: impl Future<Output = Answer>,
    page: impl Future<Output = Result<P, Problem>>,
    frame: impl FnOnce(&mut P) -> &mut Frame,
) -> Answer {
    let problem = match what.await {
        Ok(response) => return Ok(response),
        Err(problem) => problem.mendable()?,
    };
    let mut page = page.await?;
    let frame = frame(&mut page);
    frame.form = form.clone();
    let status = frame.refuse(problem);
    refused(status, &page)
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
) -> Answer {
    html(&P::read(&viewer, &of, params).await?)
}

/// Leads to a page of the console after something was done.
pub(super) fn to(path: &[&str], query: &[(&str, &str)]) -> Response {
    Redirect::to(&page(path, query)).into_response()
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
