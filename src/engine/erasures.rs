//! Erases members of boards. An erasure is in force in one step; then what was written of the member is removed, step by step.
//!
//! The request that erases a member removes what it has left, and so does whoever wants to write something new of it. A job
//! takes to its end what was left half-way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::jobs::faults::Subject;
use super::jobs::{Job, JobKind, Progress};
use super::{ATTEMPTS_MAX, Engine, Error};
use crate::domain::erasure::Erasure;
use crate::domain::ids::{BoardId, MemberId};
use crate::store::boards::Begun;
use crate::store::erasures::FORGET_KEYS;
use crate::store::{StoreError, Versioned};

/// How long a request waits for what an erased member has left to be removed. The steps that were taken by then stay.
const FORGET_TIME_MAX: Duration = Duration::from_secs(8);

impl Engine {
    /// Erases a member of a board, with the number of an erasure that was begun. When this returns, every read that begins
    /// later and asks a primary leaves the member out, and what comes in later begins from nothing.
    pub async fn erase(
        &self,
        id: &BoardId,
        member: &MemberId,
        number: u64,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(id).await?;
            let at = self.clock.now();
            let shard = &live.shard_of(member).shard;
            let erasure = Erasure { number, at };
            if self.store.erase(shard, member, &erasure).await? == Versioned::Current(()) {
                return Ok(());
            }
            self.reload(id).await?;
        }
        Err(Error::busy())
    }

    /// Removes all that an erased member has left on a board.
    pub(crate) async fn forget(&self, id: &BoardId, member: &MemberId) -> Result<(), Error> {
        let step = async || {
            let live = self.live_board(id).await?;
            let shard = &live.shard_of(member).shard;
            match self.store.forget(shard, member, FORGET_KEYS).await? {
                Versioned::Current(is_left) => Ok(is_left),
                Versioned::Stale => self.reload(id).await.map(|()| true),
            }
        };
        self.repeat(id, step).await
    }

    /// Removes all that erased members have left on a board.
    pub(crate) async fn forget_all(&self, id: &BoardId) -> Result<(), Error> {
        self.repeat(id, async || self.forget_some(id).await).await
    }

    /// Takes steps of a removal until nothing is left.
    async fn repeat(
        &self,
        id: &BoardId,
        step: impl AsyncFn() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let time_max = self.store.timeouts.times(FORGET_TIME_MAX);
        while begun.elapsed() < time_max {
            if !step().await? {
                return Ok(());
            }
        }
        let message = format!("erased members of board {id} are still being removed");
        Err(StoreError::Unavailable(message).into())
    }

    /// Removes a bounded part of what erased members have left on a board. Returns whether there may be more.
    async fn forget_some(&self, id: &BoardId) -> Result<bool, Error> {
        let live = self.live_board(id).await?;
        let mut is_left = false;
        for shard in live.shards.iter().map(|live| &live.shard) {
            let Versioned::Current(erasing) = self.store.erasing(shard).await? else {
                self.reload(id).await?;
                return Ok(true);
            };
            if let Some(member) = erasing.first() {
                self.store.forget(shard, member, FORGET_KEYS).await?;
                is_left = true;
            }
        }
        Ok(is_left)
    }
}

/// The job: removes what erased members have left, if whoever erased them did not come to the end.
#[derive(Clone, Copy, Debug)]
pub struct Erasures;

/// Erasures of a board that are perhaps not at their end.
#[derive(Clone, Debug)]
pub struct Noted {
    id: BoardId,
    begun: Vec<Begun>,
}

impl Job for Erasures {
    type Item = Noted;
    const KIND: JobKind = JobKind::Erasures;

    fn subject(&self, noted: &Noted) -> Subject {
        Subject::board(&noted.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Noted>, Error> {
        let mut of_boards: BTreeMap<BoardId, Vec<Begun>> = BTreeMap::new();
        for begun in engine.store.begun_erasures().await? {
            of_boards.entry(begun.id.clone()).or_default().push(begun);
        }
        let noted = of_boards.into_iter();
        Ok(noted.map(|(id, begun)| Noted { id, begun }).collect())
    }

    async fn step(&self, engine: &Engine, noted: &mut Noted) -> Result<Progress, Error> {
        match engine.forget_some(&noted.id).await {
            Ok(true) => return Ok(Progress::More),
            Ok(false) | Err(Error::BoardNotFound(_)) => {}
            Err(error) => return Err(error),
        }
        for begun in &noted.begun {
            // The call that erases the member may be under way.
            if engine.store.is_settled_erasure(begun).await? {
                engine.store.end_erasure(&begun.id, begun.stamp).await?;
            }
        }
        Ok(Progress::Done)
    }
}
