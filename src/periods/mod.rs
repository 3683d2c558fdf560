//! The ends of periods: which are final, who won, what they won, and how leagues turn over.
//!
//! A period is *final* once the barrier of every shard has reached its end, and reads can see that. Its result is then
//! recorded, with rewards and a message, and changes only by revisions: after hides. To change what a reward is, open
//! `rewards/` and `domain/reward.rs`.
//!
//! Words: the *end* of a period on a board is its end, or when the board closes, if that is earlier. A *closing* makes all
//! periods final that end up to an instant; it is *decided* once, and *pins* what the definition says then. A *barrier* is an
//! instant before which a shard takes no event. A *section* is a period, or in a league one cohort of it. The *digest* of a
//! result is the SHA-256 of its export.
//!
//! The way of a closing, for the job and for requests that can't wait for it:
//!
//! 1. `closings/work.rs` finds that a closing is due: the end and the wait `finalize` are over by a clock that is not in doubt.
//! 2. `decide.lua` writes into the board's head up to which instant a closing is decided, and what it pins. It names the
//!    version that it pins, and `define.lua` refuses a change whose caller has not seen the last closing. So each period goes
//!    by one definition.
//! 3. `barriers/work.rs` raises the barrier of every shard (`close_shard.lua`). What waits in queues up to then is applied
//!    first, unless `max_delay` ends that.
//! 4. `results/work.rs` records the results of periods with data, those that end first first (`record_result.lua`); `rewards/`
//!    hands out, `turnover/` in leagues.
//! 5. `expire.lua` lets the periods expire, and `results_until` says how far this has come.
//!
//! What is subtle:
//!
//! - All progress is in the head, and each step may be repeated: any number of instances may close the same periods at once,
//!   and die between any two steps. The next closing is decided only when nothing of the last is missing; so `results_until`
//!   and `closing_until` say which results are due, whatever becomes of `finalize`. Periods that had ended when `finalize` was
//!   set have no results; they become final with the first that ends later.
//! - A barrier never falls, and is compared with the `at` of events and with nothing else: no clock, no period. What was
//!   planned before, by any instance, changes nothing that was read as final, however late its call arrives. If writes wait for
//!   replicas, these have the decision before the first barrier is raised, and each barrier before reads see it: reads go by
//!   `final_until`, which follows it.
//! - Only two things read a clock and can't be undone: the decision, and the end of the wait for a queue. Both take a look of
//!   their own and ask `Clock::doubt`.
//! - Only events and initial scores change scores; scripts that build, copy and repair standings follow what is stored.
//! - A closed period goes on to count the initial scores that there were when its shard was closed: `initial.lua` keeps the
//!   former value, once for each barrier (`lib/past_initial.lua`), and `advance.lua` builds from these. So nothing has to be
//!   complete before a period is closed, and what was built can be dropped and built again.
//! - Each shard has an *index of periods* for each unit: those with data (`lib/periods.lua`). So a month without events is
//!   skipped in one step. It is not copied in a move, since it follows from the standings. A move raises the barriers of the
//!   new shards to the greatest of the old ones when these take no more calls.
//! - What is written while a period waits for its closing expires 366 days later than its retention says
//!   (`Board::kept_until_ms`); the closing then sets the right instant. So nothing is lost while the service is down, and
//!   nothing stays for good.

pub mod barriers;
pub mod closings;
pub mod export;
pub mod results;
pub mod revisions;
pub mod rewards;
pub mod summary;
pub mod turnover;
