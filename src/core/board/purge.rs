//! The job that unlinks data that nothing needs any more.

use super::store::purge::{self, Unneeded};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};

/// Unlinks what is marked as not needed: of deleted boards, and of shards that a board has moved away from.
#[derive(Clone, Copy, Debug)]
pub struct Purge;

impl Job for Purge {
    type Item = Unneeded;
    const KIND: JobKind = JobKind::Purge;

    fn subject(&self, unneeded: &Unneeded) -> Subject {
        Subject::part(&unneeded.id, unneeded.to_string())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Unneeded>, Error> {
        Ok(purge::unneeded(&engine.store).await?)
    }

    async fn step(&self, engine: &Engine, unneeded: &mut Unneeded) -> Result<Progress, Error> {
        Ok(Progress::more_if(
            purge::unlink_some(&engine.store, unneeded).await?,
        ))
    }
}
