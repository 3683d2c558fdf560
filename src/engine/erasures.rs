//! Erases members of boards. An erasure is in force in one step; then what was written of the member is removed, step by step.
//!
//! The request that erases a member removes what it has left, and so does whoever wants to write something new of it. A job
//! takes to its end what was left half-way.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::jobs::faults::Subject;
use super::jobs::{Job, JobKind, Progress};
use super::{ATTEMPTS_MAX, Engine, Error};
use crate::domain::erasure::Erasure;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::task::Action;
use crate::store::Versioned;
use crate::store::boards::Begun;
use crate::store::erasures::FORGET_KEYS;
use crate::store::tasks::OrderChange;

/// On how many boards a member is erased side by side.
const BOARDS_AT_ONCE: usize = 32;

impl Engine {
    /// Erases a member of a board, with the number of an erasure that was begun. When this returns, every read that begins
    /// later and asks a primary leaves the member out, and what comes in later begins from nothing.
    pub async fn erase(&self, id: &BoardId, member: &MemberId, number: u64) -> Result<(), Error> {
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

    /// Erases a member of all boards that there are, with the number of an erasure that was begun on the first of them.
    /// Boards that can't be read, or have another fault, are left out.
    async fn erase_on_all(
        &self,
        boards: &BTreeSet<BoardId>,
        member: &MemberId,
        number: u64,
    ) -> Result<(), Error> {
        let erased: Vec<_> = boards
            .iter()
            .map(async |id| {
                self.store.note_erasure(id, number).await?;
                match self.erase(id, member, number).await {
                    Err(Error::BoardNotFound(_)) => Ok(()),
                    Err(error) if error.is_fault() => Ok(()),
                    erased => erased,
                }
            })
            .collect();
        let erased = stream::iter(erased).buffer_unordered(BOARDS_AT_ONCE);
        erased.try_collect().await
    }

    /// Erases a member of all boards that there are, its profile, and its name in the audit log and in its standing order.
    /// Returns the number of the task that removes what it has left, and names the boards at which that fails.
    pub(crate) async fn erase_everywhere(&self, member: &MemberId) -> Result<u64, Error> {
        // Before the boards are listed: whoever creates another one later finds the order without the member's id.
        self.store.forget_order(member).await?;
        let boards = self.store.all_board_ids().await?;
        let number = match boards.first() {
            Some(first) => self.store.begin_erasure(first).await?,
            None => 0,
        };
        self.erase_on_all(&boards, member, number).await?;
        self.store.delete_profile(member).await?;
        self.store.forget_in_audit(member).await?;
        let forget = Action::Forget(member.clone(), number);
        let begun = self.begin_task(forget, OrderChange::None).await?;
        Ok(begun.number)
    }

    /// Removes all that a member has left on a board who was erased under this number, and forgets the note of the erasure.
    pub(crate) async fn end_erasure(
        &self,
        id: &BoardId,
        member: &MemberId,
        number: u64,
    ) -> Result<(), Error> {
        self.forget(id, member).await?;
        Ok(self.store.end_erasure(id, number).await?)
    }

    /// Removes all that an erased member has left on a board.
    pub(crate) async fn forget(&self, id: &BoardId, member: &MemberId) -> Result<(), Error> {
        // First: as long as something is left elsewhere, somebody comes back here.
        self.forget_in_results(id, member).await?;
        self.forget_in_revisions(id, member).await?;
        let left = || format!("an erased member of board {id} is still being removed");
        self.take_steps(|| self.forget_part(id, member), left).await
    }

    /// Removes all that erased members have left on a board.
    pub(crate) async fn forget_all(&self, id: &BoardId) -> Result<(), Error> {
        let left = || format!("erased members of board {id} are still being removed");
        self.take_steps(|| self.forget_some(id), left).await
    }

    /// Removes a bounded part of what an erased member has left on a board.
    async fn forget_part(&self, id: &BoardId, member: &MemberId) -> Result<Progress, Error> {
        let live = self.live_board(id).await?;
        let shard = &live.shard_of(member).shard;
        let now = self.clock.now();
        match self.store.forget(shard, member, FORGET_KEYS, now).await? {
            Versioned::Current(true) => Ok(Progress::More),
            Versioned::Current(false) => Ok(Progress::Done),
            Versioned::Stale => self.reload(id).await.map(|()| Progress::More),
        }
    }

    /// Removes a member's name from the revisions of a board that may have some.
    async fn forget_in_revisions(&self, id: &BoardId, member: &MemberId) -> Result<(), Error> {
        let live = self.live_board(id).await?;
        let board = &live.board;
        if board.definition.finalize.is_none() && board.closings.until.is_none() {
            return Ok(());
        }
        for window in &board.definition.windows {
            self.store
                .forget_in_revisions(board, *window, member)
                .await?;
        }
        Ok(())
    }

    /// The same of any erased members.
    async fn forget_some(&self, id: &BoardId) -> Result<Progress, Error> {
        let live = self.live_board(id).await?;
        let mut progress = Progress::Done;
        for shard in live.shards.iter().map(|live| &live.shard) {
            let Versioned::Current(erasing) = self.store.erasing(shard).await? else {
                self.reload(id).await?;
                return Ok(Progress::More);
            };
            if let Some(member) = erasing.first() {
                self.forget_in_results(id, member).await?;
                self.forget_in_revisions(id, member).await?;
                let now = self.clock.now();
                self.store.forget(shard, member, FORGET_KEYS, now).await?;
                progress = Progress::More;
            }
        }
        Ok(progress)
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
            Ok(Progress::More) => return Ok(Progress::More),
            Ok(Progress::Done) | Err(Error::BoardNotFound(_)) => {}
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
