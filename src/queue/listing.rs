//! The job that puts queues back into their index, and boards with dead letters among those that are noted.
//!
//! The index is exact as long as Redis loses nothing. If it loses its last writes, the index may lack a queue with events.
//! Then an instance reads all boards again (`core/board/boards.rs`), so each board that is new in memory is checked once.
//! A note of dead letters may also be missing because the instance that made them has died.

use futures::future::try_join;

use super::dead_letters::store as letters;
use super::store::queues;
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::BoardId;
use crate::redis::{Store, StoreError};
use crate::runtime::join::try_join_all;

/// The maximum number of boards checked in one run.
const BOARDS_MAX: usize = 1_000;

/// The job: puts missing queues back into the index.
#[derive(Clone, Copy, Debug)]
pub struct ListQueues;

impl Job for ListQueues {
    type Item = BoardId;
    const KIND: JobKind = JobKind::QueueIndex;

    fn subject(&self, id: &BoardId) -> Subject {
        Subject::board(id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<BoardId>, Error> {
        let mut unlooked = super::of(engine).queues.unlooked.lock();
        let count = unlooked.len().min(BOARDS_MAX);
        Ok(unlooked.drain(..count).collect())
    }

    async fn step(&self, engine: &Engine, id: &mut BoardId) -> Result<Progress, Error> {
        let Some(live) = engine.boards.get(id) else {
            return Ok(Progress::Done);
        };
        let listed = list_board(&engine.store, &live).await;
        if listed.is_err() {
            super::of(engine).queues.plan(id);
        }
        let missing = listed?;
        if missing > 0 {
            tracing::warn!(board = %id, missing, "queues were missing from the index: Redis may have lost its last writes");
            super::of(engine).queues.wake([]);
        }
        Ok(Progress::Done)
    }
}

/// Puts the queues of a board back into their index, and notes the board if it has dead letters. Returns how many queues
/// were missing.
async fn list_board(store: &Store, live: &LiveBoard) -> Result<usize, StoreError> {
    let shards = live.shards.iter().map(async |live| {
        let relisted = queues::relist(store, &live.shard);
        try_join(relisted, letters::count(store, &live.shard)).await
    });
    let shards = try_join_all(shards).await?;
    if shards.iter().any(|(_, letters)| *letters > 0) {
        board_notes::note(store, NotedFor::DeadLetters, &live.board).await?;
    }
    Ok(shards
        .iter()
        .filter(|(was_missing, _)| *was_missing)
        .count())
}
