//! The machinery under the use cases: it holds boards in memory, batches calls, merges the shards of a board, writes
//! events, and does the background work. How it stays right on many instances is in `core/mod.rs`.

use std::sync::Arc;

use metrics::{Counter, counter};

use super::board::boards::Boards;
use super::hooks::Hooks;
use super::jobs::faults::Faults;
use super::jobs::instances::Presence;
use super::jobs::schedule::Schedule;
use super::read::past::BuildQueue;
use super::read::rollover::Completing;
use super::read::snapshot::Snapshots;
use super::states::States;
use super::write::left_behind::Homes;
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
    pub store: Arc<Store>,
    pub clock: Clock,
    /// The functions of other rooms that the core calls.
    pub(crate) hooks: &'static Hooks,
    /// What the background work fails at.
    pub faults: Faults,
    /// What other rooms keep in memory.
    pub states: States,
    pub(crate) boards: Boards,
    pub(crate) completing: Completing,
    pub(crate) past: BuildQueue,
    /// What snapshots of standings may take.
    pub(crate) snapshots: Snapshots,
    /// When the registries of boards are looked through.
    pub(crate) registries: Schedule<BoardId>,
    /// When the periods of boards are to be closed.
    pub(crate) closings: Schedule<BoardId>,
    /// Held while a request makes a digest: one at a time.
    pub(crate) digesting: tokio::sync::Mutex<()>,
    pub(crate) left_behind: Homes,
    pub(crate) event_counts: EventCounts,
    /// What this instance announces of itself.
    pub presence: Presence,
}

impl Engine {
    /// Puts the engine together, without reading or writing anything.
    pub fn new(store: Store, clock: Clock, hooks: &'static Hooks) -> Self {
        Self {
            store: Arc::new(store),
            clock,
            hooks,
            faults: Faults::default(),
            states: States::default(),
            boards: Boards::default(),
            completing: Completing::default(),
            past: BuildQueue::default(),
            snapshots: Snapshots::default(),
            registries: Schedule::default(),
            closings: Schedule::default(),
            digesting: tokio::sync::Mutex::default(),
            left_behind: Homes::default(),
            event_counts: EventCounts::new(),
            presence: Presence::default(),
        }
    }
}
