//! Queues, in which events wait to be applied.
//!
//! Each shard has one, and the index of queues says which of them may have something (`store/queues.rs`). Events are taken at once
//! ([`putting`]), as long as there is room ([`room`]). [`replaying`] puts those back that could not be applied. [`applying`] is the job that takes them out of queues, and [`burying`] tells the log of those that can't be applied. Each instance may work on any queue; one at a time does, under a lease whose number the scripts compare.

pub mod applying;
pub mod burying;
mod fate;
mod hold;
pub mod listing;
pub mod putting;
pub mod refusal;
pub mod replaying;
pub mod room;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use self::hold::Hold;
use self::room::Rooms;
use super::Engine;
use super::intake::EventLog;
use crate::domain::ids::BoardId;
use crate::store::queues::{IndexedQueue, QueueName};

/// How long this instance waits for more events after it was woken, so that they share calls.
const GATHERING_TIME: Duration = Duration::from_millis(5);

/// The pause before somebody looks again who waits for queued events.
const PAUSE: Duration = Duration::from_millis(10);

/// Gives whoever applies queued events some time. Those who wait for such events then look again.
pub(super) async fn give_time() {
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
