//! What an instance knows of a queue that it works on: its lease, and the progress of its pass.

use std::collections::HashSet;
use std::mem;
use std::time::{Duration, Instant};

use crate::core::jobs::lease::Lease;
use crate::core::{Engine, Error};
use crate::domain::ids::MemberId;
use crate::domain::shard::Shard;
use crate::redis::entry::EntryId;
use crate::redis::leases::Leased;

/// The first pause before events that wait for others are tried again.
pub(super) const WAITING_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause: it doubles while none of them makes progress.
const WAITING_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The work of this instance on a queue.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) lease: Lease,
    pub(super) pass: Pass,
    /// Whether the last pass left events that wait.
    pub(super) is_careful: bool,
    /// The pause after a pass that left events.
    pub(super) pause: Duration,
    /// Since when the queue has been found empty.
    pub(super) empty_since: Option<Instant>,
    /// Events that stay in the queue because there are too many dead letters, and were already sent to the log.
    pub(super) buried: HashSet<EntryId>,
    /// Whether a fault for this is reported.
    pub(super) is_full: bool,
    /// Events that were missing in the queue when they were to be applied. If one is read again, the queue is damaged.
    pub(super) lost: HashSet<EntryId>,
}

/// One pass through a queue.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The last entry that was read, if any entry up to it waits.
    pub(super) after: Option<EntryId>,
    /// The members whose events wait.
    pub(super) waiting: HashSet<MemberId>,
    /// Whether some event stays because there are too many dead letters.
    pub(super) is_full: bool,
    /// Whether any event has left the queue.
    pub(super) has_moved: bool,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stop {
    /// Its time is over.
    Time,
    /// Nothing is left in the queue.
    Empty,
    /// All remaining events wait.
    Waits,
    /// Another worker has taken the lease.
    Lost,
}

impl Hold {
    /// Takes the lease of a queue; `None` if another instance has it.
    pub(super) async fn take(engine: &Engine, shard: &Shard) -> Result<Option<Self>, Error> {
        let lease = Lease::take(&engine.store, Leased::of_shard(shard, "queue")).await?;
        Ok(lease.map(|lease| Self {
            lease,
            pass: Pass::default(),
            is_careful: false,
            pause: WAITING_PAUSE,
            empty_since: None,
            buried: HashSet::new(),
            is_full: false,
            lost: HashSet::new(),
        }))
    }

    /// Whether the queue was found empty.
    pub(super) fn is_idle(&self) -> bool {
        self.empty_since.is_some()
    }

    /// Records that the end of the queue was reached.
    pub(super) fn end_pass(&mut self) -> Stop {
        let Pass {
            waiting, has_moved, ..
        } = mem::take(&mut self.pass);
        self.lost.clear();
        self.is_careful = !waiting.is_empty();
        if waiting.is_empty() {
            self.pause = WAITING_PAUSE;
            self.empty_since.get_or_insert_with(Instant::now);
            return Stop::Empty;
        }
        self.pause = if has_moved {
            WAITING_PAUSE
        } else {
            (self.pause * 2).min(WAITING_PAUSE_MAX)
        };
        Stop::Waits
    }
}
