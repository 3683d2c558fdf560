//! Erases members of boards. An erasure takes effect in one step; then the member's data is removed, step by step.
//!
//! The request that erases a member removes its data, and so does any call that would write new data of it. A job finishes
//! what was left half-way.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::store::erasures::{self, Erased, FORGET_KEYS, Forgotten, KnownErasure, Places};
use crate::core::board::store::boards::Begun;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::erasure::Erasure;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::shard::Shard;
use crate::runtime::join::try_join_all;

/// Greater than the number of any hide.
pub(crate) const ALL_HIDES: u64 = 1 << 53;

/// What all results of a board include: the number of the last hide, and of the last correction, by the tags of the shards; of
/// a missing shard, all hides, and no correction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Revised {
    hides: BTreeMap<String, u64>,
    corrected: BTreeMap<String, u64>,
}

impl Revised {
    /// From these numbers.
    pub(crate) fn new(hides: BTreeMap<String, u64>, corrected: BTreeMap<String, u64>) -> Self {
        Self { hides, corrected }
    }

    /// Whether a correction of a shard is to be in all results.
    pub(crate) fn has_corrected(&self, tag: &str, number: u64) -> bool {
        self.corrected.get(tag).is_some_and(|last| *last >= number)
    }

    /// The last hide of a shard that all results include; `None`: all of them.
    pub(crate) fn up_to(&self, tag: &str) -> Option<u64> {
        self.hides.get(tag).copied()
    }

    /// Whether these hides of a shard are in all results.
    pub(crate) fn has(&self, tag: &str, hides: u64) -> bool {
        self.up_to(tag).is_none_or(|known| known >= hides)
    }
}

impl Engine {
    /// Erases a member of a board, with the number of an erasure that was begun. When this returns, every later read from a
    /// primary leaves the member out, and later events begin from nothing.
    pub async fn erase(&self, id: &BoardId, member: &MemberId, number: u64) -> Result<(), Error> {
        let at = self.clock.arrival();
        self.erase_at(id, member, &Erasure { number, at }).await
    }

    /// Like [`Self::erase`], with the instant of the erasure. A shard that knows it already, or a later one, changes nothing.
    pub(crate) async fn erase_at(
        &self,
        id: &BoardId,
        member: &MemberId,
        erasure: &Erasure,
    ) -> Result<(), Error> {
        let revised = Mutex::new(None::<Revised>);
        self.with_board(id, async |live| {
            let known = revised.lock().clone();
            let erased = self.erase_on(&live, member, erasure, known.as_ref());
            if erased.await? == Erased::Done {
                return Ok(());
            }
            let in_results = (self.hooks.revise_results)(self, id).await?;
            *revised.lock() = Some(in_results);
            Err(Error::Again(Outdated::Read))
        })
        .await
    }

    /// The erasures that each shard of a board knows, with the key of the hash that names the member.
    pub(crate) async fn erasures_on(
        &self,
        live: &LiveBoard,
    ) -> Result<Vec<Vec<KnownErasure>>, Error> {
        let of_shards = live
            .shards
            .iter()
            .map(|live| erasures::all(&self.store, &live.shard));
        Ok(try_join_all(of_shards).await?)
    }

    /// Writes an erasure into all shards that may have data of the member, its home last. `revised`: which hides are in all
    /// results of the board, if that is known.
    async fn erase_on(
        &self,
        live: &LiveBoard,
        member: &MemberId,
        erasure: &Erasure,
        revised: Option<&Revised>,
    ) -> Result<Erased, Error> {
        let (others, own) = live.shards_with(member);
        let erase = async |shard: &Shard| {
            let known = revised.map(|revised| revised.up_to(shard.tag()).unwrap_or(ALL_HIDES));
            erasures::erase(&self.store, shard, member, erasure, known).await
        };
        let erased = try_join_all(others.into_iter().map(erase)).await?;
        let mut left = erased.into_iter().filter(|erased| *erased != Erased::Done);
        match left.next() {
            Some(erased) => Ok(erased),
            None => Ok(erase(own).await?),
        }
    }

    /// Makes sure that all shards of a league have the last erasure of a member: the call that wrote it may have failed.
    ///
    /// # Errors
    ///
    /// [`Error::Again`] if it is not written everywhere yet.
    async fn spread_erasure(&self, live: &LiveBoard, member: &MemberId) -> Result<(), Error> {
        if !live.board.is_league() {
            return Ok(());
        }
        let read = live
            .shards
            .iter()
            .map(|live| erasures::last(&self.store, &live.shard, member));
        let found = try_join_all(read).await?;
        let number = |erasure: &Option<Erasure>| erasure.map_or(0, |erasure| erasure.number);
        let last = found.iter().copied().max_by_key(number).flatten();
        if let Some(last) =
            last.filter(|last| found.iter().any(|erasure| number(erasure) < last.number))
        {
            // The call that wrote it first had the results revised.
            let revised = Revised::default();
            let erased = self.erase_on(live, member, &last, Some(&revised));
            if erased.await? != Erased::Done {
                return Err(Error::Again(Outdated::Board));
            }
        }
        Ok(())
    }

    /// Removes all data of a member that was erased under this number, and then the note of the erasure.
    pub(crate) async fn end_erasure(
        &self,
        id: &BoardId,
        member: &MemberId,
        number: u64,
    ) -> Result<(), Error> {
        self.forget(id, member).await?;
        Ok(erasures::end(&self.store, id, number).await?)
    }

    /// Removes all data of an erased member from a board.
    pub(crate) fn forget(
        &self,
        id: &BoardId,
        member: &MemberId,
    ) -> impl Future<Output = Result<(), Error>> {
        self.forget_within(self.steps_wait_max(), id, member)
    }

    /// Like [`Self::forget`], for a caller that waits at most this long.
    pub(crate) async fn forget_within(
        &self,
        wait_max: Duration,
        id: &BoardId,
        member: &MemberId,
    ) -> Result<(), Error> {
        let left = || format!("an erased member of board {id} is still being removed");
        // The version of the board for which its name was removed from the results.
        let unnamed_by = Mutex::default();
        let step = || self.forget_part(id, member, &unnamed_by);
        self.take_steps(wait_max, step, left).await
    }

    /// Removes all data of erased members from a board. Boxed, since it is rare, and many reads may need it.
    pub(crate) fn forget_all<'a>(&'a self, id: &'a BoardId) -> BoxFuture<'a, Result<(), Error>> {
        let left = move || format!("erased members of board {id} are still being removed");
        let step = move || self.forget_some(id);
        Box::pin(self.take_steps(self.steps_wait_max(), step, left))
    }

    async fn forget_part(
        &self,
        id: &BoardId,
        member: &MemberId,
        unnamed_by: &Mutex<Option<String>>,
    ) -> Result<Progress, Error> {
        self.step_with_board(id, async |live| {
            self.spread_erasure(&live, member).await?;
            let version = Some(live.board.version());
            if *unnamed_by.lock() != version {
                // First, because this is repeated as long as something is left elsewhere.
                self.forget_names(&live, member).await?;
                *unnamed_by.lock() = version;
            }
            self.forget_keys(&live, member, FORGET_KEYS).await
        })
        .await
    }

    /// Removes some data of any erased members.
    async fn forget_some(&self, id: &BoardId) -> Result<Progress, Error> {
        self.step_with_board(id, async |live| {
            let mut progress = Progress::Done;
            let of_shards = live
                .shards
                .iter()
                .map(|live| erasures::erasing(&self.store, &live.shard));
            for erasing in try_join_all(of_shards).await? {
                if let Some(member) = erasing.first() {
                    self.spread_erasure(&live, member).await?;
                    self.forget_names(&live, member).await?;
                    self.forget_keys(&live, member, FORGET_KEYS).await?;
                    progress = Progress::More;
                }
            }
            Ok(progress)
        })
        .await
    }

    /// Removes the name of an erased member from what other rooms store of a board.
    async fn forget_names(&self, live: &LiveBoard, member: &MemberId) -> Result<(), Error> {
        for forget_member in self.hooks.forget_member {
            forget_member(self, live, member).await?;
        }
        Ok(())
    }

    /// Removes the member from about `keys` keys of each shard. Its name must be out of the results already.
    pub async fn forget_keys(
        &self,
        live: &LiveBoard,
        member: &MemberId,
        keys: u32,
    ) -> Result<Progress, Error> {
        let (others, own) = live.shards_with(member);
        let forgotten = others
            .into_iter()
            .map(|shard| self.forget_in(live, shard, member, keys));
        let forgotten = try_join_all(forgotten).await?;
        if forgotten.contains(&Progress::More) {
            return Ok(Progress::More);
        }
        self.forget_in(live, own, member, keys).await
    }

    /// Removes the member from about `keys` keys of one shard.
    async fn forget_in(
        &self,
        live: &LiveBoard,
        own: &Shard,
        member: &MemberId,
        keys: u32,
    ) -> Result<Progress, Error> {
        let (id, mut places) = (&live.board.id, Places::default());
        loop {
            let now = self.clock.now();
            let forgotten = erasures::forget(&self.store, own, member, &places, keys, now);
            match forgotten.await? {
                Forgotten::More => return Ok(Progress::More),
                Forgotten::Done => return Ok(Progress::Done),
                Forgotten::Places(barrier, wanted) => {
                    // After this, no entry can come in between in any shard.
                    let closed = (self.hooks.close_shards)(self, id, barrier).await?;
                    if closed == Progress::More {
                        return Ok(Progress::More);
                    }
                    let others = live.shards.iter().map(|live| &live.shard);
                    for other in others.filter(|other| other.tag() != own.tag()) {
                        erasures::add_places(
                            &self.store,
                            (own, other),
                            member,
                            &wanted,
                            &mut places,
                        )
                        .await?;
                    }
                }
            }
        }
    }
}

/// The job: finishes the removal of erased members' data that requests have not finished.
#[derive(Clone, Copy, Debug)]
pub struct Erasures;

impl Job for Erasures {
    /// A board, and its erasures that may be unfinished.
    type Item = (BoardId, Vec<Begun>);
    const KIND: JobKind = JobKind::Erasures;

    fn subject(&self, (id, _): &Self::Item) -> Subject {
        Subject::board(id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Self::Item>, Error> {
        let mut of_boards: BTreeMap<BoardId, Vec<Begun>> = BTreeMap::new();
        for begun in erasures::begun(&engine.store).await? {
            of_boards.entry(begun.id.clone()).or_default().push(begun);
        }
        Ok(of_boards.into_iter().collect())
    }

    async fn step(&self, engine: &Engine, (id, begun): &mut Self::Item) -> Result<Progress, Error> {
        match engine.forget_some(id).await {
            Ok(Progress::More) => return Ok(Progress::More),
            Ok(Progress::Done) | Err(Error::BoardNotFound(_)) => {}
            Err(error) => return Err(error),
        }
        for begun in begun {
            // The call that erases the member may still be in flight.
            if erasures::is_settled(&engine.store, begun).await? {
                erasures::end(&engine.store, &begun.id, begun.stamp).await?;
            }
        }
        Ok(Progress::Done)
    }
}
