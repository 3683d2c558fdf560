//! Identifies callers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;

use super::caller::{Caller, KnownBy, TokenBounds};
use super::configured_keys::{ApiKeys, bearer};
use super::keyring::{self, LiveKey, SECRET_PREFIX, Unfit};
use super::players::PlayerKeys;
use super::requirement::Access;
use crate::domain::access::{Boards, Grant, KeyName, Scope, Spent};
use crate::domain::secret::Digest;
use crate::domain::session::{BegunBy, Session};
use crate::http::cors::CorsOrigins;
use crate::http::problem::{Problem, RATE_LIMITED, STORE_UNAVAILABLE, UNAUTHENTICATED};
use crate::http::proxies::TrustedProxies;
use crate::http::supply::{Taker, Takers};
use crate::http::{App, local};

/// Identifies callers.
pub struct Gate {
    pub(crate) app: Arc<App>,
    admitted: Admitted,
}

/// What a gate accepts.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub keys: ApiKeys,
    /// The keys of players' tokens.
    pub players: PlayerKeys,
    /// The origins that browsers may call from.
    pub cors_origins: CorsOrigins,
    /// The proxies trusted to report clients' addresses.
    pub proxies: TrustedProxies,
    /// Whether the service only serves its own machine: on a loopback address.
    pub is_local: bool,
}

impl Gate {
    /// A gate that accepts these.
    pub fn new(app: Arc<App>, admitted: Admitted) -> Self {
        Self { app, admitted }
    }

    /// Identifies the caller of a request, and counts it against the rate of its key.
    pub(super) fn identify(
        &self,
        access: Access,
        parts: &Parts,
    ) -> Result<(Caller, Option<Spent>), Problem> {
        if let Some(holder) = parts.extensions.get::<Holder>() {
            return Ok(holder.send());
        }
        let players = &self.admitted.players;
        if self.app.is_open {
            if self.admitted.is_local {
                let is_read = access.scope == Some(Scope::Read);
                local::check(parts, is_read, &self.admitted.cors_origins)?;
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
        let engine = &self.app.engine;
        let is_token = sent.split('.').count() == 3;
        if is_token && players.is_empty() {
            let detail = "the token can't be checked: this service has no keys for players' tokens (STANDINGS_JWT_KEY). Set one, or send an API key";
            return Err(Problem::new(UNAUTHENTICATED, detail));
        }
        if is_token {
            let token = players.verify(sent, engine.clock.now())?;
            let known_by = KnownBy::Player(Arc::new(token.player));
            let mut caller = Caller::with(token.scopes, token.boards, known_by);
            caller.token = Some(TokenBounds {
                until: token.expires_at,
                window: None,
            });
            return Ok((caller, None));
        }
        let key = self.stored(sent, &digest)?;
        Ok(Holder::of(key, digest).send())
    }

    /// The caller with the configured key whose digest is meant.
    fn configured(&self, is_meant: impl Fn(&Digest) -> bool) -> Option<Caller> {
        let (scopes, digest) = self.admitted.keys.find(is_meant)?;
        let known_by = KnownBy::Configuration(digest);
        Some(Caller::with(scopes, Boards::all(), known_by))
    }

    /// The holder of a key given by its digest: the stored one of this name, or a configured one.
    pub(super) fn holder_of(
        &self,
        name: Option<&KeyName>,
        is_meant: impl Fn(&Digest) -> bool,
    ) -> Result<Holder, Problem> {
        let Some(name) = name else {
            let caller = self.configured(is_meant).ok_or_else(unknown)?;
            return Ok(Holder { caller, key: None });
        };
        let engine = &self.app.engine;
        let (keyring, now) = (keyring::of(engine), engine.clock.now());
        let (key, digest) = keyring.find_named(name, is_meant, now)?;
        Ok(Holder::of(key, digest))
    }

    /// The stored key with this secret and digest.
    fn stored(&self, sent: &str, digest: &Digest) -> Result<Arc<LiveKey>, Problem> {
        if !sent.starts_with(SECRET_PREFIX) {
            return Err(unknown());
        }
        let engine = &self.app.engine;
        Ok(keyring::of(engine).find(digest, engine.clock.now())?)
    }

    /// Begins a session of the console with this id for the holder of this key. Counts as a request of the key.
    pub(crate) fn begin_session(
        &self,
        id: &str,
        sent: &str,
    ) -> Result<(Session, BegunBy), Problem> {
        let digest = Digest::of(sent);
        if let Some(place) = self.admitted.keys.place_of(&digest) {
            let session = Session::new(id, None, &digest);
            return Ok((session, BegunBy::Configuration(place)));
        }
        let key = self.stored(sent, &digest)?;
        let holder = Holder::of(Arc::clone(&key), digest);
        check_rate(holder.send().1.as_ref())?;
        let name = key.name.clone();
        let session = Session::new(id, Some(name.clone()), &digest);
        Ok((session, BegunBy::Key(name)))
    }

    /// The holder that began this session of the console, as long as its key is valid.
    pub(crate) fn holder(&self, id: &str, session: &Session) -> Result<Holder, Problem> {
        self.holder_of(session.key.as_ref(), |digest| session.is_of(id, digest))
    }

    /// The address of the client that has sent a request.
    pub(crate) fn client(&self, parts: &Parts) -> Option<IpAddr> {
        let proxies = &self.admitted.proxies;
        proxies.client(&parts.headers, &parts.extensions)
    }

    /// The accounts that a form's resources are charged to: the API key of the session, if any, or the address.
    pub(crate) fn takers_of_form(&self, holder: Option<&Holder>, parts: &Parts) -> Takers {
        let known = holder
            .map(|holder| holder.caller.takers())
            .filter(|takers| takers.iter().next().is_some());
        let address = || Takers::one(self.client(parts).map(|ip| Taker::Address(ip.into())));
        known.unwrap_or_else(address)
    }
}

/// The holder of an API key, or anyone where there are none. The console calls routes for it, through an extension of the
/// request that no client can set.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) caller: Caller,
    key: Option<Arc<LiveKey>>,
}

impl Holder {
    /// Anyone, where there are no keys.
    pub(crate) fn anybody() -> Self {
        let caller = Caller::anybody();
        Self { caller, key: None }
    }

    /// The holder of this stored key, by a secret with this digest.
    pub(super) fn of(key: Arc<LiveKey>, digest: Digest) -> Self {
        let Grant { scopes, boards, .. } = key.grant().clone();
        let known_by = KnownBy::Key(key.name.clone(), digest);
        Self {
            caller: Caller::with(scopes, boards, known_by),
            key: Some(key),
        }
    }

    /// The caller of a request, after counting it against the rate of the key.
    fn send(&self) -> (Caller, Option<Spent>) {
        let spent = self.key.as_ref().and_then(|key| key.spend());
        (self.caller.clone(), spent)
    }
}

pub(super) fn unknown() -> Problem {
    let detail = "send a valid API key or player's token: `Authorization: Bearer …`";
    Problem::new(UNAUTHENTICATED, detail)
}

impl From<Unfit> for Problem {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Unknown => unknown(),
            Unfit::Expired => {
                Self::new(UNAUTHENTICATED, "the API key has expired; send another one")
            }
            // The key may be valid: clients throw away keys that are called invalid.
            Unfit::Unconfirmed => Self::new(
                STORE_UNAVAILABLE,
                "the API key can't be checked: Redis has not answered for 5 seconds; try again",
            ),
        }
    }
}

/// Checks that a request does not exceed the rate of its key.
pub(super) fn check_rate(spent: Option<&Spent>) -> Result<(), Problem> {
    let Some(used_up) = spent.filter(|spent| spent.remaining.is_none()) else {
        return Ok(());
    };
    let detail = format!("the API key may send {} to each instance", used_up.rate);
    Err(Problem::new(RATE_LIMITED, detail))
}
