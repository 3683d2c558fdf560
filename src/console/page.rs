//! What all pages have in common.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts as RequestParts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::de::DeserializeOwned;
use tokio::join;
use tokio::sync::OnceCell;
use url::form_urlencoded::parse;

use super::board::Heading;
use super::prelude::*;
use super::shown::{self, Clock};
use crate::domain::board::FieldError;
use crate::domain::timezone::Zone;
use crate::http::extract::{in_query, invalid};
use crate::http::observe::HasBody;
use crate::moderation::routes::HiddenList;
use crate::operations::overview::work::Overview;

/// The response to a request for a page, or to a form.
pub(super) type Answer = Result<Response, Problem>;

/// The content security policy of pages, to which the hosts of pictures are added: everything else is from this origin, and no
/// frame may show a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; img-src 'self'";
/// The parameters of the notice of what was done before a page was shown, and of the name of what it was done to, or of how
/// many there were.
pub(super) const DONE: &str = "done";
const NAME: &str = "name";

fn is_of_notice(parameter: &str) -> bool {
    [DONE, NAME].contains(&parameter)
}

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
    /// The parameters of the address.
    query: Form,
    /// The path of the page, where its lists have their other parts.
    pub(super) path: String,
    /// What waits or fails, and how many members of the page's board are hidden, once that was read, as far as the visitor
    /// may know it.
    around: OnceCell<(Option<Arc<Overview>>, u64)>,
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

impl Tab {
    /// A link that leads elsewhere.
    pub(super) fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            is_current: false,
        }
    }
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
        let configures = self.require_anywhere(Scope::Configure).is_ok();
        let (moderates, administers) = (self.may(Scope::Moderate), self.may(Scope::Admin));
        // Each page has a group, a name, a path, and whether the visitor may see it.
        let pages = [
            ("", "Overview", "", self.may_look_around()),
            ("", "Boards", "boards", true),
            ("", "Members", "members", self.is_for_people()),
            ("", "Name review", "names", moderates),
            ("Deliver", "Webhooks", "webhooks", configures),
            ("Deliver", "API keys", "keys", administers),
            ("Deliver", "Embeds", "embeds", true),
            ("Operate", "Queues", "queues", self.may(Scope::Configure)),
            ("Operate", "Jobs", "jobs", moderates || administers),
            ("Operate", "Audit log", "audit", administers),
            ("Operate", "Service", "service", true),
        ];
        let own = self.address.strip_prefix("/console").unwrap_or("/other");
        let own = own.split(['/', '?']).find(|part| !part.is_empty());
        let own = own.map_or("", |page| match page {
            "define" => "boards",
            "member" | "profiles" => "members",
            page => page,
        });
        let mut groups: Vec<Group> = Vec::new();
        for (group, name, page, _) in pages.into_iter().filter(|(.., is_seen)| *is_seen) {
            if groups.last().is_none_or(|last| last.name != group) {
                let pages = Vec::new();
                groups.push(Group { name: group, pages });
            }
            if let Some(group) = groups.last_mut() {
                let path = format!("/console/{page}");
                group.pages.push(Tab {
                    is_current: own == page,
                    ..Tab::new(name, path.trim_end_matches('/'))
                });
            }
        }
        groups
    }
}

impl Frame {
    /// The frame of a page for this visitor.
    pub(super) fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        let (path, query) = visitor
            .address
            .split_once('?')
            .unwrap_or((&visitor.address, ""));
        let query: Form = parse(query.as_bytes()).into_owned().collect();
        let notice = shown::done(query.field(DONE));
        Self {
            title: title.into(),
            token: visitor.token(),
            visitor: visitor.clone(),
            path: path.to_owned(),
            around: OnceCell::new(),
            heading: Heading::default(),
            crumbs: Vec::new(),
            clock: Clock {
                zone: Zone::UTC,
                now: visitor.console.app.engine.clock.now(),
            },
            done: notice.map(|notice| notice.replace("{}", query.field(NAME))),
            form: Form::default(),
            problem: None,
            curl: Vec::new(),
            query,
        }
    }

    /// What the address names: these parts of its path and parameters, empty for those that it has not.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER`](crate::http::problem::INVALID_PARAMETER): it has another parameter, or one of them twice.
    pub(super) fn params<const N: usize>(&self, names: [&str; N]) -> Result<[String; N], Problem> {
        let is_of_query = |name: &&str| self.visitor.path.given(name).is_none();
        let known: Vec<&str> = names.into_iter().filter(is_of_query).collect();
        for name in self.query.names().filter(|name| !is_of_notice(name)) {
            let fault = match self.query.chosen(name).len() {
                _ if known.is_empty() => format!("unknown field `{name}`, there are no fields"),
                _ if !known.contains(&name) => {
                    format!("unknown field `{name}`, expected `{}`", known.join("`, `"))
                }
                1 => continue,
                _ => format!("duplicate field `{name}`"),
            };
            return Err(invalid("query", in_query(&fault)));
        }
        Ok(names.map(|name| self.param(name).to_owned()))
    }

    /// A part of the path, or else a parameter; empty if the address has none of this name.
    pub(super) fn param(&self, name: &str) -> &str {
        let of_path = self.visitor.path.given(name);
        of_path.unwrap_or_else(|| self.query.field(name))
    }

    /// The frame of the page with these parameters.
    pub(super) fn with_params(mut self, params: &[(&'static str, &str)]) -> Self {
        let params = params
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        self.query = params.collect();
        self
    }

    /// The address of this page with these parameters changed, and without a notice.
    pub(super) fn here(&self, changes: &[(&str, &str)]) -> String {
        format!("{}{}", self.path, self.query.changed(changes))
    }

    /// Adds a page above this one.
    pub(super) fn under(mut self, name: &str, address: impl Into<String>) -> Self {
        self.crumbs.push(Tab::new(name, address));
        self
    }

    /// Sets the title.
    pub(super) fn named(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Reads what is around the page, if the visitor may know that, and it can be read: a page works without it. Returns what
    /// waits or fails.
    pub(super) async fn look_around(&self) -> Option<&Arc<Overview>> {
        let visitor = &self.visitor;
        let overview = async || {
            if !visitor.may_look_around() {
                return None;
            }
            visitor.read("/v1/overview").await.ok().map(Arc::new)
        };
        let hidden = async || {
            let board = visitor.path.given("board")?;
            visitor.require_on(Scope::Moderate, board).ok()?;
            let counted_at = v1_with(&["boards", board, "hidden"], &[("limit", "1")]);
            visitor.read::<HiddenList>(&counted_at).await.ok()?.total
        };
        let read = async || {
            let (overview, hidden) = join!(overview(), hidden());
            (overview, hidden.unwrap_or_default())
        };
        self.around.get_or_init(read).await.0.as_ref()
    }

    /// What waits or fails, if it was read.
    pub(super) fn overview(&self) -> Option<&Overview> {
        self.around.get()?.0.as_deref()
    }

    /// How many members of the page's board are hidden, if it was read.
    pub(super) fn hidden(&self) -> u64 {
        self.around.get().map_or(0, |(_, hidden)| *hidden)
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

    /// Adds the curl command that reads a route of `/v1`, and reads it; next to it, what is around the page.
    pub(super) async fn read<T: DeserializeOwned>(
        &mut self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Problem> {
        let read_at = self.reading(path, query);
        let (found, _) = join!(self.visitor.read(&read_at), self.look_around());
        found
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
        let own = |error: &&FieldError| error.pointer.strip_prefix('/') == Some(name);
        let errors = self.errors().filter(own);
        errors.map(|error| error.detail.as_str()).collect()
    }

    /// What is wrong with the refused form.
    pub(super) fn errors(&self) -> impl Iterator<Item = &FieldError> {
        let problem = self.problem.iter();
        problem.flat_map(|problem| &problem.errors)
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

impl Form {
    /// The parameters of an address with these changed, and without a notice.
    fn changed(&self, changes: &[(&str, &str)]) -> String {
        let own = self.names().map(|name| (name, self.field(name)));
        let is_kept = |(name, _): &(&str, &str)| {
            let is_changed = changes.iter().any(|(changed, _)| changed == name);
            !is_changed && !is_of_notice(name)
        };
        let query: Vec<_> = own.filter(is_kept).chain(changes.iter().copied()).collect();
        address(&[], &query)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Frame {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, state: &S) -> Result<Self, Problem> {
        let viewer = Viewer::from_request_parts(parts, state).await?;
        Ok(Self::new(&viewer, ""))
    }
}

/// A page with forms.
pub(super) trait Page: Template + Sized {
    /// Reads what it shows, in this frame.
    fn read(frame: Frame) -> impl Future<Output = Result<Self, Problem>> + Send;
}

/// Shows such a page.
pub(super) async fn show<P: Page>(frame: Frame) -> Answer {
    html(&Box::pin(P::read(frame)).await?)
}

/// Does what a form asks for. If that is refused, the page of the form says so, with what was filled in.
pub(super) async fn carry_out<P: Page>(
    viewer: &Viewer,
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
    refused(status, &Box::pin(P::read(frame)).await?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_the_same_page_keeps_what_it_does_not_change() {
        let query = [
            ("status", "blocked"),
            ("after", "a&b"),
            ("done", "approved"),
            ("name", "Ann"),
        ];
        let query = query.map(|(name, value)| (name, value.to_owned()));
        let query = Form::from_iter(query);
        for (changes, link) in [
            (&[][..], "?status=blocked&after=a%26b"),
            (&[("after", "c")], "?status=blocked&after=c"),
            (&[("after", "")], "?status=blocked"),
            (&[("page", "2")], "?status=blocked&after=a%26b&page=2"),
            (&[("after", ""), ("status", "")], ""),
        ] {
            assert_eq!(query.changed(changes), link);
        }
    }
}
