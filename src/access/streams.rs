//! Access to streams: by stream tokens, and only as long as the reader's access lasts.

use std::sync::Arc;

use axum::http::header;
use axum::http::request::Parts;
use url::form_urlencoded;

use super::caller::{Caller, KnownBy, TokenBounds};
use super::gate::{Gate, Holder, unknown};
use super::players::Player;
use super::requirement::Access;
use super::stream_tokens::model::{Maker, SentToken, StreamToken};
use super::{keyring, stream_tokens};
use crate::domain::access::{Boards, Scope, Scopes};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::include::Includes;
use crate::domain::secret::Digest;
use crate::domain::time::Timestamp;
use crate::http::App;
use crate::http::problem::{FORBIDDEN, Problem, UNAUTHENTICATED};

/// The parameter for a stream token.
const STREAM_TOKEN: &str = "token";

/// What a stream shows, and therefore the access that its reader needs as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub(crate) scope: Scope,
    /// What entries have in addition to scores.
    pub(crate) includes: Includes,
}

impl Caller {
    /// Checks that an admitted reader still has access to this on a board: a stream outlives the check that admitted it.
    ///
    /// # Errors
    ///
    /// The reason; [`STORE_UNAVAILABLE`](crate::http::problem::STORE_UNAVAILABLE) if that can't be checked at the moment.
    pub(crate) fn check_still(
        &self,
        app: &App,
        board: &Board,
        needs: Needs,
    ) -> Result<(), Problem> {
        if app.is_open {
            return Ok(());
        }
        let now = app.engine.clock.now();
        if self.token.as_ref().is_some_and(|token| token.until <= now) {
            return Err(Problem::new(
                UNAUTHENTICATED,
                "the token has expired; get a new one",
            ));
        }
        match &self.known_by {
            KnownBy::Visit(_) => {
                let hidden = needs.includes.without(board.definition.public_includes());
                let is_shown = board.definition.public && hidden.is_empty();
                is_shown.then_some(()).ok_or_else(unknown)
            }
            KnownBy::Nothing | KnownBy::Configuration(_) | KnownBy::Player(_) => Ok(()),
            KnownBy::Key(name, digest) => {
                let keyring = keyring::of(&app.engine);
                let (key, digest) = keyring.find_named(name, |own| own == digest, now)?;
                let holder = Holder::of(key, digest);
                holder.caller.require(needs.scope)?;
                holder.caller.require_board(Some(&board.id))
            }
        }
    }

    /// Checks that the caller may watch a window of the board of the path: a stream token is for a single one.
    pub(crate) fn require_window(&self, window: &str) -> Result<(), Problem> {
        let only = self.token.as_ref().and_then(|token| token.window.as_ref());
        if only.is_none_or(|only| **only == *window) {
            return Ok(());
        }
        Err(Problem::new(
            FORBIDDEN,
            "the stream token is for another standing",
        ))
    }

    /// A stream token for a standing, which ends with the caller's own access; and the digest of the key that made it.
    pub(crate) fn stream_token(
        &self,
        now: Timestamp,
        board: BoardId,
        window: String,
    ) -> (StreamToken, Option<Digest>) {
        let (by, key) = match &self.known_by {
            KnownBy::Nothing | KnownBy::Visit(_) => (Maker::Anybody, None),
            KnownBy::Configuration(digest) => (Maker::Configuration, Some(*digest)),
            KnownBy::Key(name, digest) => (Maker::Key(name.clone()), Some(*digest)),
            KnownBy::Player(player) => (Maker::Player(player.sub().clone()), None),
        };
        let own_end = self.token.as_ref().map(|token| token.until);
        let end = now.saturating_add(stream_tokens::model::LIFETIME);
        let token = StreamToken {
            by,
            board,
            window,
            expires_at: own_end.map_or(end, |own| own.min(end)),
        };
        (token, key)
    }
}

impl Gate {
    /// The stream token that a request was sent with, if its route accepts one.
    pub(super) fn sent_token(&self, access: Access, parts: &Parts) -> Option<String> {
        let is_known_otherwise = self.app.is_open
            || parts.headers.contains_key(header::AUTHORIZATION)
            || parts.extensions.get::<Holder>().is_some();
        if !access.is_stream || is_known_otherwise {
            return None;
        }
        let (_, token) = form_urlencoded::parse(parts.uri.query()?.as_bytes())
            .find(|(name, _)| name == STREAM_TOKEN)?;
        Some(token.into_owned())
    }

    /// The caller with a stream token, as long as the access that it was made with is valid.
    pub(super) async fn opened_by(&self, token: &str) -> Result<Caller, Problem> {
        let sent = SentToken::read(token).ok_or_else(invalid_stream_token)?;
        let engine = &self.app.engine;
        let mut tried = None;
        while let Some(secret) = stream_tokens::work::secret(engine, tried.as_deref()).await? {
            match self.opened_with(&sent, &secret) {
                Err(problem) if problem.kind == UNAUTHENTICATED => tried = Some(secret),
                opened => return opened,
            }
        }
        Err(invalid_stream_token())
    }

    fn opened_with(&self, token: &SentToken, secret: &str) -> Result<Caller, Problem> {
        let said = &token.token;
        let is_meant = |digest: &Digest| token.is_signed(secret, Some(digest));
        // A key's rate limits its holder; a token may be used by everyone who opens a page.
        let caller = match &said.by {
            Maker::Configuration => self.holder_of(None, is_meant)?.caller,
            Maker::Key(name) => self.holder_of(Some(name), is_meant)?.caller,
            Maker::Player(sub) if token.is_signed(secret, None) => {
                let player = KnownBy::Player(Arc::new(Player::reading(sub.clone())));
                let scopes = Scopes::from_iter([Scope::Read]);
                Caller::with(scopes, Boards::all(), player)
            }
            Maker::Player(_) | Maker::Anybody => return Err(invalid_stream_token()),
        };
        if said.expires_at <= self.app.engine.clock.now() {
            return Err(Problem::new(
                UNAUTHENTICATED,
                "the stream token has expired; get a new one",
            ));
        }
        caller.require(Scope::Read)?;
        caller.require_board(Some(&said.board))?;
        let bounds = TokenBounds {
            until: said.expires_at,
            window: Some(said.window.as_str().into()),
        };
        Ok(Caller {
            scopes: Scopes::from_iter([Scope::Read]),
            boards: Boards::one(&said.board),
            token: Some(bounds),
            ..caller
        })
    }
}

fn invalid_stream_token() -> Problem {
    Problem::new(
        UNAUTHENTICATED,
        "the stream token is invalid, or no longer valid; get a new one",
    )
}
