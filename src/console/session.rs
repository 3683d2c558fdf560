//! Visitors, who are distinguished by a cookie, and viewers, who are signed in.
//!
//! A browser has the id of its session in a cookie, and Redis has the digest of the id. Each request looks the API key up
//! again: a session ends with the key that has begun it.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, header};

use super::Console;
use super::prelude::*;
use crate::access::sessions::{ID_BYTES, new_id};
use crate::access::{Caller, Holder, sessions};
use crate::domain::ids::BoardId;
use crate::domain::secret::Digest;
use crate::domain::session::LIFETIME;
use crate::http::extract::invalid;
use crate::http::local;
use crate::http::problem::{INTERNAL, MALFORMED_REQUEST, UNAUTHENTICATED};
use crate::http::proxies::Arrival;

/// A cookie: the end of its name, and whether browsers send it with a link from another site.
#[derive(Clone, Copy)]
struct Cookie(&'static str, &'static str);

/// The id of a session.
const SESSION: Cookie = Cookie("standings-session", "Strict");
/// The seed of form tokens before the visitor is signed in. A link from another site leads to the sign-in page; it must not
/// replace the seed that other tabs use.
const FORMS: Cookie = Cookie("standings-forms", "Lax");

/// The client that asks for a page.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) console: Arc<Console>,
    /// The host that the browser has asked for.
    pub(super) host: Authority,
    /// The page's address.
    pub(super) address: String,
    /// Whether the request comes from a page of another site, so that the browser withholds the session cookie.
    pub(super) is_from_elsewhere: bool,
    pub(super) method: Method,
    /// The id of the session, if the browser has sent one.
    session: Option<String>,
    /// The seed of form tokens if there is no session.
    forms: String,
    /// Whether the browser does not have that seed yet.
    pub(super) is_new: bool,
    /// Where the request came from, for calls of routes.
    pub(super) arrival: Arrival,
    /// The holder of the session's API key.
    pub(super) holder: Option<Holder>,
    /// The variable parts of the page's path.
    pub(super) path: Form,
}

fn nobody() -> Problem {
    Problem::new(UNAUTHENTICATED, "sign in with an API key")
}

impl Visitor {
    /// The visitor that sends this request.
    pub(super) fn of(console: &Arc<Console>, parts: &Parts) -> Result<Self, Problem> {
        let no_host = || Problem::new(MALFORMED_REQUEST, "the request names no host");
        let host = local::host_of(parts).ok_or_else(no_host)?;
        let headers = &parts.headers;
        let fetched_from = headers.get("sec-fetch-site");
        let is_from_elsewhere = fetched_from.is_some_and(|site| site == "cross-site");
        let address = parts.uri.path_and_query();
        let mut visitor = Self {
            console: Arc::clone(console),
            host,
            address: address.map_or("/", |address| address.as_str()).to_owned(),
            is_from_elsewhere,
            method: parts.method.clone(),
            session: None,
            forms: String::new(),
            is_new: false,
            arrival: Arrival::of(parts),
            holder: None,
            path: Form::default(),
        };
        visitor.session = visitor.sent(headers, SESSION);
        let forms = visitor.sent(headers, FORMS);
        visitor.is_new = forms.is_none();
        visitor.forms = forms.map_or_else(new_id, Ok)?;
        Ok(visitor)
    }

    /// Finds out who is signed in.
    pub(super) async fn recognize(&mut self) -> Result<(), Problem> {
        let signed_in = self.signed_in().await;
        self.holder = unless(signed_in, |kind| kind == UNAUTHENTICATED)?;
        Ok(())
    }

    /// The holder of the session's API key, as long as the key exists.
    ///
    /// # Errors
    ///
    /// [`UNAUTHENTICATED`] if the session has ended; another problem if that can't be determined at the moment.
    pub(super) async fn signed_in(&self) -> Result<Holder, Problem> {
        let Console { app, gate, .. } = &*self.console;
        if app.is_open {
            return Ok(Holder::anybody());
        }
        let id = self.session.as_ref().ok_or_else(nobody)?;
        let session = sessions::find(&app.engine, id).await?;
        gate.holder(id, &session.ok_or_else(nobody)?)
    }

    /// Signs the visitor in with an API key, under a new id, and returns the session cookie.
    pub(super) async fn sign_in(&self, key: &str) -> Result<HeaderValue, Problem> {
        let Console { app, gate, .. } = &*self.console;
        let id = new_id()?;
        let (session, begun_by) = gate.begin_session(&id, key)?;
        sessions::begin(&app.engine, &id, &session, &begun_by).await?;
        self.end_session().await?;
        self.cookie(SESSION, &id)
    }

    /// Signs the visitor out, and returns the cookie that says so.
    pub(super) async fn sign_out(&self) -> Result<HeaderValue, Problem> {
        self.end_session().await?;
        self.cookie(SESSION, "")
    }

    async fn end_session(&self) -> Result<(), Problem> {
        if let Some(id) = &self.session {
            sessions::end(&self.console.app.engine, id).await?;
        }
        Ok(())
    }

    /// The token that forms of a page for this visitor have to send.
    pub(super) fn token(&self) -> String {
        let is_signed_in = self.holder.is_some();
        let session = self.session.as_ref().filter(|_| is_signed_in);
        let secret = session.unwrap_or(&self.forms);
        Digest::of("form").under(secret).hexadecimal()
    }

    /// Whether the browser has sent the cookie that its form tokens are made from.
    pub(super) fn has_sent_cookie(&self) -> bool {
        let is_signed_in = self.holder.is_some() && self.session.is_some();
        is_signed_in || !self.is_new
    }

    /// Whether the browser has to use TLS: otherwise cookies and keys could be read on the way. Not needed on its own
    /// machine, nor for a service without keys.
    fn needs_tls(&self) -> bool {
        !self.console.app.is_open && !local::is_of_this_machine(&self.host)
    }

    /// The origin of the pages, as well as the service can tell behind a proxy.
    pub(super) fn origin(&self) -> String {
        let scheme = if self.needs_tls() { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }

    /// Whether an origin is that of the pages.
    pub(super) fn is_own(&self, origin: &str) -> bool {
        let (scheme, host) = origin.split_once("://").unwrap_or_default();
        let is_secure = scheme.eq_ignore_ascii_case("https");
        let may_be_plain = !self.needs_tls() && scheme.eq_ignore_ascii_case("http");
        (is_secure || may_be_plain) && host.eq_ignore_ascii_case(self.host.as_str())
    }

    /// The name of a cookie. Browsers accept one that begins with `__Host-` only by TLS, from this host, and for it.
    fn name(&self, Cookie(name, _): Cookie) -> String {
        let prefix = if self.needs_tls() { "__Host-" } else { "" };
        format!("{prefix}{name}")
    }

    /// The value that the browser has sent, if it is an id.
    fn sent(&self, headers: &HeaderMap, cookie: Cookie) -> Option<String> {
        let name = self.name(cookie);
        let lines = headers.get_all(header::COOKIE).into_iter();
        let mut pairs = lines.flat_map(|line| line.to_str().unwrap_or_default().split(';'));
        let value = pairs.find_map(|pair| pair.trim().strip_prefix(&name)?.strip_prefix('='))?;
        let is_id = value.len() == 2 * ID_BYTES && value.bytes().all(|b| b.is_ascii_hexdigit());
        is_id.then(|| value.to_owned())
    }

    /// A cookie with this value; an empty one deletes it.
    fn cookie(&self, cookie: Cookie, value: &str) -> Result<HeaderValue, Problem> {
        let (name, Cookie(_, same_site)) = (self.name(cookie), cookie);
        let lifetime_s = if value.is_empty() {
            0
        } else {
            LIFETIME.ms() / 1_000
        };
        let secure = if self.needs_tls() { "; Secure" } else { "" };
        let text = format!(
            "{name}={value}; Path=/; Max-Age={lifetime_s}; HttpOnly; SameSite={same_site}{secure}"
        );
        HeaderValue::try_from(text).map_err(|error| Problem::internal(error.to_string()))
    }

    /// The cookie that a new visitor gets.
    pub(super) fn forms_cookie(&self) -> Option<HeaderValue> {
        let cookie = self.cookie(FORMS, &self.forms);
        cookie.ok().filter(|_| self.is_new)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let visitor = parts.extensions.get::<Self>().cloned();
        let outside = || Problem::new(INTERNAL, "a page that is not of the console");
        let path = RawPathParams::from_request_parts(parts, state).await;
        let path = path.map_err(|rejection| invalid("path", rejection.body_text()))?;
        let path = path.iter().map(|(name, part)| (name, part.to_owned()));
        Ok(Self {
            path: path.collect(),
            ..visitor.ok_or_else(outside)?
        })
    }
}

/// What a visitor may do: nothing, if it is not signed in.
impl Visitor {
    /// Whether signing in is not needed, since there are no keys.
    pub(super) fn is_anybody(&self) -> bool {
        self.console.app.is_open
    }

    fn caller(&self) -> Result<&Caller, Problem> {
        let holder = self.holder.as_ref().ok_or_else(nobody)?;
        Ok(&holder.caller)
    }

    /// Whether the visitor may call routes that need this scope on all boards.
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.require(scope).is_ok()
    }

    /// Refuses a page that calls routes that need this scope on all boards.
    pub(super) fn require(&self, scope: Scope) -> Result<(), Problem> {
        self.require_on(scope, "")
    }

    /// Refuses a page that calls routes that need this scope and check the boards themselves.
    pub(super) fn require_anywhere(&self, scope: Scope) -> Result<(), Problem> {
        self.caller()?.require(scope)
    }

    /// Refuses a page that calls routes that need this scope on a board, before it has called one. An invalid id stands for
    /// all boards.
    pub(super) fn require_on(&self, scope: Scope, board: &str) -> Result<(), Problem> {
        let caller = self.caller()?;
        caller.require(scope)?;
        caller.require_board(BoardId::parse(board).ok().as_ref())
    }

    /// Whether the visitor may call routes that need this scope on one board.
    pub(super) fn may_on(&self, scope: Scope, board: &str) -> bool {
        self.require_on(scope, board).is_ok()
    }
}

/// A visitor that is signed in, or any visitor if there are no keys. Forms that call routes take one, pages a [`Frame`] of
/// one. To a route, a visitor that is not signed in is a client without a key.
pub(super) struct Viewer(Visitor);

impl Deref for Viewer {
    type Target = Visitor;

    fn deref(&self) -> &Visitor {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let visitor = Visitor::from_request_parts(parts, state).await?;
        visitor.caller()?;
        Ok(Self(visitor))
    }
}
