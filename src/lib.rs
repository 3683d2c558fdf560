//! Exact leaderboards and vote rankings over HTTP, on Redis.
//!
//! **The one law**: a standing is a pure function of the set of accepted events, the board's definition, its initial
//! scores, and of who is hidden and erased. Order, retries, batches, instances and restarts never show in it.
//!
//! An event's way through the crate, top to bottom; imports point downward only:
//!
//! ```text
//! http/events.rs        JSON in, JSON out                         http/standings.rs
//! engine/submission.rs  its way, step by step                     service/page.rs, member.rs, …
//! domain/plan.rs        which standings, what amount (pure)       service/period.rs
//! engine/batcher.rs     concurrent requests share a call          engine/reader.rs
//! store/events.rs       one typed call per script                 store/standings.rs
//! scripts/apply.lua     one atomic step in Redis                  scripts/read.lua
//! ```
//!
//! | module | idea |
//! | --- | --- |
//! | [`domain`] | what a standing is: values, calendars, boards, plans; no IO, no clock |
//! | [`problems`] | what can be wrong with a request: one table |
//! | [`store`] | what Redis holds: keys, scripts, connections, the embedded server; nothing else names a key |
//! | [`engine`] | the machinery under the use cases: batchers, merge of shards, steps of an event, background work |
//! | [`service`] | the use cases, a file for each subject; knows no HTTP |
//! | [`http`] | one table of routes, API keys, the `OpenAPI` document |
//! | [`worker`] | loops that sleep and call one step of the service |
//! | [`setup`] | puts the service together: its settings, and what rooms do on occasions of the core |
//! | [`server`] | runs the service and ends it |
//! | [`descriptors`] | how many file descriptors there are, and how many are for clients |
//! | [`config`], [`env_file`] | settings; the file `.env` |
//! | [`clock`] | the time on which all instances agree |
//! | [`log`], [`throttle`] | a log that nothing waits for; one line a second for each cause |
//! | [`timeouts`] | the factor that multiplies all time limits |
//! | [`supervise`] | background tasks that are started again when they panic |
//! | [`commands`] | carries out a command of the program |
//! | [`cli`] | the commands other than the service: its clients, and the check of the data in Redis |
//!
//! Invariants:
//! - Every write is one Lua script in one slot: all of an event's changes and the memory of its id, or nothing.
//! - A script checks what can refuse an event before the event changes anything, and names the version of the definition it is for.
//! - Scores are integers, scaled by the board's decimals: up to 2^53 − 1 without decimals, else 15 digits. No float reaches a user.
//! - Time is an argument below the entry points; the clock follows Redis' clock.
//! - A derived standing that isn't complete is never shown; a read that finds one completes it.

#![recursion_limit = "256"]

pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod descriptors;
pub mod domain;
pub mod engine;
pub mod env_file;
pub mod http;
mod join;
pub mod kafka;
pub mod log;
pub mod problems;
pub mod server;
pub mod service;
pub mod setup;
pub mod store;
pub mod supervise;
pub mod throttle;
pub mod timeouts;
pub mod worker;
