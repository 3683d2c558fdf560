//! Rewards in final sections: hands them out, revokes them, lists them, and lets callers claim each once.
//!
//! `domain/reward.rs` decides who wins, entry by entry from the top of a standing. A *walk* (`walk.rs`) goes along a final
//! standing, stores each member's rewards as a line in the member's shard (`lib/rewards.lua`), and revokes rewards that it
//! did not meet.
//!
//! - A line is in the same slot as the hide of its member, so the script of a claim sees both.
//! - A reward's entry is decided from its state before the current revision, so a walk can be repeated.
//! - One caller at a time walks on a board, or in a league on one of its shards, under a lease whose number shards compare;
//!   the same caller then records the result. A walk counts only if nobody was hidden meanwhile.
//!
//! To add a field of a rule, see ARCHITECTURE.md.

pub mod routes;
pub mod store;
pub mod walk;
pub mod work;
