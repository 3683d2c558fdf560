//! The job that revises results.

use std::sync::OnceLock;

use super::work::revise_on;
use crate::core::board::store::board_notes::{self, NotedBoard, NotedFor};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};

/// Revises results after members were hidden or brought back.
#[derive(Clone, Copy, Debug)]
pub struct Revisions;

impl Job for Revisions {
    type Item = NotedBoard;
    const KIND: JobKind = JobKind::Revisions;

    fn subject(&self, board: &NotedBoard) -> Subject {
        Subject::board(&board.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<NotedBoard>, Error> {
        Ok(board_notes::noted(&engine.store, NotedFor::Revision).await?)
    }

    async fn step(&self, engine: &Engine, board: &mut NotedBoard) -> Result<Progress, Error> {
        let live = engine.find_board(&board.id).await?;
        let is_it = live.is_some_and(|live| live.board.generation == board.generation);
        let stepped = if is_it {
            revise_on(engine, &board.id, &OnceLock::new(), false).await?
        } else {
            Progress::Done
        };
        if stepped == Progress::Done {
            board_notes::forget(&engine.store, NotedFor::Revision, board).await?;
        }
        Ok(stepped)
    }
}
