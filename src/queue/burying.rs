//! Dead letters in the log: before an event becomes a dead letter of its board, the log is told of it, which may have a place for such.
//!
//! What counts is the list of the board. The log has a copy: an event may stand there twice, if a worker dies in between. It is missing there only
//! if the log does not confirm in time, since no queue waits for that.

use std::time::Duration;

use super::dead_letters::store::DeadReason;
use super::store::queues::QueueName;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::queued::QueuedEvent;
use crate::redis::entry::EntryId;
use crate::runtime::join::join_all;
use crate::runtime::throttle;

/// For how long a queue waits until the log has confirmed: less than a lease of a queue goes on. The log tries for longer by itself.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);

/// An event that is about to be a dead letter.
#[derive(Debug)]
pub struct DeadEvent<'a> {
    /// Its board.
    pub board: &'a Board,
    /// Its queue.
    pub queue: &'a QueueName,
    /// Its place there.
    pub entry: EntryId,
    /// The event; `None` if nobody can read it.
    pub event: Option<QueuedEvent>,
    /// Of what kind the letter is.
    pub reason: DeadReason,
    /// What is wrong, for people.
    pub detail: &'a str,
}

/// Tells the log of events of a queue that are about to be dead letters.
pub(super) async fn bury(engine: &Engine, queue: &QueueName, dead: Vec<DeadEvent<'_>>) {
    let Some(log) = super::of(engine).log.as_ref().filter(|_| !dead.is_empty()) else {
        return;
    };
    let telling = join_all(dead.into_iter().map(|dead| log.bury(dead)));
    let failed = match tokio::time::timeout(CONFIRMED_WITHIN, telling).await {
        Ok(told) => told.into_iter().find_map(Result::err),
        Err(_) => Some(Error::Log("it has not confirmed in time".to_owned())),
    };
    if let Some(error) = failed {
        throttle::say(&format!("dead letters in the log: {error}"), |more| {
            tracing::error!(%queue, %error, more, "dead letters may be missing in the topic for them; their board lists them");
        });
    }
}
