//! What all pages have in common.

use askama::Template;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::board::Heading;
use super::shown::{self, Clock};
use super::{Form, Path, Query, Viewer, Visitor, address, v1, v1_with};
use crate::domain::access::Scope;
use crate::domain::timezone::Zone;
use crate::http::observe::HasBody;
use crate::http::problem::Problem;

/// The response to a request for a page, or to a form.
pub(super) type Answer = Result<Response, Problem>;

/// The content security policy of pages, to which the hosts of pictures are added: everything else is from this origin, and no
/// frame may show a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; img-src 'self'";
/// The other headers of every page.
const HEADERS: [(HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` browsers would withhold the origin of forms.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "private, no-store"),
];

/// What surrounds a page, and what pages have in common.
pub(super) struct Frame {
    /// The title.
    pub(super) title: String,
    /// The visitor.
    pub(super) visitor: Visitor,
    /// The token that forms send.
    pub(super) token: String,
    /// The top of a page of a board; empty elsewhere.
    pub(super) heading: Heading,
    /// The pages above this one, from the top.
    pub(super) crumbs: Vec<Tab>,
    /// The clock of the board's time zone; that of UTC elsewhere.
    pub(super) clock: Clock,
    /// What was done before the page was shown.
    pub(super) done: Option<String>,
    /// What is filled in.
    pub(super) form: Form,
    /// Why the form was refused.
    pub(super) problem: Option<Problem>,
    /// The equivalent curl commands, one per line.
    pub(super) curl: Vec<String>,
}

/// A link to a page.
#[derive(Clone)]
pub(super) struct Tab {
    pub(super) name: String,
    pub(super) address: String,
    /// Whether it leads to the present page.
    pub(super) is_current: bool,
}

/// Pages of the whole service that belong together.
pub(super) struct Group {
    /// Empty for the first one.
    pub(super) name: &'static str,
    pub(super) pages: Vec<Tab>,
}

impl Visitor {
    /// Whether pages show members' pictures: only those of listed hosts, because a host sees who looks.
    pub(super) fn has_pictures(&self) -> bool {
        self.console.app.profile_rules.hosts.sources().is_some()
    }

    /// The pages of the whole service that the visitor may see.
    pub(super) fn groups(&self) -> Vec<Group> {
        // Each page has a name, a path, and whether the visitor may see it.
        type Pages<'a> = &'a [(&'static str, &'a str, bool)];
        let configures = self.require_anywhere(Scope::Configure).is_ok();
        let (moderates, administers) = (self.may(Scope::Moderate), self.may(Scope::Admin));
        let configures_all = self.may(Scope::Configure);
        let groups: [(&str, Pages<'_>); 3] = [
            (
                "",
                &[
                    ("Overview", "", self.may_look_around()),
                    ("Boards", "boards", true),
                    ("Members", "members", self.is_for_people()),
                    ("Name review", "names", moderates),
                ],
            ),
            (
                "Deliver",
                &[
                    ("Webhooks", "webhooks", configures),
                    ("API keys", "keys", administers),
                    ("Embeds", "embeds", true),
                ],
            ),
            (
                "Operate",
                &[
                    ("Queues", "queues", configures_all),
                    ("Jobs", "jobs", moderates || administers),
                    ("Audit log", "audit", administers),
                    ("Service", "service", true),
                ],
            ),
        ];
        let own = self.address.strip_prefix("/console").unwrap_or("/other");
        let own = own.split(['/', '?']).find(|part| !part.is_empty());
        let own = own.map_or("", |page| match page {
            "define" => "boards",
            "member" | "profiles" => "members",
            page => page,
        });
        let tab = |&(name, page, _): &(&'static str, &str, bool)| Tab {
            name: name.to_owned(),
            address: match page {
                "" => "/console".to_owned(),
                page => address(&["console", page], &[]),
            },
            is_current: own == page,
        };
        let groups = groups.into_iter().map(|(name, pages)| Group {
            name,
            pages: pages.iter().filter(|page| page.2).map(tab).collect(),
        });
        groups.filter(|group| !group.pages.is_empty()).collect()
    }
}

impl Frame {
    /// The frame of a page for this visitor.
    pub(super) fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            token: visitor.token(),
            visitor: visitor.clone(),
            heading: Heading::default(),
            crumbs: Vec::new(),
            clock: Clock {
                zone: Zone::UTC,
                now: visitor.console.app.engine.clock.now(),
            },
            done: None,
            form: Form::default(),
            problem: None,
            curl: Vec::new(),
        }
    }

    /// Adds a page above this one.
    pub(super) fn under(mut self, name: &str, address: impl Into<String>) -> Self {
        self.crumbs.push(Tab {
            name: name.to_owned(),
            address: address.into(),
            is_current: false,
        });
        self
    }

    /// Sets the title.
    pub(super) fn named(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the notice of what was done before the page was shown.
    pub(super) fn done(self, what: &str) -> Self {
        self.done_to(what, "")
    }

    /// Sets the notice of what was done to the thing of this name, or to this number of things.
    pub(super) fn done_to(mut self, what: &str, name: &str) -> Self {
        self.done = shown::done(what).map(|notice| notice.replace("{}", name));
        self
    }

    /// Fills in the form, unless it is shown again as it was sent. A refused confirmation leaves the page's form as stored.
    pub(super) fn fill_in(&mut self, form: Form) {
        if self.problem.is_none() || self.form.is_confirmation() {
            self.form = form;
        }
    }

    /// Adds the curl command that reads a route of `/v1`, and returns its address.
    pub(super) fn reading(&mut self, path: &[&str], query: &[(&str, &str)]) -> String {
        let read_at = v1_with(path, query);
        self.curl.push(self.visitor.curl(&read_at));
        read_at
    }

    /// Adds the curl command that reads a route of `/v1`, and reads it.
    pub(super) async fn read<T: DeserializeOwned>(
        &mut self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Problem> {
        let read_at = self.reading(path, query);
        self.visitor.read(&read_at).await
    }

    /// Adds the curl command that sends this body to a path of `/v1`.
    pub(super) fn example(&mut self, method: &Method, path: &[&str], body: Option<&Value>) {
        let example = self.visitor.curl_to(method, &v1(path), body);
        self.curl.push(example);
    }

    /// Whether the visitor may call routes that need this scope: on the board of the page, or else on all boards.
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.visitor.may_on(scope, &self.heading.board)
    }

    /// What is wrong with a field of the refused form.
    pub(super) fn faults(&self, name: &str) -> Vec<&str> {
        let problem = self.problem.as_ref();
        let errors = problem.into_iter().flat_map(|problem| &problem.errors);
        errors
            .filter(|error| error.pointer.strip_prefix('/') == Some(name))
            .map(|error| error.detail.as_str())
            .collect()
    }

    /// Whether the refused form asked for this confirmation.
    pub(super) fn is_asked(&self, id: &str) -> bool {
        self.form.field("asked") == id
    }

    /// Sets why the form was refused, and returns the status for that.
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

/// Writes the page of a refused form again, with this status.
pub(super) fn refused(status: StatusCode, page: &impl Template) -> Answer {
    let mut page = html(page)?;
    *page.status_mut() = status;
    page.extensions_mut().insert(HasBody);
    Ok(page)
}

/// A page with forms, about what its path names, or about all things of a kind.
pub(super) trait Page: Template + Sized {
    /// What the path names: a board, a webhook, a key; nothing for a list of all.
    type Of: DeserializeOwned + Send + Sync;
    /// The parameters.
    type Params: DeserializeOwned + Default + Send;

    /// Reads what it shows, in this frame.
    fn read(
        frame: Frame,
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
    html(&P::read(Frame::new(&viewer, ""), &of, params).await?)
}

/// Does what a form asks for. If that is refused, the page of the form says so, with what was filled in.
pub(super) async fn carry_out<P: Page>(
    viewer: &Viewer,
    of: &P::Of,
    form: &Form,
    what: impl Future<Output = Answer>,
) -> Answer {
    let problem = match what.await {
        Ok(response) => return Ok(response),
        Err(problem) => problem.mendable()?,
    };
    let mut frame = Frame::new(viewer, "");
    frame.form = form.clone();
    let status = frame.refuse(problem);
    refused(status, &P::read(frame, of, P::Params::default()).await?)
}

/// Redirects to a page of the console after something was done.
pub(super) fn to(path: &[&str], query: &[(&str, &str)]) -> Response {
    let page = address(&[&["console"], path].concat(), query);
    Redirect::to(&page).into_response()
}

/// Sets the headers of every page. Pictures may come from these hosts, too.
pub(super) fn set_headers(headers: &mut HeaderMap, pictures: &str) {
    let policy = HeaderValue::try_from(format!("{POLICY} {pictures}").trim_end());
    let policy = policy.expect("invariant: the names of hosts are header values");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Adds what every page has to a response.
pub(super) fn finish(visitor: &Visitor, mut response: Response) -> Response {
    let headers = response.headers_mut();
    let pictures = visitor.console.app.profile_rules.hosts.sources();
    set_headers(headers, &pictures.unwrap_or_default());
    if let Some(cookie) = visitor.forms_cookie() {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}
