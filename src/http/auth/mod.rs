//! Who calls, and whether they may.
//!
//! Each route of the table says what it needs ([`Access`]). The [`Gate`] finds out who calls, and the guard before the
//! route lets in who may. What a route can't know before it has read the body, its handler asks the [`Caller`].

mod access;
mod caller;
mod gate;
mod guard;
mod keys;
mod streams;

pub use self::access::{Access, For};
pub(super) use self::caller::caller_of;
pub use self::caller::{Caller, HiddenChoice};
pub(super) use self::gate::Holder;
pub use self::gate::{Admitted, Gate};
pub use self::keys::ApiKeys;
pub(super) use self::streams::Needs;
