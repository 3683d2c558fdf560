//! What waits or fails, what happens next, and how many events boards had in the last hour, for the console and alerts.
//!
//! A *sample* is taken every ten seconds by one instance with background work, and stored as a whole, so that a request
//! reads one key. It reads indexes only, such as that of queues or of names to review, and never each of all boards.
//! Periods that end next come from the schedule of the job that closes them.
//!
//! Accepted events are counted in memory, on the board that took them (`core/board/live.rs`): no event costs a write. Every
//! instance adds its counts to those of the minute in Redis every ten seconds, so a crash loses some. Nothing else goes by
//! them.

pub mod routes;
pub mod store;
pub mod work;
