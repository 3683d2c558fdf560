//! The way of an event: carried out whole, once, and in order.
//!
//! `submission.rs` draws the way. All events of a request that are for one board go it together, in attempts:
//!
//! 1. `domain/plan.rs` plans: which standings, which amount. Events of the same periods share the greater part, the *route*.
//! 2. `recall.rs` asks former shards, or earlier cohorts, whether they remember the id.
//! 3. `sittings.rs` and `seats.rs` find the member's cohort, in a league.
//! 4. `reservations.rs` reserves quotas whose counts are in other slots than the member.
//! 5. `applier.rs` puts the event into the batcher of its shard, and `core/write/store/events.rs` packs a call for `apply.lua` that keeps
//!    Redis busy for no more than a millisecond or two.
//! 6. What prevented it, an `Obstacle`, is cleared, and the next attempt plans again.
//!
//! Words: an event has *ended* when it has an outcome. A *record* is what is remembered under its id, and is its result, too. A
//! *pool* is one count of a quota; its *home* is the shard that keeps it. A *seat* is a member's place in a cohort.
//!
//! **Ids.** A record is a key of its own, with a fingerprint of the event's content and the outcome. `apply.lua` looks it up,
//! writes the event and stores it in one step. A known id with another fingerprint is refused. An event with an id goes to the
//! script even if its time is refused, since only the script knows whether it was taken before. On a board that closes periods
//! all refused events go there: the script knows which periods are closed, and then that is the reason that clients get.
//!
//! **Times of several instances.** With `update: last`, two instances whose clocks differ must not reverse two requests that a
//! client has sent one after the other. So `apply.lua` (`follow`) puts an event without `at` directly after what its member
//! has, if that is ahead by up to a second and no whole millisecond: then a clock has made it. It does so only where the plan
//! stays the same (`Plan::until`); otherwise it answers BEHIND, and the event is planned again. Only an event that is sent for
//! the first time may be moved: one that was blocked keeps its place before later ones of its process. What comes out of a
//! queue keeps its time, unless that is the time of a Kafka record, in whole milliseconds: then it may be moved as well, but
//! into no other period. A barrier or an erasure may refuse the time of an event that no client has dated; then the event gets
//! a new one (`Obstacle::TooEarly`), and the outcome says so.
//!
//! **Quotas** are counted by `at`, not by when events come in: a delayed burst of honest votes is not refused, and an event is
//! refused because of events that were taken, never because of the traffic. A sliding window is a log of instants; an event can
//! fall between others in it, and is taken if no stretch that contains it becomes too full. A log is kept for its window and
//! `accept_late`, because an event can fall into it for that long, and for the day that an event may wait in a queue
//! (`quota::waiting_ms`).
//!
//! **Reservations.** If the pools are in other slots, an event takes three steps: `reserve.lua`, `apply.lua`, `settle.lua`
//! (`reservations.rs`).
//!
//! - An event is refused only because of what others have *taken*. If open reservations leave too little, or if only because of
//!   them it would take from an extra allowance, it waits. So its outcome is as if the three steps were one, at the moment at
//!   which it is applied.
//! - It also waits behind an event of the same request that waits and may take from the same pool. An event that has waited in
//!   vain reserves in one shard after the other, in their order: so two events can't wait for each other without end.
//! - A job settles notes that are left behind (`left_behind.rs`). `void.lua` asks the member's shard: if the record ends with
//!   the token, the event was applied; if not, the token is *void*, and `apply.lua` answers so to every later call with it.
//!   Both happen in one script, so it does not matter which call is late. Such boards therefore remember all events, for at
//!   least ten minutes, because a token stays void for that long; if a note is older, the job keeps what it reserved.
//! - An event that a quota refuses is sent to its member's shard all the same: its id may be known. Without the job, events get
//!   503 once a quota is nearly used up, for as long as a reservation is left behind.
//!
//! **Seats** (`seats.rs` draws the protocol, `seat_calls.rs` shares its calls). A member is at *home* in its shard, as on any
//! board. A cohort is in one shard, by a hash, with the entries of all of its members. Events go to the cohort of their member
//! in the period of their `at`. `sittings.rs` finds it for all events of a request before they are planned, from memory or from
//! the homes. What is in memory may be wrong after an erasure: then `apply.lua` answers `UNSEATED`, and it is looked up again.
//!
//! Weights, voters and lists that keep only the best (`keep_top`) are in the same step as the event. Such a list is exact
//! without a search, because it exists only on boards on which no event lets a score fall; a lowered initial score makes the
//! list again.

pub mod applier;
pub mod events;
pub mod left_behind;
pub(crate) mod recall;
pub mod reservations;
pub(crate) mod seat_calls;
pub mod seats;
pub(crate) mod sittings;
pub mod store;
pub mod submission;
