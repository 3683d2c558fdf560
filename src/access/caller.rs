//! The caller of a request, and what it may do.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Extensions;
use axum::http::request::Parts;
use futures::FutureExt;
use serde::Deserialize;
use utoipa::ToSchema;

use super::configured_keys::role_of;
use super::players::Player;
use super::requirement::{Access, For};
use crate::core::read::store::standings::Visibility;
use crate::domain::access::{Boards, KeyName, Scope, Scopes};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, Label, MemberId};
use crate::domain::include::{Include, Includes};
use crate::domain::secret::Digest;
use crate::domain::series::Track;
use crate::domain::time::Timestamp;
use crate::events::work::IncomingEvent;
use crate::http::problem::{FORBIDDEN, INTERNAL, Kind, Problem};
use crate::http::supply::{Taker, Takers};

#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) scopes: Scopes,
    pub(super) boards: Boards,
    pub(super) known_by: KnownBy,
    /// What it may see in addition to scores.
    pub(super) includes: Includes,
    /// Its address; not kept for callers that sent an API key.
    pub(super) ip: Option<IpAddr>,
    /// The limits set by its token, if it has one.
    pub(super) token: Option<TokenBounds>,
}

/// What a read does with hidden members.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HiddenChoice {
    /// It shows them, too.
    Include,
}

/// The limits of a caller identified by a token.
#[derive(Clone, Debug)]
pub(super) struct TokenBounds {
    /// When its access ends.
    pub(super) until: Timestamp,
    /// For a stream token: the only window that it may watch.
    pub(super) window: Option<Arc<str>>,
}

/// How a caller was identified.
#[derive(Clone, Debug)]
pub(super) enum KnownBy {
    /// Anonymous: there are no keys.
    Nothing,
    /// As anyone, because the board is public. Everything else is refused with a problem of this kind: 401, or 403 if the caller
    /// has sent a key or a token that does not allow it.
    Visit(Kind),
    /// By a key of the configuration with this digest.
    Configuration(Digest),
    /// By a stored key, with the digest of the secret that was sent.
    Key(KeyName, Digest),
    Player(Arc<Player>),
}

impl Caller {
    /// The anonymous caller of a service without keys.
    pub(super) fn anybody() -> Self {
        Self::with(Scopes::ALL, Boards::all(), KnownBy::Nothing)
    }

    pub(super) fn with(scopes: Scopes, boards: Boards, known_by: KnownBy) -> Self {
        Self {
            scopes,
            boards,
            known_by,
            includes: Includes::all(),
            ip: None,
            token: None,
        }
    }

    /// The caller's name: that of its stored key, the subject of its token, `configuration:` and the role of a configured
    /// key, or `anonymous`.
    pub fn name(&self) -> String {
        match &self.known_by {
            KnownBy::Nothing | KnownBy::Visit(_) => "anonymous".to_owned(),
            KnownBy::Player(player) => player.sub().to_string(),
            KnownBy::Configuration(_) => format!("configuration:{}", role_of(self.scopes)),
            KnownBy::Key(name, _) => name.to_string(),
        }
    }

    /// The name of its stored key, if it has one.
    pub(crate) fn key(&self) -> Option<&KeyName> {
        match &self.known_by {
            KnownBy::Key(name, _) => Some(name),
            _ => None,
        }
    }

    /// The player, if it is one, and its address.
    pub(crate) fn player(&self) -> Option<(&Player, Option<IpAddr>)> {
        match &self.known_by {
            KnownBy::Player(player) => Some((player, self.ip)),
            _ => None,
        }
    }

    /// A member that the caller may act for.
    pub(crate) fn own_member(&self, member: MemberId) -> Result<MemberId, Problem> {
        if let Some((player, _)) = self.player() {
            player.require_own(&member)?;
        }
        Ok(member)
    }

    /// An event as the caller may send it.
    pub(crate) fn send(&self, mut event: IncomingEvent) -> Result<IncomingEvent, Problem> {
        if let Some((player, ip)) = self.player() {
            return player.send(event, ip);
        }
        event.origin.key = match self.known_by {
            KnownBy::Key(..) | KnownBy::Configuration(_) => Label::parse(&self.name()).ok(),
            KnownBy::Nothing | KnownBy::Visit(_) | KnownBy::Player(_) => None,
        };
        Ok(event)
    }

    /// The boards that the caller has access to.
    pub(crate) fn boards(&self) -> &Boards {
        &self.boards
    }

    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    /// Whether answers show the caller scores, ranks and counts of a board that it has access to.
    pub(crate) fn may_read(&self, board: &Board) -> bool {
        self.has(Scope::Read) || board.definition.public
    }

    /// Checks that the caller has a scope.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        self.require_any(&[scope])
    }

    /// Checks that the caller has one of these scopes.
    fn require_any(&self, scopes: &[Scope]) -> Result<(), Problem> {
        if scopes.iter().any(|scope| self.has(*scope)) {
            return Ok(());
        }
        let scope = Scope::listed(scopes);
        let detail = match &self.known_by {
            KnownBy::Visit(_) => format!("this needs an API key with the scope {scope}"),
            _ => format!("this needs the scope {scope}; {}", self.own_scopes()),
        };
        Err(self.refused(detail))
    }

    /// The problem that it has no access.
    fn refused(&self, detail: impl Into<String>) -> Problem {
        let kind = match self.known_by {
            KnownBy::Visit(kind) => kind,
            _ => FORBIDDEN,
        };
        Problem::new(kind, detail)
    }

    /// The scopes that it has, for people.
    fn own_scopes(&self) -> String {
        match &self.known_by {
            KnownBy::Player(player) => {
                let scopes = player.scopes(self.has(Scope::Read));
                format!("the token has: {}", scopes.join(", "))
            }
            _ => format!("the API key has: {}", self.scopes),
        }
    }

    /// What it was identified by, for people.
    fn credential(&self) -> &'static str {
        let has_token = self.token.is_some() || self.player().is_some();
        if has_token { "token" } else { "API key" }
    }

    /// Checks that the caller has access to a board, whether it exists or not.
    pub fn require_board(&self, board: Option<&BoardId>) -> Result<(), Problem> {
        if self.boards.are_all() || board.is_some_and(|board| self.boards.has(board)) {
            return Ok(());
        }
        let detail = format!("the {} is for other boards", self.credential());
        Err(Problem::new(FORBIDDEN, detail))
    }

    /// Checks that the caller may see this in addition to scores.
    pub fn require_includes(&self, includes: Includes) -> Result<(), Problem> {
        let Some(hidden) = includes.without(self.includes).words().next() else {
            return Ok(());
        };
        let name = Include::name(hidden);
        Err(self.refused(format!(
            "`include={name}` needs an API key here, because the board's `public_includes` does not have it"
        )))
    }

    /// The requested visibility: only moderators see hidden members.
    pub fn visibility(&self, hidden: Option<HiddenChoice>) -> Result<Visibility, Problem> {
        match hidden {
            None => Ok(Visibility::Visible),
            Some(HiddenChoice::Include) => self.require(Scope::Moderate).map(|()| Visibility::All),
        }
    }

    /// The requested track: `raw` requires the scope to configure.
    pub fn track(&self, is_raw: bool) -> Result<Track, Problem> {
        if !is_raw {
            return Ok(Track::Shown);
        }
        self.require(Scope::Configure)?;
        Ok(Track::Raw)
    }

    /// Its API key, or the player.
    fn known_taker(&self) -> Option<Taker> {
        match &self.known_by {
            KnownBy::Key(name, _) => Some(Taker::Key(name.clone())),
            KnownBy::Configuration(digest) => Some(Taker::Configured(digest.half())),
            KnownBy::Player(player) => Some(Taker::Player(player.sub().clone())),
            KnownBy::Nothing | KnownBy::Visit(_) => None,
        }
    }

    /// The accounts that its resources are charged to: its API key, a player itself, and its address unless it sent a key
    /// itself.
    pub(crate) fn takers(&self) -> Takers {
        let address = self.ip.map(|ip| Taker::Address(ip.into()));
        Takers::both(self.known_taker(), address)
    }

    /// What distinguishes it from others when it has past standings built; `None` without keys.
    pub(crate) fn taker_of_past(&self) -> Option<Taker> {
        if matches!(self.known_by, KnownBy::Nothing) {
            return None;
        }
        let ip = self.ip.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
        Some(self.known_taker().unwrap_or(Taker::Address(ip.into())))
    }

    /// Whether it sent an API key itself, so that its address doesn't matter.
    pub(super) fn has_sent_key(&self) -> bool {
        let is_key = matches!(self.known_by, KnownBy::Key(..) | KnownBy::Configuration(_));
        is_key && self.token.is_none()
    }

    /// Checks a route's access rules.
    pub(super) fn check(&self, access: Access, parts: &mut Parts) -> Result<(), Problem> {
        let player = self.player().filter(|_| access.is_for_players);
        match player {
            Some((player, _)) if player.sends() => {}
            Some(_) => {
                let detail = format!(
                    "this needs the scope `play` or `vote`; {}",
                    self.own_scopes()
                );
                return Err(Problem::new(FORBIDDEN, detail));
            }
            None if access.scope.is_none_or(|scope| self.has(scope)) => {}
            None => self.require_any(&access.scopes())?,
        }
        if self.boards.are_all() {
            return Ok(());
        }
        match access.boards {
            For::Each => Ok(()),
            // The access is for the player itself, not for a board.
            For::All if player.is_some() => Ok(()),
            For::Path => self.require_board(board_of(parts).as_ref()),
            For::All => {
                let own = self.credential();
                let detail = format!("this needs access to all boards, and the {own} is for some");
                Err(Problem::new(FORBIDDEN, detail))
            }
        }
    }
}

/// The board of a request's path.
pub(super) fn board_of(parts: &mut Parts) -> Option<BoardId> {
    // The router has extracted them already, so this never waits.
    let params = RawPathParams::from_request_parts(parts, &())
        .now_or_never()?
        .ok()?;
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

/// The caller of a request that its guard has admitted.
pub(crate) fn caller_of(extensions: &Extensions) -> Result<&Caller, Problem> {
    let caller = extensions.get::<Caller>();
    caller.ok_or_else(|| Problem::new(INTERNAL, "the route has no guard"))
}
