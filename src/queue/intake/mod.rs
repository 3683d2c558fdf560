//! Takes records of a log (Kafka) into the queues of shards, each exactly once, whichever instances consume. Kafka's client
//! is known only to `kafka/`.
//!
//! The log is the long queue; the queue of a shard is a window of it. A consumer reads records of a partition in the order
//! of their offsets and gives them to an `Intake`. Applying, quotas, refusals, dead letters and erasures work as for any
//! queue: an event leaves the queue in the step that applies it. All that is added here is that it enters the queue once.
//!
//! ```text
//! intake_start ─▶ Start::at (with what the log has) ─▶ Intake
//!      ▲                                                │ take, resume, pass
//!      └────────────── Taking::GoneBack ◀───────────────┘
//! ```
//!
//! Words: to *take* is to put a record and move the offset in one step. The *next offset* of a shard: all of its records
//! before it are, or were, in its queue. To *pass* is to give a shard the position of a consumer, without records; a
//! *round* passes all shards; the *floor* of a partition is the next offset assumed for shards that have stored none. The
//! *ends* of the log are the next offsets when a closing asked for them. A record of the log is never called just a
//! *record*.
//!
//! What is subtle:
//!
//! - **Taking.** `take.lua` puts records and moves the offset in the slot of the shard, and skips records before the
//!   offset. So it does not matter who reads a partition, or how often: a consumer that was replaced without knowing it,
//!   one that died between two calls, a topic that is read again. Offsets committed to Kafka are only informative.
//! - **Nothing is skipped.** With each call a consumer sends the offset from which it has all records of the shard
//!   (`base`). If the shard's offset is less, there is a gap, because Redis has lost writes: the reply is `GONE_BACK`, and
//!   the consumer begins again at the shards' offsets. `base` has to be true whatever happened: for a shard that has
//!   answered, it is the answer; for others, the offset at which the consumer began to read; for the new shards of a board
//!   that has moved, the consumer's position, since former shards were given records of theirs.
//! - **Beginning.** A consumer begins at the smallest next offset of all shards. That is close, because all shards pass its
//!   position every 5 to 30 s. For a shard that has no offset (new, or Redis lost its first one) the floor counts, the
//!   position of the round before the last. If nothing is known at all, the consumer reads from the beginning.
//! - **Other logs.** If a shard has taken more than the log has, the topic was recreated, or is another one of that name:
//!   nothing is taken. If the log begins after the offset to read from, records were removed before they were taken, and
//!   this is reported.
//! - **Events that can't be queued** (no such board, a league, a deleted board, an unreadable score) are reported before
//!   anything that was read with them is taken, so after a crash they are reported again. An event without `id` gets one
//!   made of its partition and offset, in a form that no client can send.
//! - **Waiting.** Without room, while a board moves, or without Redis, the records wait in the consumer, and so does its
//!   partition. A definition that can't be read holds up its records, too: a newer release may read it.
//! - **Moves.** Records enter the old queues until little is left to copy; then the queues are held (`hold_queue.lua`). The
//!   new shards are given the next offsets of all old ones (and of earlier ones that the old shards have not reached), and
//!   skip a record that a former shard of its member has taken; with FORMER the script asks which shards these were. They
//!   forget these offsets once they have reached the greatest.
//! - **Closings.** Records that were in the log before the barrier was raised have to count. So `close_shard.lua` asks for
//!   the ends of the log once the barrier is raised (ENDS), and `take.lua` sets the mark when the shard has reached them.
//!   Shards that wait for this are in a set (`intake-wanted`), and consumers pass them every 250 ms. Records after the ends
//!   are put with the barrier in the field `late`, which makes them refused when they are applied, however soon. A move
//!   copies what is final in all old shards; the closing asks for the ends again. The ends count records of open
//!   transactions, since confirmed ones may come after them.
//! - **The outcome** of an event that no shard knows is looked for in the log, from the next offset of its shard
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
use super::dead_letters::store::DeadReason;
use super::store::queues::QueueName;
use crate::core::write::events::IncomingEvent;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::event::FUTURE_MS_MAX;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::intake::{Backlog, Partition};
use crate::domain::queued::QueuedEvent;
use crate::domain::time::Timestamp;
use crate::redis::entry::EntryId;

/// How often a consumer calls [`Intake::pass`].
pub const PASS_INTERVAL: Duration = Duration::from_millis(250);

/// A readable record of Kafka.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    pub offset: i64,
    /// The generation of its board, if the record has it: those that this service writes do. An event of another generation
    /// does not count.
    pub generation: Option<u64>,
    /// The event. Without `id` it gets a unique one; without `at` it counts for `logged_at`. `queued` is `None`.
    pub incoming: IncomingEvent,
    /// The time of the record.
    pub logged_at: Timestamp,
}

impl LogEvent {
    /// The event as it is queued on its board. `id` makes an id for an event without one.
    pub(crate) fn queued(
        &self,
        board: &Board,
        id: impl FnOnce() -> EventId,
        now: Timestamp,
    ) -> Result<QueuedEvent, DeadCause> {
        let mut event = self
            .incoming
            .event(board)
            .map_err(|error| DeadCause::Unreadable(error.to_string()))?;
        let id = event.id.take().unwrap_or_else(id);
        // The clocks of others that write to the log are not under our control.
        let latest = Timestamp::from_ms_clamped(now.ms().saturating_add(FUTURE_MS_MAX));
        let queued_at = self.logged_at.min(latest);
        Ok(QueuedEvent::new(board, id, event, queued_at))
    }
}

/// Why a readable record of Kafka can't be queued.
#[derive(Clone, Debug, PartialEq)]
pub enum DeadCause {
    /// There is no such board.
    UnknownBoard,
    /// The board is a league, which has no queues.
    League,
    /// Its board was deleted; the name may be in use again.
    DeletedBoard,
    /// Its board can't read the score, or data of an entry. The text is for people; of the content it has only the score.
    Unreadable(String),
}

impl DeadCause {
    /// Its name in headers, logs and metric labels.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownBoard => "unknown-board",
            Self::League => "league",
            Self::DeletedBoard => "deleted-board",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// A readable record of Kafka that can't be queued.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadRecord {
    pub offset: i64,
    pub cause: DeadCause,
}

/// The outcome of taking records.
#[derive(Debug)]
pub enum Taking {
    /// All were taken: [`Intake::position`] is after them.
    Done,
    /// These are dead, and are skipped from now on. Nothing read with or after them is lost if the consumer dies now: it
    /// first reports them, then calls [`Intake::resume`].
    Dead(Vec<DeadRecord>),
    /// Some can't be taken now: a queue is full, a board is moving, a server is away. The consumer stops reading this
    /// partition, and calls [`Intake::resume`] after a pause.
    Waits(Error),
    /// A shard's Redis has lost writes. The consumer drops this intake and calls [`start::find`] again.
    GoneBack,
}

/// What to look for in the log: the events of a board under an id.
#[derive(Clone, Debug)]
pub struct Sought<'a> {
    pub board: &'a Board,
    /// The id. The events found have it in [`LogEvent::incoming`].
    pub id: &'a EventId,
    /// The member; `None`: any.
    pub member: Option<&'a MemberId>,
    /// The offset from which to read each partition. Partitions that are missing are read from the beginning.
    pub from: &'a [(Partition, i64)],
}

/// An event that is about to become a dead letter.
#[derive(Debug)]
pub struct DyingEvent<'a> {
    pub board: &'a Board,
    pub queue: &'a QueueName,
    /// Its place there.
    pub entry: EntryId,
    /// The event; `None` if it can't be read.
    pub event: Option<QueuedEvent>,
    /// The kind of dead letter.
    pub reason: DeadReason,
    /// What is wrong, for people.
    pub detail: &'a str,
}

/// What the engine needs of the log. The service has one if its queue is a log.
pub trait EventLog: fmt::Debug + Send + Sync {
    /// Appends an event of a board. When this returns, the log has it as safely as it stores anything. The record's time is
    /// the event's `queued_at`, its generation is the board's.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: the event may or may not be in the log.
    fn append<'a>(
        &'a self,
        board: &'a Board,
        event: &'a QueuedEvent,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// The partitions with the offset of the next record of each, which is after everything appended before this call.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: some partition's is unknown.
    fn ends(&self) -> BoxFuture<'_, Result<Vec<(Partition, i64)>, Error>>;

    /// Stores a copy of an event about to become a dead letter, if there is a place for that. It may be stored twice.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: the copy may or may not be in the log.
    fn bury<'a>(&'a self, dead: DyingEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        drop(dead);
        Box::pin(async { Ok(()) })
    }

    /// How much of each partition was not taken yet. Empty if this log's consumers don't report it.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    fn backlog(&self) -> BoxFuture<'_, Result<Vec<Backlog>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Takes records into the queues of shards until it has to stop. Does nothing if others consume the log.
    fn consume(
        self: Arc<Self>,
        engine: Arc<Engine>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        drop((engine, stop));
        Box::pin(async {})
    }

    /// Looks for events that were appended before this call.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]; [`log_too_long`](crate::domain::problems::Problem::log_too_long) if one query can't read that much.
    fn find<'a>(&'a self, sought: Sought<'a>) -> BoxFuture<'a, Result<Vec<LogEvent>, Error>>;
}
