//! Who calls, and whether they may.
//!
//! Each route of the table says what it needs (`requirement.rs`); there is none without that. The gate (`gate.rs`) finds out who
//! calls: an API key of the configuration (`configured_keys.rs`), a stored one (`keyring.rs`), a player by its token (`players.rs`), a
//! session of the console, a stream token, or nobody. The guard before the route (`guard.rs`) lets in who may. What a route
//! can't know before it has read the body, its handler asks the `Caller`.
//!
//! Words: a *grant* is what a key allows: scopes, boards, a rate. A *caller* has scopes; a *voter* is only who an event says
//! that it comes from.
//!
//! What is subtle:
//!
//! - Of a stored key only the SHA-256 of its secret is kept. It is looked up by that, and compared in constant time.
//! - Keys in memory are a copy. An instance that has not heard of Redis for 5 s takes no stored key, so a deleted key ends on
//!   all instances. Keys of the configuration are always taken.
//! - The same answer, 403, whether a board exists or not: a key for other boards learns nothing.
//! - A stream outlasts what has let its reader in, so the guard is not enough: see `live/`.
//! - Without any key the service is open, and serves its own machine only (`http/local.rs`).

mod caller;
pub(crate) mod configured_keys;
mod gate;
mod guard;
pub mod keyring;
pub mod players;
pub(crate) mod requirement;
pub mod sessions;
pub mod stream_tokens;
mod streams;

pub(crate) use self::caller::caller_of;
pub use self::caller::{Caller, HiddenChoice};
pub use self::configured_keys::ApiKeys;
pub(crate) use self::gate::Holder;
pub use self::gate::{Admitted, Gate};
pub use self::requirement::{Access, For};
pub(crate) use self::streams::Needs;
