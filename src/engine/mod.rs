//! The machinery under the use cases: it holds boards in memory, gathers what comes in at the same time into calls, merges
//! the shards of a board, carries events through their steps, and does the background work.
//!
//! Everything here may run on any number of instances at once. A definition in memory may be out of date, so each script
//! call names the version that it was made for. A script that meets another version does nothing and says so. Then the
//! engine reads the definition again and starts the work again (`attempts.rs`).

pub mod announcements;
pub mod applier;
pub(crate) mod attempts;
pub mod audit;
pub mod barriers;
pub mod batcher;
pub mod boards;
pub mod closings;
pub mod deliveries;
pub mod digests;
pub mod ended_hides;
pub mod erasures;
pub mod error;
pub mod events;
pub mod hidden;
pub mod hides;
pub(crate) mod histories;
pub mod hooks;
pub mod instances;
pub mod intake;
pub mod jobs;
pub mod keyring;
pub mod left_behind;
pub mod live;
pub mod merge;
pub mod moves;
mod news;
pub(crate) mod orders;
pub mod outboxes;
pub mod past;
pub mod purge;
pub mod queue;
pub mod reader;
mod recall;
pub mod reservations;
pub mod results;
pub mod revisions;
pub mod rewards;
pub mod rollover;
pub(crate) mod scroll;
mod seat_calls;
pub mod seats;
pub mod sender;
pub(crate) mod sittings;
pub mod states;
mod steps;
pub mod stream_tokens;
pub mod submission;
pub mod sweep;
pub mod tasks;
pub mod turning;
pub(crate) mod turnover;
pub mod voters;
pub(crate) mod warnings;

use std::sync::Arc;

pub use error::{Error, Outdated};
pub use live::{LiveBoard, LiveShard};

use self::jobs::faults::Faults;
use crate::clock::Clock;
use crate::domain::ids::BoardId;
use crate::store::Store;

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
    pub(crate) hooks: &'static hooks::Hooks,
    /// What the background work fails at.
    pub faults: Faults,
    /// What other rooms keep in memory.
    pub states: states::States,
    pub(crate) boards: boards::Boards,
    completing: rollover::Completing,
    past: past::Line,
    /// When the periods of boards are to be closed.
    closings: jobs::schedule::Schedule<BoardId>,
    /// One request at a time makes a digest.
    digesting: tokio::sync::Mutex<()>,
    left_behind: left_behind::Homes,
    /// What this instance tells of itself.
    pub presence: instances::Presence,
}

impl Engine {
    /// Puts the engine together; nothing is read or written yet.
    pub fn new(store: Store, clock: Clock, hooks: &'static hooks::Hooks) -> Self {
        Self {
            store: Arc::new(store),
            clock,
            hooks,
            faults: Faults::default(),
            states: states::States::default(),
            boards: boards::Boards::default(),
            completing: rollover::Completing::default(),
            past: past::Line::default(),
            closings: jobs::schedule::Schedule::default(),
            digesting: tokio::sync::Mutex::default(),
            left_behind: left_behind::Homes::default(),
            presence: instances::Presence::default(),
        }
    }
}
