//! The job that announces changes of definitions if the instance that made them died first. It also finishes deletions, and
//! carries out standing orders on a new board whose creator died before doing so.

use std::time::Duration;

use super::store::board_notes::{self, NotedFor};
use super::store::boards::{self, Begun};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};

/// Announces changes that began so long ago that the instance that made them has died or failed.
#[derive(Clone, Copy, Debug)]
pub struct Announcements {
    /// The age from which the maker of a change counts as dead.
    pub older_than: Duration,
}

impl Announcements {
    /// What instances use: longer than a request usually takes.
    pub const USUAL: Self = Self {
        older_than: Duration::from_secs(10),
    };
}

impl Job for Announcements {
    type Item = Begun;
    const KIND: JobKind = JobKind::Announcement;

    fn subject(&self, begun: &Begun) -> Subject {
        Subject::board(&begun.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Begun>, Error> {
        let age_ms = i64::try_from(self.older_than.as_millis()).unwrap_or(i64::MAX);
        Ok(boards::unfinished_changes(&engine.store, age_ms).await?)
    }

    async fn step(&self, engine: &Engine, begun: &mut Begun) -> Result<Progress, Error> {
        let Begun { id, stamp } = begun;
        let stored = boards::load(&engine.store, id).await?;
        if stored.is_none() {
            engine.finish_deletion(id).await?;
        }
        if let Some(Ok(board)) = &stored {
            if board.generation == *stamp {
                match (engine.hooks.carry_out_orders)(engine, board).await {
                    Ok(_) | Err(Error::Again(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            if board.placement.next.is_some() {
                board_notes::note(&engine.store, NotedFor::Move, board).await?;
            }
        }
        boards::announce(&engine.store, id, Some(*stamp)).await?;
        Ok(Progress::Done)
    }
}
