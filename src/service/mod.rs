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

use crate::clock::Clock;
use crate::domain::instance::Part;
use crate::engine::Engine;
pub use crate::engine::Error;
use crate::engine::instances::Presence;
use crate::engine::intake::EventLog;
use crate::engine::queue::room::{QueueBounds, Rooms};
use crate::engine::sender::Sender;
use crate::store::Store;

/// What a service is set up with.
#[derive(Debug, Default)]
pub struct Setup {
    /// What sends messages to webhooks.
    pub sender: Sender,
    /// Which part of the work the instance does.
    pub part: Part,
    /// How many bytes queues may have.
    pub queue_bounds: QueueBounds,
    /// The log that queued events go through, if there is one.
    pub log: Option<Arc<dyn EventLog>>,
}

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
    /// Puts the service together; nothing is read or written yet.
    pub fn new(store: Store, clock: Clock) -> Arc<Self> {
        Self::set_up(store, clock, Setup::default())
    }

    /// The same with settings.
    pub fn set_up(store: Store, clock: Clock, setup: Setup) -> Arc<Self> {
        let mut engine = Engine::new(store, clock);
        engine.sender = setup.sender;
        engine.presence = Presence::new(setup.part);
        engine.rooms = Arc::new(Rooms::new(setup.queue_bounds));
        engine.log = setup.log;
        Arc::new(Self {
            engine: Arc::new(engine),
            events: EventCounters::new(),
        })
    }
}
