//! What people see of a member next to its scores, and what moderators said of its name.
//!
//! A profile belongs to no board, so it is in neither a board's nor a shard's slot, but in one of 16 buckets by a hash of the
//! member. A read first finds its entries, and then asks for all profiles at once: one call, or on a cluster one for each
//! bucket, at the same time. A request with many queries asks for the profiles of all of them together, and those who share a
//! page share its profiles.
//!
//! A write reads what is stored, makes the new record (`domain/profile.rs`, pure), and stores it if nothing has changed
//! meanwhile. `profiles.lua` keeps the sets of names by review in the same step. So the rules of names and reviews are pure
//! code, and many may write at once.

pub mod routes;
pub mod store;
pub mod work;
