//! Authentication and authorization.
//!
//! Every route of the table declares the access that it needs (`requirement.rs`). The gate (`gate.rs`) identifies the caller: by
//! an API key of the configuration (`configured_keys.rs`) or a stored one (`keyring.rs`), as a player by its token (`players.rs`), by
//! a session of the console, by a stream token, or as anonymous. The guard of the route (`guard.rs`) admits callers with
//! access. Checks that depend on the body are made by the handler, with the `Caller`.
//!
//! Words: a *grant* is what a key allows: scopes, boards, a rate. A *caller* has scopes; a *voter* is only where an event
//! says that it comes from.
//!
//! What is subtle:
//!
//! - For a stored key only the SHA-256 of its secret is kept. Keys are looked up by that, and compared in constant time.
//! - Keys in memory are a copy. An instance without contact to Redis for 5 s accepts no stored key, so a deleted key ends
//!   on all instances. Keys of the configuration are always accepted.
//! - The response is 403 whether a board exists or not, so a key for other boards learns nothing.
//! - A stream outlives the check that admitted its reader, so the guard is not enough: see `live/`.
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
