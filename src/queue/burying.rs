//! Copies dead letters to the log: an event is sent there before it becomes a dead letter of its board.
//!
//! The board's list is authoritative. The log may have an event twice if a worker dies in between, and lacks it only if it
//! does not confirm in time, since no queue waits for that.

use std::time::Duration;

use super::dead_letters::store::DeadReason;
use super::store::queues::QueueName;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::queued::QueuedEvent;
use crate::redis::entry::EntryId;
use crate::runtime::join::join_all;
use crate::runtime::throttle;

/// How long a queue waits for the log to confirm: less than its lease lasts. The log itself keeps trying for longer.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);

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

/// Sends events of a queue that are about to become dead letters to the log.
pub(super) async fn bury(engine: &Engine, queue: &QueueName, dead: Vec<DyingEvent<'_>>) {
    let Some(log) = super::of(engine).log.as_ref().filter(|_| !dead.is_empty()) else {
        return;
    };
    let telling = join_all(dead.into_iter().map(|dead| log.bury(dead)));
    let failed = match tokio::time::timeout(CONFIRMED_WITHIN, telling).await {
        Ok(told) => told.into_iter().find_map(Result::err),
        Err(_) => Some(Error::Log("it did not confirm in time".to_owned())),
    };
    if let Some(error) = failed {
        throttle::say(&format!("dead letters in the log: {error}"), |more| {
            tracing::error!(%queue, %error, more, "the topic for dead letters may lack some; the board's list has them");
        });
    }
}
