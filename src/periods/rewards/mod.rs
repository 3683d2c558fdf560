//! What members win in final sections: hands it out, takes it back, lists it, and lets callers claim it once.
//!
//! `domain/reward.rs` says who wins, entry by entry from the first of a standing on. A *walk* (`work.rs`) goes along a final
//! standing, notes what members win in lines in their shards (`lib/rewards.lua`), and takes back what it has not met.
//!
//! - A line is in the slot of the hide of its member, so the script of a claim sees both.
//! - An entry of a line is decided by its state before the revision under which it is decided. So a walk may be begun again.
//! - One caller at a time walks on a board, or in a league on one of its shards, under a lease whose number shards compare; the
//!   same caller then records the result. A walk counts only if nobody was hidden meanwhile.
//!
//! To add a field of a rule, see ARCHITECTURE.md.

pub mod answers;
pub mod routes;
pub mod store;
pub mod work;
