//! Takes records of a log (Kafka) into the queues of shards, each once, whoever consumes. It knows nothing of Kafka's client
//! (`kafka/` does).
//!
//! The log is the long queue; the queue of a shard is a window of it. A consumer reads records of a partition in the order of
//! their offsets and gives them to an `Intake`. Applying, quotas, refusals, dead letters and erasures are as for any queue:
//! that an event leaves the queue in the step that applies it is promised already, and all that is added here is that it comes
//! in once.
//!
//! ```text
//! intake_start ─▶ Start::at (with what the log has) ─▶ Intake
//!      ▲                                                │ take, resume, pass
//!      └────────────── Taking::GoneBack ◀───────────────┘
//! ```
//!
//! Words: to *take* is to put a record and move the offset in one step. The *next offset* of a shard: all of its records before
//! it are, or were, in its queue. To *pass* is to tell a shard how far a consumer is, without records; a *round* passes all
//! shards; the *floor* of a partition is the next offset of shards that say nothing. The *ends* of the log are the next offsets
//! when a closing asked for them. A record of the log is never just a *record*.
//!
//! What is subtle:
//!
//! - **Taking.** `take.lua` puts records and moves the offset in the slot of the shard, and leaves out what is before the
//!   offset. So it does not matter who reads a partition, or how often: a replaced consumer that does not know it, one that
//!   died between two calls, a topic that is read again. What is committed to Kafka only informs.
//! - **Nothing is skipped.** A consumer says with each call from which offset on it has all records of the shard (`base`). If
//!   the shard's offset is less, there is a gap, since Redis has gone back: the reply is `GONE_BACK`, and the consumer begins
//!   again where the shards say. What a consumer says has to be true whatever happened: for a shard that has answered it is the
//!   answer; for another one the place from which the consumer has read; for the new shards of a board that has moved the
//!   consumer's position, since former shards were given records of theirs.
//! - **Beginning.** A consumer begins at the smallest next offset of all shards. That is near, because all shards pass its
//!   position every 5 to 30 s. For a shard that says nothing (new, or Redis lost its first word) the floor counts, the position
//!   of the round before the last. If nothing at all is known, the consumer reads from the beginning.
//! - **Other logs.** If a shard has taken more than the log has, the topic was made again, or is another one of that name:
//!   nothing is taken. If the log begins after the place to read from, records were removed before they were taken, and this is
//!   reported.
//! - **What can't come into a queue** (no such board, a league, a deleted board, an unreadable score) is reported before
//!   anything that was read with it is taken, so after a crash it is reported again. An event without `id` gets one of its
//!   partition and offset, in a form that no client can send.
//! - **Waiting.** Without room, while a board moves, or without Redis, the records wait in the consumer, and its partition with
//!   them. A definition that can't be read holds its records up, too: a newer release may read it.
//! - **Moves.** Records come into the old queues until little is left to copy; then these are held (`hold_queue.lua`). The new
//!   shards are given the next offsets of all old ones (and of those before, if the old ones have not come so far), and leave
//!   out what one of the former shards of its member has taken; with FORMER the script asks which these were. They forget this
//!   once they have come up to the greatest of these offsets.
//! - **Closings.** What was in the log before the barrier stood has to count. So `close_shard.lua` asks for the ends of the log
//!   once the barrier stands (ENDS), and the mark is noted by `take.lua` when the shard has come up to them. Shards that wait
//!   for this are in a set (`intake-wanted`), and consumers pass them every 250 ms. What is after the ends is put with the
//!   barrier in the field `late`, and refused by that when it is applied, however soon. A move takes along what is final in all
//!   old shards; the closing asks for the ends again. The ends count records of open transactions, since confirmed ones may
//!   come after them.
//! - **What became of an event** that nobody knows is looked for in the log, from the next offset of its shard on
//!   (`EventLog::find`).
//! - An event that comes twice with one `id` counts once if the second is taken within the board's `idempotency` after the
//!   first was applied.

mod passing;
pub mod start;
pub mod store;
mod taking;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use self::start::Start;
pub use self::taking::Intake;
use super::burying::DeadEvent;
use crate::core::write::events::Incoming;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::event::FUTURE_MS_MAX;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::intake::{Backlog, Partition};
use crate::domain::queued::QueuedEvent;
use crate::domain::time::Timestamp;

/// How often a consumer calls [`Intake::pass`].
pub const PASS_INTERVAL: Duration = Duration::from_millis(250);

/// A record of Kafka that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// Its offset in its partition.
    pub offset: i64,
    /// The generation of its board, if the record says it: those that this service has written do. An event of another generation does
    /// not count.
    pub generation: Option<u64>,
    /// The event. `id` may be missing, then it gets one that no other has. `at` may be missing, then it counts for `logged_at`. `queued` is
    /// `None`.
    pub incoming: Incoming,
    /// The time of the record.
    pub logged_at: Timestamp,
}

impl LogEvent {
    /// The event as it waits in the queue of its board. `id`: for one that comes without.
    pub(crate) fn queued(
        &self,
        board: &Board,
        id: impl FnOnce() -> EventId,
        now: Timestamp,
    ) -> Result<QueuedEvent, DeadCause> {
        let event = self.incoming.event(board);
        let mut event = event.map_err(|error| DeadCause::Unreadable(error.to_string()))?;
        let id = event.id.take().unwrap_or_else(id);
        // Nobody knows the clocks of others who write to the log.
        let latest = Timestamp::from_ms_clamped(now.ms().saturating_add(FUTURE_MS_MAX));
        let queued_at = self.logged_at.min(latest);
        Ok(QueuedEvent::new(board, id, event, queued_at))
    }
}

/// Why a record of Kafka that can be read does not come into a queue.
#[derive(Clone, Debug, PartialEq)]
pub enum DeadCause {
    /// There is no such board.
    UnknownBoard,
    /// The board is a league, which has no queues.
    League,
    /// Its board, a former one of this name, was deleted.
    DeletedBoard,
    /// Its board can't read it: the score, or data of an entry. The text says what is wrong, for people; it has none of the content but the
    /// score.
    Unreadable(String),
}

impl DeadCause {
    /// What it is called in headers, logs and labels of metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownBoard => "unknown-board",
            Self::League => "league",
            Self::DeletedBoard => "deleted-board",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// A record of Kafka that can be read and does not come into a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadRecord {
    /// Its offset.
    pub offset: i64,
    /// Why.
    pub cause: DeadCause,
}

/// How far records were taken.
#[derive(Debug)]
pub enum Taking {
    /// All of them were: [`Intake::position`] lies behind them.
    Done,
    /// These are dead, and are left out from now on. Nothing that was read with them, and behind them, is lost if the consumer dies now. So
    /// it first brings them where they are to be told, and then calls [`Intake::resume`].
    Dead(Vec<DeadRecord>),
    /// Some can't be taken for the moment: a queue is full, a board is moving, a server is away. The consumer reads no more of this
    /// partition, and calls [`Intake::resume`] after a pause.
    Waits(Error),
    /// A shard has lost what it knew: its Redis is as it was earlier. The consumer drops this intake and asks [`start::find`]
    /// again.
    GoneBack,
}

/// What is looked for in the log: the events of a board under an id.
#[derive(Clone, Debug)]
pub struct Sought<'a> {
    /// The board.
    pub board: &'a Board,
    /// The id. [`LogEvent::incoming`] of what is found has it.
    pub id: &'a EventId,
    /// The member; `None`: any.
    pub member: Option<&'a MemberId>,
    /// From which offset on each partition is to be read. One that is missing here is read from its beginning.
    pub from: &'a [(Partition, i64)],
}

/// What the engine asks of the log beside records. The service has one if its queue is a log.
pub trait EventLog: fmt::Debug + Send + Sync {
    /// Appends an event of a board. When this returns, the log has it as safely as it keeps anything. The record's time is the event's
    /// `queued_at`, its generation is the board's.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: it may be in the log or not.
    fn append<'a>(
        &'a self,
        board: &'a Board,
        event: &'a QueuedEvent,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// The partitions, and the offset of the next record of each: what was appended before this was called lies before it.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: it is not known of all partitions.
    fn ends(&self) -> BoxFuture<'_, Result<Vec<(Partition, i64)>, Error>>;

    /// Tells of an event that is about to be a dead letter, if the log has a place for such. It may be told more than once.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: it may be in the log or not.
    fn bury<'a>(&'a self, dead: DeadEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        drop(dead);
        Box::pin(async { Ok(()) })
    }

    /// How much of each partition was not taken yet. A log that is not told by its consumers tells nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    fn backlog(&self) -> BoxFuture<'_, Result<Vec<Backlog>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Takes what is in the log into the queues of shards until it is told to stop. A log that others consume does nothing.
    fn consume(
        self: Arc<Self>,
        engine: Arc<Engine>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        drop((engine, stop));
        Box::pin(async {})
    }

    /// Looks for events that were appended before this was called.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]; [`Problem::log_too_long`](crate::domain::problems::Problem::log_too_long), if there is more to be read than it reads for one question.
    fn find<'a>(&'a self, sought: Sought<'a>) -> BoxFuture<'a, Result<Vec<LogEvent>, Error>>;
}
