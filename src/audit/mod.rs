//! The log of what requests have changed, beyond scores.
//!
//! A layer before the handlers of audited routes writes the *intent* of a request into a stream, has the handler run in a task
//! of its own, so that it runs to its end even if the client leaves, and writes the *outcome* into a hash. Intents, outcomes
//! and *pseudonyms* (the names of members there) are in one slot, with the list of boards. An intent that can't be written
//! refuses the request; an outcome that can't be written is counted and logged.
//!
//! - `model.rs` decides what is written, by the names of fields: members get pseudonyms, secrets and names of people are left
//!   out. The layer takes the board and the member from the parameters of the path, so a route needs no code for that; its
//!   handler only tells what was there before and after.
//! - The mapping of pseudonyms is kept next to the lines. An erasure deletes it, and the lines stay, about nobody.
//! - A full Redis takes a line without its body (`AUDIT_BRIEF` is `AUDIT_WRITE` with another flag), because deletions must work
//!   then.

pub mod job;
pub mod model;
pub mod routes;
pub mod store;
pub mod work;
