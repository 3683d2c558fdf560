//! The ends of periods: which are final, who won, what they won, and how leagues turn over.
//!
//! A period is *final* once the `final_until` of every shard has reached its end: `close_shard.lua` sets it to the barrier as
//! soon as nothing below the barrier can change any more, and reads rely on it. The period's result is then
//! recorded, with rewards and a message, and only revisions change it, after hides. To change what a reward is, open
//! `rewards/` and `domain/reward.rs`.
//!
//! Words: the *end* of a period on a board is its own end or the board's `closes_at`, whichever is earlier. A *closing*
//! makes all periods final that end up to an instant; it is *decided* once, and *pins* what the definition says then. A
//! *barrier* is an instant before which a shard takes no event. A *section* is a period, or in a league one cohort of it.
//! The *digest* of a result is the SHA-256 of its export.
//!
//! The steps of a closing, for the job and for requests that can't wait for it:
//!
//! 1. `closings/work.rs` finds that a closing is due: the end and the wait `finalize` are over by a clock that is not in
//!    doubt.
//! 2. `decide.lua` writes the instant of the closing, and what it pins, into the board's head. It names the version that it
//!    pins, and `define.lua` refuses a change whose caller has not seen the last closing, so each period uses one definition.
//! 3. `closings/barriers.rs` raises the barrier of every shard (`close_shard.lua`). Events queued for before the barrier are
//!    applied first, for at most `max_delay`.
//! 4. `results/recording.rs` records the results of periods with data in the order of their ends (`record_result.lua`);
//!    `rewards/` hands out rewards, `turnover/` handles leagues.
//! 5. `expire.lua` lets the periods expire, and `results_until` stores how far this has come.
//!
//! What is subtle:
//!
//! - All progress is in the head, and each step can be repeated: any number of instances may close the same periods at
//!   once, and crash between any two steps. The next closing is decided only when the last is complete, so `results_until`
//!   and `closing_until` say which results are due, even if `finalize` changes. Periods that had ended when `finalize` was
//!   set have no results; they become final with the first that ends later.
//! - A barrier never falls, and is compared only with the `at` of events: no clock, no period. A call planned before it, by
//!   any instance, can't change what was read as final, however late it arrives. If writes wait for replicas, these have
//!   the decision before the first barrier is raised, and each barrier before reads see it: reads rely on `final_until`, which
//!   follows the barrier.
//! - Only two irreversible steps depend on a clock: the decision, and giving up the wait for a queue. Both read the clock
//!   themselves and ask `Clock::doubt`.
//! - Only events and initial scores change scores; scripts that build, copy and repair standings follow what is stored.
//! - A closed period keeps counting the initial scores that it had when its shard was closed: `initial.lua` keeps the
//!   former value, once per barrier (`lib/past_initial.lua`), and `advance.lua` builds from these. So a derived standing
//!   need not be complete before its period is closed, and can be dropped and built again.
//! - Each shard has an *index of periods* with data for each unit (`lib/periods.lua`), so a month without events is skipped
//!   in one step. Moves don't copy it, since it follows from the standings. A move raises the barriers of the new shards to
//!   the highest of the old ones once these take no more calls.
//! - Data written while a period waits for its closing expires 366 days after its retention ends (`Board::kept_until_ms`);
//!   the closing then sets the right expiry. So nothing is lost while the service is down, and nothing stays permanently.

pub mod closings;
pub mod results;
pub mod revisions;
pub mod rewards;
pub mod turnover;
