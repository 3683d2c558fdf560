//! Who calls, and whether they may.
//!
//! Each route of the table says what it needs ([`Access`]). The [`Gate`] finds out who calls, and the guard before the
//! route lets in who may. What a route can't know before it has read the body, its handler asks the [`Caller`].

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, TryFutureExt};
use tower::{Layer, Service};
use url::form_urlencoded;

use super::audit::Auditor;
use super::caching;
use super::players::Player;
use super::problem::{
    FORBIDDEN, INTERNAL, Problem, RATE_LIMITED, STORE_UNAVAILABLE, UNAUTHENTICATED,
};
use super::standings::params::HiddenChoice;
use super::supply::{Taker, Takers};
use super::{App, Options, local, ratelimit};
use crate::domain::access::{Boards, Grant, KeyName, Rate, Scope, Scopes};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::include::{Include, Includes};
use crate::domain::quota::Network;
use crate::domain::secret::Digest;
use crate::domain::series::Track;
use crate::domain::session::{BegunBy, Session};
use crate::domain::stream_token::{self, Maker, SentToken, StreamToken};
use crate::domain::time::Timestamp;
use crate::engine::keyring::{LiveKey, Spent, Unfit};
use crate::engine::past::Asker;
use crate::service::Error;
use crate::service::api_keys::SECRET_PREFIX;
use crate::service::events::Incoming;
use crate::store::standings::Sight;

/// The shortest key of the configuration, in bytes. A key that is this short has to be random at least.
const KEY_BYTES_MIN: usize = 8;
/// The parameter with a token for streams.
const STREAM_TOKEN: &str = "token";

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

    /// At which place the first key with this digest is, from 0. Takes the same time for every wrong key.
    fn place_of(&self, digest: &Digest) -> Option<usize> {
        let places = self.0.iter().enumerate();
        let same = places.filter(|(_, (_, own))| own == digest);
        same.map(|(place, _)| place).reduce(usize::min)
    }
}

/// What a route needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is said of a route by itself"
)]
pub struct Access {
    /// One of these scopes; without one anybody may.
    pub scope: Option<Scope>,
    /// For which boards.
    pub boards: For,
    /// Whether anybody may on public boards.
    pub is_public: bool,
    /// Whether players may who send events. What theirs may say the handler checks.
    pub is_for_players: bool,
    /// Whether the answer is a stream, which tokens of their own open (`streams/`).
    pub is_stream: bool,
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
        is_stream: false,
        is_audited: false,
    };

    /// This scope on the board of the path.
    pub const fn board(scope: Scope) -> Self {
        Self {
            scope: Some(scope),
            boards: For::Path,
            is_public: false,
            is_for_players: false,
            is_stream: false,
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

    /// The same where the answer is a stream.
    #[must_use]
    pub const fn streamed(self) -> Self {
        Self {
            is_stream: true,
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
    /// Where it calls from; not kept of one that has sent an API key.
    ip: Option<IpAddr>,
    /// What its token says of it, if it has one.
    token: Option<Bounds>,
}

/// What bounds a caller that is known by a token.
#[derive(Clone, Debug)]
struct Bounds {
    /// From then on it may not call.
    until: Timestamp,
    /// The only window that it may watch, if its token is one for streams.
    window: Option<Arc<str>>,
}

/// What a stream shows, and so what its reader has to be allowed for as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// A scope on the board.
    pub(super) scope: Scope,
    /// What entries have beside scores.
    pub(super) includes: Includes,
}

/// By what a caller is known.
#[derive(Clone, Debug)]
enum KnownBy {
    /// By nothing: there are no keys.
    Nothing,
    /// By nothing: the board is public.
    Visit,
    /// By a key of the configuration with this digest.
    Configuration(Digest),
    /// By a stored key, and by the digest of the secret that was sent.
    Key(KeyName, Digest),
    /// As a player.
    Player(Arc<Player>),
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
            ip: None,
            token: None,
        }
    }

    /// The caller's name: that of its stored key, the subject of its token, `configuration:` and the role of a key of the
    /// configuration, or `anonymous`.
    pub fn name(&self) -> String {
        match &self.known_by {
            KnownBy::Nothing | KnownBy::Visit => "anonymous".to_owned(),
            KnownBy::Player(player) => player.sub().to_string(),
            KnownBy::Configuration(_) => format!("configuration:{}", role_of(self.scopes)),
            KnownBy::Key(name, _) => name.to_string(),
        }
    }

    /// The name of its stored key, if it has one.
    pub(super) fn key(&self) -> Option<&KeyName> {
        match &self.known_by {
            KnownBy::Key(name, _) => Some(name),
            _ => None,
        }
    }

    /// The player, if it is one, and where it calls from.
    pub(super) fn player(&self) -> Option<(&Player, Option<IpAddr>)> {
        match &self.known_by {
            KnownBy::Player(player) => Some((player, self.ip)),
            _ => None,
        }
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

    /// Checks that who was let in to read a board may still read this: a stream outlasts what has let its reader in.
    ///
    /// # Errors
    ///
    /// Why not; [`STORE_UNAVAILABLE`] if nobody can tell at the moment.
    pub(super) fn check_still(
        &self,
        app: &App,
        board: &Board,
        needs: Needs,
    ) -> Result<(), Problem> {
        if app.is_open {
            return Ok(());
        }
        let now = app.service.engine.clock.now();
        if self.token.as_ref().is_some_and(|token| token.until <= now) {
            return Err(Problem::new(UNAUTHENTICATED, "the token has expired"));
        }
        let (scopes, boards) = match &self.known_by {
            KnownBy::Visit => {
                let is_shown = needs
                    .includes
                    .without(board.definition.public_includes())
                    .is_empty();
                return if board.definition.public && is_shown {
                    Ok(())
                } else {
                    Err(unknown())
                };
            }
            KnownBy::Nothing | KnownBy::Configuration(_) | KnownBy::Player(_) => return Ok(()),
            KnownBy::Key(name, digest) => {
                let keyring = &app.service.engine.keyring;
                let key = keyring.find_named(name, |own| own == digest, now);
                let key = key.map_err(unfit_for_use)?;
                let Grant { scopes, boards, .. } = key.grant();
                (*scopes, boards.clone())
            }
        };
        let key = Self::with(scopes, boards, self.known_by.clone());
        key.require(needs.scope)?;
        key.require_board(Some(&board.id))
    }

    /// Checks that the caller may watch a window of the board of the path: a token for streams is for one.
    pub(super) fn require_window(&self, window: &str) -> Result<(), Problem> {
        let only = self.token.as_ref().and_then(|token| token.window.as_ref());
        if only.is_none_or(|only| **only == *window) {
            return Ok(());
        }
        Err(Problem::new(FORBIDDEN, "the token is for another standing"))
    }

    /// By whom what it takes is counted: by its API key, by itself if it is a player, and by its address unless it has sent a
    /// key itself.
    pub(super) fn takers(&self) -> Takers {
        let known = match &self.known_by {
            KnownBy::Key(name, _) => Some(Taker::Key(name.clone())),
            KnownBy::Configuration(digest) => Some(Taker::Configured(digest.half())),
            KnownBy::Player(player) => Some(Taker::Player(player.sub().clone())),
            KnownBy::Nothing | KnownBy::Visit => None,
        };
        Takers::both(known, self.ip.map(|ip| Taker::Address(ip.into())))
    }

    /// Whether it has sent an API key itself, so that its address makes no difference.
    fn has_sent_key(&self) -> bool {
        let is_key = matches!(self.known_by, KnownBy::Key(..) | KnownBy::Configuration(_));
        is_key && self.token.is_none()
    }

    /// By what it is told from others when it has standings of the past built; `None` where there are no keys.
    pub(super) fn asker(&self) -> Option<Asker> {
        let text = match &self.known_by {
            KnownBy::Nothing => return None,
            KnownBy::Visit => {
                let network = self.ip.and_then(|ip| Network::parse(&ip.to_string()).ok());
                network.map_or("address:".to_owned(), |network| {
                    format!("address:{network}")
                })
            }
            KnownBy::Configuration(digest) => format!("configuration:{}", digest.hexadecimal()),
            KnownBy::Key(name, _) => format!("key:{name}"),
            KnownBy::Player(player) => format!("player:{}", player.sub()),
        };
        Some(Asker::new(text))
    }

    /// A token for the streams of a standing, which ends with what the caller is known by; and the digest that it is signed with.
    pub(super) fn stream_token(
        &self,
        now: Timestamp,
        board: BoardId,
        window: String,
    ) -> (StreamToken, Option<Digest>) {
        let (by, key) = match &self.known_by {
            KnownBy::Nothing | KnownBy::Visit => (Maker::Anybody, None),
            KnownBy::Configuration(digest) => (Maker::Configuration, Some(*digest)),
            KnownBy::Key(name, digest) => (Maker::Key(name.clone()), Some(*digest)),
            KnownBy::Player(player) => (Maker::Player(player.sub().clone()), None),
        };
        let own_end = self.token.as_ref().map(|token| token.until);
        let end = now.saturating_add(stream_token::LIFETIME);
        let token = StreamToken {
            by,
            board,
            window,
            expires_at: own_end.map_or(end, |own| own.min(end)),
        };
        (token, key)
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
        caller_of(&parts.extensions).cloned()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Takers {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller_of(&parts.extensions).map(Caller::takers)
    }
}

/// The caller of a request that its guard has let in.
pub(super) fn caller_of(extensions: &Extensions) -> Result<&Caller, Problem> {
    let caller = extensions.get::<Caller>();
    caller.ok_or_else(|| Problem::new(INTERNAL, "a route without its guard"))
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
        let players = &self.options.players;
        if self.app.is_open {
            if self.options.is_local {
                let is_read = access.scope == Some(Scope::Read);
                local::check(parts, is_read, &self.options.cors_origins)?;
            }
            return Ok((Caller::anybody(), None));
        }
        let Some(sent) = bearer(&parts.headers) else {
            return Err(unknown());
        };
        let digest = Digest::of(sent);
        if let Some(caller) = self.configured(digest) {
            return Ok((caller, None));
        }
        let engine = &self.app.service.engine;
        if !players.is_empty() && sent.split('.').count() == 3 {
            let token = players.verify(sent, engine.clock.now())?;
            let ip = self.client(parts);
            let known_by = KnownBy::Player(Arc::new(token.player));
            let bounds = Bounds {
                until: token.expires_at,
                window: None,
            };
            let caller = Caller {
                ip,
                token: Some(bounds),
                ..Caller::with(token.scopes, token.boards, known_by)
            };
            return Ok((caller, None));
        }
        self.stored(sent).map(|key| Holder::of(key, digest).send())
    }

    /// Who has a key of the configuration with this digest.
    fn configured(&self, digest: Digest) -> Option<Caller> {
        let scopes = self.options.keys.scopes_of(|own| *own == digest)?;
        let known_by = KnownBy::Configuration(digest);
        Some(Caller::with(scopes, Boards::all(), known_by))
    }

    /// Who has a key that is meant, by its digest: the stored one of this name, or one of the configuration.
    fn holder_of(
        &self,
        name: Option<&KeyName>,
        is_meant: impl Fn(&Digest) -> bool,
    ) -> Result<Holder, Problem> {
        let meant = Cell::new(None);
        let is_meant = |digest: &Digest| {
            let is_meant = is_meant(digest);
            if is_meant {
                meant.set(Some(*digest));
            }
            is_meant
        };
        let Some(name) = name else {
            let known = self.options.keys.scopes_of(is_meant).and(meant.get());
            let caller = known.and_then(|digest| self.configured(digest));
            let caller = caller.ok_or_else(unknown)?;
            return Ok(Holder { caller, key: None });
        };
        let engine = &self.app.service.engine;
        let key = engine
            .keyring
            .find_named(name, is_meant, engine.clock.now());
        let key = key.map_err(unfit_for_use)?;
        let digest = meant.get().ok_or_else(unknown)?;
        Ok(Holder::of(key, digest))
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
    pub(super) fn begin_session(
        &self,
        id: &str,
        sent: &str,
    ) -> Result<(Session, BegunBy), Problem> {
        let digest = Digest::of(sent);
        if let Some(place) = self.options.keys.place_of(&digest) {
            let session = Session::new(id, None, &digest);
            return Ok((session, BegunBy::Configuration(place)));
        }
        let key = self.stored(sent)?;
        let holder = Holder::of(Arc::clone(&key), digest);
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
        let name = key.name.clone();
        let session = Session::new(id, Some(name.clone()), &digest);
        Ok((session, BegunBy::Key(name)))
    }

    /// Who has begun this session of the console, as long as the key counts.
    pub(super) fn holder(&self, id: &str, session: &Session) -> Result<Holder, Problem> {
        self.holder_of(session.key.as_ref(), |digest| session.is_of(id, digest))
    }

    /// Who has sent a token for streams, as long as what it was made with counts.
    async fn opened_by(&self, sent: &SentToken) -> Result<Caller, Problem> {
        let engine = &self.app.service.engine;
        let mut tried = None;
        while let Some(secret) = engine.stream_secret(tried.as_deref()).await? {
            match self.opened_with(sent, &secret) {
                Err(problem) if problem.kind == UNAUTHENTICATED => tried = Some(secret),
                opened => return opened,
            }
        }
        Err(void())
    }

    fn opened_with(&self, token: &SentToken, secret: &str) -> Result<Caller, Problem> {
        let StreamToken {
            by,
            board,
            window,
            expires_at,
        } = &token.token;
        let is_meant = |digest: &Digest| token.is_signed(secret, Some(digest));
        // The rate of a key is for who holds it, and tokens are for anybody who looks at a page.
        let caller = match by {
            Maker::Configuration => self.holder_of(None, is_meant)?.caller,
            Maker::Key(name) => self.holder_of(Some(name), is_meant)?.caller,
            Maker::Player(sub) if token.is_signed(secret, None) => {
                let player = KnownBy::Player(Arc::new(Player::reading(sub.clone())));
                let scopes = Scopes::from_iter([Scope::Read]);
                Caller::with(scopes, Boards::all(), player)
            }
            Maker::Player(_) | Maker::Anybody => return Err(void()),
        };
        if *expires_at <= self.app.service.engine.clock.now() {
            return Err(Problem::new(UNAUTHENTICATED, "the token has expired"));
        }
        caller.require(Scope::Read)?;
        caller.require_board(Some(board))?;
        let bounds = Bounds {
            until: *expires_at,
            window: Some(window.as_str().into()),
        };
        Ok(Caller {
            scopes: Scopes::from_iter([Scope::Read]),
            boards: Boards::one(board),
            token: Some(bounds),
            ..caller
        })
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

    /// Who has this stored key, by a secret with this digest.
    fn of(key: Arc<LiveKey>, digest: Digest) -> Self {
        let Grant { scopes, boards, .. } = key.grant().clone();
        let known_by = KnownBy::Key(key.name.clone(), digest);
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

fn void() -> Problem {
    Problem::new(UNAUTHENTICATED, "the token opens nothing, or not any more")
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
    /// The caller may go on if the board of the path is there.
    IfThere(Caller),
    /// Anybody may go on if the board of the path is public; otherwise this is the answer.
    IfPublic(Problem),
    /// Who has sent this token for streams may go on if that is good.
    IfGood(String),
    /// The answer.
    Refused(Problem),
}

impl Gate {
    /// Finds out whether a request may go on, and what it leaves of the rate of its key.
    fn decide(&self, access: Access, parts: &mut Parts) -> (Option<Spent>, Decision) {
        if let Some(token) = self.stream_token(access, parts) {
            return (None, Decision::IfGood(token));
        }
        let is_nobody = !parts.headers.contains_key(header::AUTHORIZATION);
        let identified = self.identify(access, parts);
        Self::judge(access, parts, identified, is_nobody)
    }

    /// The token for streams by which a request asks to be let in.
    fn stream_token(&self, access: Access, parts: &Parts) -> Option<String> {
        let is_known_otherwise = self.app.is_open
            || parts.headers.contains_key(header::AUTHORIZATION)
            || parts.extensions.get::<Holder>().is_some();
        if !access.is_stream || is_known_otherwise {
            return None;
        }
        let mut query = form_urlencoded::parse(parts.uri.query()?.as_bytes());
        let (_, token) = query.find(|(name, _)| name == STREAM_TOKEN)?;
        Some(token.into_owned())
    }

    /// Finds out whether who was identified may go on.
    fn judge(
        access: Access,
        parts: &mut Parts,
        identified: Result<(Caller, Option<Spent>), Problem>,
        is_nobody: bool,
    ) -> (Option<Spent>, Decision) {
        let (caller, spent) = match identified {
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
            // There are many players, and a body costs: theirs are read only for boards that are there.
            Ok(caller)
                if access.is_for_players
                    && access.boards == For::Path
                    && caller.player().is_some() =>
            {
                Decision::IfThere(caller)
            }
            Ok(caller) => Decision::Admitted(caller),
            // Whoever sends a key that is wrong is told so.
            Err(problem) if access.is_public && (is_nobody || problem.kind == FORBIDDEN) => {
                Decision::IfPublic(problem)
            }
            Err(problem) => Decision::Refused(problem),
        };
        (spent, decision)
    }

    /// Takes a decision that has to wait to its end; returns who may go on.
    async fn admit(
        &self,
        access: Access,
        parts: &mut Parts,
        (spent, decision): (Option<Spent>, Decision),
    ) -> (Option<Spent>, Result<Caller, Problem>) {
        match decision {
            Decision::Admitted(caller) => (spent, Ok(caller)),
            Decision::Refused(problem) => (spent, Err(problem)),
            Decision::IfThere(caller) => (spent, self.check_board(parts).await.map(|()| caller)),
            Decision::IfPublic(problem) => (spent, self.visitor(parts, problem).await),
            Decision::IfGood(token) => {
                let opened = match SentToken::read(&token) {
                    Some(token) => self.opened_by(&token).await.map(|caller| (caller, None)),
                    None => Err(void()),
                };
                let judged = Self::judge(access, parts, opened, false);
                Box::pin(self.admit(access, parts, judged)).await
            }
        }
    }

    /// Has a route know its caller.
    fn let_in(&self, parts: &mut Parts, mut caller: Caller) {
        if caller.ip.is_none() && !caller.has_sent_key() {
            caller.ip = self.client(parts);
        }
        parts.extensions.insert(caller);
    }

    /// The address of the client that has sent a request.
    fn client(&self, parts: &Parts) -> Option<IpAddr> {
        let proxies = &self.options.proxies;
        proxies.client(&parts.headers, &parts.extensions)
    }

    /// By whom what a form takes is counted: by the API key of the session, if there is one, or by the address.
    pub(super) fn takers_of_form(&self, holder: Option<&Holder>, parts: &Parts) -> Takers {
        let holder = holder.map(|holder| holder.caller.takers());
        let known = holder.filter(|takers| takers.iter().next().is_some());
        let address = || Takers::one(self.client(parts).map(|ip| Taker::Address(ip.into())));
        known.unwrap_or_else(address)
    }

    /// Checks that the board of the path is there. What is no id the route itself refuses.
    async fn check_board(&self, parts: &mut Parts) -> Result<(), Problem> {
        if let Some(id) = board_of(parts) {
            self.app.service.engine.live_board(&id).await?;
        }
        Ok(())
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
                    ..Caller::with(read, Boards::one(&id), KnownBy::Visit)
                })
            }
            Ok(_) | Err(Error::BoardNotFound(_)) => Err(problem),
            Err(error) => Err(error.into()),
        }
    }

    /// Says in the headers of an answer who may keep it, and what is left of the rate of the key.
    fn finish(&self, access: Access, spent: Option<&Spent>, mut response: Response) -> Response {
        caching::rule_answer(access, self.app.is_open, &mut response);
        let headers = response.headers_mut();
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
                gate.let_in(&mut parts, caller);
                let answer = self.inner.call(Request::from_parts(parts, body));
                Box::pin(answer.map_ok(move |answer| gate.finish(access, spent.as_ref(), answer)))
            }
            Decision::IfThere(_) | Decision::IfPublic(_) | Decision::IfGood(_) => {
                let waiting = self.inner.clone();
                let mut route = std::mem::replace(&mut self.inner, waiting);
                Box::pin(async move {
                    let decided = (spent, decision);
                    let (spent, admitted) = gate.admit(access, &mut parts, decided).await;
                    let response = match admitted {
                        Ok(caller) => {
                            gate.let_in(&mut parts, caller);
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
