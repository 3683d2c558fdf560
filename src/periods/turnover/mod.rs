//! How a period of a league turns into the next: cohorts are decided, and the players take over their outcomes.
//!
//! A cohort is in one shard, and so are its reward lines; all shards know all hides. Among results it has the name of its
//! section: `2026-11-16/1-17`.
//!
//! - **Deciding.** `League::decide` (`domain/league/decision.rs`) is pure. `turning.rs` reads a cohort once its barrier is
//!   raised, and `decide_cohort.lua` stores the outcome next to the standing if nobody was hidden or erased since the read
//!   and nothing is stored yet. The first record stays, and the rest follows from it: tiers, bonuses, histories, and
//!   whether there are rewards.
//! - **Turning.** A seat is turned by a compare-and-set of the player in its home shard, together with the line of its
//!   history. The member's next seat does that, or the closing, or both; they read the same record, so the outcome is the
//!   same. A seat whose cohort never listed the member has no outcome and is dropped.
//! - **Closing.** `work.rs` goes through the cohorts that have data, some of each shard per step: it decides them, turns
//!   their members' seats, records their results, and then lets their keys expire. So once a result exists, all seats that
//!   count are turned, and the record may expire. After the last cohort the tiers expire, and a result of the whole period,
//!   which holds little but its time, is recorded together with its webhook message. Progress is kept in memory: another
//!   instance starts over and skips cohorts that have a result.
//! - A request that seats a member first finishes a closing that is due, for a bounded time.

pub mod store;
pub mod turning;
pub(crate) mod work;
