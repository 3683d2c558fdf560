//! Corrections of kept events: an event is retracted, restored, or counts for another score.
//!
//! A correction changes the row of an event (`domain/history.rs`), and makes the entries of its member again from what then
//! counts: in each standing the folded entry and the rows. So nothing depends on the order of events and corrections. For each
//! correction there is
//!
//! - *the beginning*: corrections of a shard run one at a time, and rows that the member gets meanwhile are listed;
//! - *reading*: the member's rows in the periods concerned, in parts, each added to a fold of each standing;
//! - *the last step*, one script: if no further rows are listed, it changes the row and all entries, also in rolling windows
//!   and with initial scores. If there are, it returns them, and is called again.
//!
//! `work.rs` finds the event and decides what changes, `amending.rs` adds events later. `carrying.rs` carries that out;
//! `counting.rs` says which standings are concerned, and what rows add to them.

pub mod amending;
mod carrying;
mod counting;
pub mod revocations;
pub mod routes;
mod store;
pub mod work;
