//! The job that puts queues back into their index.
//!
//! The index is exact as long as Redis loses nothing. If it loses its last writes, the index may lack a queue with events.
//! Then an instance reads all boards again (`core/board/boards.rs`), so each board that is new in memory is checked once.

use super::store::queues;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;
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
        let listed = live
            .shards
            .iter()
            .map(|live| queues::relist(&engine.store, &live.shard));
        let listed = try_join_all(listed).await;
        if listed.is_err() {
            super::of(engine).queues.plan(id);
        }
        let missing = listed?
            .into_iter()
            .filter(|was_missing| *was_missing)
            .count();
        if missing > 0 {
            tracing::warn!(board = %id, missing, "queues were missing from the index: Redis may have lost its last writes");
            super::of(engine).queues.wake([]);
        }
        Ok(Progress::Done)
    }
}
