//! The log of what requests have changed, beyond scores.
//!
//! A layer around the handlers of audited routes writes the *intent* of a request into a stream, runs the handler in its
//! own task, so that it finishes even if the client disconnects, and writes the *outcome* into a hash. Intents, outcomes
//! and *pseudonyms* (which replace the ids of members) are in one slot, with the list of boards. If an intent can't be
//! written, the request is refused; if an outcome can't be written, that is counted and logged.
//!
//! - `model.rs` decides what is logged, by field names: members get pseudonyms, secrets and people's names are left out.
//!   The layer takes the board and the member from the path's parameters, so a route needs no code for that; its handler
//!   only reports the values before and after the change.
//! - The mapping of pseudonyms is stored next to the lines. An erasure deletes the member's mapping; the lines stay, but no
//!   longer identify anyone.
//! - If Redis is full, a line is written without its body (`AUDIT_BRIEF` is `AUDIT_WRITE` with another flag), because
//!   deletions must still work then.

pub mod job;
pub mod model;
pub mod routes;
pub mod store;
pub mod work;
