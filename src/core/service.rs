//! What HTTP handlers and workers share: the engine ([`crate::core::engine`]), and counters of events.

use std::sync::Arc;

use metrics::{Counter, counter};

use super::Engine;
pub use super::Error;

/// How many events there were, by outcome.
#[derive(Debug)]
pub(crate) struct EventCounters {
    pub(crate) queued: Counter,
    pub(crate) taken: Counter,
    pub(crate) duplicate: Counter,
    pub(crate) rejected: Counter,
}

impl EventCounters {
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

/// The service: what HTTP handlers and workers call. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct Service {
    /// The machinery.
    pub engine: Arc<Engine>,
    pub(crate) events: EventCounters,
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
