//! What all capabilities build on: boards in memory, writing events, merged reads, hides and erasures, background work.
//!
//! It is one room because its parts need each other: an event completes a sum, a read removes an erased member, a seat
//! waits for a closing. The folders:
//!
//! | folder | promises |
//! | --- | --- |
//! | `board/` | boards in memory, which are always checked; news of changes; deletions |
//! | `write/` | an event is carried out whole, once, and in order |
//! | `read/` | one complete answer from many shards |
//! | `hide/` | once a hide or an erasure has returned, no read shows the member |
//! | `jobs/` | bounded, repeatable steps in the background |
//!
//! `engine.rs` holds what an instance has in memory. Everything here may run on any number of instances at once. A
//! definition in memory may be out of date, so each script call names the version that it was made for. A script that finds
//! another version does nothing and returns `STALE`. In Rust that is `Error::Again`, which `?` carries up to
//! `Engine::with_board` (`attempts.rs`); it reads the definition again and restarts the work. Where an outdated definition
//! could refuse a request and no script would notice, call `require_current`.
//!
//! The core depends on no capability. `hooks.rs` declares when other rooms must act (a board is created, a member
//! is hidden or erased, a seat waits for a closing); `setup.rs` says which functions are called.

pub(crate) mod attempts;
pub mod board;
pub mod engine;
pub mod error;
pub mod hide;
pub mod hooks;
pub mod jobs;
pub mod read;
pub mod states;
pub mod write;

pub use self::board::live::{LiveBoard, LiveShard};
pub use self::engine::{ATTEMPTS_MAX, Engine};
pub use self::error::{Error, Outdated};
