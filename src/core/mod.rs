//! What all capabilities stand on: boards in memory, the way of an event, one answer from many shards, who is hidden,
//! background work.
//!
//! It is one room, since its parts need each other: an event completes a sum, a read removes an erased member, a seat waits for
//! a closing. The folders say what belongs together:
//!
//! | folder | promises |
//! | --- | --- |
//! | `board/` | boards in memory that are never believed blindly; news of changes; deletions |
//! | `write/` | an event is carried out whole, once, and in order |
//! | `read/` | one complete answer from many shards |
//! | `hide/` | from the answer to a hide or an erasure on, no read shows the member |
//! | `jobs/` | bounded, repeatable steps in the background |
//!
//! `engine.rs` holds what an instance has in memory. Everything here runs on any number of instances at once. A definition in
//! memory may be out of date, so each script call names the version that it was made for. A script that meets another one does
//! nothing and answers `STALE`. In Rust that is `Error::Again`, which goes through `?` up to `Engine::with_board`
//! (`attempts.rs`): there the definition is read again, and the work begins again. Where an old definition could refuse a
//! request and no script would notice, `require_current` compares.
//!
//! The core knows no capability. `hooks.rs` names the occasions on which other rooms have to act (a board is created, a member
//! is hidden or erased, a seat waits for a closing); `setup.rs` says which functions those are.

pub(crate) mod attempts;
pub mod board;
pub mod engine;
pub mod error;
pub mod hide;
pub mod hooks;
pub mod jobs;
pub mod read;
pub mod service;
pub mod states;
pub mod write;

pub use self::board::live::{LiveBoard, LiveShard};
pub use self::engine::{ATTEMPTS_MAX, Engine};
pub use self::error::{Error, Outdated};
pub use self::service::Service;
