//! The access that a route requires of its caller.

use crate::domain::access::Scope;

/// The access that a route requires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each describes a route independently"
)]
pub struct Access {
    /// The scope; `None`: no scope is needed.
    pub scope: Option<Scope>,
    /// The scopes any of which suffices instead. The handler decides what such a caller sees.
    pub or: &'static [Scope],
    /// The boards that it must be for.
    pub boards: For,
    /// Whether public boards need no key.
    pub is_public: bool,
    /// Whether players that send events have access. The handler checks their events.
    pub is_for_players: bool,
    /// Whether the response is a stream, which stream tokens also open (`stream_tokens/`).
    pub is_stream: bool,
    /// Whether each request gets a line in the audit log (`audit/`).
    pub is_audited: bool,
}

/// The boards that a key must be for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum For {
    Path,
    /// The board of each item in the body; the handler checks them.
    Each,
    All,
}

impl Access {
    /// Open to anyone.
    pub const OPEN: Self = Self {
        scope: None,
        or: &[],
        boards: For::All,
        is_public: false,
        is_for_players: false,
        is_stream: false,
        is_audited: false,
    };

    /// This scope on these boards.
    const fn of(scope: Scope, boards: For) -> Self {
        Self {
            scope: Some(scope),
            boards,
            ..Self::OPEN
        }
    }

    /// This scope on the board of the path.
    pub const fn board(scope: Scope) -> Self {
        Self::of(scope, For::Path)
    }

    /// This scope on the board of each item of the body.
    pub const fn each(scope: Scope) -> Self {
        Self::of(scope, For::Each)
    }

    /// This scope on all boards.
    pub const fn all(scope: Scope) -> Self {
        Self::of(scope, For::All)
    }

    /// `read` on the board of the path, unless that is public.
    pub const fn public() -> Self {
        Self {
            is_public: true,
            ..Self::board(Scope::Read)
        }
    }

    /// Also grants access with any of these scopes.
    #[must_use]
    pub const fn or_with(mut self, scopes: &'static [Scope]) -> Self {
        self.or = scopes;
        self
    }

    /// The scopes any of which suffices, in their order; empty if none is needed.
    pub fn scopes(self) -> Vec<Scope> {
        let mut scopes = [self.scope.as_slice(), self.or].concat();
        scopes.sort_unstable();
        scopes
    }

    /// Also grants access to players that send events.
    #[must_use]
    pub const fn for_players(mut self) -> Self {
        self.is_for_players = true;
        self
    }

    /// Marks the response as a stream.
    #[must_use]
    pub const fn streamed(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// Gives each request a line in the audit log.
    #[must_use]
    pub const fn audited(mut self) -> Self {
        self.is_audited = true;
        self
    }
}
