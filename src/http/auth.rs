//! Who calls, and whether they may.
//!
//! Each route of the table says what it needs ([`Access`]). The [`Gate`] finds out who calls, and the guard before the
//! route lets in who may. What a route can't know before it has read the body, its handler asks the [`Caller`].

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use tower::{Layer, Service};

use super::audit::Auditor;
use super::players::Player;
use super::problem::{
    FORBIDDEN, INTERNAL, Problem, RATE_LIMITED, STORE_UNAVAILABLE, UNAUTHENTICATED,
};
use super::standings::params::HiddenChoice;
use super::{App, Options, local, ratelimit};
use crate::domain::access::{Boards, Grant, KeyName, Rate, Scope, Scopes};
use crate::domain::ids::BoardId;
use crate::domain::include::{Include, Includes};
use crate::domain::secret::Digest;
use crate::domain::series::Track;
use crate::domain::session::Session;
use crate::engine::keyring::{LiveKey, Spent, Unfit};
use crate::service::Error;
use crate::service::api_keys::SECRET_PREFIX;
use crate::service::events::Incoming;
use crate::store::standings::Sight;

/// The shortest key of the configuration, in bytes. A key that is this short has to be random at least.
const KEY_BYTES_MIN: usize = 8;
/// What is answered to who may do more than read is for nobody else.
const NOT_STORED: HeaderValue = HeaderValue::from_static("private, no-store");

/// The keys of the configuration: `role:key,role:key`.
#[derive(Clone, Default)]
pub struct ApiKeys(Arc<[(Scopes, Digest)]>);

impl fmt::Debug for ApiKeys {
    /// Keys are never written anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.0.len())
    }
}

impl FromStr for ApiKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let parts = text.split(',').map(str::trim);
        let keys = parts.filter(|part| !part.is_empty()).map(configured_key);
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err("there is no key in it".to_owned());
        }
        Ok(Self(keys.into()))
    }
}

/// The role of a key of the configuration with these scopes.
fn role_of(scopes: Scopes) -> &'static str {
    let roles = [Scope::Admin, Scope::Write, Scope::Read].into_iter();
    let mut roles = roles.filter(|scope| scopes.has(*scope));
    roles.next().map_or("none", Scope::name)
}

fn configured_key(part: &str) -> Result<(Scopes, Digest), String> {
    let (role, key) = part.split_once(':').unwrap_or((part, ""));
    let scopes = match role {
        "read" => Scopes::from_iter([Scope::Read]),
        "write" => Scopes::from_iter([Scope::Read, Scope::Write]),
        "admin" => Scopes::ALL,
        // The text may be a key without a role: it isn't repeated.
        _ => {
            let detail = "each API key is `role:key`, with the role read, write or admin";
            return Err(detail.to_owned());
        }
    };
    let is_sound = key.len() >= KEY_BYTES_MIN && key.bytes().all(|byte| byte.is_ascii_graphic());
    is_sound
        .then(|| (scopes, Digest::of(key)))
        .ok_or_else(|| format!("an API key has visible ASCII characters, at least {KEY_BYTES_MIN}"))
}

impl ApiKeys {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the keys allow that are meant, by their digests. Takes the same time for every wrong key.
    fn scopes_of(&self, is_meant: impl Fn(&Digest) -> bool) -> Option<Scopes> {
        let meant = self.0.iter().filter(|(_, digest)| is_meant(digest));
        meant.map(|(scopes, _)| *scopes).reduce(Scopes::and)
    }
}

/// What a route needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Access {
    /// One of these scopes; without one anybody may.
    pub scope: Option<Scope>,
    /// For which boards.
    pub boards: For,
    /// Whether anybody may on public boards.
    pub is_public: bool,
    /// Whether players may who send events. What theirs may say the handler checks.
    pub is_for_players: bool,
    /// Whether the audit log has a line of each request (`audit.rs`).
    pub is_audited: bool,
}

/// Which boards a key has to be for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum For {
    /// The one of the path.
    Path,
    /// Each item of the body is for a board of its own; the handler checks them.
    Each,
    /// All boards.
    All,
}

impl Access {
    /// Anybody may.
    pub const OPEN: Self = Self {
        scope: None,
        boards: For::All,
        is_public: false,
        is_for_players: false,
        is_audited: false,
    };

    /// This scope on the board of the path.
    pub const fn board(scope: Scope) -> Self {
        Self {
            scope: Some(scope),
            boards: For::Path,
            is_public: false,
            is_for_players: false,
            is_audited: false,
        }
    }

    /// `read` on the board of the path, unless that is public.
    pub const fn public() -> Self {
        Self {
            is_public: true,
            ..Self::board(Scope::Read)
        }
    }

    /// This scope on the board of each item of the body.
    pub const fn each(scope: Scope) -> Self {
        Self {
            boards: For::Each,
            ..Self::board(scope)
        }
    }

    /// This scope on all boards.
    pub const fn all(scope: Scope) -> Self {
        Self {
            boards: For::All,
            ..Self::board(scope)
        }
    }

    /// The same for players too who send events.
    #[must_use]
    pub const fn for_players(self) -> Self {
        Self {
            is_for_players: true,
            ..self
        }
    }

    /// The same where the audit log has a line of each request.
    #[must_use]
    pub const fn audited(self) -> Self {
        Self {
            is_audited: true,
            ..self
        }
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    scopes: Scopes,
    boards: Boards,
    known_by: KnownBy,
    /// What it may see beside scores.
    includes: Includes,
    /// The player, if it is one, and where it calls from.
    player: Option<(Arc<Player>, Option<IpAddr>)>,
}

/// By what a caller is known that is no player.
#[derive(Clone, Debug)]
enum KnownBy {
    /// By nothing: there are no keys, or the board is public.
    Nothing,
    /// By a key of the configuration.
    Configuration,
    /// By a stored key.
    Key(KeyName),
}

impl Caller {
    /// Anybody, where there are no keys.
    fn anybody() -> Self {
        Self::with(Scopes::ALL, Boards::all(), KnownBy::Nothing)
    }

    fn with(scopes: Scopes, boards: Boards, known_by: KnownBy) -> Self {
        Self {
            scopes,
            boards,
            known_by,
            includes: Includes::all(),
            player: None,
        }
    }

    /// The caller's name: that of its stored key, the subject of its token, `configuration:` and the role of a key of the
    /// configuration, or `anonymous`.
    pub fn name(&self) -> String {
        if let Some((player, _)) = self.player() {
            return player.sub().to_string();
        }
        match &self.known_by {
            KnownBy::Nothing => "anonymous".to_owned(),
            KnownBy::Configuration => format!("configuration:{}", role_of(self.scopes)),
            KnownBy::Key(name) => name.to_string(),
        }
    }

    /// The player, if it is one, and where it calls from.
    pub(super) fn player(&self) -> Option<(&Player, Option<IpAddr>)> {
        let (player, ip) = self.player.as_ref()?;
        Some((player, *ip))
    }

    /// An event as the caller may send it.
    pub(super) fn send(&self, event: Incoming) -> Result<Incoming, Problem> {
        match self.player() {
            Some((player, ip)) => player.send(event, ip),
            None => Ok(event),
        }
    }

    /// The boards that the caller may go to.
    pub(super) fn boards(&self) -> &Boards {
        &self.boards
    }

    /// Checks that the caller has a scope.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        let (scope, scopes) = (scope.name(), self.scopes);
        let detail = format!("this needs the scope `{scope}`; the key has: {scopes}");
        Err(Problem::new(FORBIDDEN, detail))
    }

    /// Checks that the caller may go to a board. Whether that is there makes no difference.
    pub fn require_board(&self, board: Option<&BoardId>) -> Result<(), Problem> {
        if self.boards.are_all() || board.is_some_and(|board| self.boards.has(board)) {
            return Ok(());
        }
        Err(Problem::new(FORBIDDEN, "the key is for other boards"))
    }

    /// Checks that the caller may see this beside scores.
    pub fn require_includes(&self, includes: Includes) -> Result<(), Problem> {
        let Some(hidden) = includes.without(self.includes).words().next() else {
            return Ok(());
        };
        let name = Include::name(hidden);
        let detail = format!(
            "`include={name}` needs an API key here: the board's `public_includes` does not name it"
        );
        Err(Problem::new(FORBIDDEN, detail))
    }

    /// Whose entries are asked for: those of hidden members are for those who moderate.
    pub fn sight(&self, hidden: Option<HiddenChoice>) -> Result<Sight, Problem> {
        match hidden {
            None => Ok(Sight::Visible),
            Some(HiddenChoice::Include) => {
                self.require(Scope::Moderate)?;
                Ok(Sight::Everybody)
            }
        }
    }

    /// The track that is asked for: the raw one is for those who configure.
    pub fn track(&self, is_raw: bool) -> Result<Track, Problem> {
        if !is_raw {
            return Ok(Track::Shown);
        }
        self.require(Scope::Configure)?;
        Ok(Track::Raw)
    }

    /// Checks what a route needs.
    fn check(&self, access: Access, parts: &mut Parts) -> Result<(), Problem> {
        let player = self.player().filter(|_| access.is_for_players);
        if let Some(scope) = access.scope
            && !player.is_some_and(|(player, _)| player.sends())
        {
            self.require(scope)?;
        }
        if self.boards.are_all() {
            return Ok(());
        }
        match access.boards {
            For::Each => Ok(()),
            // It is for itself, and not for a board.
            For::All if player.is_some() => Ok(()),
            For::Path => self.require_board(board_of(parts).as_ref()),
            For::All => Err(Problem::new(FORBIDDEN, "this needs a key for all boards")),
        }
    }
}

/// The board of a request's path.
fn board_of(parts: &mut Parts) -> Option<BoardId> {
    let params = RawPathParams::from_request_parts(parts, &());
    // The router has put them there: there is nothing to wait for.
    let params = params.now_or_never()?.ok()?;
    let (_, board) = params.iter().find(|(name, _)| *name == "board")?;
    BoardId::parse(board).ok()
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::new(INTERNAL, "a route without its guard"))
    }
}

/// Tells who calls.
pub struct Gate {
    app: Arc<App>,
    options: Options,
}

impl Gate {
    /// A gate that knows the keys of these options.
    pub fn new(app: Arc<App>, options: Options) -> Self {
        Self { app, options }
    }

    /// What stands before a route.
    pub(super) fn guard(self: &Arc<Self>, access: Access) -> Guard {
        Guard {
            gate: Arc::clone(self),
            access,
        }
    }

    /// What writes down what a route changes.
    pub(super) fn audit(&self) -> Auditor {
        Auditor::new(Arc::clone(&self.app), self.options.proxies.clone())
    }

    /// Who sends a request, and what it leaves of the rate of its key.
    fn identify(&self, access: Access, parts: &Parts) -> Result<(Caller, Option<Spent>), Problem> {
        if let Some(holder) = parts.extensions.get::<Holder>() {
            return Ok(holder.send());
        }
        let Options {
            players, proxies, ..
        } = &self.options;
        if self.app.is_open {
            if self.options.is_local && access.scope != Some(Scope::Read) {
                local::check(parts, &self.options.cors_origins)?;
            }
            return Ok((Caller::anybody(), None));
        }
        let Some(sent) = bearer(&parts.headers) else {
            return Err(unknown());
        };
        let digest = Digest::of(sent);
        if let Some(caller) = self.configured(|own| *own == digest) {
            return Ok((caller, None));
        }
        let engine = &self.app.service.engine;
        if !players.is_empty() && sent.split('.').count() == 3 {
            let token = players.verify(sent, engine.clock.now())?;
            let ip = proxies.client(&parts.headers, &parts.extensions);
            let caller = Caller {
                player: Some((Arc::new(token.player), ip)),
                ..Caller::with(token.scopes, token.boards, KnownBy::Nothing)
            };
            return Ok((caller, None));
        }
        self.stored(sent).map(|key| Holder::of(key).send())
    }

    /// Who has a key of the configuration that is meant, by its digest.
    fn configured(&self, is_meant: impl Fn(&Digest) -> bool) -> Option<Caller> {
        let scopes = self.options.keys.scopes_of(is_meant)?;
        Some(Caller::with(scopes, Boards::all(), KnownBy::Configuration))
    }

    /// The stored key with this secret.
    fn stored(&self, sent: &str) -> Result<Arc<LiveKey>, Problem> {
        if !sent.starts_with(SECRET_PREFIX) {
            return Err(unknown());
        }
        let engine = &self.app.service.engine;
        let key = engine.keyring.find(sent, engine.clock.now());
        key.map_err(unfit_for_use)
    }

    /// Begins a session of the console with this id for who sends this key. That is a request of the key.
    pub(super) fn begin_session(&self, id: &str, sent: &str) -> Result<Session, Problem> {
        let digest = Digest::of(sent);
        if self.configured(|own| *own == digest).is_some() {
            return Ok(Session::new(id, None, &digest));
        }
        let holder = Holder::of(self.stored(sent)?);
        if let (
            _,
            Some(Spent {
                rate,
                remaining: None,
                ..
            }),
        ) = holder.send()
        {
            return Err(too_fast(rate));
        }
        let name = holder.key.map(|key| key.name.clone());
        Ok(Session::new(id, name, &digest))
    }

    /// Who has begun this session of the console, as long as the key counts.
    pub(super) fn holder(&self, id: &str, session: &Session) -> Result<Holder, Problem> {
        let is_own = |digest: &Digest| session.is_of(id, digest);
        let Some(name) = &session.key else {
            let caller = self.configured(is_own).ok_or_else(unknown)?;
            return Ok(Holder { caller, key: None });
        };
        let engine = &self.app.service.engine;
        let key = engine.keyring.find_named(name, is_own, engine.clock.now());
        key.map(Holder::of).map_err(unfit_for_use)
    }
}

/// Who has an API key, or is anybody where there are none. The console calls routes for it: as an extension of a request,
/// which no request of a client can bring along.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) caller: Caller,
    key: Option<Arc<LiveKey>>,
}

impl Holder {
    /// Anybody, where there are no keys.
    pub(super) fn anybody() -> Self {
        let caller = Caller::anybody();
        Self { caller, key: None }
    }

    /// Who has this stored key.
    fn of(key: Arc<LiveKey>) -> Self {
        let Grant { scopes, boards, .. } = key.grant().clone();
        let known_by = KnownBy::Key(key.name.clone());
        Self {
            caller: Caller::with(scopes, boards, known_by),
            key: Some(key),
        }
    }

    /// The caller of a request, and what that leaves of the rate of the key.
    fn send(&self) -> (Caller, Option<Spent>) {
        let spent = self.key.as_ref().and_then(|key| key.spend());
        (self.caller.clone(), spent)
    }
}

fn unknown() -> Problem {
    let detail = "send a valid API key: `Authorization: Bearer <key>`";
    Problem::new(UNAUTHENTICATED, detail)
}

fn unfit_for_use(unfit: Unfit) -> Problem {
    match unfit {
        Unfit::Unknown => unknown(),
        Unfit::Expired => Problem::new(UNAUTHENTICATED, "the API key has expired"),
        // The key may be right: to call it wrong would have clients throw it away.
        Unfit::Unconfirmed => Problem::new(
            STORE_UNAVAILABLE,
            "the API key can't be confirmed, since Redis has not answered for 5 seconds; try again",
        ),
    }
}

/// What the gate says of a request.
enum Decision {
    /// The caller may go on.
    Admitted(Caller),
    /// Anybody may go on if the board of the path is public; otherwise this is the answer.
    IfPublic(Problem),
    /// The answer.
    Refused(Problem),
}

impl Gate {
    /// Finds out whether a request may go on, and what it leaves of the rate of its key.
    fn decide(&self, access: Access, parts: &mut Parts) -> (Option<Spent>, Decision) {
        let is_nobody = !parts.headers.contains_key(header::AUTHORIZATION);
        let (caller, spent) = match self.identify(access, parts) {
            Ok((caller, spent)) => (Ok(caller), spent),
            Err(problem) => (Err(problem), None),
        };
        if let Some(Spent {
            rate,
            remaining: None,
            ..
        }) = spent
        {
            return (spent, Decision::Refused(too_fast(rate)));
        }
        let checked = caller.and_then(|caller| caller.check(access, parts).map(|()| caller));
        let decision = match checked {
            Ok(caller) => Decision::Admitted(caller),
            // Whoever sends a key that is wrong is told so.
            Err(problem) if access.is_public && (is_nobody || problem.kind == FORBIDDEN) => {
                Decision::IfPublic(problem)
            }
            Err(problem) => Decision::Refused(problem),
        };
        (spent, decision)
    }

    /// Anybody, if the board of the path is public; otherwise the problem.
    async fn visitor(&self, parts: &mut Parts, problem: Problem) -> Result<Caller, Problem> {
        let Some(id) = board_of(parts) else {
            return Err(problem);
        };
        match self.app.service.engine.live_board(&id).await {
            Ok(live) if live.board.definition.public => {
                let read = Scopes::from_iter([Scope::Read]);
                Ok(Caller {
                    includes: live.board.definition.public_includes(),
                    ..Caller::with(read, Boards::one(&id), KnownBy::Nothing)
                })
            }
            Ok(_) | Err(Error::BoardNotFound(_)) => Err(problem),
            Err(error) => Err(error.into()),
        }
    }

    /// Says in the headers of an answer who may keep it, and what is left of the rate of the key.
    fn finish(&self, access: Access, spent: Option<&Spent>, mut response: Response) -> Response {
        let headers = response.headers_mut();
        if access.scope > Some(Scope::Read) {
            headers.insert(header::CACHE_CONTROL, NOT_STORED);
        }
        let rule = headers.get(header::CACHE_CONTROL);
        let is_public = rule.is_some_and(|rule| rule.as_bytes().starts_with(b"public"));
        if !is_public && !self.app.is_open {
            headers.append(header::VARY, HeaderValue::from_static("authorization"));
        }
        if let Some(spent) = spent {
            ratelimit::of_key(spent, headers);
        }
        response
    }
}

fn too_fast(rate: Rate) -> Problem {
    let detail = format!("the API key may send {rate} to each instance");
    Problem::new(RATE_LIMITED, detail)
}

/// What a request has sent to be known by.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let sent = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, sent) = sent.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| sent.trim())
}

/// Puts a guard before a route.
#[derive(Clone)]
pub(super) struct Guard {
    gate: Arc<Gate>,
    access: Access,
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            guard: self.clone(),
        }
    }
}

/// A route behind its guard.
#[derive(Clone)]
pub(super) struct Guarded<S> {
    inner: S,
    guard: Guard,
}

impl<S> Service<Request> for Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Guard { gate, access } = self.guard.clone();
        let (mut parts, body) = request.into_parts();
        let (spent, decision) = gate.decide(access, &mut parts);
        match decision {
            // The route is called without a copy of it.
            Decision::Admitted(caller) => {
                parts.extensions.insert(caller);
                let answer = self.inner.call(Request::from_parts(parts, body));
                Box::pin(async move { Ok(gate.finish(access, spent.as_ref(), answer.await?)) })
            }
            Decision::IfPublic(problem) => {
                let waiting = self.inner.clone();
                let mut route = std::mem::replace(&mut self.inner, waiting);
                Box::pin(async move {
                    let response = match gate.visitor(&mut parts, problem).await {
                        Ok(visitor) => {
                            parts.extensions.insert(visitor);
                            route.call(Request::from_parts(parts, body)).await?
                        }
                        Err(problem) => problem.into_response(),
                    };
                    Ok(gate.finish(access, spent.as_ref(), response))
                })
            }
            Decision::Refused(problem) => {
                let response = gate.finish(access, spent.as_ref(), problem.into_response());
                Box::pin(std::future::ready(Ok(response)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_configuration_are_exact_and_have_scopes_by_the_old_names() {
        let keys: ApiKeys = "read:reader-1, write:writer-1, admin:a:1:2345,"
            .parse()
            .unwrap();
        let scopes = |key: &str| {
            let scopes = keys.scopes_of(|own| *own == Digest::of(key));
            scopes.map(|scopes| scopes.to_string())
        };
        assert_eq!(scopes("reader-1").as_deref(), Some("read"));
        assert_eq!(scopes("writer-1").as_deref(), Some("read, write"));
        assert_eq!(scopes("a:1:2345").as_deref(), Some("admin"));
        for wrong in ["r", "reader-11", "", "a"] {
            assert_eq!(scopes(wrong), None, "{wrong}");
        }
        let role = |key: &str| keys.scopes_of(|own| *own == Digest::of(key)).map(role_of);
        let roles = ["reader-1", "writer-1", "a:1:2345"].map(role);
        assert_eq!(roles, [Some("read"), Some("write"), Some("admin")]);
        assert!(!format!("{keys:?}").contains("reader-1"));
        for wrong in [
            "boss:12345678",
            "12345678",
            "read:",
            "read:1234567",
            "read: 12345678",
            "read:1234 5678",
            "read:ключключ",
            "read:12345678,admin",
            ",",
        ] {
            assert!(wrong.parse::<ApiKeys>().is_err(), "{wrong}");
        }
        assert!(" ".parse::<ApiKeys>().unwrap().is_empty());
    }

    #[test]
    fn a_key_is_sent_as_a_bearer_token() {
        let sent = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(ToOwned::to_owned)
        };
        assert_eq!(sent("Bearer reader-1").as_deref(), Some("reader-1"));
        assert_eq!(sent("bearer  reader-1 ").as_deref(), Some("reader-1"));
        assert_eq!(sent("Basic reader-1"), None);
        assert_eq!(sent("reader-1"), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
