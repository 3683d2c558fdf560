//! The use cases, a file for each subject. They know no HTTP; the machinery under them is [`crate::engine`].

pub mod api_keys;
pub mod audit;
pub mod boards;
pub mod check;
pub mod dead_letters;
pub mod event_body;
pub mod event_status;
pub mod events;
pub mod export;
pub mod initial;
pub mod league_member;
pub mod look;
pub mod member;
pub mod moderation;
pub mod page;
pub mod period;
pub mod periods;
pub mod players;
pub mod playing;
pub mod profiles;
pub mod quotas;
pub mod results;
pub mod rewards;
pub mod sessions;
pub mod shards;
pub mod standing;
pub mod stats;
pub mod subset;
pub mod summary;
pub mod tiers;
pub mod upkeep;
pub mod webhooks;

use std::sync::Arc;

use metrics::{Counter, counter};

use crate::engine::Engine;
pub use crate::engine::Error;

/// How many events there were, by what became of them.
#[derive(Debug)]
pub(crate) struct EventCounters {
    pub(crate) queued: Counter,
    pub(crate) taken: Counter,
    pub(crate) duplicate: Counter,
    pub(crate) rejected: Counter,
}

impl EventCounters {
    /// Those of the recorder of metrics that there is by now.
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

/// The service: what HTTP handlers and workers call. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct Service {
    /// What does the work.
    pub engine: Arc<Engine>,
    events: EventCounters,
}

impl Service {
    /// The service of an engine.
    pub fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::new(engine),
            events: EventCounters::new(),
        })
    }
}
