//! Exact leaderboards and vote rankings over HTTP, on Redis.
//!
//! **The one law**: a standing is a pure function of its accepted events, the board's definition, its initial scores, and
//! who is hidden or erased. Order, retries, batches, instances and restarts never change it.
//!
//! The path of an event, and the path of a read, top to bottom:
//!
//! ```text
//! events/routes.rs              JSON in, JSON out             standings/routes.rs
//! core/write/submission.rs      the way, step by step         standings/page.rs, member.rs, …
//! domain/plan.rs                which standings (pure)        core/read/period.rs
//! runtime/batcher.rs            requests share a call         core/read/reader.rs
//! core/write/store/events.rs    one typed call per script     core/read/store/standings.rs
//! scripts/core/write/apply.lua  one atomic step in Redis      scripts/core/read/read.lua
//! ```
//!
//! A module is a room: a capability with its routes, its work and its calls of scripts. Each `mod.rs` begins with what the
//! room promises. A room uses the shared ones (`domain`, `runtime`, `redis`, `core`, `http`, `access`, `audit`), and of the
//! others only those that ARCHITECTURE.md names. That page also has all invariants and their tests.

#![recursion_limit = "256"]

pub mod access;
pub mod api;
pub mod audit;
pub mod boards;
pub mod check;
pub mod cli;
pub mod commands;
pub mod config;
pub(crate) mod console;
pub mod core;
pub mod corrections;
pub mod descriptors;
pub mod domain;
pub mod embed;
pub mod events;
pub mod history;
pub mod http;
pub mod kafka;
pub mod keys;
pub mod leagues;
pub mod live;
pub mod log;
pub mod moderation;
pub mod moves;
pub mod operations;
pub mod periods;
pub mod profiles;
pub mod queue;
pub mod redis;
pub mod runtime;
pub mod server;
pub mod setup;
pub mod standings;
pub mod webhooks;
pub mod worker;
