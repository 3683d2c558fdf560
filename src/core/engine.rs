//! The machinery under the use cases: it holds boards in memory, gathers what comes in at the same time into calls, merges
//! the shards of a board, carries events through their steps, and does the background work.
//!
//! Everything here may run on any number of instances at once. A definition in memory may be out of date, so each script
//! call names the version that it was made for. A script that meets another version does nothing and says so. Then the
//! engine reads the definition again and starts the work again (`attempts.rs`).

use std::sync::Arc;

pub use super::board::live::{LiveBoard, LiveShard};
pub use super::error::{Error, Outdated};

use super::jobs::faults::Faults;
use crate::domain::clock::Clock;
use crate::domain::ids::BoardId;
use crate::redis::Store;

/// How many attempts a call makes: it begins again when the definition has changed, or a rolling standing was not complete.
pub const ATTEMPTS_MAX: usize = 8;

/// The machinery of one instance.
#[derive(Debug)]
pub struct Engine {
    /// Redis.
    pub store: Arc<Store>,
    /// The time.
    pub clock: Clock,
    /// What other rooms do on its occasions.
    pub(crate) hooks: &'static super::hooks::Hooks,
    /// What the background work fails at.
    pub faults: Faults,
    /// What other rooms keep in memory.
    pub states: super::states::States,
    pub(crate) boards: super::board::boards::Boards,
    pub(crate) completing: super::read::rollover::Completing,
    pub(crate) past: super::read::past::Line,
    /// When the periods of boards are to be closed.
    pub(crate) closings: super::jobs::schedule::Schedule<BoardId>,
    /// One request at a time makes a digest.
    pub(crate) digesting: tokio::sync::Mutex<()>,
    pub(crate) left_behind: super::write::left_behind::Homes,
    /// What this instance tells of itself.
    pub presence: super::jobs::instances::Presence,
}

impl Engine {
    /// Puts the engine together; nothing is read or written yet.
    pub fn new(store: Store, clock: Clock, hooks: &'static super::hooks::Hooks) -> Self {
        Self {
            store: Arc::new(store),
            clock,
            hooks,
            faults: Faults::default(),
            states: super::states::States::default(),
            boards: super::board::boards::Boards::default(),
            completing: super::read::rollover::Completing::default(),
            past: super::read::past::Line::default(),
            closings: super::jobs::schedule::Schedule::default(),
            digesting: tokio::sync::Mutex::default(),
            left_behind: super::write::left_behind::Homes::default(),
            presence: super::jobs::instances::Presence::default(),
        }
    }
}
