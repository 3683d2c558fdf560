//! The machinery under the use cases: it holds boards in memory, batches calls, merges the shards of a board, writes
//! events, and does the background work. How it stays right on many instances is in `core/mod.rs`.

use std::sync::Arc;

use metrics::{Counter, counter};

pub use super::board::live::{LiveBoard, LiveShard};
pub use super::error::{Error, Outdated};

use super::jobs::faults::Faults;
use crate::domain::clock::Clock;
use crate::domain::ids::BoardId;
use crate::redis::Store;

/// How many attempts a call makes: it is repeated if the definition has changed, or a rolling standing was not complete.
pub const ATTEMPTS_MAX: usize = 8;

/// How many events there were, by outcome.
#[derive(Debug)]
pub(crate) struct EventCounts {
    pub(crate) queued: Counter,
    pub(crate) taken: Counter,
    pub(crate) duplicate: Counter,
    pub(crate) rejected: Counter,
}

impl EventCounts {
    /// The counters of the current metrics recorder.
    fn new() -> Self {
        let of = |status| counter!("standings_events_total", "status" => status);
        Self {
            queued: of("queued"),
            taken: of("taken"),
            duplicate: of("duplicate"),
            rejected: of("rejected"),
        }
    }
}

/// One instance: what handlers of routes and background jobs work with. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct Engine {
    /// Redis.
    pub store: Arc<Store>,
    /// The time.
    pub clock: Clock,
    /// What other rooms do on the core's occasions.
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
    /// Held while a request makes a digest: one at a time.
    pub(crate) digesting: tokio::sync::Mutex<()>,
    pub(crate) left_behind: super::write::left_behind::Homes,
    pub(crate) event_counts: EventCounts,
    /// What this instance announces of itself.
    pub presence: super::jobs::instances::Presence,
}

impl Engine {
    /// Puts the engine together, without reading or writing anything.
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
            event_counts: EventCounts::new(),
            presence: super::jobs::instances::Presence::default(),
        }
    }
}
