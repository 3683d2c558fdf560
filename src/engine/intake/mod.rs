//! Intake: takes records of Kafka into the queues of shards, each once, whoever consumes.
//!
//! The log is the long queue; the queue of a shard is a window of it. A consumer reads records of a partition in the order of their offsets
//! and gives them to an [`Intake`], which knows nothing of Kafka:
//!
//! ```text
//! intake_start ─▶ Start::at (with what the log has) ─▶ Intake
//!      ▲                                                │ take, resume, pass
//!      └────────────── Taking::GoneBack ◀───────────────┘
//! ```
//!
//! Each shard keeps up to which offset it has taken the records of a partition, in the script that puts them into its queue
//! (`scripts/take.lua`). So any number of consumers may read the same records, also those that do not know yet that others have taken over:
//! what a shard has taken, it leaves out.

mod passing;
pub mod start;
mod taking;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use self::start::Start;
pub use self::taking::Intake;
use super::events::Incoming;
use super::queue::burying::DeadEvent;
use super::{Engine, Error};
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
    /// [`Error::Log`]; [`Problem::log_too_long`](crate::problems::Problem::log_too_long), if there is more to be read than it reads for one question.
    fn find<'a>(&'a self, sought: Sought<'a>) -> BoxFuture<'a, Result<Vec<LogEvent>, Error>>;
}
