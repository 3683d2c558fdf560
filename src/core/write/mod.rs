//! How an event is written: whole, once, and in order.
//!
//! `submission.rs` draws the steps. All events of a request for one board go through them together, in attempts:
//!
//! 1. `domain/plan.rs` plans which standings change, and by how much. Events of the same periods share the *route*.
//! 2. `recall.rs` asks former shards and earlier cohorts whether they remember the id.
//! 3. `sittings.rs` and `seats.rs` find the member's cohort, in a league.
//! 4. `reservations.rs` reserves quotas whose counts are in other slots than the member (`homes.rs`).
//! 5. `applier.rs` puts the event into the batcher of its shard, and `core/write/store/events.rs` packs a call of
//!    `apply.lua` that keeps Redis busy for only a millisecond or two.
//! 6. An `Obstacle`, which prevented the event, is cleared (`obstacles.rs`), and the next attempt plans again.
//!
//! Words: an event has *ended* when it has an outcome. A *record* is what is remembered under its id, and also its result.
//! A *pool* is one count of a quota; its *home* is the shard that keeps it. A *seat* is a member's place in a cohort.
//!
//! **Ids.** A record has its own key, with the outcome and a fingerprint of the event's content. `apply.lua` looks it
//! up, writes the event and stores the record in one step. A known id with another fingerprint is refused. An event with an
//! id goes to the script even if its time is refused, since only the script knows whether it was applied before. On a board
//! that closes periods all refused events go there: the script knows which periods are closed, and that is then the reason.
//!
//! **Times of several instances.** With `update: last`, two instances whose clocks differ must not reverse two requests
//! that a client sent one after the other. So `apply.lua` (`follow`) moves an event without `at` to directly after its
//! member's last change, if that is ahead by up to a second and not a whole millisecond, which means that a clock made it.
//! It does so only where the plan stays the same (`Plan::until`); otherwise it returns BEHIND, and the event is planned
//! again. Only an event that is sent for the first time may be moved: one that was blocked keeps its place before later
//! ones of its process. An event from a queue keeps its time, unless that is the time of a Kafka record, in whole
//! milliseconds: then it may be moved too, but not into another period. If a barrier or an erasure refuses the time of an
//! event without `at`, the event gets a new one (`Obstacle::TooEarly`), and the outcome says so.
//!
//! **Quotas** are counted by `at`, not by when events come in: a delayed burst of honest votes is not refused, and what
//! refuses an event is other accepted events, never the traffic. A sliding window is a log of instants. An event can fall
//! between others in it, and is accepted if no stretch of that length that contains it becomes too full. A log is kept for
//! its window plus `accept_late`, because an event can fall into it for that long, and for the day that an event may wait
//! in a queue (`quota::waiting_ms`).
//!
//! **Reservations** (`reservations.rs`). For pools in other slots an event takes three steps: `reserve.lua`, `apply.lua`,
//! `settle.lua`.
//!
//! - An event is refused only because of what others have *taken*. If open reservations leave too little, or if it would
//!   use an extra allowance only because of them, it waits. So its outcome is as if the three steps were one.
//! - It also waits for earlier waiting events of its request that may take from the same pool. An event that has waited without
//!   success reserves in one shard after another, in their order, so two events can't wait for each other endlessly.
//! - A job settles notes that are left behind (`left_behind.rs`). `void.lua` asks the member's shard: if the record ends
//!   with the token, the event was applied; if not, the token becomes *void*, and `apply.lua` refuses every later call with
//!   it. One script does both, so it does not matter which call is late. Such boards therefore remember all events for at
//!   least ten minutes, which is how long a token stays void; if a note is older, the job keeps what it reserved.
//! - An event that a quota refuses is still sent to its member's shard: its id may be known. Without the job, events get
//!   503 once a quota is nearly used up, for as long as a reservation is left behind.
//!
//! **Seats** (`seats.rs` draws the protocol, `seat_calls.rs` shares its calls, `missed.rs` finds the periods that a player
//! has missed). A member's *home* is its shard, as on any
//! board. A cohort is in one shard, chosen by a hash, with the entries of all of its members. Events go to the cohort of
//! their member in the period of their `at`. `sittings.rs` finds the cohorts of all events of a request before they are
//! planned, in memory or at the homes. Memory may be wrong after an erasure: then `apply.lua` returns `UNSEATED`, and the
//! cohort is looked up again.
//!
//! Weights, voters and lists that keep only the best (`keep_top`) are written in the event's step. Such a list is exact
//! without a search: on its board no event can lower a score, and a lowered initial score makes the list again.

pub mod applier;
pub mod events;
pub mod homes;
pub mod left_behind;
mod missed;
pub mod obstacles;
pub(crate) mod recall;
pub mod reservations;
pub(crate) mod seat_calls;
pub mod seats;
pub(crate) mod sittings;
pub mod store;
pub mod submission;
