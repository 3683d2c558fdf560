//! Queued events: each event accepted with 202 is applied, rejected or made a dead letter exactly once, whichever process
//! dies.
//!
//! Words: to *put* is to append an event to the queue of its shard. An *entry* is a place in the queue. A *dead letter* is
//! an event that could not be applied; it can be *replayed* or *discarded*. The *mark* of a queue is its last entry at the
//! moment a barrier was raised or a member erased.
//!
//! The path of an event:
//!
//! 1. `putting.rs` plans it, which checks everything that needs no data. A refused event takes the synchronous path, which
//!    knows ids. The others get an `id` and an `at` if they lack them, and join a call of `put.lua`, which checks the
//!    version and the barrier, and puts no event twice.
//! 2. The *index* of queues that may have events is stored in another slot (`store/queues.rs`).
//! 3. `applying.rs` holds the lease of a queue, reads its first events, and submits them like all events
//!    (`core/write/submission.rs`).
//! 4. `apply.lua` applies an event only while it is in the queue, and under the number of the lease, and takes it out in
//!    the same step.
//! 5. An event that isn't applied is removed by `end_queued.lua`, with the reason: rejected, or a dead letter
//!    (`unreadable`, `too-old` after a day, `failed`).
//! 6. `event_status/` finds its outcome. It reads the queue first, then records, then dead letters: an event that ends
//!    meanwhile is seen twice rather than missed. Only a replay goes the other way, so if nothing is found, everything is
//!    read once more.
//!
//! The guarantees at each step:
//!
//! | step | guarantee | if Redis loses its last second, or fails over without replicas |
//! | --- | --- | --- |
//! | queued (202) | the event is in the stream, on as many replicas as `STANDINGS_MIN_REPLICAS` says; it ends once | it may be lost, like an event acknowledged with 200. Sent again with its `id`, it counts once |
//! | applied | it left the stream in the step that wrote its scores and its id | both are rolled back together: it waits again and is applied again |
//! | applied, on replicas | workers wait for replicas as requests do | it stays applied |
//! | rejected, dead | it left the stream in the step that stored the reason | it waits again, and is checked again |
//! | before a closing | its period is not final before the event has ended or `max_delay` is over; after that it is rejected (`period-closed`) and counted | mark, barrier and stream are in one slot and are rolled back together; `final_until` is set only once replicas have them |
//!
//! **The index** is exact without any assumption about time; `store/queues.rs` draws why.
//!
//! What else is subtle:
//!
//! - **Peaks.** Calls that put and calls that apply share Redis. While more events arrive than fit into the calls that put,
//!   the shard has one applying call in flight, not two. So incoming events come first, but queued ones are still applied.
//! - **Both paths.** A retry of a queued event may arrive on the synchronous path. `apply.lua` applies it and removes the
//!   queued one in the same step, because its id could be forgotten before the queued one is reached. If the retry would be
//!   refused on its own, or count for another instant, it is planned again with the times of the queued one (`WAITING`). If
//!   an event was already applied when it is queued, `put.lua` keeps its record until the queue has reached it. A former
//!   shard can't do this, so while one remembers ids, it is asked before an event is put or replayed
//!   (`core/write/recall.rs`).
//! - **Times.** The instant that an event counts for is fixed when it is queued, and lateness is judged at that time, too.
//!   Which standings exist is decided when it is applied.
//! - **A late worker does nothing.** Every script that removes something from a queue checks the number of the lease, so it
//!   doesn't matter how long a worker slept. No clocks are compared.
//! - **Closings.** `close_shard.lua` raises the barrier and notes the mark in one step. New events are checked against the
//!   barrier, queued ones against `final_until`, which rises when nothing up to the mark is left, or when the closing stops
//!   waiting (`queue:cut_at`, set by the first caller with a trusted clock). Remaining events are then refused, and counted
//!   in a hash for each of their periods. Only events up to the mark are counted, so a replayed one is refused without
//!   being counted.
//! - **Moves.** From the version that begins a move, nothing is queued or replayed, and the board is paused only when all
//!   old queues are empty. So no queue is copied; dead letters are.
//! - **Erasures.** `erase.lua` notes the mark. `forget.lua` removes the member's events up to it from the queue, then its
//!   dead letters, before it walks the registry. Readers skip what is about to be removed (`waiting.lua`, `letters.lua`),
//!   and it can't be replayed.
//! - **Quotas** on a cluster are in another slot than the shard. If only the shard's server loses its last second, an event
//!   whose quota was already taken waits again, and its own earlier use may refuse it: a quota is never exceeded, but may
//!   be left unused.
//! - **Order.** An event that waits for reservations of others, or for a server that did not answer, holds up only later
//!   events of its member.
//! - **Deletions.** The names of queues have the generation of their board; a worker removes a name from the index if its
//!   generation no longer exists.

pub mod applying;
pub mod capacity;
pub mod dead_letters;
pub mod event_status;
mod fate;
mod hold;
pub mod intake;
pub mod listing;
pub mod putting;
pub mod store;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use self::capacity::Rooms;
use self::hold::Hold;
use self::intake::EventLog;
use self::store::queues::QueueName;
use crate::core::Engine;
use crate::domain::ids::BoardId;

/// How long this instance gathers events after it is woken, so that they share calls.
const GATHERING_TIME: Duration = Duration::from_millis(5);

/// The pause before waiting for queued events is checked again.
const PAUSE: Duration = Duration::from_millis(10);

/// Gives the workers some time to apply queued events. Callers then check again.
pub(crate) async fn give_time() {
    tokio::time::sleep(PAUSE).await;
}

/// The state that an instance keeps about queues.
#[derive(Debug, Default)]
pub struct QueueState {
    /// What it knows of the queues.
    pub queues: Arc<Queues>,
    /// How much room they have.
    pub rooms: Arc<Rooms>,
    /// The log that queued events pass through, if there is one.
    pub log: Option<Arc<dyn EventLog>>,
}

/// The engine's state about queues.
pub fn of(engine: &Engine) -> &QueueState {
    engine.states.get()
}

/// What this instance knows of queues.
#[derive(Debug, Default)]
pub struct Queues {
    woken: Notify,
    known: Mutex<HashMap<QueueName, LocalQueue>>,
    /// Boards that are new in memory: the index may lack their queues.
    unlooked: Mutex<VecDeque<BoardId>>,
}

/// What this instance knows of a queue.
#[derive(Debug, Default)]
struct LocalQueue {
    /// The work on it, while this instance has the lease and no step is running.
    hold: Option<Hold>,
    /// When to look at it again.
    not_before: Option<Instant>,
}

impl LocalQueue {
    fn is_idle(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::is_idle)
    }
}

impl Queues {
    /// Makes this instance look at these queues at once, except those where it waits for something else.
    pub fn wake(&self, names: impl IntoIterator<Item = QueueName>) {
        let mut known = self.known.lock();
        for name in names {
            let known = known.get_mut(&name);
            if let Some(known) = known.filter(|known| known.is_idle()) {
                known.not_before = None;
            }
        }
        self.woken.notify_one();
    }

    /// Returns soon after this instance was woken.
    pub async fn woken(&self) {
        self.woken.notified().await;
        tokio::time::sleep(GATHERING_TIME).await;
    }

    /// Registers a board that is new in memory, so that its queues are checked.
    pub(crate) fn plan(&self, id: &BoardId) {
        self.unlooked.lock().push_back(id.clone());
    }

    /// The queues to look at now, of the listed ones and those that this instance works on. The others are forgotten.
    fn due(&self, listed: Vec<QueueName>) -> Vec<QueueName> {
        let (mut known, now) = (self.known.lock(), Instant::now());
        let mut names = HashSet::<QueueName>::from_iter(listed);
        known.retain(|name, known| known.hold.is_some() || names.contains(name));
        names.extend(known.keys().cloned());
        names.retain(|name| {
            let not_before = known.get(name).and_then(|known| known.not_before);
            not_before.is_none_or(|not_before| not_before <= now)
        });
        names.into_iter().collect()
    }

    fn has_work(&self) -> bool {
        self.known.lock().values().any(|known| known.hold.is_some())
    }

    /// Takes the work on a queue out, if this instance has it.
    fn take(&self, name: &QueueName) -> Option<Hold> {
        self.known.lock().get_mut(name)?.hold.take()
    }

    /// Puts the work on a queue back.
    fn lay_down(&self, name: &QueueName, hold: Hold) {
        let mut known = self.known.lock();
        known.entry(name.clone()).or_default().hold = Some(hold);
    }

    /// Postpones the next look at a queue.
    fn pause(&self, name: &QueueName, pause: Duration) {
        let mut known = self.known.lock();
        let known = known.entry(name.clone()).or_default();
        known.not_before = Some(Instant::now() + pause);
    }

    fn forget(&self, name: &QueueName) {
        self.known.lock().remove(name);
    }
}
