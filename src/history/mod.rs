//! The events that boards keep: listing them, exporting them, and removing those that are no longer kept.
//!
//! A board with `history` keeps a *row* of each event that it accepts (`domain/history.rs`, `scripts/lib/history.lua`), written
//! in the step that accepts the event. What has no row, because it was accepted before the history was turned on or its row
//! has run out, is *folded*: one entry for each member and period has what these events made. So the rows say exactly how an
//! entry goes on from there.
//!
//! - `job.rs` folds rows that have run out, in the order in which their events were accepted, and ends a history that was
//!   turned off.
//! - `work.rs` lists rows, `routes.rs` has what clients call.
//!
//! A history that is turned on on a board with events begins in two steps. First rows are written, and every period counts as
//! one in which events without rows may count. Once all shards are known to write rows, the job notes since when.

pub mod job;
pub mod routes;
pub mod store;
pub mod work;
