//! Revocations: all events that match something, such as a voter, count no more, and may be restored.
//!
//! A revocation has a number, and the row of each event that of the last revocation before it (`domain/history.rs`). It covers
//! rows with smaller numbers that match. A row says whether a revocation in force covers it, so entries depend on rows alone.
//!
//! - *Beginning*: the board's definition names the revocation, in the same step in which it gets its number. Events of later
//!   calls have that number, since no shard takes a call that was made for an earlier definition. What waits in a queue has
//!   its number since it was queued, and what is in the log by its offset.
//! - *Waiting*: what was queued before is applied.
//! - *Walking*: the rows of all shards, in parts, or those that are named; the rows of a member are changed by corrections
//!   (`carrying.rs`). Each row gets what the revocations in force say, so any step may be repeated.
//! - *Ending*: the report is stored, and the definition names the revocation no more. Results are revised after that.
//!
//! `work.rs` begins revocations and lists them, `job.rs` carries them out.

pub mod job;
pub mod revocation;
mod round;
pub mod routes;
pub(crate) mod store;
pub mod work;
