//! How a period of a league turns into the next: cohorts are decided, and their outcomes become a part of the players.
//!
//! A cohort is in one shard, and so are its reward lines; all shards know all hides. Its name among results is that of its
//! section: `2026-11-16/1-17`.
//!
//! - **Deciding.** `League::decide` (`domain/league/decision.rs`) is pure. `turning.rs` reads a cohort behind the barrier, and
//!   `decide_cohort.lua` records the outcome next to the standing, if nobody was hidden or erased since and there is no record.
//!   So the first record stays, and all else follows from it: tiers, bonuses, histories, and whether there are rewards.
//! - **Turning.** A seat is turned by comparing and setting what its home shard has of the player, together with the line of
//!   its history. The member's next seat does that, or the closing, or both: the record is the same, so the outcome is. A seat
//!   whose cohort never listed the member has no outcome and is dropped.
//! - **Closing.** `work.rs` takes the cohorts of a period that have data, some of each shard in a step: decides them, turns the
//!   seats of their members, records their results, and then lets their keys expire. So when a result is there, all seats that
//!   count were turned, and the record may go. When all cohorts have passed, the tiers expire, and a result of the whole period
//!   is recorded, which says no more than when that was; webhooks are told in the same step. The place is in memory: another
//!   instance begins again, and passes by what has a result.
//! - A request that seats a member takes a closing that is due to its end, for a bounded time.

pub mod store;
pub mod turning;
pub(crate) mod work;
