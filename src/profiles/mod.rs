//! Members' public profiles, and moderators' reviews of their names.
//!
//! A profile belongs to no board, so it is in neither a board's nor a shard's slot, but in one of 16 buckets by a hash of
//! the member. A read first finds its entries, and then reads all profiles at once: in one call, or on a cluster one per
//! bucket, concurrently. A request with many queries reads the profiles for all of them together, and requests that share a
//! page share its profiles.
//!
//! A write reads what is stored, makes the new record (`domain/profile.rs`, pure), and stores it if nothing has changed
//! meanwhile. `profiles.lua` updates the sets of names by review status in the same step. So the rules for names and
//! reviews are pure code, and writes may run concurrently.
//!
//! With `STANDINGS_NAME_SEARCH`, moderators find members by the words of their names (`search/`).

pub mod routes;
pub mod search;
pub mod store;
pub mod work;
