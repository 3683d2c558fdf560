//! Creates a service: its settings, and the functions of rooms that the core calls.

use std::sync::Arc;

use crate::access::keyring::Keyring;
use crate::access::stream_tokens::work::StreamSecret;
use crate::core::Engine;
use crate::core::hooks::Hooks;
use crate::core::jobs::instances::Presence;
use crate::core::read::snapshot::{SnapshotBounds, Snapshots};
use crate::corrections::revocations;
use crate::corrections::revocations::job::RevocationSchedule;
use crate::domain::clock::Clock;
use crate::domain::instance::Part;
use crate::history;
use crate::history::job::HistorySchedule;
use crate::moderation::orders;
use crate::operations::warnings::Warned;
use crate::periods::closings::{self, barriers};
use crate::periods::turnover::turning;
use crate::periods::{results, revisions};
use crate::profiles::search::NameSearch;
use crate::queue;
use crate::queue::capacity::{QueueBounds, Rooms};
use crate::queue::intake::EventLog;
use crate::redis::Store;
use crate::webhooks::deliveries::job::Counted;
use crate::webhooks::sender::Sender;

/// The functions of each room that the core calls.
pub static HOOKS: Hooks = Hooks {
    // Moderation: standing orders also apply to boards that are created later.
    has_orders: |store| Box::pin(async { Ok(orders::store::has_any(store).await?) }),
    carry_out_orders: |engine, board| Box::pin(orders::work::carry_out_orders(engine, board)),
    // Queue: queues of a board may be missing from their index. History: rows may have run out.
    plan_work: |engine, id| {
        queue::of(engine).queues.plan(id);
        history::job::plan(engine, id);
        revocations::job::plan(engine, id);
    },
    // Periods: results depend on which members are hidden.
    begin_moderation: |engine, board, shard| {
        Box::pin(revisions::work::begin_moderation(engine, board, shard))
    },
    revise_results: |engine, id| Box::pin(revisions::work::revise_in_turn(engine, id)),
    // Periods: results and their revisions have names.
    forget_member: &[|engine, live, member| {
        Box::pin(results::recording::forget_member(engine, live, member))
    }],
    close_shards: |engine, id, until| Box::pin(barriers::close_for_erasure(engine, id, until)),
    // Periods: a seat is taken once the last period has been turned over.
    help_closing: |engine, id| Box::pin(closings::work::help(engine, id)),
    close_league_until: |engine, id, until| {
        Box::pin(turning::close_league_until(engine, id, until))
    },
    turn_seat: |engine, id, member| Box::pin(turning::turn_seat(engine, id, member)),
};

/// The settings of a service.
#[derive(Debug, Default)]
pub struct Setup {
    /// What sends messages to webhooks.
    pub sender: Sender,
    /// Which part of the work the instance does.
    pub part: Part,
    /// How many bytes queues may have.
    pub queue_bounds: QueueBounds,
    /// Whether members can be found by their names.
    pub name_search: NameSearch,
    /// What exports of standings that are not final may take.
    pub snapshot_bounds: SnapshotBounds,
    /// The log that queued events go through, if there is one.
    pub log: Option<Arc<dyn EventLog>>,
}

impl Setup {
    /// Creates the service; nothing is read or written yet.
    pub fn engine(self, store: Store, clock: Clock) -> Arc<Engine> {
        let mut engine = Engine::new(store, clock, &HOOKS);
        engine.presence = Presence::new(self.part);
        engine.snapshots = Snapshots::new(self.snapshot_bounds);
        let states = &mut engine.states;
        // Access.
        states.adopt(Keyring::default());
        states.adopt(StreamSecret::default());
        // Webhooks.
        states.adopt(self.sender);
        states.adopt(Counted::default());
        // Queue.
        states.adopt(queue::QueueState {
            rooms: Arc::new(Rooms::new(self.queue_bounds)),
            log: self.log,
            ..queue::QueueState::default()
        });
        // History.
        states.adopt(HistorySchedule::default());
        states.adopt(RevocationSchedule::default());
        // Profiles.
        states.adopt(self.name_search);
        // Operations.
        states.adopt(Warned::default());
        Arc::new(engine)
    }
}

/// A service with the usual settings.
pub fn engine(store: Store, clock: Clock) -> Arc<Engine> {
    Setup::default().engine(store, clock)
}
