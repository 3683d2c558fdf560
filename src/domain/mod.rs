//! The pure model, without IO: values, calendars, boards, events, and the plan of an event.
//!
//! Nothing here is asynchronous, knows Redis or HTTP, or reads a clock: time is an argument. (`clock.rs` has the clock for
//! the rooms below, `problems.rs` the table of all problems; neither does IO.) Start at `plan.rs`: it determines which
//! standings an event belongs to, and with what amount. `period.rs` cuts time into periods, `series.rs` says which lists a
//! board stores, `board.rs` what a definition may say. Rules of a single capability are in its `model.rs`.
//!
//! Rules that look arbitrary, and their reasons:
//!
//! - A board with events can't change `ranking: dense`, or the carryover of a unit that a rolling window counts: the
//!   distinct scores and the standings without carryover (`base-…`) can't be made later for periods whose events are no
//!   longer known.
//! - Whether a board is open depends on the event's `at`, not on its arrival. So an event from before the board closed
//!   counts if it arrives a little later. Only `accept_late`, quotas and the bound of scores depend on the time or order of
//!   arrival.
//! - A window counts the events since it was added. One that is removed and added again has another *epoch* after its name
//!   in keys, so it never shows standings that lack the events in between. A window has data if the version of the last
//!   event (`used` in the head) is not older than its epoch.
//! - An instance's clock is the machine's, corrected by Redis' `TIME` once a second, so that instances agree on boundaries.
//!   A third clock, which never jumps, distinguishes a jump of Redis' clock from one of the machine's. `Clock::doubt` says
//!   why the time may be wrong.
//! - Redis forgets event ids by its own clock, and a jump of that clock is not corrected: an index of deadlines would
//!   double the memory of each id. The service reports a jump instead.

#![warn(missing_docs)]

// An event, and what it changes.
pub mod data;
pub mod event;
pub mod history;
pub mod intake;
pub mod plan;
pub mod queued;
pub mod quota;
pub mod weight;

// Time.
pub mod clock;
pub mod period;
pub mod time;
pub mod timezone;
pub mod window;

// A board, and where it is stored.
pub mod board;
pub mod closing;
pub mod league;
pub mod placement;
pub mod reward;
pub mod shard;

// A standing.
pub mod edition;
pub mod export;
pub mod include;
pub mod score;
pub mod series;
pub mod state;
pub mod ties;

// Members.
pub mod blocklist;
pub mod erasure;
pub mod face;
pub mod hide;
pub mod ids;
pub mod name;
pub mod name_words;
pub mod profile;

// Callers, messages to others, and warnings for operators.
pub mod access;
pub mod address;
pub mod delivery;
pub mod instance;
pub mod message;
pub mod secret;
pub mod session;
pub mod webhook;

// Requests and answers.
pub mod document;
pub mod part;
pub mod problems;
pub(crate) mod texts;
