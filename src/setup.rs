//! Puts a service together: its settings, and what rooms do on occasions of the core.

use std::sync::Arc;

use crate::clock::Clock;
use crate::domain::instance::Part;
use crate::engine::deliveries::Counted;
use crate::engine::hooks::Hooks;
use crate::engine::instances::Presence;
use crate::engine::intake::EventLog;
use crate::engine::keyring::Keyring;
use crate::engine::queue::room::{QueueBounds, Rooms};
use crate::engine::sender::Sender;
use crate::engine::stream_tokens::StreamSecret;
use crate::engine::warnings::Warned;
use crate::engine::{Engine, barriers, closings, orders, queue, results, revisions, turning};
use crate::service::Service;
use crate::store::{Store, orders as stored_orders};

/// What each room does on occasions of the core.
pub static HOOKS: Hooks = Hooks {
    // Moderation: standing orders hold for boards that are created later, too.
    has_orders: |store| Box::pin(async { Ok(stored_orders::has_any(store).await?) }),
    carry_out_orders: |engine, board| Box::pin(orders::carry_out_orders(engine, board)),
    // Queue: queues of a board may be missing in their index.
    plan_work: |engine, id| queue::of(engine).queues.plan(id),
    // Periods: results go by who is hidden.
    begin_moderation: |engine, board, shard| {
        Box::pin(revisions::begin_moderation(engine, board, shard))
    },
    revise_results: |engine, id| Box::pin(revisions::revise_in_turn(engine, id)),
    // Periods: results and their revisions have names.
    forget_member: &[|engine, live, member| Box::pin(results::forget_member(engine, live, member))],
    close_shards: |engine, id, until| Box::pin(barriers::close_for_erasure(engine, id, until)),
    // Periods: a seat is taken once the last period is turned over.
    help_closing: |engine, id| Box::pin(closings::help(engine, id)),
    close_league_until: |engine, id, until| {
        Box::pin(turning::close_league_until(engine, id, until))
    },
    turn_seat: |engine, id, member| Box::pin(turning::turn_seat(engine, id, member)),
};

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

impl Setup {
    /// Puts the service together; nothing is read or written yet.
    pub fn service(self, store: Store, clock: Clock) -> Arc<Service> {
        let mut engine = Engine::new(store, clock, &HOOKS);
        engine.presence = Presence::new(self.part);
        let states = &mut engine.states;
        // Access.
        states.adopt(Keyring::default());
        states.adopt(StreamSecret::default());
        // Webhooks.
        states.adopt(self.sender);
        states.adopt(Counted::default());
        // Queue.
        states.adopt(queue::State {
            rooms: Arc::new(Rooms::new(self.queue_bounds)),
            log: self.log,
            ..queue::State::default()
        });
        // Operations.
        states.adopt(Warned::default());
        Service::new(engine)
    }
}

/// A service with the usual settings.
pub fn service(store: Store, clock: Clock) -> Arc<Service> {
    Setup::default().service(store, clock)
}
