//! What a route needs of who calls it.

use crate::domain::access::Scope;

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

    /// The same for players too who send events.
    #[must_use]
    pub const fn for_players(mut self) -> Self {
        self.is_for_players = true;
        self
    }

    /// The same where the answer is a stream.
    #[must_use]
    pub const fn streamed(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// The same where the audit log has a line of each request.
    #[must_use]
    pub const fn audited(mut self) -> Self {
        self.is_audited = true;
        self
    }
}
