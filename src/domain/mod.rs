//! What a standing is, without IO: values, calendars, boards, events, and the plan of an event.
//!
//! Nothing here is asynchronous, knows Redis or HTTP, or reads a clock: time is an argument. (`clock.rs` keeps the clock that
//! the rooms below ask, `problems.rs` the table of all problems; both do no IO either.) A reader starts at `plan.rs`: it says
//! which standings an event belongs to, and with what amount. `period.rs` cuts time into periods, `series.rs` says which lists
//! a board stores, `board.rs` what a definition may say. What only one capability knows is in that capability's `model.rs`.
//!
//! Rules that look arbitrary, and why they hold:
//!
//! - A board with events can't change `ranking: dense`, or the carryover of a unit that a rolling window counts: the distinct
//!   scores and the standings without carryover (`base-…`) can't be made later for periods whose events are no longer known.
//! - Whether a board is open is judged by the event's `at`, not by when the event comes in. So an event that happened before
//!   the board closed counts if it arrives a little later. Only `accept_late`, quotas and the bound of scores depend on when,
//!   or in which order, events come in.
//! - A window counts the events since it was added. One that is removed and added again has another *epoch* behind its name in
//!   keys, so it never shows standings that lack the events in between. A window has data if the version at which the last
//!   event came in (`used` of the head) is not older than its epoch.
//! - The clock of an instance is the machine's, corrected by Redis' `TIME` once a second, so that instances agree on
//!   boundaries. A third clock, which never jumps, tells a jump of Redis' clock from one of the machine's. `Clock::doubt` says
//!   why the time may be wrong.
//! - Redis forgets event ids by its own clock, and a jump of that clock is not corrected: an index of deadlines would cost each
//!   event as much again as its id. The service reports a jump instead.

pub mod access;
pub mod address;
pub mod blocklist;
pub mod board;
pub mod clock;
pub mod closing;
pub mod data;
pub mod delivery;
pub mod document;
pub mod edition;
pub mod erasure;
pub mod event;
pub mod export;
pub mod hide;
pub mod ids;
pub mod include;
pub mod instance;
pub mod intake;
pub mod league;
pub mod message;
pub mod name;
pub mod part;
pub mod period;
pub mod placement;
pub mod plan;
pub mod problems;
pub mod profile;
pub mod queued;
pub mod quota;
pub mod reward;
pub mod score;
pub mod secret;
pub mod series;
pub mod session;
pub mod shard;
pub mod state;
pub(crate) mod texts;
pub mod ties;
pub mod time;
pub mod timezone;
pub mod webhook;
pub mod weight;
pub mod window;
