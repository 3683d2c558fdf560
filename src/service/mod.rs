//! The use cases: one file and one public verb each. They know no HTTP; the machinery under them is [`crate::engine`].

pub mod api_keys;
pub mod audit;
pub mod boards;
pub mod check;
mod closing;
mod erasures;
pub mod events;
pub mod export;
pub mod hidden;
pub mod initial;
pub mod member;
pub mod moderation;
pub mod page;
pub mod percentile;
pub mod period;
pub mod profiles;
pub mod quotas;
pub mod results;
pub mod rewards;
pub mod shards;
pub mod standing;
pub mod stats;
pub mod subset;
pub mod summary;
pub mod webhooks;

use std::sync::Arc;

use crate::clock::Clock;
use crate::engine::Engine;
pub use crate::engine::Error;
use crate::engine::sender::Sender;
use crate::store::Store;

/// The service: what HTTP handlers and workers call. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct Service {
    /// What does the work.
    pub engine: Engine,
}

impl Service {
    /// Puts the service together; nothing is read or written yet.
    pub fn new(store: Store, clock: Clock) -> Arc<Self> {
        Self::with_sender(store, clock, Sender::default())
    }

    /// The same with what sends messages to webhooks.
    pub fn with_sender(store: Store, clock: Clock, sender: Sender) -> Arc<Self> {
        let mut engine = Engine::new(store, clock);
        engine.sender = sender;
        Arc::new(Self { engine })
    }
}
