//! Events that wait: each that was answered with 202 is applied, rejected or dead once, whichever process dies.
//!
//! Words: to *put* is to append an event to the queue of its shard. An *entry* is a place in the queue. A *dead letter* is an
//! event that could not be applied; it can be *replayed* or *discarded*. The *mark* of a queue is its last entry when a barrier
//! was raised, or a member erased.
//!
//! The way of an event:
//!
//! 1. `putting.rs` plans it, and so judges what needs no data. What is refused takes the synchronous way, which knows ids. The
//!    rest gets an `id` and an `at` if it lacks them, and joins a call of `put.lua`, which compares the version and the
//!    barrier, and puts no event twice.
//! 2. The *index* of queues that may have events is in another slot (`store/queues.rs`).
//! 3. `applying.rs` holds the lease of a queue, reads its first events, and takes them the way of all events
//!    (`core/write/submission.rs`).
//! 4. `apply.lua` applies an event only while it is in the queue, and under the number of the lease, and takes it out in the
//!    same step.
//! 5. What is not applied leaves by `end_queued.lua`, with the reason: rejected, or a dead letter (`unreadable`, `too-old`
//!    after a day, `failed`).
//! 6. `event_status/` says what became of it: the queue is asked first, then what is remembered, then the dead letters. So what
//!    ends in between is met twice and not missed. Only a replay goes the other way; if nothing is found, all of it is read
//!    once more.
//!
//! What is promised at each step:
//!
//! | step | what holds then | if Redis loses its last second, or fails over without replicas |
//! | --- | --- | --- |
//! | queued (202) | the event is in the stream, on as many replicas as `STANDINGS_MIN_REPLICAS` says; it ends once | it may be gone, as one that was answered 200 may be. Sent again with its `id`, it counts once |
//! | applied | it left the stream in the step that wrote its scores and its id | it waits again, since both go back together, and is applied again |
//! | applied, on replicas | workers wait for replicas as requests do | it stays applied |
//! | rejected, dead | it left the stream in the step that stored why | it waits again, and is judged again |
//! | before a closing | its period is not final before the event has ended or `max_delay` is over; after that it is rejected (`period-closed`) and counted | mark, barrier and stream are in one slot and go back together; `final_until` follows only when replicas have all of this |
//!
//! **The index** is exact without any assumption about time; `store/queues.rs` draws why.
//!
//! What else is subtle:
//!
//! - **Peaks.** Calls that put and calls that apply share Redis. While more events come in than go into the calls that put, the
//!   shard has one applying call in flight, not two. So what comes in is taken first, and what waits is still applied.
//! - **Both ways.** A queued event may come again without queue. `apply.lua` takes it, and what waits leaves the queue in the
//!   same step: when its turn comes, the id may be forgotten. An event that would be refused by itself, or count for another
//!   instant, is planned again by the times of the one that waits (`WAITING`). If it was applied before it is queued, `put.lua`
//!   keeps its record until its turn has come. A former shard can't do this; so while one remembers ids, it is asked before an
//!   event is put or replayed (`core/write/recall.rs`).
//! - **Times.** What an event counts for was fixed when it was queued, and lateness is judged by that time, too. The time of
//!   applying decides which standings there are.
//! - **A late worker does nothing.** Every script that takes something out of a queue compares the number of the lease, so it
//!   does not matter how long a worker slept: no clock is compared.
//! - **Closings.** `close_shard.lua` raises the barrier and notes the mark in one step. New events are compared with the
//!   barrier, those out of the queue with `final_until`, which rises when nothing up to the mark is left, or when the closing
//!   waits no longer (`queue:cut_at`, noted by the first caller with a trusted clock). What is left then is refused and counted
//!   in a hash of each of its periods. Only what is up to the mark is counted, so a replayed event is refused without being
//!   counted.
//! - **Moves.** From the version that begins a move on, nothing is queued or replayed, and the board is paused only when all
//!   old queues are empty. So no queue moves; dead letters are copied.
//! - **Erasures.** `erase.lua` notes the mark. `forget.lua` takes the member's events up to it out of the queue, then its dead
//!   letters, before it walks the registry. Readers leave out what is about to be removed (`waiting.lua`, `letters.lua`), and
//!   nothing of it is replayed.
//! - **Quotas** on a cluster are in another slot than the shard. If only the shard's server loses its last second, an event
//!   waits again whose quota was taken already, and its own earlier use may refuse it: a quota is never exceeded, and may be
//!   left unused.
//! - **Order.** An event that waits for reservations of others, or that a server did not answer, holds up its member's later
//!   ones, and nobody else's.
//! - **Deletions.** The names of queues have the generation of their board; a worker takes a name out of the index whose
//!   generation no longer exists.

pub mod applying;
pub mod burying;
pub mod capacity;
pub mod dead_letters;
pub mod event_status;
mod fate;
mod hold;
pub mod intake;
pub mod listing;
pub mod putting;
pub mod refusal;
pub mod replaying;
pub mod store;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use self::capacity::Rooms;
use self::hold::Hold;
use self::intake::EventLog;
use self::store::queues::{IndexedQueue, QueueName};
use crate::core::Engine;
use crate::domain::ids::BoardId;

/// How long this instance waits for more events after it was woken, so that they share calls.
const GATHERING_TIME: Duration = Duration::from_millis(5);

/// The pause before somebody looks again who waits for queued events.
const PAUSE: Duration = Duration::from_millis(10);

/// Gives whoever applies queued events some time. Those who wait for such events then look again.
pub(crate) async fn give_time() {
    tokio::time::sleep(PAUSE).await;
}

/// What the engine of an instance keeps of queues.
#[derive(Debug, Default)]
pub struct State {
    /// What it knows of them.
    pub queues: Arc<Queues>,
    /// How much room there is in them.
    pub rooms: Arc<Rooms>,
    /// What queued events go through, if that is not the queues of shards alone.
    pub log: Option<Arc<dyn EventLog>>,
}

/// What an engine keeps of queues.
pub fn of(engine: &Engine) -> &State {
    engine.states.get()
}

/// What this instance knows of queues.
#[derive(Debug, Default)]
pub struct Queues {
    woken: Notify,
    known: Mutex<HashMap<QueueName, Known>>,
    /// Boards that are new in memory: their queues may be missing in the index.
    unlooked: Mutex<VecDeque<BoardId>>,
}

/// What this instance knows of a queue.
#[derive(Debug, Default)]
struct Known {
    /// The work on it, if this instance has the lease, and takes no step right now.
    hold: Option<Hold>,
    /// When it is to be looked at again.
    not_before: Option<Instant>,
}

impl Known {
    fn is_idle(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::is_idle)
    }
}

impl Queues {
    /// Has this instance look at once for what waits in these queues, unless it has to wait for something else there.
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

    /// Takes note of a board that is new in memory.
    pub(crate) fn plan(&self, id: &BoardId) {
        self.unlooked.lock().push_back(id.clone());
    }

    /// Those that are to be looked at now: of the listed ones, and of those that this instance works on. The others are forgotten.
    fn due(&self, listed: Vec<IndexedQueue>) -> Vec<QueueName> {
        let (mut known, now) = (self.known.lock(), Instant::now());
        let listed = listed.into_iter().map(|queue| queue.name);
        let mut names: HashSet<QueueName> = listed.collect();
        known.retain(|name, known| known.hold.is_some() || names.contains(name));
        names.extend(known.keys().cloned());
        names.retain(|name| {
            let not_before = known.get(name).and_then(|known| known.not_before);
            not_before.is_none_or(|not_before| not_before <= now)
        });
        names.into_iter().collect()
    }

    /// Whether this instance works on any queue.
    fn has_work(&self) -> bool {
        self.known.lock().values().any(|known| known.hold.is_some())
    }

    /// Takes the work on a queue, if this instance has it.
    fn take(&self, name: &QueueName) -> Option<Hold> {
        self.known.lock().get_mut(name)?.hold.take()
    }

    /// Lays the work on a queue down.
    fn lay_down(&self, name: &QueueName, hold: Hold) {
        let mut known = self.known.lock();
        known.entry(name.clone()).or_default().hold = Some(hold);
    }

    /// Has a queue looked at again after a while.
    fn pause(&self, name: &QueueName, pause: Duration) {
        let mut known = self.known.lock();
        let known = known.entry(name.clone()).or_default();
        known.not_before = Some(Instant::now() + pause);
    }

    /// Forgets a queue that is done.
    fn forget(&self, name: &QueueName) {
        self.known.lock().remove(name);
    }
}
